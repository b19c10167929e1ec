"""Adapters of a model in the server: chosen by name, in one process with it, exchanged with it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file

from mtkit.cli import entry
from mtkit.io.files import hash_file
from mtkit.model_folder.adapter_folder import write_lora
from tests.e2e.serve.conftest import running
from tests.e2e.serve.test_lifetime import wait_until
from tests.toy.models import sentences

LINES = sentences(30)


def write_adapter(folder: Path, model: Path, seed: int) -> Path:
    """An adapter of random matrices that changes most translations."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, weight in load_file(model / "model.safetensors").items():
        if ".attention." in name and weight.ndim == 2:
            for side, shape in (("A", (4, weight.shape[1])), ("B", (weight.shape[0], 4))):
                key = f"{name.removesuffix('.weight')}.lora_{side}.weight"
                tensors[key] = torch.randn(shape, generator=generator) / 2
    write_lora(folder, tensors, rank=4, alpha=4.0, base=hash_file(model / "model.safetensors"))
    return folder


@pytest.fixture(scope="module")
def adapters(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("adapters")
    return {name: write_adapter(root / name, models["en-de"], seed) for seed, name in enumerate(("law", "news"))}


@pytest.mark.whole
def test_adapters(
    models: dict[str, Path], adapters: dict[str, Path], tmp_path: Path, translated: Callable[..., list[str]]
) -> None:
    law = tmp_path / "law"
    shutil.copytree(adapters["law"], law)
    expected = {name: translated(LINES, "--split-sentences", "--adapter", str(adapters[name])) for name in adapters}
    expected["en-de"] = translated(LINES, "--split-sentences")
    assert len({*map(tuple, expected.values())}) == 3
    words = [str(models["en-de"]), str(models["de-fr"]), "--adapter", f"law={law}"]
    with running(*words, "--adapter", f"news={adapters['news']}", "--workers", "2") as server:
        names = ["law", "en-de", "news"] * 6
        with ThreadPoolExecutor(6) as pool:
            answers = [pool.submit(server.translate, q=LINES, model=name) for name in names]
        assert [each.result().json()["translatedText"] for each in answers] == [expected[name] for name in names]
        assert server.translate(q=LINES).json()["translatedText"] == expected["en-de"]
        fields = {"text": LINES, "source_lang": "EN", "target_lang": "DE", "model": "news"}
        deepl = server.client.post("/v2/translate", json=fields).json()["translations"]
        assert [each["text"] for each in deepl] == expected["news"]
        document = {"file": ("a.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{LINES[0]}\n")}
        form = {"source": "en", "target": "de", "model": "law"}
        url = server.client.post("/translate_file", data=form, files=document).json()["translatedFileUrl"]
        assert expected["law"][0] in server.client.get(url).text
        assert len(server.children()) == 2  # one for each base
        response = server.translate(q="the dog", model="medicine")
        assert (response.status_code, "the models are en-de, law, news" in response.json()["error"]) == (400, True)
        assert server.translate(q="the dog", source="de", target="fr", model="law").status_code == 400
        shutil.rmtree(law)
        shutil.copytree(adapters["news"], law)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.translate(q=LINES, model="law").json()["translatedText"] == expected["news"])
        assert server.translate(q=LINES).json()["translatedText"] == expected["en-de"]


def test_refused_adapters(
    models: dict[str, Path], adapters: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    law, twin = adapters["law"], tmp_path / "twin"
    shutil.copytree(models["en-de"], twin)
    for words, code, sentence in (
        ([f"a={law}", models["de-fr"]], 65, "was trained on another model"),
        ([f"a={law}", models["en-de"], twin], 2, "fits several of the models"),
        ([law, models["en-de"]], 2, "give NAME=FOLDER"),
        ([f"en-de={law}", models["en-de"]], 2, "a model and an adapter are named en-de"),
        (["a=/nothing", models["en-de"]], 66, "/nothing/adapter_config.json"),
    ):
        assert entry.execute(["serve", "--port", "0", "--adapter", *map(str, words)]) == code
        assert sentence in capsys.readouterr().err
