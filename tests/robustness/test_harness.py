"""The harness notices what it must: broken promises, and operations at which a process is attacked."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tools.robustness.harness.client import ForkServer, Outcome, ServerEnded
from tools.robustness.harness.experiment import Ending, Trial, draw, forget_failures, perform, result
from tools.robustness.harness.file_operations import Attack
from tools.robustness.harness.fork_server import Job
from tools.robustness.harness.lab import difference, digests
from tools.robustness.harness.report import write_report

LIMIT = 60.0  # seconds
MESSAGE = "mtkit: error: run: no such folder\n"


def outcome(status: int, err: str = "", *, hung: bool = False) -> Outcome:
    return Outcome(status, hung, 0.1, b"", err)


@pytest.mark.parametrize(
    ("end", "fault"),
    [
        (outcome(0), None),
        (outcome(66, MESSAGE), None),
        (outcome(66, MESSAGE + MESSAGE), "exit code 66 with 2 messages"),
        (outcome(66), "exit code 66 with 0 messages"),
        (outcome(66, MESSAGE + "x\n" * 12), "more than 12 lines"),
        (outcome(3, MESSAGE), "exit code 3"),
        (outcome(-15), "exit code -15: silent"),
        (outcome(-9, hung=True), "hung"),
        (outcome(0, "Exception ignored in: x\n"), "traceback"),
        (outcome(1, "Traceback (most recent call last):\nKeyError: 1\n"), "traceback: KeyError: 1"),
        (outcome(1, "mtkit: error: internal error (a bug in mtkit): x\n"), "internal error"),
    ],
)
def test_broken_promises_of_a_process(end: Outcome, fault: str | None) -> None:
    found = end.fault()
    assert found is None if fault is None else fault in str(found)


def test_an_exit_code_must_be_allowed() -> None:
    assert outcome(66, MESSAGE).fault(frozenset({0, 65})) == "exit code 66: mtkit: error: run: no such folder"


def test_a_full_disk_takes_part_of_a_write() -> None:
    attack, written = Attack(kind="full_disk", room=3), []
    assert attack.write(lambda content: written.append(bytes(content)) or len(content), b"12345") == 3
    with pytest.raises(OSError) as caught:
        attack.write(len, b"45")
    assert (written, caught.value.errno) == ([b"123"], errno.ENOSPC)


def test_differences_of_run_folders(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"bleu": 1, "seconds": 2}')
    (tmp_path / ".lock").write_text("1")
    before = digests(tmp_path)
    (tmp_path / "report.json").write_text('{"bleu": 1, "seconds": 3}')
    assert difference(digests(tmp_path), before) is None
    (tmp_path / "report.json").write_text('{"bleu": 2, "seconds": 2}')
    assert difference(digests(tmp_path), before) == "other content: report.json"
    (tmp_path / "report.json").write_text('{"bleu": 1, "seconds": 2}')
    for text, expected in (
        ("2 s</table>a", "left behind: report.html"),
        ("3 s</table>a", None),
        ("3 s</table>b", "other"),
    ):
        (tmp_path / "report.html").write_text(text)
        assert (difference(digests(tmp_path), before) or "None").startswith(str(expected))
        before = digests(tmp_path)
    assert difference({}, before) == "lost: report.html"
    assert difference(before | {"x.tmp": ""}, before) == "left behind: x.tmp"
    assert difference(before | {"checkpoints/damaged-update-00000004/x": ""}, before) is None


def trials() -> list[Trial]:
    groups = {"a": 5, "b": 1}
    names = [(group, f"{group}{number}") for group, count in groups.items() for number in range(count)]
    return [Trial(group, name, partial(Ending, "ended", "lost" if name == "b0" else None)) for group, name in names]


def test_all_groups_are_drawn_in_turn() -> None:
    drawn = [trial.group for trial in draw(trials(), 4, 1)]
    assert drawn == ["a", "b", "a", "a"]
    assert draw(trials(), 6, 1)[0].name == draw(trials(), 3, 1)[0].name
    assert {trial.group for trial in draw(trials(), 4, 1, ["b"])} == {"b"}


def test_a_check_that_fails_is_a_broken_promise(tmp_path: Path) -> None:
    def check() -> Ending:
        raise ValueError("a file that cannot be read")

    announced: list[str] = []
    trials = [Trial("group", "first", check), Trial("group", "second", lambda: Ending("survived"))]
    perform(trials, tmp_path / "records.jsonl", announced.append)
    assert announced == ["first: ValueError: a file that cannot be read"]
    found = result("name", tmp_path / "records.jsonl")
    assert (found.tried, found.survived) == (2, 1)


@pytest.mark.whole
def test_no_trial_is_counted_after_the_end_of_the_server(tmp_path: Path) -> None:
    with ForkServer() as server:
        server._process.kill()
        trial = Trial("group", "first", lambda: Ending.of(server.run(["--version"], tmp_path)))
        with pytest.raises(ServerEnded, match="has ended with code -9"):
            perform([trial], tmp_path / "records.jsonl", print)
    assert not (tmp_path / "records.jsonl").read_text()


@pytest.mark.whole
def test_a_process_that_is_killed_at_once(tmp_path: Path) -> None:
    with ForkServer() as server:
        for _ in range(20):
            outcome = server.run_with_signal(["--version"], tmp_path, signal.SIGKILL, 0.0)
            assert outcome.status in (-signal.SIGKILL, 0)  # it may have ended before


def test_records_are_continued_counted_and_reported(tmp_path: Path) -> None:
    records, faults = tmp_path / "records" / "kills.jsonl", []
    perform(trials()[:2], records, faults.append)
    perform(trials(), records, faults.append)
    perform(trials(), records, faults.append, until=0.0)
    names = [json.loads(line)["trial"] for line in records.read_text().rstrip("\n").split("\n")]
    assert names == ["a0", "a1", "a2", "a3", "a4", "b0"]
    assert faults == ["b0: lost"]
    found = result("kills", records)
    assert (found.tried, found.survived) == (6, 5)
    assert found.endings == {"a": {"ended": 5}, "b": {"BROKEN: ended": 1}}
    write_report(tmp_path / "report.md", [found])
    report = (tmp_path / "report.md").read_text()
    assert "| kills | Killed at any file operation" in report
    assert "| b | 1 | 0 | BROKEN: ended 1 |" in report
    assert "- `b0`: lost\n" in report
    forget_failures(records)
    assert result("kills", records).tried == 5


@pytest.mark.whole
def test_a_job_receives_signals_that_the_server_ignores(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ForkServer() as server:
            job = Job(["0"], str(tmp_path), function="tools.robustness.harness.rank:host_store")
            pid = server.start(job)
            while not (tmp_path / "process.err").exists():
                time.sleep(0.01)
            os.kill(pid, signal.SIGHUP)
            assert server.wait(pid, job, LIMIT).status == -signal.SIGHUP
    finally:
        signal.signal(signal.SIGHUP, before)
