import errno
import hashlib
import os
from pathlib import Path

import pytest

from mtkit.errors import MissingInputError, ReadWriteError
from mtkit.io import files
from mtkit.io.files import (
    atomic_folder,
    hash_file,
    recover_interrupted_replace,
    replace_folder,
    translate_read_errors,
    translate_write_errors,
    write_atomically,
    write_json,
    write_text,
)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_replaced_atomically(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with write_atomically(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"
    assert names(tmp_path) == {"file"}


def test_an_error_leaves_the_old_file_and_no_temporary_file(tmp_path):
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
    ("code", "message"),
    [(errno.ENOSPC, "no space left on device; free some space"), (errno.EIO, "input/output error")],
)
def test_a_write_error_names_the_path(tmp_path, monkeypatch, code, message):
    def fail(handle):
        raise OSError(code, os.strerror(code))

    path = tmp_path / "file"
    write_text(path, "old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ReadWriteError, match=f"{path}: cannot be written: {message}"):
        write_text(path, "new")
    with pytest.raises(ReadWriteError, match=f"{message}"), atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("a")
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file"}


def test_missing_folder_and_missing_file(tmp_path):
    with pytest.raises(ReadWriteError, match=f"the folder {tmp_path / 'no'} does not exist"):
        write_text(tmp_path / "no" / "file", "")
    with pytest.raises(MissingInputError, match="file: no such file"):
        hash_file(tmp_path / "file")
    with pytest.raises(MissingInputError, match="a folder, where a file is expected"):
        hash_file(tmp_path)
    (tmp_path / "text").write_text("")
    with pytest.raises(MissingInputError, match="text/file: no such file"):
        hash_file(tmp_path / "text" / "file")
    with pytest.raises(MissingInputError, match=r"x\.\.\.: no such file: the name is too long"):
        hash_file(tmp_path / ("x" * 5000))


def test_a_closed_pipe_is_not_translated(tmp_path):
    with pytest.raises(BrokenPipeError), translate_write_errors(tmp_path):
        raise BrokenPipeError
    with pytest.raises(BrokenPipeError), translate_read_errors(tmp_path):
        raise BrokenPipeError


def test_links_are_followed_and_devices_are_written_directly(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "x"
    write_text(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()
    reader, writer = os.pipe()  # as the shell's process substitution, >(command)
    write_text(Path(f"/dev/fd/{writer}"), "x")
    assert os.read(reader, 2) == b"x"
    os.close(reader)
    os.close(writer)


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
    with atomic_folder(tmp_path / "folder") as temporary:
        write_text(temporary / "a", "a")
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700


def test_json_is_readable_and_strict(tmp_path):
    write_json(tmp_path / "x.json", {"ä": 1})
    assert (tmp_path / "x.json").read_bytes() == '{\n  "ä": 1\n}\n'.encode()
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", float("nan"))


def test_a_folder_replaces_another_atomically(tmp_path):
    for content in ("one", "two"):
        with atomic_folder(tmp_path / "deep" / "final") as temporary:
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


def test_a_folder_does_not_replace_a_file(tmp_path):
    (tmp_path / "final").write_text("notes")
    with (
        pytest.raises(ReadWriteError, match=r"final: cannot be written: a file has this name; move it away$"),
        atomic_folder(tmp_path / "final"),
    ):
        pass
    assert (tmp_path / "final").read_text() == "notes"
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


@pytest.mark.parametrize("is_new_in_place", [True, False])
def test_an_interrupted_replacement_is_recovered(tmp_path, is_new_in_place):
    (tmp_path / ".final.old").mkdir()
    if is_new_in_place:
        (tmp_path / "final").mkdir()
        (tmp_path / "final" / "new").touch()
    else:
        (tmp_path / ".final.old" / "old").touch()
    recover_interrupted_replace(tmp_path / "final")
    assert names(tmp_path) == {"final"}
    assert names(tmp_path / "final") == {"new" if is_new_in_place else "old"}


def test_hash_of_a_file_is_its_sha256(tmp_path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "file").write_bytes(content)
    assert hash_file(tmp_path / "file") == hashlib.sha256(content).hexdigest()
