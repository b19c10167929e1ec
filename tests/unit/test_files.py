import errno
import hashlib
import os
from pathlib import Path

import pytest

from mtkit.errors import DamagedError, MissingInputError, ReadWriteError
from mtkit.io import files
from mtkit.io.files import (
    build_folder,
    hash_file,
    load_json,
    reading,
    recover_folder,
    replace_folder,
    write_atomically,
    write_json,
    write_text,
    writing,
)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with write_atomically(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"
    assert names(tmp_path) == {"file"}


def test_after_an_error_nothing_has_changed(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")

    def interrupted():
        with write_atomically(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


@pytest.mark.parametrize(
    ("code", "said"), [(errno.ENOSPC, "no space left on device; free some space"), (errno.EIO, "input/output error")]
)
def test_what_the_disk_refuses_names_the_path(tmp_path, monkeypatch, code, said):
    def fail(handle):
        raise OSError(code, os.strerror(code))

    path = tmp_path / "file"
    write_text(path, "old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ReadWriteError, match=f"{path}: cannot be written: {said}"):
        write_text(path, "new")
    with pytest.raises(ReadWriteError, match=f"{said}"), build_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("a")
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_missing_folder_and_missing_file(tmp_path):
    with pytest.raises(ReadWriteError, match=f"the folder {tmp_path / 'no'} is not there"):
        write_text(tmp_path / "no" / "file", "")
    with pytest.raises(MissingInputError, match="file: no such file"):
        hash_file(tmp_path / "file")
    with pytest.raises(MissingInputError, match="a folder, where a file is expected"):
        hash_file(tmp_path)


def test_a_reader_that_went_away_is_not_a_disk_failure(tmp_path):
    with pytest.raises(BrokenPipeError), writing(tmp_path):
        raise BrokenPipeError
    with pytest.raises(BrokenPipeError), reading(tmp_path):
        raise BrokenPipeError


def test_links_are_followed_and_devices_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "x"
    write_text(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()


def test_permissions_are_kept_and_never_widened(tmp_path):
    path = tmp_path / "private"
    write_text(path, "old")
    path.chmod(0o600)
    with write_atomically(path) as temporary:
        assert temporary.stat().st_mode & 0o077 == 0
    path.chmod(0o640)
    write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640
    (tmp_path / "folder").mkdir(mode=0o700)
    with build_folder(tmp_path / "folder") as temporary:
        write_text(temporary / "a", "a")
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": 1,\n "b": }', "x.json: damaged: no JSON from line 2, column 7 on; make it again"),
        (b"", "x.json: damaged: no JSON from line 1, column 1 on; make it again"),
        (b'{"a": "\xff"}', "x.json: damaged: no JSON; make it again"),
        (b"[" * 100_000, "x.json: damaged: no JSON; make it again"),
        (b"[1]", "x.json: damaged: not a JSON object; make it again"),
        (b'{"sha256": [1]}', "x.json: damaged: not a JSON object; make it again"),
    ],
)
def test_damaged_json_is_told_in_our_words(tmp_path, content, said):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(DamagedError, match=said):
        load_json(tmp_path / "x.json", remedy="make it again")


def test_json_is_readable_and_strict(tmp_path):
    write_json(tmp_path / "x.json", {"ä": 1})
    assert (tmp_path / "x.json").read_bytes() == '{\n  "ä": 1\n}\n'.encode()
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", float("nan"))


def test_a_folder_replaces_another_as_a_whole(tmp_path):
    for content in ("one", "two"):
        with build_folder(tmp_path / "deep" / "final") as temporary:
            (temporary / "sub").mkdir()
            (temporary / "sub" / content).write_text(content)
    assert names(tmp_path / "deep" / "final" / "sub") == {"two"}
    assert names(tmp_path / "deep") == {"final"}


def test_everything_in_a_folder_is_flushed_before_the_rename(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(files, "flush_to_disk", lambda path: flushed.append(str(path)))
    (tmp_path / "new" / "sub").mkdir(parents=True)
    (tmp_path / "new" / "sub" / "file").touch()
    replace_folder(tmp_path / "new", tmp_path / "final")
    inside = {str(tmp_path / "new" / name) for name in ("sub/file", "sub", "")} | {str(tmp_path / "new")}
    assert set(flushed[:-1]) == {path.rstrip("/") for path in inside}
    assert flushed[-1] == str(tmp_path)


@pytest.mark.parametrize("is_new_in_place", [True, False])
def test_a_cut_off_replacement_is_recovered(tmp_path, is_new_in_place):
    (tmp_path / ".final.old").mkdir()
    if is_new_in_place:
        (tmp_path / "final").mkdir()
        (tmp_path / "final" / "new").touch()
    else:
        (tmp_path / ".final.old" / "old").touch()
    recover_folder(tmp_path / "final")
    assert names(tmp_path) == {"final"}
    assert names(tmp_path / "final") == {"new" if is_new_in_place else "old"}


def test_hash(tmp_path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "file").write_bytes(content)
    assert hash_file(tmp_path / "file") == hashlib.sha256(content).hexdigest()
