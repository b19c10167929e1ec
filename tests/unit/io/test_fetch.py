import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mtkit.errors import BusyError, DataError, ReadWriteError, UsageError
from mtkit.io import fetch as fetch_module
from mtkit.io.fetch import KNOWN, fetch, fetch_file
from mtkit.io.files import hash_file
from mtkit.io.lock import OutputLock

CONTENT = bytes(i * i % 251 for i in range(200_000))
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """HTTP server that returns CONTENT for every URL; the attributes make it misbehave."""

    content = CONTENT
    has_range = True
    cut_at: int | None = None  # bytes of the whole file, after which the connection is closed
    status = 200
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []  # the Range header of each request


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        requested = self.headers["Range"]
        self.server.ranges.append(requested)
        start = int(requested.removeprefix("bytes=").removesuffix("-")) if requested and self.server.has_range else 0
        size = len(self.server.content)
        if self.server.status != 200 or start >= size:
            self.send_response(self.server.status if self.server.status != 200 else 416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        self.wfile.write(self.server.content[start : self.server.cut_at])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.server_port}/data/"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_corpus_is_downloaded_once(tmp_path, server, url, monkeypatch):
    monkeypatch.setitem(KNOWN, "tiny", ("https://pinned.invalid/", {"a.gz": CHECKSUM, "b.gz": CHECKSUM}))
    progress = []
    paths = fetch("tiny", tmp_path / "deep" / "tiny", base=url, progress=lambda *values: progress.append(values))
    assert all(path.read_bytes() == CONTENT for path in paths)
    assert names(tmp_path / "deep" / "tiny") == ["a.gz", "b.gz"]
    assert progress[-1] == ("b.gz", len(CONTENT), len(CONTENT))
    assert fetch("tiny", tmp_path / "deep" / "tiny", base=url) == paths
    assert len(server.ranges) == 2


def test_an_interrupted_download_is_kept_and_resumed(tmp_path, server, url):
    path = tmp_path / "file"
    server.cut_at = 70_000
    with pytest.raises(ReadWriteError, match=r"interrupted \(.*run the same command again to resume it"):
        fetch_file(url + "file", path, CHECKSUM)
    assert names(tmp_path) == ["file.part"]
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:70_000]
    server.cut_at = None
    fetch_file(url + "file", path, CHECKSUM)
    assert server.ranges == [None, "bytes=70000-"]
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["file"]


def test_without_range_support_the_download_restarts(tmp_path, server, url):
    server.has_range = False
    (tmp_path / "file.part").write_bytes(CONTENT[:999])
    fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert hash_file(tmp_path / "file") == CHECKSUM


def test_a_complete_part_is_renamed(tmp_path, server, url):
    (tmp_path / "file.part").write_bytes(CONTENT)
    fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert names(tmp_path) == ["file"]
    assert server.ranges == [f"bytes={len(CONTENT)}-"]


@pytest.mark.parametrize("stale", [b"x" * 1000, CONTENT + b"x"])
def test_a_stale_part_is_deleted_and_downloaded_again(tmp_path, server, url, stale):
    (tmp_path / "file.part").write_bytes(stale)
    fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(stale)}-", None]


def test_wrong_content_is_not_kept(tmp_path, server, url):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(DataError, match=f"expected {CHECKSUM}; the file was not kept"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert names(tmp_path) == []


def test_an_existing_file_is_not_overwritten(tmp_path, url):
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(DataError, match="exists with a checksum other than expected"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_server_errors_are_reported(tmp_path, server, url):
    server.status = 404
    with pytest.raises(ReadWriteError, match="the server answered 404"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    with pytest.raises(ReadWriteError, match="cannot be reached"):
        fetch_file("http://127.0.0.1:1/file", tmp_path / "file", CHECKSUM)


def test_a_timeout_is_reported_as_an_interrupted_download(tmp_path, url, monkeypatch):
    def too_slow(response, size):
        raise TimeoutError("timed out")

    monkeypatch.setattr(fetch_module.http.client.HTTPResponse, "read", too_slow)
    with pytest.raises(ReadWriteError, match=r"interrupted \(timed out\)"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)


def test_a_full_disk_is_reported_as_a_write_error(tmp_path, url, monkeypatch):
    monkeypatch.setattr(fetch_module, "refuse_special_file", lambda path: None)
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(ReadWriteError, match=r"file\.part: cannot be written: no space left"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "sub/evil", "..", "sub\\evil", ""])
def test_nothing_is_written_outside_the_folder(tmp_path, url, monkeypatch, name):
    monkeypatch.setitem(KNOWN, "evil", (url, {name: CHECKSUM}))
    with pytest.raises(ValueError, match="is not a plain file name"):
        fetch("evil", tmp_path / "folder")
    assert names(tmp_path / "folder") == []


def test_an_unknown_corpus_is_rejected():
    with pytest.raises(UsageError, match="multi3k: no such corpus; known corpora: multi30k"):
        fetch("multi3k", Path("nowhere"))


def test_multi30k_is_pinned_to_a_commit_and_checksums():
    address, checksums = KNOWN["multi30k"]
    assert address.startswith(
        "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/"
    )
    assert address.endswith("/data/task1/raw/")
    assert {f"{part}.{lang}.gz" for part in ("train", "val", "test_2016_flickr") for lang in ("en", "de")} <= set(
        checksums
    )
    assert all(len(checksum) == 64 for checksum in checksums.values())


def test_two_downloads_of_one_file_are_not_mixed(tmp_path, server, url):
    with OutputLock(tmp_path / "file"), pytest.raises(BusyError, match="locked by process"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert server.ranges == []
    (tmp_path / "file.part").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError, match=r"file\.part: is a symbolic link"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)


def test_an_existing_file_needs_no_lock(tmp_path, server, url):
    (tmp_path / "file").write_bytes(CONTENT)
    with OutputLock(tmp_path / "file"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert server.ranges == []
    assert (tmp_path / "file").read_bytes() == CONTENT
