"""`mtkit clean`: its words, its folder and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.transformer.config import TransformerConfig

DATA = Path(__file__).parents[3] / "data"


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    """2,500 pairs with a copy, a duplicate, lines that are no translations and a line of the test set."""
    sides = [(DATA / f"train.{side}").read_text().split("\n")[:2500] for side in ("en", "de")]
    sides[1][7] = sides[0][7]
    for side in sides:
        side[9] = side[3]
    sides[1][100:300] = sides[1][200:300] + sides[1][100:200]
    paths = tmp_path / "a.en", tmp_path / "a.de"
    for path, side in zip(paths, sides, strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    (tmp_path / "test.en").write_text(f"{sides[0][20]}\n")
    (tmp_path / "test.de").write_text(f"{sides[1][20]}\n")
    return paths


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = entry.execute(["clean", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_two_files(tmp_path: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    test = map(str, (tmp_path / "test.en", tmp_path / "test.de"))
    output = tmp_path / "out"
    words = [*map(str, texts), "-o", str(output)]
    code, out, err = run(capsys, *words, "--test", *test, "--json", str(tmp_path / "r.json"))
    assert (code, err) == (0, "")
    assert "removed: both sides are equal (1, 0.04%): " in out
    assert "removed: a side is in valid or test (1, 0.04%): " in out
    (report,) = json.loads((tmp_path / "r.json").read_text())
    assert report == json.loads((output / "report.json").read_text())
    rejected = {
        each["line"]: each["reasons"] for each in map(json.loads, (output / "rejected.jsonl").read_text().splitlines())
    }
    for line, reason in ((8, "copies"), (10, "duplicates"), (21, "leak")):
        assert reason in rejected[line]
    assert sum(100 < line <= 300 and "lexicon" in reasons for line, reasons in rejected.items()) >= 20
    assert report["kept"] == len((output / "a.en").read_text().splitlines()) == 2500 - len(rejected)
    assert run(capsys, *words)[::2] == (
        2,
        f"mtkit: error: {output}: exists; delete it, or name another folder with -o\n",
    )
    code, _, err = run(capsys, str(texts[0]), str(tmp_path / "test.de"), "-o", str(tmp_path / "new"))
    assert (code, err.count("\n")) == (65, 1)
    assert not (tmp_path / "new").exists()


def test_equal_input_gives_equal_bytes_in_every_process(tmp_path: Path, texts: tuple[Path, Path]) -> None:
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "mtkit", "clean", *map(str, texts), "-o", str(tmp_path / seed)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True)
    files = [sorted((tmp_path / seed).iterdir()) for seed in ("1", "2")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    assert [path.name for path in files[0]] == ["a.de", "a.en", "flagged.jsonl", "rejected.jsonl", "report.json"]


def test_a_document_and_a_recipe(tmp_path: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    pairs = list(zip(*(path.read_text().splitlines()[:50] for path in texts), strict=True))
    (tmp_path / "a.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    code, _, _ = run(capsys, str(tmp_path / "a.tsv"), "-o", str(tmp_path / "one"))
    assert code == 0
    assert sorted(path.name for path in (tmp_path / "one").iterdir())[:2] == ["a.tsv.src", "a.tsv.tgt"]
    assert len((tmp_path / "one" / "a.tsv.src").read_text().splitlines()) == 48
    (tmp_path / "a.csv").write_text('"one\ntwo","eins, zwei"\nthe same four words,the same four words\n<b>x</b>,y\n')
    assert run(capsys, str(tmp_path / "a.csv"), "-o", str(tmp_path / "csv"))[0] == 0
    for name, key, line in (("rejected", "line", 3), ("flagged", "of", 4)):
        assert json.loads((tmp_path / "csv" / f"{name}.jsonl").read_text())[key] == line  # of the file
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\ncorpus:\n  src_lang: en\n  tgt_lang: de\n  train: [{src: a.en, tgt: a.de}]\n"
        "  test: {t: {src: test.en, tgt: test.de}}\n  filters: [{kind: copies, weight: 0.5}, {kind: leak}]\n"
    )
    code, out, _ = run(capsys, str(recipe), "-o", str(tmp_path / "two"))
    assert (code, out.count("\n")) == (0, 4)
    assert len((tmp_path / "two" / "weight-0.5" / "a.de").read_text().splitlines()) == 1
    assert len((tmp_path / "two" / "a.de").read_text().splitlines()) == 2498
    code, _, err = run(capsys, str(recipe), "-o", str(tmp_path / "three"), "corpus.filters=[{kind: copied}]")
    assert code == 78
    assert "copies" in err


@pytest.mark.parametrize("command", ["clean", "check"])
def test_held_out_sides_of_different_length(
    command: str, tmp_path: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.de").write_text("eins\nzwei\n")
    words = [*map(str, texts), "--test", *(str(tmp_path / f"test.{side}") for side in ("en", "de"))]
    code = entry.execute([command, *words, *(["-o", str(tmp_path / "out")] if command == "clean" else [])])
    assert code == 65
    assert "test.de:2: line has no partner: " in capsys.readouterr().err


def test_scores_of_two_models(
    tmp_path: Path,
    texts: tuple[Path, Path],
    toy_model: Callable[[ModelConfigBase], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = toy_model(TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1))
    for path in texts:
        path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[:6]))
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "name: r\ncorpus:\n  src_lang: en\n  tgt_lang: de\n  train: [{src: a.en, tgt: a.de}]\n"
        f"  filters: [{{kind: dual_cross_entropy, forward: {model}, backward: {model}, min_score: 0}}]\n"
    )
    assert run(capsys, str(recipe), "-o", str(tmp_path / "all"))[0] == 0
    assert len((tmp_path / "all" / "a.de").read_text().splitlines()) == 6
    code, _, err = run(capsys, str(recipe), "-o", str(tmp_path / "none"), "corpus.filters.0.min_score=1")
    assert code == 65
    assert err.startswith(f"mtkit: error: {texts[0]} and {texts[1]}: all 6 pairs have faults: ")
    assert err.endswith("two models find the pair improbable (6)\n")
