"""Output files appear only once they are complete, and resuming gives the bytes of an uninterrupted translation."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from mtkit.errors import DataError, ReadWriteError
from mtkit.translate import output as module
from mtkit.translate.lines import read_windows, with_constraints
from mtkit.translate.output import as_text, open_stream, translate_to_file
from mtkit.translate.translation import Translation
from mtkit.translate.translator import TranslationOptions

LINES = [f"line {number}" for number in range(1, 101)]
OPTIONS = TranslationOptions(window=8)


class WindowTranslator:
    """Each translation names the window that its line was translated in, as batches can change the last bits."""

    def __init__(self, fail_at: int | None = None, seconds: float = 0.0) -> None:
        self.fail_at = fail_at
        self.seconds = seconds

    def translate(self, lines: Iterable[str], *, first: int = 1) -> Iterator[Translation]:
        for window, error in read_windows(lines, OPTIONS):
            for line, text in enumerate(window, start=first):
                if line == self.fail_at:
                    raise DataError(f"line {line}: failed")
                time.sleep(self.seconds)
                yield Translation(line=line, hyp=f"{text} of {window}\u2028")
            first += len(window)
            if error is not None:
                raise error


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    monkeypatch.setattr(module, "window_options", lambda num_workers, flush_every, cluster: OPTIONS)


def write(path: Path, lines: Iterable[str] = LINES, *, resume=False, header=None, fail_at=None, constraints=None):
    source = lines if constraints is None else with_constraints(lines, constraints)
    load, header = partial(WindowTranslator, fail_at), header or {"beam": 5}
    translate_to_file(load, source, [(path, as_text)], header=header, resume=resume)


def expected(lines: Iterable[str] = LINES) -> bytes:
    return "".join(f"{each.hyp}\n" for each in WindowTranslator().translate(lines)).encode()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_only_at_the_end(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old\n")

    def lines():
        yield from LINES
        assert path.read_text() == "old\n"

    write(path, lines())
    assert path.read_bytes() == expected()
    assert names(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("fail_at", [1, 2, 8, 9, 17, 100])
def test_finished_lines_stay_after_an_error_and_resuming_gives_an_uninterrupted_output(tmp_path, fail_at):
    path = tmp_path / "out.txt"
    with pytest.raises(DataError, match=f"line {fail_at}: failed"):
        write(path, fail_at=fail_at)
    if fail_at > 1:
        assert names(tmp_path) == ["out.txt.part", "out.txt.part.jsonl"]
        assert (tmp_path / "out.txt.part").read_bytes() == b"".join(expected().splitlines(True)[: fail_at - 1])
    write(path, resume=True)
    assert path.read_bytes() == expected()
    assert names(tmp_path) == ["out.txt"]


def test_an_input_whose_invalid_line_was_repaired_is_resumed(tmp_path):
    def invalid():
        yield from LINES[:20]
        raise DataError("in.txt:21: byte 1 is not UTF-8")

    with pytest.raises(DataError, match=r"in\.txt:21"):
        write(tmp_path / "out.txt", invalid())
    assert len((tmp_path / "out.txt.part").read_bytes().splitlines()) == 20
    write(tmp_path / "out.txt", [*LINES[:20], "repaired", *LINES[20:]], resume=True)
    assert (tmp_path / "out.txt").read_bytes() == expected([*LINES[:20], "repaired", *LINES[20:]])


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        (["other", *LINES[1:]], None, "has translations of other lines than the first 16 of the input"),
        (LINES[:9], None, "has translations of 16 lines, but the input has 9"),
        (LINES, {"beam": 4}, "was written with beam 5, not 4"),
        (LINES, {"beam": 5, "model": "x" * 99}, 'was written with model null, not "xxx'),
    ],
)
def test_a_part_of_another_text_or_model_is_refused(tmp_path, lines, header, message):
    path, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    with pytest.raises(DataError):
        write(path, fail_at=20)
    before = part.read_bytes()
    with pytest.raises(DataError, match=rf"out\.txt\.part: {message}.*; start over without --resume$"):
        write(path, lines, resume=True, header=header)
    assert part.read_bytes() == before
    write(path, resume=True)
    assert path.read_bytes() == expected()


def test_constraints_belong_to_the_text(tmp_path):
    path, constraints = tmp_path / "out.txt", tmp_path / "constraints.jsonl"
    constraints.write_text("\n" * len(LINES))
    with pytest.raises(DataError):
        write(path, constraints=constraints, fail_at=20)
    constraints.write_text('{"prefix": "x"}' + "\n" * len(LINES))
    with pytest.raises(DataError, match="other lines"):
        write(path, constraints=constraints, resume=True)


def test_a_part_without_its_journal_or_that_was_edited_is_refused(tmp_path):
    path, part, journal = (tmp_path / f"out.txt{end}" for end in ("", ".part", ".part.jsonl"))
    with pytest.raises(DataError):
        write(path, fail_at=20)
    part_before, journal_before = part.read_bytes(), journal.read_bytes()
    part.write_bytes(b"x" + part_before[1:])
    with pytest.raises(DataError, match=r"out\.txt\.part: changed since it was written"):
        write(path, resume=True)
    part.write_bytes(part_before)
    for damaged in (b"", b"[]\n", b"{}\n", journal_before.replace(b'"lines"', b'"line"'), b"\0" * 99 + b"\n"):
        journal.write_bytes(damaged)
        with pytest.raises(DataError, match=r"out\.txt\.part\.jsonl, which says .* is missing or damaged"):
            write(path, resume=True)
    journal.unlink()
    with pytest.raises(DataError, match="is missing or damaged; start over without --resume"):
        write(path, resume=True)
    journal.write_bytes(journal_before)
    write(path, resume=True)
    assert path.read_bytes() == expected()


def test_a_failed_start_keeps_what_is_there(tmp_path):
    path, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    with pytest.raises(DataError):
        write(path, fail_at=20)
    before = part.read_bytes()

    def missing():
        raise DataError("in.txt: no such file")
        yield

    with pytest.raises(DataError, match="no such file"):
        write(path, missing())
    assert part.read_bytes() == before


def states_after_a_kill(folder: Path, path: Path) -> list[tuple[bytes, bytes]]:
    """All states of both files that a kill can leave: every prefix of the writes, which are appended in order."""
    writes: list[tuple[int, bytes]] = []
    with pytest.raises(DataError):
        write(path, fail_at=20)
    part, journal = (folder / f"out.txt{end}" for end in (".part", ".part.jsonl"))
    header, *records = journal.read_bytes().splitlines(keepends=True)
    lines = part.read_bytes().splitlines(keepends=True)
    writes.append((1, header))
    for number, line in enumerate(lines, start=1):
        writes.append((0, line))
        if number % OPTIONS.window == 0:
            writes.append((1, records.pop(0)))
    assert not records
    states, content = [(b"", b"")], [b"", b""]
    for index, written in writes:
        for cut in {1, len(written) // 2, len(written)}:
            state = list(content)
            state[index] += written[:cut]
            states.append((state[0], state[1]))
        content[index] += written
    return states


@pytest.mark.whole
def test_resuming_after_a_kill_at_any_moment_gives_an_uninterrupted_output(tmp_path):
    path = tmp_path / "out.txt"
    for part, journal in states_after_a_kill(tmp_path, path):
        path.unlink(missing_ok=True)
        (tmp_path / "out.txt.part").write_bytes(part)
        (tmp_path / "out.txt.part.jsonl").write_bytes(journal)
        write(path, resume=True)
        assert path.read_bytes() == expected()
        assert names(tmp_path) == ["out.txt"]


def test_a_journal_that_is_ahead_of_its_lines_is_not_believed(tmp_path):
    path, part = tmp_path / "out.txt", tmp_path / "out.txt.part"
    with pytest.raises(DataError):
        write(path, fail_at=20)
    part.write_bytes(b"".join(part.read_bytes().splitlines(keepends=True)[:12]))  # after a power cut
    write(path, resume=True)
    assert path.read_bytes() == expected()


def start(path: Path) -> int:
    """Translate slowly, in a process that can be killed."""
    pid = os.fork()
    if pid == 0:
        try:
            load = lambda: WindowTranslator(seconds=0.0005)  # noqa: E731
            translate_to_file(load, LINES, [(path, as_text)], header={"beam": 5}, resume=True)  # type: ignore[arg-type]
        except BaseException:
            os._exit(1)
        os._exit(0)
    return pid


def test_killed_at_random_moments(tmp_path):
    path, rng = tmp_path / "out.txt", random.Random(4)
    statuses = []
    while 0 not in statuses and len(statuses) < 200:
        pid = start(path)
        time.sleep(rng.uniform(0.0, 0.06))
        os.kill(pid, signal.SIGKILL)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    write(path, resume=True)
    assert set(statuses) <= {0, -signal.SIGKILL}
    assert -signal.SIGKILL in statuses
    assert path.read_bytes() == expected()
    assert not (tmp_path / "out.txt.part").exists()


def test_the_journal_is_json_lines(tmp_path):
    with pytest.raises(DataError):
        write(tmp_path / "out.txt", fail_at=20)
    header, *records = map(json.loads, (tmp_path / "out.txt.part.jsonl").read_text().splitlines())
    assert header == {"header": {"beam": 5}}
    assert [record["lines"] for record in records] == [8, 16]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ReadWriteError, match=r"nowhere/x: .*the folder .*nowhere does not exist"):
        write(tmp_path / "nowhere" / "x")


def test_no_path_means_stdout(capsys):
    translate_to_file(WindowTranslator, ["a"], [(None, as_text)], header={})
    assert capsys.readouterr().out == "a of ['a']\u2028\n"


def test_a_full_disk_is_named():
    with pytest.raises(ReadWriteError, match=r"/dev/full: .*no space left"), open_stream(Path("/dev/full")) as stream:
        stream.write("ein Mann\n")


def test_symbolic_links_and_file_modes_are_kept(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() == expected()
    assert target.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["link", "target"]
