"""Downloads of known corpora, whose URLs and checksums are pinned here.

An existing file with the right checksum is kept. A download is written to `FILE.part` and renamed after its checksum is
verified. An interrupted download is resumed if the server supports HTTP Range requests, otherwise restarted.
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
from mtkit.io.files import flush_to_disk, hash_file, refuse_special_file, translate_write_errors
from mtkit.io.lock import OutputLock

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"


# corpus -> (URL of the folder, file name -> SHA-256)
KNOWN: dict[str, tuple[str, dict[str, str]]] = {
    "multi30k": (
        MULTI30K,
        {
            "test_2016_flickr.cs.gz": "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
            "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
            "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
            "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
            "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
            "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
            "test_2017_flickr.fr.gz": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
            "train.cs.gz": "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077",
            "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
            "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
            "val.cs.gz": "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc",
            "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
            "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
        },
    ),
}

_CHUNK = 1 << 16  # bytes
_TIMEOUT = 30.0  # seconds without receiving a byte
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416

Progress = Callable[[str, int, "int | None"], None]
"""Callback with the file name, the bytes downloaded so far, and the total (None: the server does not report it)."""


def _ignore(name: str, done: int, total: int | None) -> None:
    pass


def fetch(corpus: str, folder: Path, *, base: str | None = None, progress: Progress = _ignore) -> list[Path]:
    """Download all files of a known corpus into a folder, which is created.

    Args:
        folder: the only folder that is written to.
        base: URL of a mirror of the same files, ending in "/"; None: the pinned URL.
        progress: called after every chunk.

    Returns:
        The paths of all files, including those that existed before.

    Raises:
        UsageError: no such corpus.
        DataError: the checksum of a file differs from the pinned one.
        ReadWriteError: the server, the network or the disk failed.
    """
    if corpus not in KNOWN:
        raise UsageError(f"{corpus}: no such corpus; known corpora: {', '.join(KNOWN)}, and KIND:NAME of an index")
    address, checksums = KNOWN[corpus]
    with translate_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name in checksums:  # none leads outside the folder
        parts = PurePosixPath(name).parts
        if len(parts) != 1 or parts[0] in ("..", "/") or "\\" in name:
            raise ValueError(f"{name!r} is not a plain file name")
    for name, checksum in checksums.items():
        fetch_file((base or address) + urllib.parse.quote(name), folder / name, checksum, progress=progress)
    return [folder / name for name in checksums]


def fetch_file(url: str, path: Path, sha256: str | None, *, progress: Progress = _ignore) -> None:
    """Download one file, unless it exists; without a checksum (None) any content is taken.

    If a resumed download has the wrong checksum, the partial file was stale: it is deleted and the file is downloaded
    once more from the beginning.

    Raises:
        BusyError: another process is downloading the same file.
        UsageError: FILE.part is a link, a folder, a device or a pipe.
        DataError: the checksum differs from `sha256`, or an existing file has another checksum.
        ReadWriteError: the server or the network failed (the part received so far is kept and resumed), or the disk.
    """
    if _exists(path, sha256):  # also in a folder that cannot be written
        return
    part = path.with_name(path.name + ".part")
    with OutputLock(path):
        if _exists(path, sha256):  # another process downloaded it meanwhile
            return
        refuse_special_file(part)
        was_resumed = _download(url, part, progress)
        checksum = hash_file(part)
        sha256 = checksum if sha256 is None else sha256
        if checksum != sha256 and was_resumed:
            part.unlink()
            _download(url, part, progress)
            checksum = hash_file(part)
        if checksum != sha256:
            part.unlink()
            raise DataError(f"{url}: has the checksum {checksum}, expected {sha256}; the file was not kept")
        with translate_write_errors(path):
            flush_to_disk(part)
            part.replace(path)
            flush_to_disk(path.parent)


def _exists(path: Path, sha256: str | None) -> bool:
    if not path.exists():
        return False
    if sha256 is not None and hash_file(path) != sha256:
        raise DataError(f"{path}: exists with a checksum other than expected; move it away to download it again")
    return True


def _download(url: str, part: Path, progress: Progress) -> bool:
    """Download to `part`; return whether an existing part was resumed."""
    offset = part.stat().st_size if part.exists() else 0
    try:
        with _open(url, offset) as response:
            is_partial = response.status == _PARTIAL_CONTENT
            content_range = response.headers["Content-Range"] or ""
            is_resumed = offset > 0 and is_partial and content_range.startswith(f"bytes {offset}-")
            _write_chunks(response, part, url, offset if is_resumed else 0, progress)
            return is_resumed
    except urllib.error.HTTPError as error:
        if error.code == _RANGE_NOT_SATISFIABLE and offset:  # the part is complete, or too long
            return True
        raise


@contextmanager
def _open(url: str, offset: int) -> Iterator[http.client.HTTPResponse]:
    headers = {"User-Agent": f"mtkit/{__version__}", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _RANGE_NOT_SATISFIABLE and offset:
            raise
        raise ReadWriteError(f"{url}: the server answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise ReadWriteError(f"{url}: cannot be reached: {error.reason}") from error
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise ReadWriteError(_interrupted_error(url, str(error) or type(error).__name__)) from error


def _write_chunks(response: http.client.HTTPResponse, part: Path, url: str, offset: int, progress: Progress) -> None:
    length = response.headers["Content-Length"]
    total = None if length is None else offset + int(length)
    done = offset
    with translate_write_errors(part), part.open("ab" if offset else "wb") as file:
        for chunk in _chunks(response, url):
            file.write(chunk)
            done += len(chunk)
            progress(part.name.removesuffix(".part"), done, total)
    if total is not None and done < total:
        raise ReadWriteError(_interrupted_error(url, f"{done:,} of {total:,} bytes received"))


def _chunks(response: http.client.HTTPResponse, url: str) -> Iterator[bytes]:
    """The chunks of a response; network errors are translated here, disk errors where chunks are written."""
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except http.client.IncompleteRead as error:
        yield error.partial
        raise ReadWriteError(_interrupted_error(url, "the server closed the connection")) from error
    except (http.client.HTTPException, OSError) as error:
        raise ReadWriteError(_interrupted_error(url, str(error) or type(error).__name__)) from error


def _interrupted_error(url: str, reason: str) -> str:
    return f"{url}: the download was interrupted ({reason}); run the same command again to resume it"
