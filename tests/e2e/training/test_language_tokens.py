"""A model of many directions whose texts begin with tokens of their languages, on both sides."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.corpus.order.order import DataOrder
from mtkit.model_folder.folder import read_metadata
from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe
from tests.e2e.serve.conftest import running
from tests.e2e.training.test_multilingual import LINES, NONSENSE
from tests.toy.runs import WORDS

RECIPE = """\
name: toy
corpus:
  src_lang: en
  tgt_lang: de
  language_tokens: true
  train:
    - {src: text.en, tgt: text.de}
    - {src: text.en, tgt: text.xx, tgt_lang: xx}
    - {src: text.de, tgt: text.en, src_lang: de, tgt_lang: en}
  valid:
    - {src: text.en, tgt: text.xx, tgt_lang: xx}
    - {src: text.de, tgt: text.en, src_lang: de, tgt_lang: en}
  test:
    en-de: {src: text.en, tgt: text.de}
    en-xx: {src: text.en, tgt: text.xx, tgt_lang: xx}
    de-en: {src: text.de, tgt: text.en, src_lang: de, tgt_lang: en}
tokenizer: {model_type: word, vocab_size: 123}
model: {kind: transformer, d_model: 32, d_ff: 64, num_heads: 2, encoder_layers: 1, decoder_layers: 1, dropout: 0}
training:
  max_updates: 400
  validate_every: 400
  batch_tokens: 512
  precision: float32
  optimiser: {kind: adam, learning_rate: 1e-2}
  schedule: {kind: linear, warmup: 20}
search: {beam_size: 1}
"""
TEXTS = {"en": LINES} | {
    name: [" ".join(table[word] for word in line.split()) for line in LINES]
    for name, table in (("de", WORDS), ("xx", NONSENSE))
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three directions, and its text."""
    folder = tmp_path_factory.mktemp("languages")
    for name, lines in TEXTS.items():
        (folder / f"text.{name}").write_text("".join(f"{line}\n" for line in lines))
    (folder / "toy.yaml").write_text(RECIPE)
    stages.run(load_recipe(str(folder / "toy.yaml")), run_dir=folder / "run")
    return folder


