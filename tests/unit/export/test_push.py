"""`mtkit push` by the real huggingface_hub, against a stand-in of the hub's HTTP interface on this machine."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mtkit.cli import entry
from mtkit.importers.foreign_folder import HUB_NAME
from mtkit.model_folder.config_file import EXPORTED, write_config

validate_repo_id = pytest.importorskip("huggingface_hub.utils").validate_repo_id
TOKEN = "hf_" + 34 * "q"
WEIGHTS = bytes(range(256)) * 300  # which the stand-in wants as a large file


class Hub(ThreadingHTTPServer):
    """Repositories, commits and large files; `refused` is a status for every commit."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refused = 0
        self.seen: list[tuple[str, str]] = []  # path and authorization of each request
        self.created: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.large: dict[str, bytes] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, values: Any, status: int = 200) -> None:
        content = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_PUT(self) -> None:
        self.server.seen.append((self.path, ""))
        self.server.large[self.path.rpartition("/")[2]] = self.body()
        self.answer({})

    def do_POST(self) -> None:
        hub, content = self.server, self.body()
        hub.seen.append((self.path, self.headers.get("Authorization", "")))
        if self.path.endswith("/repos/create"):
            hub.created.append(json.loads(content))
            self.answer({"url": f"{hub.address}/org/name"}, 200)
        elif self.path.endswith("/validate-yaml"):
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            names = [each["path"] for each in json.loads(content)["files"]]
            modes = {name: "lfs" if name.endswith(".bin") else "regular" for name in names}
            self.answer({"files": [{"path": n, "uploadMode": m, "shouldIgnore": False} for n, m in modes.items()]})
        elif self.path.endswith("/objects/batch"):
            objects = json.loads(content)["objects"]
            actions = [
                {**each, "actions": {"upload": {"href": f"{hub.address}/large/{each['oid']}"}}} for each in objects
            ]
            self.answer({"transfer": "basic", "objects": actions})
        elif hub.refused:
            self.answer({"error": f"no: {self.headers['Authorization']}\x1b[31m"}, hub.refused)
        else:
            for line in content.decode().splitlines():
                item = json.loads(line)
                if item["key"] == "file":
                    hub.files[item["value"]["path"]] = base64.b64decode(item["value"]["content"])
                if item["key"] == "lfsFile":
                    hub.files[item["value"]["path"]] = hub.large[item["value"]["oid"]]
            self.answer({"commitUrl": f"{hub.address}/org/name/commit/0", "commitOid": "0", "pullRequestUrl": None})


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# A model\n")
    (folder / "model.bin").write_bytes(WEIGHTS)
    write_config(folder / EXPORTED, {})
    return folder


def push(hub: str, folder: Path, *words: str, name: str = "org/name") -> subprocess.CompletedProcess[str]:
    """mtkit in a process of its own: huggingface_hub reads its variables once."""
    variables = {"HF_ENDPOINT": hub, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(folder.parent)}
    variables |= {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-m", "mtkit", "push", str(folder), name, *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)


def test_the_files_arrive_in_one_commit_and_the_token_is_never_shown(hub: Hub, exported: Path) -> None:
    (exported / "README.md").write_text("---\nlicense: mit\n---\n# Edited\n")
    (exported / "private.txt").write_text("not of mtkit")
    done = push(hub.address, exported, "--private")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{hub.address}/org/name/commit/0\n")
    names = ("README.md", "model.bin", EXPORTED)
    assert hub.files == {name: (exported / name).read_bytes() for name in names}
    assert hub.created[0]["name"] == "name"
    assert hub.created[0].get("private") or hub.created[0].get("visibility") == "private"
    assert any(authorization == f"Bearer {TOKEN}" for _, authorization in hub.seen)
    assert TOKEN not in done.stdout + done.stderr + "".join(path for path, _ in hub.seen)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(401, 2, "HF_TOKEN"), (403, 2, "may not write"), (409, 75, "again"), (400, 74, r"no: Bearer ***\x1b[31m")],
)
def test_a_refusal_is_one_sentence(hub: Hub, exported: Path, status: int, code: int, words: str) -> None:
    hub.refused = status
    done = push(hub.address, exported)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"org/name: not uploaded (status {status}): " in done.stderr
    assert words in done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_without_a_network_the_sentence_says_so(exported: Path) -> None:
    done = push("http://127.0.0.1:9", exported)
    assert done.returncode == 74
    assert done.stderr.count("\n") == 1
    assert "the hub cannot be reached" in done.stderr


def test_a_dry_run_lists_files_and_connects_to_nothing(exported: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (exported / "README.md").write_bytes(b"# Without a licence, in Latin-1: \xfc\n")
    assert entry.execute(["push", str(exported), "org/name", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("README.md", "76,800  model.bin", EXPORTED, "states no licence"))


def test_names_are_those_that_the_hub_takes() -> None:
    rng = random.Random(1)
    names = ["".join(rng.choices("ab.-_git/0", k=rng.randint(3, 9))) for _ in range(20_000)]
    taken = set[bool]()
    for name in (each for each in names if each.count("/") == 1):
        try:
            validate_repo_id(name)
            is_name = True
        except ValueError:
            is_name = False
        assert (HUB_NAME.fullmatch(name) is not None) == is_name, name
        taken.add(is_name)
    assert taken == {True, False}


def test_other_folders_names_and_damaged_files_are_refused(exported: Path, tmp_path: Path, capsys: Any) -> None:
    def refusal(*words: str) -> tuple[int, str]:
        return entry.execute(["push", *words, "--dry-run"]), capsys.readouterr().err

    assert refusal(str(exported), "name")[0] == 2
    code, message = refusal(str(tmp_path), "org/name")
    assert (code, "neither a model folder nor an export" in message) == (2, True)
    (exported / "model.bin").write_bytes(b"other")
    code, message = refusal(str(exported), "org/name")
    assert (code, "missing or changed: model.bin" in message) == (65, True)
