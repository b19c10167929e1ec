"""Multilingual models: a model that translates as its tag or prefix asks, in all commands; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mtkit
from mtkit.cli import entry
from mtkit.errors import DataError, RecipeError, UsageError
from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import Recipe
from mtkit.text.source_prefix import SourcePrefix
from mtkit.training.monitoring.log import parse_line
from tests.toy.runs import WORDS

NONSENSE = {"the": "ka", "dog": "lo", "cat": "mi", "sees": "nu", "big": "pe", "small": "ra", "and": "so"}
LINES = [" ".join(list(WORDS)[(n * k + n // 3) % 7] for k in range(1, 5 + n % 3)) for n in range(84)]
RECIPE = """\
name: toy
corpus:
  src_lang: en
  tgt_lang: mul
  train:
    - {{src: text.en, tgt: text.de, {de}}}
    - {{src: text.en, tgt: text.xx, {xx}}}
  valid:
    - {{src: text.en, tgt: text.de, {de}}}
    - {{src: text.en, tgt: text.xx, {xx}}}
  test:
    en-de: {{src: text.en, tgt: text.de, tgt_lang: de, {de}}}
    en-xx: {{src: text.en, tgt: text.xx, {xx}}}
tokenizer: {{model_type: word, vocab_size: 123}}
model: {{kind: transformer, d_model: 32, d_ff: 64, num_heads: 2, encoder_layers: 1, decoder_layers: 1, dropout: 0}}
training:
  max_updates: 300
  validate_every: 300
  batch_tokens: 512
  precision: float32
  optimiser: {{kind: adam, learning_rate: 1e-2}}
  schedule: {{kind: linear, warmup: 20}}
search: {{beam_size: 1}}
"""


def write(folder: Path, de: str = "tag: de", xx: str = "tag: xx") -> Recipe:
    texts = {"en": LINES} | {
        name: [" ".join(table[word] for word in line.split()) for line in LINES]
        for name, table in (("de", WORDS), ("xx", NONSENSE))
    }
    for name, lines in texts.items():
        (folder / f"text.{name}").write_text("".join(f"{line}\n" for line in lines))
    (folder / "toy.yaml").write_text(RECIPE.format(de=de, xx=xx))
    return load_recipe(str(folder / "toy.yaml"))


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with two tags."""
    folder = tmp_path_factory.mktemp("tagged")
    stages.run(write(folder), run_dir=folder / "run")
    return folder


@pytest.mark.whole
def test_every_direction_is_scored(tagged: Path) -> None:
    report = json.loads((tagged / "run" / "report.json").read_text())
    assert report["test"].keys() == {"en-de", "en-xx"}
    assert all(scores["bleu"] > 90 for scores in report["test"].values())
    events = [parse_line(line) for line in (tagged / "run" / "log.jsonl").read_bytes().split(b"\n")]
    (last,) = [event for event in events if event and event["event"] == "validation"]
    assert list(last["bleu_by_set"]) == ["0 text.en text.de", "1 text.en text.xx"]


@pytest.mark.whole
def test_the_attention_shows_what_the_model_reads(tagged: Path, capsys) -> None:
    words = ["explain", str(tagged / "run"), LINES[5], "--json", str(tagged / "j")]
    assert entry.execute([*words, "--tag", "xx"]) == 0
    first = json.loads((tagged / "j").read_text())["translation"]["attention"][0]
    assert first["columns"] == ["<tag1>", *LINES[5].split(), "(end)"]
    assert first["rows"] == [*(NONSENSE[word] for word in LINES[5].split()), "(end)"]
    assert entry.execute(words) == 2
    assert "the model needs a tag before each source; choose one with --tag: de, xx" in capsys.readouterr().err


