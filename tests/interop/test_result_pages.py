"""Pages of results in a real browser, by tests/interop/file.mjs: accessibility, hostile text, no request, no script."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.models.transformer.config import TransformerConfig
from mtkit.plot.page import Curve, Picture, curves, page
from mtkit.text.tokenizer import TokenizerPair
from tests.e2e.serve.conftest import ROOT
from tests.interop.make_rooms import room
from tests.toy.models import write_toy_model
from tests.toy.runs import run, write_all

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b]52;c;x\x07 \u202e abc",
    "مرحبا بالعالم كيف",
]


def problems_of(file: Path, tmp_path: Path) -> dict[str, list[str]]:
    """What a browser finds wrong in each view of a page."""
    browser = os.environ.get("MTKIT_BROWSER") or shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None or shutil.which("node") is None:
        pytest.skip("no chromium (apt-get install chromium, or MTKIT_BROWSER=FILE), or no node")
    modules = room("browser") / "node_modules"
    program = Path(shutil.copy(ROOT / "tests" / "interop" / "file.mjs", room("browser") / f"file-{os.getpid()}.mjs"))
    pictures = Path(os.environ.get("MTKIT_PICTURES", tmp_path)) / file.stem
    pictures.mkdir(exist_ok=True)
    try:
        command = ["node", str(program), str(file), browser, str(pictures), str(modules / "axe-core" / "axe.min.js")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    finally:
        program.unlink()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    results: dict[str, list[str]] = json.loads(done.stdout)
    assert len(results) == 5
    return {name: problems for name, problems in results.items() if problems}


def test_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    refs = [f"{rng.choice(HOSTILE)} der Hund {n} schläft nicht" for n in range(60)]
    for name, lines in {"ref": refs, "one<b>": [*refs], "two": [each.replace("nicht", "") for each in refs]}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert entry.execute(["compare", "one<b>", "two", "--ref", "ref", "--html", "compare.html"]) == 0
    assert problems_of(tmp_path / "compare.html", tmp_path) == {}


def test_curves(tmp_path: Path) -> None:
    content = [
        Curve(f"{HOSTILE[0]} {n}", [(x, n / (x + 1)) for x in range(30)], [(1, 2, 3), (2, 1, 4)]) for n in range(8)
    ]
    block = curves(Picture("Loss", content, "updates", HOSTILE[2]))
    (tmp_path / "curves.html").write_text(page(HOSTILE[1], [block]))
    assert problems_of(tmp_path / "curves.html", tmp_path) == {}


def test_report_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(tmp_path)
    for name in ("test.en", "test.de"):
        lines = (tmp_path / name).read_text().split("\n")[:-1]
        (tmp_path / name).write_text("".join(f"{line} {HOSTILE[n % 4]}\n" for n, line in enumerate(lines)))
    run(tmp_path, kind="transformer")
    monkeypatch.chdir(tmp_path)
    assert entry.execute(["report", "run", "--html", "report.html"]) == 0
    assert problems_of(tmp_path / "report.html", tmp_path) == {}


def test_explanation(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    config = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1)
    model = write_toy_model(tmp_path / "model", tokenizers, config)
    words = ["explain", str(model), f"the dog sees {' '.join(HOSTILE)}", "--instead", HOSTILE[0]]
    assert entry.execute([*words, "--html", str(tmp_path / "explain.html")]) == 0
    assert problems_of(tmp_path / "explain.html", tmp_path) == {}
