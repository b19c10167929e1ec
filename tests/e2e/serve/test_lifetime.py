"""Life of the server: signals, lost workers, exchanged models, keys, limits, addresses."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path

import httpx
import pytest

from mtkit.cli import entry
from mtkit.text.tokenizer import TokenizerPair
from tests.e2e.serve.conftest import CONFIG, ROOT, Server, running
from tests.e2e.translation.test_without_torch import normalised, with_requirements
from tests.toy.models import sentences, write_toy_model

LINES = [line for line in sentences(60) if any(map(str.isalpha, line))]  # the server copies a text of signs alone


def is_translated_as(server: Server, expected: list[str]) -> bool:
    return bool(server.translate(q=LINES).json()["translatedText"] == expected)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def characters_accepted(server: Server) -> float:
    """Characters of all requests that the server has read."""
    values = re.findall(r"^mtkit_source_characters_total\{.*\} (\S+)$", server.client.get("/metrics").text, re.M)
    return sum(map(float, values))


@pytest.mark.whole
def test_no_process_imports_torch(models: dict[str, Path]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "mtkit", "serve", str(models["en-de"]), "--port", "0"]
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}  # of the processes that translate too
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "listening at" in line:
            url = line.split()[-1]
            break
    fields = {"q": "Das ist ein Satz.", "source": "auto", "target": "de"}
    assert httpx.post(f"{url}/translate", data=fields, trust_env=False, timeout=60).status_code == 200
    process.terminate()
    text = "".join(lines) + process.communicate(timeout=60)[1]
    imported = {line.split("|")[-1].strip() for line in text.split("\n") if line.startswith("import time:")}
    assert "mtkit.serve.fronts.app" in imported
    assert "mtkit.inference.native_search" in imported
    assert "torch" not in imported
    dockerfile = (ROOT / "Dockerfile").read_text()
    (listed,) = re.findall(r"^RUN pip install --no-cache-dir --no-compile ((?!--)[\w -]+)$", dockerfile, re.MULTILINE)
    allowed = {"mtkit", "setuptools"}.union(*map(with_requirements, listed.split()))
    by_package = metadata.packages_distributions()
    packages = {name.partition(".")[0] for name in imported}
    assert {normalised(each) for name in packages for each in by_package.get(name, [])} <= allowed


@pytest.mark.whole
def test_lost_workers_lose_no_request(models: dict[str, Path], translated: Callable[..., list[str]]) -> None:
    expected = translated(LINES, "--split-sentences")
    is_over, answered = threading.Event(), list[object]()

    def ask() -> list[object]:
        answers = []
        while not is_over.is_set():
            answers.append(server.translate(q=LINES).json())
            answered.append(answers[-1])
        return answers

    with running(str(models["en-de"]), "--workers", "2", "--cache", "0") as server, ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(ask) for _ in range(8)]  # until the end: without requests nobody misses a worker
        try:
            for _ in range(20):
                wait_until(lambda: len(server.workers()) > 0)
                before = len(answered)
                os.kill(server.workers()[0], signal.SIGKILL)
                time.sleep(0.2)
                wait_until(lambda count=before: len(answered) > count)  # a text whose workers all die is refused
            wait_until(lambda: len(server.workers()) == 2)
            for process in (*server.children(), *server.workers()):  # that of the model first, and its copies
                os.kill(process, signal.SIGKILL)
            wait_until(lambda: len(server.workers()) == 2)
        finally:
            is_over.set()
        assert all(client.result() for client in clients)
        assert all(answer == {"translatedText": expected} for client in clients for answer in client.result())
        assert server.translate(q="the dog").status_code == 200


@pytest.mark.whole
def test_sigterm_finishes_what_is_accepted(models: dict[str, Path], translated: Callable[..., list[str]]) -> None:
    expected = translated(LINES, "--split-sentences")
    with running(str(models["en-de"]), "--workers", "1", "--cache", "0") as server:
        with ThreadPoolExecutor(20) as pool:
            answers = [pool.submit(server.translate, q=LINES) for _ in range(20)]
            wait_until(lambda: characters_accepted(server) == 20 * sum(map(len, LINES)))
            for worker in server.workers():  # as systemd does
                os.kill(worker, signal.SIGTERM)
            server.process.send_signal(signal.SIGTERM)
            results = [each.result() for each in answers]
        assert [each.json()["translatedText"] for each in results if each.status_code == 200] == [expected] * 20
        while server.process.poll() is None:  # a second one does not cut the end short
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.001)
        code, text = server.stop()
        assert (code, "Traceback" in text) == (0, False)
        assert not server.workers() if Path(f"/proc/{server.process.pid}").exists() else True


@pytest.mark.whole
def test_documents_of_a_killed_server_go_with_the_next(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with running(str(models["en-de"])) as server:
        files = {"file": ("a.html", "<p>the dog</p>")}
        server.client.post("/translate_file", data={"source": "en", "target": "de"}, files=files).raise_for_status()
        assert len([*tmp_path.rglob("target.html")]) == 1
        (folder,) = tmp_path.glob(".mtkit-serve.*")
        assert folder.stat().st_mode & 0o077 == 0
        server.stop(signal.SIGKILL)
    with running(str(models["en-de"])):
        assert [*tmp_path.rglob("target.html")] == []
    assert [*tmp_path.glob(".mtkit-serve.*")] == []


@pytest.mark.whole
def test_a_new_version_of_a_model(
    models: dict[str, Path], tmp_path: Path, translated: Callable[..., list[str]]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models["en-de"], folder)
    expected = [translated(LINES, "--split-sentences"), translated(LINES, "--split-sentences", model="special")]
    with running(str(folder), "--workers", "2") as server, ThreadPoolExecutor(4) as pool:
        server.process.send_signal(signal.SIGHUP)  # nothing has changed, and it may have come before the server listens
        assert server.translate(q=LINES).json()["translatedText"] == expected[0]
        answers = [pool.submit(server.translate, q=[*LINES, f"the dog {number}"]) for number in range(60)]
        shutil.rmtree(folder)
        shutil.copytree(models["special"], folder)
        server.process.send_signal(signal.SIGHUP)
        results = [each.result().json()["translatedText"][:-1] for each in answers]
        assert all(each in expected for each in results)
        wait_until(partial(is_translated_as, server, expected[1]))
        (folder / "config.json").write_text("{}")
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert server.translate(q=LINES[:1]).json()["translatedText"] == expected[1][:1]
        assert "stays" in server.stop()[1]


@pytest.mark.slow
def test_200_new_versions_lose_no_request(
    models: dict[str, Path], tmp_path: Path, translated: Callable[..., list[str]]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models["en-de"], folder)
    versions = [("en-de", translated(LINES, "--split-sentences"))]
    versions += [("special", translated(LINES, "--split-sentences", model="special"))]
    ended = threading.Event()

    def translate_until_the_end(server: Server, number: int) -> list[list[str]]:
        """The translations of requests, each with a line that is not in the cache."""
        answers: list[list[str]] = []
        while not ended.is_set():
            response = server.translate(q=[*LINES, f"the dog {number} {len(answers)}"])
            answers.append(response.raise_for_status().json()["translatedText"][:-1])
        return answers

    with running(str(folder), "--workers", "2") as server, ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(translate_until_the_end, server, number) for number in range(4)]
        for number in range(200):
            name, expected = versions[(number + 1) % 2]
            shutil.copytree(models[name], tmp_path / "new")
            folder.rename(tmp_path / "old")
            (tmp_path / "new").rename(folder)
            shutil.rmtree(tmp_path / "old")
            server.process.send_signal(signal.SIGHUP)
            if number % 3:  # some versions are replaced while they are loaded
                wait_until(partial(is_translated_as, server, expected))
        ended.set()
        answers = [answer for client in clients for answer in client.result()]
    assert answers
    assert all(answer in [expected for _, expected in versions] for answer in answers)  # none of both versions


@pytest.mark.whole
def test_models_are_loaded_on_demand_within_the_memory(models: dict[str, Path]) -> None:
    words = [str(models[name]) for name in ("en-de", "de-fr", "fr-en")]
    with running(*words, "--workers", "1", "--max-memory", "0.12") as server:  # of which one model takes 0.1
        assert len(server.children()) == 1
        for source, target in (("en", "de"), ("de", "fr"), ("fr", "en"), ("en", "fr")):
            assert server.translate(q="the dog", source=source, target=target).status_code == 200
            assert len(server.children()) == 1
        pairs = [("en", "de"), ("de", "fr"), ("fr", "en")] * 4
        with ThreadPoolExecutor(6) as pool:
            answers = [
                pool.submit(server.translate, q=f"a dog {i}", source=s, target=t) for i, (s, t) in enumerate(pairs)
            ]
        assert [each.result().status_code for each in answers] == [200] * 12


@pytest.mark.whole
def test_keys_and_limits(models: dict[str, Path], tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# of the team\nfirst-key-1\nsecond-key-2\n")
    with running(str(models["en-de"]), "--keys", str(keys), "--max-requests", "3", "--host", "0.0.0.0") as server:
        server.client.base_url = httpx.URL(f"http://127.0.0.1:{server.port}")
        for wrong in ({}, {"api_key": "wrong"}, {"api_key": "first-key-1x"}, {"api_key": "ключ"}):
            response = server.translate(q="the dog", **wrong)
            assert (response.status_code, "key" in response.json()["error"]) == (403, True)
        statuses = [server.translate(q="the dog", api_key="first-key-1").status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        limited = server.translate(q="the dog", api_key="first-key-1")
        assert 0 < int(limited.headers["retry-after"]) <= 20
        header = {"authorization": "Bearer second-key-2"}
        data = {"q": "the dog", "source": "en", "target": "de"}
        assert server.client.post("/translate", data=data, headers=header).status_code == 200
        assert server.client.get("/frontend/settings").json()["keyRequired"] is True
        text = server.client.get("/metrics").text
        assert "first-key" not in text
        _, log = server.stop()
        assert "the dog" not in log
        assert "key-1" not in log


@pytest.mark.whole
def test_a_full_queue(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "1", "--cache", "0", "--max-waiting", "3000") as server:
        with ThreadPoolExecutor(12) as pool:
            answers = [pool.submit(server.translate, q=LINES) for _ in range(48)]
        responses = [each.result() for each in answers]
        refused = [each for each in responses if each.status_code != 200]
        assert {each.status_code for each in refused} == {503}
        assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
        assert len(refused) < len(responses)
        assert server.translate(q="the dog").status_code == 200


@pytest.mark.whole
def test_workers_share_what_waits(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "2", "--cache", "0") as server:
        assert server.translate(q=LINES[:8]).status_code == 200
        text = server.client.get("/metrics").text
        batches, texts = (
            re.search(rf"^mtkit_batch_texts_{name}(?:{{.*}})? (\S+)$", text, re.M) for name in ("count", "sum")
        )
        assert batches is not None
        assert texts is not None
        assert float(texts[1]) == 8
        assert float(batches[1]) >= 2


@pytest.mark.whole
def test_a_request_that_takes_too_long_leaves_the_queue(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "1", "--cache", "0", "--timeout", "0.3") as server:
        many = [f"{number} {' '.join(LINES[:20])}" for number in range(80)]
        statuses = {server.translate(q=many).status_code for _ in range(2)}
        assert statuses == {503}
        wait_until(lambda: "mtkit_queue_texts 0.0" in server.client.get("/metrics").text)


@pytest.mark.whole
def test_texts_are_logged_only_if_asked_for(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--log", "texts") as server:
        server.translate(q="the dog \x1b[31m")
        _, log = server.stop()
        assert "the dog" in log
        assert "\x1b" not in log


@pytest.mark.whole
def test_a_path_behind_a_proxy(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--root-path", "/mt") as server:
        assert server.client.get("/health").status_code == 200
        assert server.client.post("/translate", json={}).json() == {"error": "q is missing"}


def test_the_server_may_have_a_file_for_each_connection(server: Server) -> None:
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard or soft >= 4000


def test_a_slow_head_and_a_client_that_reads_nothing_do_not_stop_others(server: Server) -> None:
    socks = [socket.create_connection((server.host, server.port)) for _ in range(50)]
    for sock in socks[:25]:
        sock.sendall(b"GET /hea")
    for sock in socks[25:]:
        sock.sendall(b"GET /languages HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
    assert server.client.get("/health", timeout=20).status_code == 200
    assert server.translate(q="the dog").status_code == 200
    for sock in socks:
        sock.close()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--host", "0.0.0.0"], 2, "--no-keys"),
        (["--host", "::"], 2, "--no-keys"),
        (["--host", "192.0.2.1", "--no-keys"], 74, "192.0.2.1"),
        (["--root-path", "mt"], 2, "--root-path"),
        (["--keys", "/nothing"], 66, "/nothing"),
        (["--set", "nothing=1"], 78, "nothing"),
    ],
)
def test_refusals(
    models: dict[str, Path], capsys: pytest.CaptureFixture[str], words: list[str], code: int, sentence: str
) -> None:
    assert entry.execute(["serve", str(models["en-de"]), "--port", "0", *words]) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error


def test_a_model_of_one_language_is_refused(
    tokenizers: TokenizerPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_toy_model(tmp_path / "en-en", tokenizers, CONFIG, seed=1, languages=("en", "en"))
    assert entry.execute(["serve", str(tmp_path / "en-en"), "--port", "0"]) == 2
    assert "serve: en-en: neither languages nor tags give a direction" in capsys.readouterr().err


@pytest.mark.whole
def test_a_model_without_a_direction_beside_another_is_named_and_left_out(
    tokenizers: TokenizerPair, models: dict[str, Path], tmp_path: Path
) -> None:
    write_toy_model(tmp_path / "en-en", tokenizers, CONFIG, seed=1, languages=("en", "en"))
    with running(str(tmp_path / "en-en"), str(models["en-de"])) as server:
        notes = [line for line in server.lines if "en-en" in line]
        assert notes == [
            "serve: en-en is not served: neither languages nor tags give a direction from one language to another\n"
        ]
        assert [each["name"] for each in server.client.get("/models").json()] == ["en-de"]
        assert len(server.children()) == 1


def test_an_address_in_use(models: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert entry.execute(["serve", str(models["en-de"]), "--port", str(sock.getsockname()[1])]) == 74
    assert "in use; choose another --port" in capsys.readouterr().err


def test_an_address_of_ipv6_on_a_machine_without_it(
    models: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Socket(socket.socket):
        def __init__(self, family: int = -1, *args: int) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
            super().__init__(family, *args)

    monkeypatch.setattr(socket, "socket", Socket)
    assert entry.execute(["serve", str(models["en-de"]), "--port", "0", "--host", "::1"]) == 74
    assert "::1:0: Address family not supported" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["short\n", *(pytest.param(each, marks=pytest.mark.whole) for each in ("", "two words here\n"))]
)
def test_keys_that_are_no_keys(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "keys").write_text(content)
    assert entry.execute(["serve", str(models["en-de"]), "--keys", str(tmp_path / "keys")]) == 65
    assert f"{tmp_path / 'keys'}" in capsys.readouterr().err