@pytest.mark.whole
def test_the_tag_chooses_the_language(tagged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tag, table in (("de", WORDS), ("xx", NONSENSE)):
        words = ["translate", str(tagged / "run"), str(tagged / "text.en"), "--tag", tag]
        assert entry.execute(words) == 0
        expected = [" ".join(table[word] for word in line.split()) for line in LINES]
        hyps = capsys.readouterr().out.split("\n")[:-1]
        assert sum(hyp == one for hyp, one in zip(hyps, expected, strict=True)) > 0.9 * len(LINES)
    translator = mtkit.load_model(tagged / "run")
    hyps = [translator.with_source_prefix(SourcePrefix(tag=tag)).translate_lines(LINES) for tag in ("de", "xx")]
    assert not set(hyps[0]) & set(hyps[1])


@pytest.mark.parametrize(
    ("option", "lang", "message"),
    [("--src-lang", "fr", "translates from en alone"), ("--tgt-lang", "de", "chooses the language by a tag: --tag de")],
)
def test_languages_of_a_model_with_tags(tagged: Path, option: str, lang: str, message: str, capsys) -> None:
    assert entry.execute(["translate", str(tagged / "run"), str(tagged / "text.en"), option, lang]) == 2
    assert f"{option} {lang}: the model {message}" in capsys.readouterr().err


def test_scores_are_those_of_the_translation(tagged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, src, hyps = str(tagged / "run"), str(tagged / "text.en"), tmp_path / "hyps"
    assert entry.execute(["translate", run, src, "--tag", "xx", "--jsonl", "-o", str(hyps)]) == 0
    expected = [json.loads(line) for line in hyps.read_text().split("\n")[:-1]]
    capsys.readouterr()
    assert entry.execute(["score", run, "--src", src, "--hyps", str(hyps), "--tag", "xx"]) == 0
    scores = [float(line) for line in capsys.readouterr().out.split("\n")[:-1]]
    assert scores == pytest.approx([one["log_prob"] for one in expected], abs=1e-4)
    words = [len(line.split()) for line in LINES]  # the alignment is over the words of the line, without the tag
    assert all(s < count for one, count in zip(expected, words, strict=True) for s, _ in one["alignment"])
    assert any(one["alignment"] for one in expected)


COMMANDS = {
    "translate": ["translate", "RUN", "SRC", "-o", "OUT"],
    "score": ["score", "RUN", "--src", "SRC", "--ref", "REF"],
    "attention": ["explain", "RUN", "--src", "SRC", "--ref", "REF", "--json", "OUT"],
    "explain": ["explain", "RUN", "the dog", "--json", "OUT", "--html", "OUT"],
    "heads": ["compress", "RUN", "--to", "heads", "--src", "SRC", "--ref", "REF", "-o", "OUT"],
    "bench": ["bench", "RUN", "SRC", "--json", "OUT"],
    "int8": ["compress", "RUN", "--to", "int8", "--src", "SRC", "--ref", "REF", "-o", "OUT"],
}


def test_bench_reads_the_tag(tagged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.bench.measure._in_subprocess", lambda work, setting: work())
    words = ["bench", str(tagged / "run"), str(tagged / "text.en"), "--beam-size", "1"]
    words += ["--json", str(tmp_path / "json")]
    bleu = {}
    for tag in ("de", "xx"):
        assert entry.execute([*words, "--ref", str(tagged / "text.xx"), "--tag", tag]) == 0
        (row,) = json.loads((tmp_path / "json").read_text())
        bleu[tag] = row["bleu"]
    assert bleu["xx"] > 90 > 10 > bleu["de"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the model needs a tag before each source; choose one with --tag: de, xx"),
        (["--tag", "it"], "tag 'it': unknown; the model has de, xx"),
        (["--tag", ""], "--tag: '' is not a name of letters"),
        (["--tag", "de", "--prefix", "  "], "--prefix: '  ' is not text"),
        (["--tag", "de", "--prefix", "the dog and " * 20], "the source prefix has 61 tokens, and the longest training"),
    ],
)
def test_refused(
    tagged: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
    command: str,
) -> None:
    output = tmp_path / "output"
    output.mkdir()
    names = {"RUN": tagged / "run", "SRC": tagged / "text.en", "REF": tagged / "text.de", "OUT": output / "file"}
    words = [str(names.get(word, word)) for word in COMMANDS[command]]
    assert entry.execute([*words, *options]) == UsageError.exit_code
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert not list(output.iterdir())


@pytest.mark.whole
def test_a_text_prefix_asks_for_a_task(tmp_path: Path) -> None:
    recipe = write(tmp_path, de="prefix: big the", xx="prefix: small the")
    report = stages.run(recipe, run_dir=tmp_path / "run")
    assert all(scores["bleu"] > 90 for scores in report.content["test"].values())
    translator = mtkit.load_model(tmp_path / "run").with_source_prefix(SourcePrefix(prefix="small the"))
    assert set(" ".join(translator.translate_lines(LINES)).split()) <= set(NONSENSE.values())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("corpus.test.en-xx.tag=it", r"test\.en-xx\.tag: 'it' is the tag of no training corpus; they have de, xx"),
        ("corpus.valid.1.tag=null", r"valid\.1\.tag: missing, while every training corpus has one"),
        ("corpus.train.0.tag=a b", r"corpus\.train\.0\.tag: 'a b': must be a name of letters"),
        ("corpus.train.0.prefix='  '", r"corpus\.train\.0\.prefix: '  ': must be text that is not blank"),
    ],
)
def test_refused_recipes(tmp_path: Path, override: str, message: str) -> None:
    write(tmp_path)
    with pytest.raises(RecipeError, match=message):
        load_recipe(str(tmp_path / "toy.yaml"), [override])


