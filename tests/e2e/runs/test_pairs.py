"""Text with both sides in one file, in recipes and commands: the same as two files of lines."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtkit.cli import entry
from mtkit.corpus.config import CorpusConfig, TrainDocument
from mtkit.errors import RecipeError
from mtkit.io.files import hash_file
from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe, validate_recipe
from mtkit.text.corpora import KINDS, Download, NamedCorpus
from tests.toy.runs import MODELS, RecordingDisplay, run, write_all
from tests.unit.documents.test_pair_lines import write

SETS = ("train", "valid", "test")
PAIRS = [
    "corpus.train=[{pairs: train.tmx}]",
    "corpus.valid={pairs: 'valid.tsv#en,de'}",
    "corpus.test.toy={pairs: test}",
]
MODEL = f"model={MODELS['transformer']}"
DATA = Path(__file__).parents[3] / "data"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_all(tmp_path)
    write(tmp_path / "train.tmx", rows(tmp_path, "train"))
    write(tmp_path / "valid.tsv", rows(tmp_path, "valid"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder: Path, name: str) -> list[tuple[str, str]]:
    sides = ((folder / f"{name}.{lang}").read_text().split("\n")[:-1] for lang in ("en", "de"))
    return list(zip(*sides, strict=True))  # type: ignore[arg-type]


def mtkit(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = entry.execute([*map(str, words)])
    return code, *capsys.readouterr()


@pytest.mark.whole
def test_a_recipe_of_documents_trains_the_same_model(folder: Path) -> None:
    run(folder, MODEL)
    expected = (folder / "run" / "model" / "model.safetensors").read_bytes()
    hyps = (folder / "run" / "hyps" / "toy.txt").read_bytes()
    shutil.rmtree(folder / "run")
    run(folder, MODEL, *PAIRS)
    assert (folder / "run" / "model" / "model.safetensors").read_bytes() == expected
    assert (folder / "run" / "hyps" / "toy.txt").read_bytes() == hyps
    display = run(folder, MODEL, *PAIRS)[1]
    assert {display.results[each] for each in ("tokenizer", "train.0", "valid", "lexicon")} == {"unchanged, kept"}
    shutil.rmtree(next(folder.glob(".train.tmx*")))  # the lines are made again, and are the same
    shutil.rmtree(next(folder.glob(".valid.tsv*")))
    display = run(folder, MODEL, *PAIRS)[1]
    assert display.results["train.0"] == "unchanged, kept"
    assert load_recipe(str(folder / "run" / "recipe.yaml")).corpus.train[0].given == [folder / "train.tmx"]


@pytest.mark.whole
def test_a_corpus_by_its_name_and_the_card_of_its_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: rows(folder, name) for name in SETS}

    def take(corpus: NamedCorpus, progress: object) -> Download:
        lines = ((src.encode(), tgt.encode()) for src, tgt in texts[corpus.id])
        return Download(lines, f"https://toy.invalid/{corpus.id}", "CC0" if corpus.id == "train" else None)

    monkeypatch.setenv("MTKIT_DATA", str(folder / "data"))
    monkeypatch.setitem(KINDS, "opus", take)
    run(folder, MODEL)
    expected = (folder / "run" / "model" / "model.safetensors").read_bytes()
    shutil.rmtree(folder / "run")
    named = ["corpus.train=[{pairs: opus:train}]", "corpus.test.toy={pairs: 'opus:test#en,de'}"]
    for name in ("opus:train#en,de", "opus:test#en,de"):
        assert entry.execute(["fetch", name]) == 0
    recipe = run(folder, MODEL, *named)[0]
    assert (folder / "run" / "model" / "model.safetensors").read_bytes() == expected
    assert recipe is not None
    card = (folder / "run" / "model" / "README.md").read_text()
    for path, files in (("train.0 | opus:train | https://toy.invalid/train | CC0", "train"), ("valid", "valid")):
        digests = ", ".join(hash_file(folder / f"{files}.{lang}") for lang in ("en", "de"))
        (line,) = (line for line in card.split("\n") if line.startswith(f"| {path} "))
        assert digests in line
    assert "| test.toy | opus:test | https://toy.invalid/test | unknown |" in card
    assert "| valid | valid.en, valid.de | unknown | unknown |" in card
    assert str(folder) not in card


def test_a_changed_document(folder: Path) -> None:
    recipe = load_recipe("toy.yaml", [MODEL, *PAIRS, "training.max_updates=2"])
    stages.preprocess(recipe, run_dir="run")
    write(folder / "train.tmx", rows(folder, "train")[:50])
    display = RecordingDisplay()
    stages.train_stages(recipe, run_dir="run", display=display)
    assert display.results["train.0"].startswith("50 of 50 pairs kept")
    write(folder / "train.tmx", rows(folder, "train"))
    with pytest.raises(RecipeError, match="changed since this training was started"):
        stages.train_stages(recipe, run_dir="run")
    lines = rows(folder, "test")
    (folder / "test.en").unlink()
    write(folder / "test.csv", lines[:5])
    more = ["corpus.test.toy={pairs: test.csv}"]
    stages.run_stages(load_recipe("toy.yaml", [MODEL, *PAIRS[:2], *more]), run_dir="other")
    write(folder / "test.csv", lines[:3])
    stages.evaluate_run("other")  # reads the document, not the lines of before
    assert (folder / "other" / "hyps" / "toy.txt").read_text().count("\n") == 3


def test_a_dry_run_and_python_choose_by_the_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [MODEL, *PAIRS, "defaults=corpus"]
    code, dry, _ = mtkit(capsys, "train", "toy.yaml", *words, "--dry-run")
    assert code == 0
    assert "training.objective" in dry
    for path in folder.glob(".*"):
        shutil.rmtree(path)
    recipe = load_recipe("toy.yaml", words)
    assert f"{recipe.chosen['training.objective']}" in dry
    for path in (folder / "train.tmx", *folder.glob(".*")):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    assert not load_recipe("toy.yaml", words).chosen
    (folder / "test.en").unlink()
    code, _, err = mtkit(capsys, "train", "toy.yaml", *words)
    assert code == 66
    assert "train.tmx: no such file" in err  # with all others that are missing
    assert "test.en: no such file" in err


def test_languages_of_a_document_are_those_of_the_corpus_unless_stated() -> None:
    document = TrainDocument(pairs=Path("a.tmx"), src_lang="fr")
    corpus = CorpusConfig(src_lang="en", tgt_lang="de", train=[document, TrainDocument(pairs=Path("b.tmx"))])
    assert [(each.src_lang, each.tgt_lang) for each in corpus.train] == [("fr", "de"), ("en", "de")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["corpus.train=[{pairs: train.tmx, src: train.en}]"], "corpus.train.0.pairs: no such key"),
        (["corpus.train=[{pairs: toy.docx}]"], "toy.docx: a document without pairs"),
        (["corpus.train=[{pairs: 'valid.tsv#en,fr'}]"], "the header has no column 'fr'; it has en, de"),
        (["corpus.train=[{pairs: train.tmx}]", "corpus.src_lang=fr"], "no pair of fr and de; check its languages"),
        (["corpus.train=[{pairs: valid.tsv, encoding: nosuch}]"], "encoding nosuch: unknown"),
        (
            [
                "corpus.train=[{pairs: train.tmx, lines_folder: x}, {pairs: valid.tsv, lines_folder: x}]",
            ],
            "corpus.train.1.lines_folder: ",
        ),
    ],
)
def test_bad_documents(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    (folder / "toy.docx").write_text("x")
    code, _, err = mtkit(capsys, "preprocess", "toy.yaml", *words)
    assert code in (2, 65, 78)
    assert message in err


@pytest.mark.whole
def test_new_and_run_of_a_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = list(zip(*((DATA / f"train.{lang}").read_text().split("\n")[:400] for lang in ("en", "de")), strict=True))
    write(folder / "memory.tmx", text)
    for lang, side in zip(("en", "de"), zip(*text, strict=True), strict=True):
        (folder / f"memory.{lang}").write_text("".join(f"{line}\n" for line in side))
    assert mtkit(capsys, "new", "memory.en", "memory.de", "-o", "lines.yaml")[0] == 0
    langs = ["--src-lang", "en", "--tgt-lang", "de"]
    for name, words in (
        ("a", ["memory.tmx", *langs]),
        ("b", ["memory.tmx#en,de"]),
        ("c", ["memory", *langs]),
        ("d", ["memory#en,de"]),
    ):
        code, out, _ = mtkit(capsys, "new", *words, "-o", f"{name}.yaml")
        assert code == 0, out
        assert f"next: mtkit run {name}.yaml" in out
        for part in SETS:
            for lang in ("en", "de"):
                assert (folder / f"{name}-data" / f"{part}.{lang}").read_bytes() == (
                    folder / "lines-data" / f"{part}.{lang}"
                ).read_bytes()
    code, out, err = mtkit(capsys, "run", "memory.tmx", *langs, "--dry-run", "training.max_updates=3")
    assert code == 0, err
    assert (folder / "memory-en-de.yaml").read_text().startswith("# Written by mtkit new memory.tmx\n")
    code, again, err = mtkit(capsys, "run", "memory.tmx", *langs, "--dry-run", "training.max_updates=3")
    assert code == 0, err
    # all but the time, which is of a machine that may be busy
    assert again.partition("time of training")[0] == out.partition("time of training")[0]
    write(folder / "memory.tmx", text[:300])
    _, _, err = mtkit(capsys, "run", "memory.tmx", *langs, "--dry-run", "training.max_updates=3")
    assert "memory.tmx: changed; its pairs are extracted" in err
    assert "train 27" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["new", "a.tmx"], "a.tmx: no pair; state its languages with --src-lang and --tgt-lang"),
        (["new", "a.tmx#en,fr"], "a.tmx: no pair of en and fr; check its languages"),
        (["check", "train.en", "a.tmx"], "train.en: one text; give a source and its translation"),
        (["new", "a.tmx", "a.tmx", "a.tmx"], "new: 3 texts; give a source and its translation"),
        (["new", "a.tmx#en,de", "--docid", "train.en"], "--docid: names the documents of lines, and a.tmx"),
        (["new", "train.en", "train.de", "--encoding", "cp1252"], "--encoding: is of a document with both sides"),
        (["new", "train"], "train: no such file; if train.de is a side of a text, state the languages"),
        (["run", "a.tmx", "train.en"], "a.tmx: has both sides; give it alone"),
        (["run", "train.en"], "train.en: not a recipe (.yaml); for text give two files"),
        (["run", "none.tmx", "--dry-run"], "none.tmx: no such file"),
    ],
)
def test_wrong_words(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    write(folder / "a.tmx", rows(folder, "train"))
    before = sorted(folder.iterdir())
    code, _, err = mtkit(capsys, *words)
    assert code in (2, 65, 66)
    assert message in err
    assert sorted(folder.iterdir()) == before


def as_one(folder: Path, count: int) -> list[tuple[str, str]]:
    text = list(zip(*((DATA / f"train.{lang}").read_text().split("\n")[:count] for lang in ("en", "de")), strict=True))
    text[150] = ("1987", "1978")
    text[7] = text[170] = ("the same words here", "the same words here")
    return text


Names = Callable[[Path, list[tuple[str, str]]], list[str]]


def _documents(folder: Path, text: list[tuple[str, str]]) -> list[str]:
    write(folder / "x.tmx", text[:100])
    write(folder / "y.csv", text[100:])
    return ["x.tmx", "y.csv"]


def _pattern(folder: Path, text: list[tuple[str, str]]) -> list[str]:
    write(folder / "x1.jsonl", text[:100])
    write(folder / "x2.jsonl", text[100:])
    return ["x*.jsonl"]


def _mixed(folder: Path, text: list[tuple[str, str]]) -> list[str]:
    for lang, side in zip(("en", "de"), zip(*text[:100], strict=True), strict=True):
        (folder / f"x.{lang}").write_text("".join(f"{line}\n" for line in side))
    write(folder / "y.tsv.gz".replace(".gz", ""), text[100:])
    return ["x", "y.tsv"]


@pytest.mark.parametrize("names", [_documents, _pattern, _mixed])
def test_several_files_are_checked_and_cleaned_as_one(
    folder: Path, capsys: pytest.CaptureFixture[str], names: Names
) -> None:
    text = as_one(folder, 200)
    write(folder / "all.csv", text)
    words = [*names(folder, text), "--src-lang", "en", "--tgt-lang", "de"]
    counts = []
    for each in (["all.csv", *words[-4:]], words):
        code, out, err = mtkit(capsys, "check", *each, "--json", "-")
        assert code == 0, err
        (report,) = json.loads(out)
        counts.append((report["pairs"], [(one["kind"], one["count"]) for one in report["findings"]]))
    assert counts[0] == counts[1]
    assert mtkit(capsys, "clean", "all.csv", *words[-4:], "-o", "one")[0] == 0
    assert mtkit(capsys, "clean", *words, "-o", "many")[0] == 0
    for lang in ("en", "de"):
        assert (folder / "many" / f"text.{lang}").read_bytes() == (folder / "one" / f"all.csv.{lang}").read_bytes()
    one, many = (
        [json.loads(line) for line in (folder / name / "rejected.jsonl").read_text().split("\n")[:-1]]
        for name in ("one", "many")
    )
    assert [each["reasons"] for each in one] == [each["reasons"] for each in many]
    assert len({each["file"] for each in many}) == 2
    assert {each["src"] for each in many} == {"the same words here"}


def test_places_of_several_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = as_one(folder, 200)
    words = _documents(folder, text)
    _, out, _ = mtkit(capsys, "check", *words, "--src-lang", "en", "--tgt-lang", "de", "--json", "-")
    (report,) = json.loads(out)
    places = {each["kind"]: each["places"] for each in report["findings"]}
    assert places["copies"] == ["x.tmx:8", "y.csv:72"]
    assert places["numbers"] == ["y.csv:52"]
    assert report["name"] == "x.tmx and 1 other"


def test_a_table_on_stdin(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = as_one(folder, 200)
    content = "".join(f"{src}\t{tgt}\n" for src, tgt in text).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False))
    code, out, _ = mtkit(capsys, "check", "-")
    assert code == 0
    assert out.startswith("stdin: 200 pairs")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: False))
    code, out, _ = mtkit(capsys, "clean", "-", "-o", "clean", "--src-lang", "en", "--tgt-lang", "de")
    assert code == 0
    assert sorted(path.name for path in (folder / "clean").iterdir() if path.name.startswith("stdin")) == [
        "stdin.de",
        "stdin.en",
    ]


def test_a_recipe_of_documents_is_checked_and_cleaned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = as_one(folder, 200)
    words = _pattern(folder, text)
    corpus = [f"corpus.train=[{{pairs: '{words[0]}'}}]", *PAIRS[1:]]
    code, out, err = mtkit(capsys, "check", "toy.yaml", *corpus, "--json", "-")
    reports = json.loads(out)
    assert [each["pairs"] for each in reports] == [200, 6, 7]
    assert "x1.jsonl:8" in json.dumps(reports[0])
    code, out, err = mtkit(capsys, "clean", "toy.yaml", *corpus, "-o", "clean")
    assert code == 0, err
    assert (folder / "clean" / "text.en").read_text().count("\n") < 200
    filters = "corpus.filters=[{kind: copies}]"
    assert mtkit(capsys, "preprocess", "toy.yaml", *corpus, filters, "tokenizer.vocab_size=400")[0] == 0


def test_validate_recipe_keeps_documents(folder: Path) -> None:
    recipe = load_recipe("toy.yaml", PAIRS)
    assert validate_recipe(recipe) == recipe


def test_a_side_of_a_document_as_one_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--vocab-size", "112", "--model-type", "word"]
    assert mtkit(capsys, "train-bpe", "train.en", "train.de", *options, "-o", "lines")[0] == 0
    assert mtkit(capsys, "train-bpe", "train.tmx#en,de", *options, "-o", "document")[0] == 0
    assert (folder / "document.model").read_bytes() == (folder / "lines.model").read_bytes()
    for name, more in (("out", []), ("forward", ["--forward"])):
        command = ["backtranslate", "valid.tsv#en,de", "--teacher-command", "sed s/^/x/", "-o", name]
        assert mtkit(capsys, *command, *more)[0] == 0
    assert (folder / "out" / "target.txt").read_text() == (folder / "valid.de").read_text()
    assert (folder / "forward" / "source.txt").read_text() == (folder / "valid.en").read_text()
    (folder / "hyps").write_text((folder / "valid.de").read_text())
    _, out, _ = mtkit(capsys, "evaluate", "hyps", "--ref", "valid.tsv#en,de", "--src", "valid.tsv#en,de")
    assert mtkit(capsys, "evaluate", "hyps", "--ref", "valid.de", "--src", "valid.en")[1] == out
    code, _, err = mtkit(capsys, "evaluate", "hyps", "--ref", "train.tmx")
    assert code == 65
    assert "train.tmx: no pair; state its languages" in err