def translated(folder: Path, src: str, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert entry.execute(["translate", str(folder / "run"), str(folder / f"text.{src}"), *options]) == 0
    return capsys.readouterr().out.split("\n")[:-1]


def share(hyps: list[str], refs: list[str]) -> float:
    return sum(hyp == ref for hyp, ref in zip(hyps, refs, strict=True)) / len(refs)


@pytest.mark.whole
def test_one_folder_has_all_directions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads((folder / "run" / "report.json").read_text())
    assert report["test"].keys() == {"en-de", "en-xx", "de-en"}
    assert all(scores["bleu"] > 90 for scores in report["test"].values())
    assert share(translated(folder, "en", capsys), TEXTS["de"]) > 0.9  # the languages of the recipe
    assert share(translated(folder, "en", capsys, "--tgt-lang", "xx"), TEXTS["xx"]) > 0.9
    assert share(translated(folder, "de", capsys, "--src-lang", "de", "--tgt-lang", "en"), TEXTS["en"]) > 0.9
    for rewrite in ([], ["--no-rewrite"]):
        words = ["score", str(folder / "run"), "--src", str(folder / "text.en"), "--ref", str(folder / "text.xx")]
        sums = []
        for lang in ("xx", "de"):
            assert entry.execute([*words, "--tgt-lang", lang, *rewrite]) == 0
            sums.append(sum(map(float, capsys.readouterr().out.split())))
        assert sums[0] > sums[1] + 100


def test_attention_has_no_rows_for_tokens_of_languages(folder: Path, tmp_path: Path) -> None:
    words = ["explain", str(folder / "run"), LINES[5], "--json", str(tmp_path / "j")]
    for lang, options in (("de", []), ("xx", ["--tgt-lang", "xx"])):
        assert entry.execute([*words, *options]) == 0
        text = json.loads((tmp_path / "j").read_text())["translation"]
        first = text["attention"][0]
        assert first["rows"] == [*TEXTS[lang][5].split(), "(end)"]
        assert {len(row) for row in first["weights"]} == {len(first["columns"])}
        assert len(first["weights"]) == len(first["rows"])
        assert max(text["words"][0]["gradient"]) > 0


def test_heads_and_compressed_models_are_measured_in_a_direction(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [str(folder / "run"), "--src", str(folder / "text.en"), "--ref", str(folder / "text.xx")]
    compress = ["compress", *texts, "--to", "int8", "-o", str(tmp_path / "small"), "--format", "json"]
    assert entry.execute([*compress, "--tgt-lang", "xx"]) == 0
    assert all(float(row["BLEU"]) > 90 for row in json.loads(capsys.readouterr().out))
    assert entry.execute(["explain", *texts, "--tgt-lang", "xx", "--format", "json"]) == 0
    right = capsys.readouterr().out
    assert entry.execute(["explain", *texts, "--format", "json"]) == 0
    assert capsys.readouterr().out != right


def test_its_directions_are_served(folder: Path) -> None:
    """From one process, also in a direction without training text."""
    assert read_metadata(folder / "run" / "model").languages == ["en", "de", "xx"]
    text = "\n".join(LINES[:20])
    with running(str(folder / "run"), "--workers", "1") as server:
        languages = {each["code"]: {*each["targets"]} for each in server.client.get("/languages").json()}
        assert languages == {lang: {*TEXTS} for lang in TEXTS}  # text of the target's language stays as it is
        answers = [server.translate(q=text, target=target).json()["translatedText"] for target in ("de", "xx", "de")]
        assert len(server.children()) == 1
    assert share(answers[0].split("\n"), TEXTS["de"][:20]) > 0.9
    assert share(answers[1].split("\n"), TEXTS["xx"][:20]) > 0.9
    assert answers[2] == answers[0]  # the cache counts the language


@pytest.mark.parametrize("option", ["--src-lang", "--tgt-lang"])
@pytest.mark.parametrize("command", ["translate", "score", "bench", "finetune", "heads", "compress", "explain"])
def test_other_languages_are_refused(
    folder: Path, tmp_path: Path, command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    src, tgt = str(folder / "text.en"), str(folder / "text.de")
    both, output = ["--src", src, "--ref", tgt], ["-o", str(tmp_path / "out.png")]
    texts = {"translate": [src], "score": both, "bench": [src], "heads": both, "compress": [*both, *output]}
    texts["compress"] += ["--to", "int8"]
    texts["explain"] = [LINES[0]]
    words = texts.get(command, [src, tgt, "-o", str(tmp_path / "tuned")])
    name = "explain" if command == "heads" else command
    assert entry.execute([name, str(folder / "run"), *words, option, "fr"]) == 2
    assert f"{option} fr: the model has the languages de, en, xx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "valid:\n    - {src: text.en, tgt: text.xx, tgt_lang: xx}",
            "valid:\n    - {src: text.en, tgt: text.xx, tgt_lang: yy}",
            "valid.0.tgt_lang: 'yy' is the language of no",
        ),
        (
            "de-en: {src: text.de, tgt: text.en, src_lang: de,",
            "de-en: {src: text.de, tgt: text.en, src_lang: zz,",
            "test.de-en.src_lang: 'zz'",
        ),
    ],
)
def test_languages_without_training_text_are_refused(
    folder: Path, tmp_path: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in RECIPE
    (tmp_path / "toy.yaml").write_text(RECIPE.replace(old, new))
    assert entry.execute(["run", str(tmp_path / "toy.yaml"), "--dry-run"]) == 78
    assert message in capsys.readouterr().err


def test_more_languages_than_reserved_tokens_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpora = "".join(f"\n    - {{src: text.en, tgt: text.de, tgt_lang: l{number}}}" for number in range(31))
    text = RECIPE.replace("\n    - {src: text.en, tgt: text.de}", f"\n    - {{src: text.en, tgt: text.de}}{corpora}")
    (tmp_path / "toy.yaml").write_text(text.replace("corpus:\n", f"corpus:\n  root: {folder}\n"))
    assert entry.execute(["preprocess", str(tmp_path / "toy.yaml"), "--run-dir", str(tmp_path / "run")]) == 78
    assert "34 tags and languages, and the tokenizer reserves 32 tokens for them" in capsys.readouterr().err


@pytest.mark.whole
def test_a_direction_is_fine_tuned(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A direction is learned that the model has not seen."""
    triples = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
    texts = {"train": LINES, "valid": triples[:50], "test": triples[50:100]}
    files: dict[str, list[str]] = {}
    for name, lines in texts.items():
        for lang, table in (("de", WORDS), ("xx", NONSENSE)):
            path = tmp_path / f"{name}.{lang}"
            path.write_text("".join(" ".join(table[word] for word in line.split()) + "\n" for line in lines))
            files.setdefault(name, []).append(str(path))
    words = ["finetune", str(folder / "run"), *files["train"], "-o", str(tmp_path / "tuned"), "--src-lang", "de"]
    words += ["--valid", *files["valid"], "--test", *files["test"], "--tgt-lang", "xx"]
    assert entry.execute([*words, "training.max_updates=200", "training.optimiser.learning_rate=5e-3"]) == 0
    metadata = read_metadata(tmp_path / "tuned" / "model")
    assert (metadata.src_lang, metadata.tgt_lang, metadata.languages) == ("de", "xx", ["en", "de", "xx"])
    capsys.readouterr()
    assert entry.execute(["translate", str(tmp_path / "tuned"), str(folder / "text.de")]) == 0
    assert share(capsys.readouterr().out.split("\n")[:-1], TEXTS["xx"]) > 0.9


@pytest.mark.whole
def test_languages_are_cut(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tokens of two of three languages: their translations are as before, and the third is unknown."""
    text, cut = [str(folder / f"text.{lang}") for lang in ("en", "xx")], tmp_path / "cut"
    words = ["compress", str(folder / "run"), "--languages", "xx,en", "-o", str(cut)]
    assert entry.execute([*words, "--text", text[0], "--text", text[1], "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert str(cut) in json.dumps(rows)
    before, after = (read_metadata(path) for path in (folder / "run" / "model", cut))
    assert after.languages == ["en", "xx"]
    assert (after.src_lang, after.tgt_lang) == ("xx", "en")
    assert after.tokenizer.vocab_size < before.tokenizer.vocab_size
    hyps = translated(folder, "en", capsys, "--tgt-lang", "xx")
    assert entry.execute(["translate", str(cut), text[0], "--src-lang", "en", "--tgt-lang", "xx"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == hyps
    assert entry.execute(["translate", str(cut), text[0], "--src-lang", "en", "--tgt-lang", "de"]) == 2
    assert "--tgt-lang de: the model has the languages en, xx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--languages", "en,yy", "--text", "text.en"], "the model has no language yy; it has de, en, xx"),
        (["--languages", "en", "--text", "text.en"], "a direction has two languages; name at least two"),
        (["--languages", "en,de"], "give a file of each language, --text FILE --text FILE"),
        (["--to", "int8", "--text", "text.en"], "--languages and --text have no effect with --to int8; omit them"),
        ([], "--to is missing; give one of bf16, int8, int4, sparse, heads, ffn, half-depth, vocabulary"),
    ],
)
def test_cuts_that_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    words = [str(folder / word) if word == "text.en" else word for word in words]
    assert entry.execute(["compress", str(folder / "run"), "-o", str(tmp_path / "cut"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "cut").exists()


@pytest.mark.whole
def test_a_language_is_added(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It begins as its relative, is learned, and the others stay, by replay of one of them."""
    lines = [" ".join(each) for each in itertools.islice(itertools.product(WORDS, repeat=4), 0, None, 6)]
    texts = {"en": lines, "xx": [" ".join(NONSENSE[word] for word in line.split()) for line in lines]}
    texts["de"] = [" ".join(WORDS[word] for word in line.split()) for line in lines]
    texts["yy"] = [" ".join(reversed(line.split())) for line in texts["xx"]]
    files = {lang: tmp_path / f"text.{lang}" for lang in texts}
    for lang, file in files.items():
        file.write_text("".join(f"{line}\n" for line in texts[lang]))
    words = ["finetune", folder / "run", files["en"], files["yy"], "-o", tmp_path / "run", "--tgt-lang", "yy"]
    words += ["--add-language", "yy=xx"]
    generals = ["--general", files["en"], files["xx"], "--general", files["en"], files["de"]]
    words += ["training.max_updates=300", "training.patience=null", "training.optimiser.learning_rate=3e-3"]
    assert entry.execute([*map(str, [*words, *generals])]) == 0, capsys.readouterr().err
    capsys.readouterr()
    metadata = read_metadata(tmp_path / "run" / "model")
    assert metadata.languages == ["en", "de", "xx", "yy"]
    assert (metadata.src_lang, metadata.tgt_lang) == ("en", "yy")
    before = (tmp_path / "run" / "hyps" / "own.before.txt").read_text()
    assert {*before.split()} <= {*NONSENSE.values()}  # words of the relative
    comparison = json.loads((tmp_path / "run" / "comparison.json").read_text())
    assert [*comparison["test"]] == ["own", "general", "general-2"]
    generals[4:] = reversed(generals[4:])
    assert entry.execute([*map(str, [*words, *generals])]) == 78
    assert ": languages of --general changed since this fine-tuning was started" in capsys.readouterr().err
    for lang in ("yy", "xx", "de"):
        assert entry.execute(["translate", str(tmp_path / "run"), str(files["en"]), "--tgt-lang", lang]) == 0
        assert share(capsys.readouterr().out.split("\n")[:-1], texts[lang]) > 0.8, lang


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--add-language", "yy"], "--add-language yy: name the new language and one of the model's that it resembles"),
        (["--add-language", "yy=zz", "--tgt-lang", "yy"], "yy=zz: the model lacks zz; it has de, en, xx"),
        (["--add-language", "xx=de", "--tgt-lang", "xx"], "the model has xx; omit the option"),
        (["--add-language", "yy=xx"], "--add-language yy: the text is en to de; give --tgt-lang"),
        (["--add-language", "yy=xx", "--tgt-lang", "yy", "--adapter", "lora"], "--adapter does not train the rows"),
        (["--general", "a.en"], "--general: give a source and its translation"),
        (["--general", "a.en", "--tgt-lang", "de"], "--general: give a source and its translation"),
    ],
)
def test_additions_that_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    text = [str(folder / f"text.{lang}") for lang in ("en", "de")]
    assert entry.execute(["finetune", str(folder / "run"), *text, "-o", str(tmp_path / "run"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.whole
def test_the_temperature_reaches_the_order_of_the_corpora(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = []
    monkeypatch.setattr("mtkit.corpus.order.loader.DataOrder", lambda *args: orders.append(args) or DataOrder(*args))
    words = ["train", str(folder / "toy.yaml"), "--run-dir", str(tmp_path / "run"), "corpus.sampling_temperature=2"]
    assert entry.execute([*words, "corpus.train.1.limit=21", "training.max_updates=1", "corpus.valid=null"]) == 0
    assert {args[2] for args in orders} == {(84**0.5, 21**0.5, 84**0.5)}
