"""The file of suggestions: a full disk and a torn line lose nothing that was stored, and other files are left alone."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any, cast

import pytest

from mtkit.errors import DataError
from mtkit.serve.fronts import libretranslate as suggestions
from mtkit.serve.fronts.libretranslate import Suggestions, _append
from tests.toy.sampling import seeds

ENTRY = b'<tu creationdate="20260101T000000Z"><tuv xml:lang="en"><seg>%s</seg></tuv></tu>\n'


def opened(path: Path, notes: list[str]) -> Suggestions:
    return Suggestions(path, cast(Any, None), cast(Any, None), notes.append)


def written(path: Path, *texts: bytes) -> bytes:
    """The file after these suggestions."""
    file_of = opened(path, [])
    for text in texts:
        with file_of._open() as file:
            _append(file, ENTRY % text)
    return path.read_bytes()


def inputs(number: int) -> random.Random:
    return random.Random(number)


SEEDS = seeds(20, 200)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng, path = inputs(seed), tmp_path / "a.tmx"
    before = written(path, *(bytes(rng.choices(b"abc", k=rng.randrange(1, 3000))) for _ in range(rng.randrange(4))))
    left = rng.randrange(120)  # bytes that the disk has
    size = len(before)
    write = os.pwrite

    def pwrite(descriptor: int, content: bytes, position: int) -> int:
        """Writes as long as there is space, as Linux does: first a part, and then nothing."""
        fits = content[: max(0, size + left - position)]
        if not fits:
            raise OSError(errno.ENOSPC, "no space")
        return write(descriptor, fits, position)

    with monkeypatch.context() as patch, opened(path, [])._open() as file:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(OSError, match="no space"):
            _append(file, ENTRY % bytes(rng.choices(b"abc", k=rng.randrange(150, 3000))))
    assert path.read_bytes() == before
    assert written(path, b"more") == before.removesuffix(suggestions._END) + ENTRY % b"more" + suggestions._END


@pytest.mark.parametrize("seed", SEEDS)
def test_a_torn_line_is_removed_and_said(tmp_path: Path, seed: int) -> None:
    rng, path = inputs(seed), tmp_path / "a.tmx"
    before = written(path, *(b"text %d" % number for number in range(rng.randrange(3))))
    entry = ENTRY % bytes(rng.choices(b"abc", k=rng.randrange(1, 3000))) + suggestions._END
    start = len(before) - len(suggestions._END)
    torn = before[:start] + entry[: rng.randrange(1, len(entry) - len(suggestions._END) - 6)]
    torn += before[len(torn) :] if rng.random() < 0.5 else bytes(rng.randrange(3))
    path.write_bytes(torn)
    notes: list[str] = []
    opened(path, notes)
    assert path.read_bytes() == before
    assert [note.startswith(f"{path}: the last line was torn") for note in notes] == [True]
    opened(path, notes)
    assert len(notes) == 1


def test_a_whole_suggestion_before_a_lost_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    content = written(path, b"one", b"two")
    for cut in range(1, len(suggestions._END) + 2):
        path.write_bytes(content[:-cut])
        opened(path, [])
        assert path.read_bytes() == content


def test_a_file_is_begun_where_its_beginning_could_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    content = written(path)
    for size in (0, 10, len(suggestions._BEGINNING) - 1, len(suggestions._BEGINNING)):
        path.write_bytes(content[:size])
        opened(path, [])
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [b"text", b"<tmx>\n</tmx>\n", b"\0" * 3000, b'<?xml version="1.0"?><tmx><body><tu></tu>\n<tu ', b"<body>\n<tu>"],
)
def test_another_file_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.tmx"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a file of suggestions"):
        opened(path, [])
    assert path.read_bytes() == content


def test_a_file_that_is_moved_away_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    file_of = opened(path, [])
    path.rename(tmp_path / "b.tmx")
    with file_of._open() as file:
        _append(file, ENTRY % b"text")
    assert path.read_bytes().count(b"<tu ") == 1
