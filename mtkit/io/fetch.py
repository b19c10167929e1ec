"""Downloads of known corpora: the addresses and checksums are pinned in known_corpora.py.

A file that is there with the right checksum is kept. A download goes to `FILE.part` and gets its name only after its
checksum is verified; one that was cut off is resumed, if the server can give the rest (HTTP Range), or begun again.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from mtkit import __version__
from mtkit.errors import DataError, ReadWriteError, UsageError
from mtkit.io.files import flush_to_disk, hash_file, writing
from mtkit.io.known_corpora import KNOWN

_CHUNK = 1 << 16  # bytes


_TIMEOUT = 30.0  # seconds without a byte


_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416


Progress = Callable[[str, int, "int | None"], None]


"""Called with the file's name, the bytes there are, and the bytes there will be (None: the server does not say)."""


def _ignore(name: str, done: int, total: int | None) -> None:
    pass


def fetch(corpus: str, folder: Path, *, base: str | None = None, progress: Progress = _ignore) -> list[Path]:
    """Bring all files of a known corpus into a folder, which is made.

    Args:
        corpus: a name in known_corpora.py.
        folder: the files are put here and nowhere else.
        base: another address of the same files, such as a mirror; it ends in "/".
        progress: is told of every chunk.

    Returns:
        The files, those that were there before among them.

    Raises:
        UsageError: no such corpus.
        DataError: a file has another content than the one that was pinned.
        ReadWriteError: the server or the network failed, or the disk.
    """
    if corpus not in KNOWN:
        raise UsageError(f"{corpus}: no such corpus; known here: {', '.join(KNOWN)}")
    address, checksums = KNOWN[corpus]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    paths = [_inside(folder, name) for name in checksums]
    for path in paths:
        fetch_file((base or address) + urllib.parse.quote(path.name), path, checksums[path.name], progress=progress)
    return paths


def _inside(folder: Path, name: str) -> Path:
    """The place of a file of this name; ValueError if it were outside the folder."""
    parts = PurePosixPath(name).parts
    if len(parts) != 1 or parts[0] in ("..", "/") or "\\" in name:
        raise ValueError(f"{name!r} is not a plain file name")
    return folder / name


def fetch_file(url: str, path: Path, sha256: str, *, progress: Progress = _ignore) -> None:
    """Download one file, unless it is there.

    A partial download that turns out to be of other content is thrown away and the file is downloaded once more.

    Raises:
        DataError: the content is not what `sha256` says, or a file of this name with another content is there.
        ReadWriteError: the server or the network failed (what has come is kept and resumed), or the disk.
    """
    if path.exists():
        if hash_file(path) == sha256:
            return
        raise DataError(f"{path}: is there but has another checksum than expected; move it away to download it again")
    part = path.with_name(path.name + ".part")
    was_resumed = _download(url, part, progress)
    found = hash_file(part)
    if found != sha256 and was_resumed:
        part.unlink()
        _download(url, part, progress)
        found = hash_file(part)
    if found != sha256:
        part.unlink()
        raise DataError(f"{url}: has the checksum {found}, expected {sha256}; the file was not kept")
    with writing(path):
        flush_to_disk(part)
        part.replace(path)
        flush_to_disk(path.parent)


def _download(url: str, part: Path, progress: Progress) -> bool:
    """Bring `part` to its full length; return whether it continues what was there before."""
    there = part.stat().st_size if part.exists() else 0
    try:
        with _open(url, there) as response:
            is_rest = there > 0 and _continues(response, there)
            _store(response, part, url, there if is_rest else 0, progress)
            return is_rest
    except urllib.error.HTTPError as error:
        if error.code == _RANGE_NOT_SATISFIABLE and there:  # nothing is missing, or too much is there
            return True
        raise


@contextmanager
def _open(url: str, there: int) -> Iterator[http.client.HTTPResponse]:
    headers = {"User-Agent": f"mtkit/{__version__}", "Accept-Encoding": "identity"}
    if there:
        headers["Range"] = f"bytes={there}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _RANGE_NOT_SATISFIABLE and there:
            raise
        raise ReadWriteError(f"{url}: the server answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise ReadWriteError(f"{url}: cannot be reached: {error.reason}") from error
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise ReadWriteError(_broken_off(url, str(error) or type(error).__name__)) from error


def _continues(response: http.client.HTTPResponse, there: int) -> bool:
    content_range = response.headers["Content-Range"] or ""
    return response.status == _PARTIAL_CONTENT and content_range.startswith(f"bytes {there}-")


def _store(response: http.client.HTTPResponse, part: Path, url: str, there: int, progress: Progress) -> None:
    length = response.headers["Content-Length"]
    total = None if length is None else there + int(length)
    done = there
    with writing(part), part.open("ab" if there else "wb") as file:
        for chunk in _chunks(response, url):
            file.write(chunk)
            done += len(chunk)
            progress(part.name.removesuffix(".part"), done, total)
    if total is not None and done < total:
        raise ReadWriteError(_broken_off(url, f"{done:,} of {total:,} bytes came"))


def _chunks(response: http.client.HTTPResponse, url: str) -> Iterator[bytes]:
    """What comes; a failing network becomes an error of ours here, that of the disk where it is written."""
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except http.client.IncompleteRead as error:
        yield error.partial
        raise ReadWriteError(_broken_off(url, "the server closed the connection")) from error
    except (http.client.HTTPException, OSError) as error:
        raise ReadWriteError(_broken_off(url, str(error) or type(error).__name__)) from error


def _broken_off(url: str, reason: str) -> str:
    return f"{url}: the download broke off ({reason}); the same command continues it"
