import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mtkit.errors import DataError, ReadWriteError, UsageError
from mtkit.io import fetch as fetch_module
from mtkit.io.fetch import fetch, fetch_file
from mtkit.io.files import hash_file
from mtkit.io.known_corpora import KNOWN

CONTENT = bytes(i * i % 251 for i in range(200_000))
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Gives CONTENT at every address; the attributes say how badly."""

    content = CONTENT
    has_range = True
    cut_at: int | None = None  # bytes of the whole file, after which the connection is closed
    status = 200
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []  # the Range of each request


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        wanted = self.headers["Range"]
        self.server.asked.append(wanted)
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.has_range else 0
        size = len(self.server.content)
        if self.server.status != 200 or begin >= size:
            self.send_response(self.server.status if self.server.status != 200 else 416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - begin))
        self.end_headers()
        self.wfile.write(self.server.content[begin : self.server.cut_at])

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


def test_a_corpus_comes_whole_and_stays(tmp_path, server, url, monkeypatch):
    monkeypatch.setitem(KNOWN, "tiny", ("https://pinned.invalid/", {"a.gz": CHECKSUM, "b.gz": CHECKSUM}))
    told = []
    found = fetch("tiny", tmp_path / "deep" / "tiny", base=url, progress=lambda *said: told.append(said))
    assert all(path.read_bytes() == CONTENT for path in found)
    assert names(tmp_path / "deep" / "tiny") == ["a.gz", "b.gz"]
    assert told[-1] == ("b.gz", len(CONTENT), len(CONTENT))
    assert fetch("tiny", tmp_path / "deep" / "tiny", base=url) == found
    assert len(server.asked) == 2


def test_a_truncated_download_is_refused_kept_and_resumed(tmp_path, server, url):
    path = tmp_path / "file"
    server.cut_at = 70_000
    with pytest.raises(ReadWriteError, match=r"broke off \(.*the same command continues it"):
        fetch_file(url + "file", path, CHECKSUM)
    assert names(tmp_path) == ["file.part"]
    assert (tmp_path / "file.part").read_bytes() == CONTENT[:70_000]
    server.cut_at = None
    fetch_file(url + "file", path, CHECKSUM)
    assert server.asked == [None, "bytes=70000-"]
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["file"]


def test_without_range_it_begins_again(tmp_path, server, url):
    server.has_range = False
    (tmp_path / "file.part").write_bytes(CONTENT[:999])
    fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert hash_file(tmp_path / "file") == CHECKSUM


def test_a_finished_part_only_needs_its_name(tmp_path, server, url):
    (tmp_path / "file.part").write_bytes(CONTENT)
    fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert names(tmp_path) == ["file"]
    assert server.asked == [f"bytes={len(CONTENT)}-"]


@pytest.mark.parametrize("stale", [b"x" * 1000, CONTENT + b"x"])
def test_a_part_of_something_else_is_thrown_away(tmp_path, server, url, stale):
    (tmp_path / "file.part").write_bytes(stale)
    fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(stale)}-", None]


def test_wrong_content_is_not_kept(tmp_path, server, url):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(DataError, match=f"expected {CHECKSUM}; the file was not kept"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert names(tmp_path) == []


def test_a_file_of_the_user_is_not_overwritten(tmp_path, url):
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(DataError, match="is there but has another checksum"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_servers_that_fail(tmp_path, server, url):
    server.status = 404
    with pytest.raises(ReadWriteError, match="the server answered 404"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)
    with pytest.raises(ReadWriteError, match="cannot be reached"):
        fetch_file("http://127.0.0.1:1/file", tmp_path / "file", CHECKSUM)


def test_a_silent_server_is_given_up(tmp_path, url, monkeypatch):
    def too_slow(response, size):
        raise TimeoutError("timed out")

    monkeypatch.setattr(fetch_module.http.client.HTTPResponse, "read", too_slow)
    with pytest.raises(ReadWriteError, match=r"broke off \(timed out\)"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)


def test_a_full_disk_is_not_blamed_on_the_network(tmp_path, url):
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(ReadWriteError, match=r"file\.part: cannot be written: no space left"):
        fetch_file(url + "file", tmp_path / "file", CHECKSUM)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "sub/evil", "..", "sub\\evil", ""])
def test_nothing_is_written_outside_the_folder(tmp_path, url, monkeypatch, name):
    monkeypatch.setitem(KNOWN, "evil", (url, {name: CHECKSUM}))
    with pytest.raises(ValueError, match="is not a plain file name"):
        fetch("evil", tmp_path / "folder")
    assert names(tmp_path / "folder") == []


def test_unknown_corpus():
    with pytest.raises(UsageError, match="multi3k: no such corpus; known here: multi30k"):
        fetch("multi3k", Path("nowhere"))


def test_multi30k_is_pinned():
    address, checksums = KNOWN["multi30k"]
    assert address.startswith(
        "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/"
    )
    assert address.endswith("/data/task1/raw/")
    assert {f"{part}.{lang}.gz" for part in ("train", "val", "test_2016_flickr") for lang in ("en", "de")} <= set(
        checksums
    )
    assert all(len(checksum) == 64 for checksum in checksums.values())
