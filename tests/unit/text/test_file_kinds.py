"""Texts in every kind of container that people have, from a file and from a pipe: read, or named for what they are."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from mtkit.errors import DataError
from mtkit.text.lines import count_lines, decode_lines, read_lines

zstd = pytest.importorskip("backports.zstd")


def skippable(content: bytes, kind: int = 0) -> bytes:
    """Frames as pzstd writes them: one to skip, with the size of the next, and the compressed one."""
    frame = zstd.compress(content)
    return bytes([0x50 + kind, 0x2A, 0x4D, 0x18]) + (4).to_bytes(4, "little") + len(frame).to_bytes(4, "little") + frame


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda content: content,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda content: lzma.compress(content, format=lzma.FORMAT_ALONE),
    "zstd": zstd.compress,
    "pzstd": lambda content: b"".join(skippable(content[i : i + 50], i % 16) for i in range(0, len(content), 50)),
    "joined gzip": lambda content: gzip.compress(content[:20]) + gzip.compress(content[20:]),
    "joined xz": lambda content: lzma.compress(content[:20]) + lzma.compress(content[20:]),
    "joined zstd": lambda content: zstd.compress(content[:20]) + skippable(content[20:], 15),
}


def from_pipe(content: bytes) -> Iterator[str]:
    return decode_lines(cast(BinaryIO, io.BufferedReader(io.BytesIO(content))), "stdin")


def random_lines(rng: random.Random) -> list[str]:
    return [
        "".join(rng.choices(["Zug", " ", "ä", "\t", "x", "\u2028", "]"], k=rng.randint(1, 40))) + "." for _ in range(8)
    ]


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_are_read_from_files_and_pipes(tmp_path: Path, kind: str) -> None:
    rng, path = random.Random(3), tmp_path / "text"
    for _ in range(40):
        lines = random_lines(rng)
        ends = [rng.choice(["\n", "\r\n"]) + rng.choice(["", "\ufeff"]) for _ in lines[1:]]  # joined files
        text = "".join(rng.choice(["", "\ufeff"]) + line + end for line, end in zip(lines, [*ends, "\n"], strict=True))
        text = text.replace("\ufeff\ufeff", "\ufeff")
        content = CONTAINERS[kind](text.encode())
        path.write_bytes(content)
        assert list(read_lines(path)) == lines
        assert count_lines(path) == len(lines)
        assert list(from_pipe(content)) == lines


@pytest.mark.parametrize("kind", sorted(CONTAINERS.keys() - {"plain"}))
def test_damaged_containers(tmp_path: Path, kind: str) -> None:
    rng, path = random.Random(5), tmp_path / "text"
    content = CONTAINERS[kind]("".join(random_lines(rng)).encode() * 5)
    messages = []
    for _ in range(25):
        damaged = bytearray(content)
        at = rng.randrange(12, len(content) - 1)
        damaged = damaged[:at] if rng.random() < 0.5 else damaged[:at] + bytes([damaged[at] ^ 0xFF]) + damaged[at + 1 :]
        path.write_bytes(damaged)
        for read in (lambda: list(read_lines(path)), lambda: list(from_pipe(path.read_bytes()))):
            messages.append("damaged")
            try:
                read()
            except DataError as error:
                messages[-1] = str(error)
    assert all("damaged" in message or "not UTF-8" in message or "MiB" in message for message in messages)


def archive(kind: str) -> bytes:
    stream, data = io.BytesIO(), b"one\ntwo\n"
    if kind == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("t.en", data)
    elif kind == "empty zip":
        zipfile.ZipFile(stream, "w").close()
    else:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("t.en"), io.BytesIO())
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (archive("zip"), "a zip archive or office document"), (archive("empty zip"), "a zip archive without files"),
        (archive("tar"), "a tar archive"), (gzip.compress(archive("tar")), "a tar archive"),
        (lzma.compress(archive("tar")), "a tar archive"), (b"7z\xbc\xaf\x27\x1c\x00\x04", "a 7z archive"),
        (b"Rar!\x1a\x07\x01\x00", "a rar archive"), (b"\x04\x22\x4d\x18\x64", "compressed by lz4"),
        (b"\x1f\x9d\x90a", r"compressed by compress \(.Z\)"), (b"%PDF-1.7\n", "a PDF document"),
        (b"PAR1\x15\x04", "a Parquet file"), (b"ARROW1\x00\x00", "an Arrow file"),
        (b"SQLite format 3\x00", "a database"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # archives have the time in them
)  # fmt: skip
def test_other_files_are_named(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{path}: {name}, not a text; unpack it"):
        list(read_lines(path))
    with pytest.raises(DataError, match=f"stdin: {name}, not a text; unpack it"):
        list(from_pipe(path.read_bytes()))


def test_standard_input() -> None:
    code = "import sys; from mtkit.cli.input import *; print(list(read_input_lines(Path('-'))))"
    for content, expected in ((gzip.compress("ä\nb".encode()), "['ä', 'b']\n"), (b"", "[]\n"), (b"a", "['a']\n")):
        done = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True)
        assert done.stdout.decode() == expected
