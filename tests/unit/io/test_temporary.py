"""Temporary names, and removal of what dead processes left behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mtkit.io import files as module
from mtkit.io.files import atomic_folder, host_name, remove_all_abandoned, temporary_beside, write_text
from mtkit.io.lock import clean_up_folder

ALIVE = os.getppid()


@pytest.fixture
def dead() -> int:
    """Number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def left(tmp_path, dead):
    """Temporary files of dead and live processes, on this host and another, for x and for another file."""
    host = host_name()
    files = [f".x.{host}.{dead}.tmp", f".x.{host}.{ALIVE}.tmp", f".x.other.{dead}.tmp", f".xx.{host}.{dead}.tmp"]
    for name in [*files, f".x.{dead}.tmp", "x.tmp", ".x.tmp"]:
        (tmp_path / name).write_text("half")
    (tmp_path / f".y.{host}.{dead}.tmp").mkdir()
    (tmp_path / f".y.{host}.{dead}.tmp" / "a").write_text("half")
    return names(tmp_path)


def test_a_write_removes_what_dead_processes_of_this_host_left_for_the_same_file(tmp_path, left, dead):
    write_text(tmp_path / "x", "whole")
    assert names(tmp_path) == left - {f".x.{host_name()}.{dead}.tmp"} | {"x"}
    with atomic_folder(tmp_path / "y") as folder:
        write_text(folder / "a", "a")
    assert names(tmp_path) == left - {f".x.{host_name()}.{dead}.tmp", f".y.{host_name()}.{dead}.tmp"} | {"x", "y"}


def test_the_holder_of_a_lock_removes_all_but_those_of_live_processes(tmp_path, left):
    (tmp_path / f".z.{host_name()}.{os.getpid()}.tmp").write_text("an earlier process with the same number")
    (tmp_path / ".w.old").mkdir()
    (tmp_path / ".w.old" / "a").write_text("whole")
    clean_up_folder(tmp_path)
    assert names(tmp_path) == {f".x.{host_name()}.{ALIVE}.tmp", "x.tmp", ".x.tmp", "w"}
    clean_up_folder(tmp_path / "nowhere")


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path, dead):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("a")
    (tmp_path / f".x.{host_name()}.{dead}.tmp").symlink_to(tmp_path / "folder")
    remove_all_abandoned(tmp_path)
    assert names(tmp_path) == {"folder"}
    assert names(tmp_path / "folder") == {"a"}


def test_names_tell_hosts_and_processes_apart(tmp_path, monkeypatch):
    ours = temporary_beside(tmp_path / "x")
    assert ours.parent == tmp_path
    assert ours.name == f".x.{host_name()}.{os.getpid()}.tmp"
    monkeypatch.setattr(module.socket, "gethostname", lambda: "node.example.org/7")
    host_name.cache_clear()
    assert temporary_beside(tmp_path / "x") != ours
    assert "." not in host_name()
    host_name.cache_clear()


def test_a_folder_that_cannot_be_listed_can_be_written(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    write_text(tmp_path / "x", "whole")
    assert (tmp_path / "x").read_text() == "whole"