def test_a_long_prefix_of_a_test_set_is_found_before_the_training(tmp_path: Path) -> None:
    write(tmp_path)
    recipe = load_recipe(str(tmp_path / "toy.yaml"), [f"corpus.test.en-de.prefix={'the dog and ' * 20}"])
    message = r"corpus\.test\.en-de\.prefix: 61 tokens, and the longest training source has \d+, prefix included"
    with pytest.raises(RecipeError, match=message):
        stages.run(recipe, run_dir=tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()
    assert not list((tmp_path / "run" / "checkpoints").glob("*"))


def test_a_prefix_longer_than_the_positions_is_refused_before_the_corpus_is_written(tmp_path: Path) -> None:
    """Positions are at least as many as tokens of a training sentence, so that cleaning refuses the prefix."""
    write(tmp_path, de=f"tag: de, prefix: {'the dog and ' * 20}")
    keys = ["model.encoder_positions={kind: learned, max_length: 31}", "corpus.cleaning.max_length=30"]
    with pytest.raises(DataError, match="the prefix of this corpus has 61 tokens, which leaves no room for text"):
        stages.run(load_recipe(str(tmp_path / "toy.yaml"), keys), run_dir=tmp_path / "run")
    assert not list((tmp_path / "run" / "corpus").glob("*"))
    assert (tmp_path / "run" / "tokenizer").is_dir()


@pytest.mark.whole
def test_the_shipped_recipe_of_tasks_runs_on_other_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = {"en": {word: word for word in WORDS}, "de": WORDS, "fr": NONSENSE}
    for lang, table in tables.items():
        lines = [" ".join(table[word] for word in line.split()) for line in LINES]
        for name in ("train", "val", "test_2016_flickr"):
            (tmp_path / f"{name}.{lang}.gz").write_text("".join(f"{line}\n" for line in lines))
    sizes = ["d_model=16", "d_ff=16", "num_heads=2", "encoder_layers=1", "decoder_layers=1"]
    training = ["max_updates=4", "validate_every=4", "checkpoint_every=4", "batch_tokens=256", "precision=float32"]
    keys = [*(f"model.{key}" for key in sizes), *(f"training.{key}" for key in training), "tokenizer.vocab_size=200"]
    keys += [f"corpus.root={tmp_path}", "training.validation.sentences=4", "search.beam_size=1", "training.ema=null"]
    assert entry.execute(["run", "multi30k-tasks", *keys, "--run-dir", str(tmp_path / "run")]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert list(report["test"]) == ["en-de", "en-fr", "de-en", "fr-en", "de-fr", "fr-de"]
    capsys.readouterr()
    quick = ["training.batch_tokens=256", "tokenizer.vocab_size=500"]  # an update is measured
    assert entry.execute(["run", "multi30k-tasks", "corpus.root=nowhere", *quick, "--dry-run"]) == 0
    assert "parameters" in capsys.readouterr().out
