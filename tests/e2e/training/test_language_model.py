"""Language models: trained from text alone, scored by perplexity, and used to rank translations."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import mtkit
from mtkit.cli import entry
from mtkit.errors import RecipeError, UsageError
from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe
from mtkit.translate.translation import LanguageModelOptions
from tests.toy.runs import run, write_all

RECIPE = """\
name: lm
defaults: fixed
corpus:
  src_lang: de
  tgt_lang: de
  train: [{text: train.de}]
  valid: {text: valid.de}
  noise: {kind: language_model}
tokenizer: {model: run/model/spm.model}
model: {kind: decoder_only, d_model: 16, d_ff: 32, num_heads: 2, decoder_layers: 1, dropout: 0}
training:
  max_updates: 60
  validate_every: 60
  batch_tokens: 128
  precision: float32
  optimiser: {kind: adam, learning_rate: 1e-2}
  schedule: {kind: constant}
"""
WEIGHT = 0.5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translation model in `run`, a language model over its vocabulary in `lm`, one over another in `other`."""
    folder = tmp_path_factory.mktemp("lm")
    write_all(folder)
    run(folder)
    (folder / "lm.yaml").write_text(RECIPE)
    for name, *overrides in (
        ("lm",),
        ("other", "tokenizer={model_type: char, vocab_size: 120}", "training.max_updates=2", "model.decoder_layers=1"),
    ):
        stages.train(load_recipe(str(folder / "lm.yaml"), overrides), run_dir=folder / name)
    return folder


def lines_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert entry.execute([*words, "--compute-type", "float32"]) == 0
    return capsys.readouterr().out.split("\n")[:-1]


@pytest.mark.whole
def test_perplexity_falls_below_that_of_equal_probabilities(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lm, text, summary = str(folder / "lm"), str(folder / "test.de"), folder / "summary.json"
    scores = [float(each) for each in lines_of(capsys, "score", lm, "--ref", text, "--json", str(summary))]
    result = json.loads(summary.read_text())
    assert result["perplexity"] < 8  # seven words and the end
    assert result["perplexity"] == pytest.approx(math.exp(-sum(scores) / result["tokens"]), abs=1e-4)
    backwards = folder / "backwards.de"
    backwards.write_text("".join(" ".join(line.split()[::-1]) + "\n" for line in Path(text).read_text().splitlines()))
    worse = [float(each) for each in lines_of(capsys, "score", lm, "--ref", str(backwards))]
    assert sum(worse) < sum(scores)


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["fusion", "rerank"])
def test_scores_of_translations_are_the_sum_of_both_models(
    folder: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    options = ["--lm", str(folder / "lm"), "--lm-weight", str(WEIGHT), "--lm-mode", mode, "--length-penalty", "0"]
    words = ["translate", str(folder / "run"), str(folder / "test.en"), "--jsonl", "--n-best", "2"]
    translations = [json.loads(line) for line in lines_of(capsys, *words, *options)]
    for rank in range(2):
        hyps = folder / f"hyps.{mode}.{rank}"
        hyps.write_text("".join(f"{each['nbest'][rank]['hyp']}\n" for each in translations))
        language = lines_of(capsys, "score", str(folder / "lm"), "--ref", str(hyps))
        for each, score in zip(translations, language, strict=True):
            own = each["nbest"][rank]
            assert own["score"] == pytest.approx(own["log_prob"] + WEIGHT * float(score), abs=1e-4)
    assert all(each["nbest"][0]["score"] >= each["nbest"][1]["score"] for each in translations)
    plain = [json.loads(line)["hyp"] for line in lines_of(capsys, *words, "--length-penalty", "0")]
    assert plain != [each["hyp"] for each in translations]


@pytest.mark.whole
def test_only_reranking_takes_a_model_of_another_vocabulary(folder: Path) -> None:
    lines = (folder / "test.en").read_text().splitlines()

    def translate(mode: str, weight: float) -> list[str]:
        language_model = LanguageModelOptions(model=folder / "other", mode=mode, weight=weight)
        return mtkit.load_model(folder / "run", language_model=language_model).translate_lines(lines)

    assert translate("rerank", 0.0) == mtkit.load_model(folder / "run").translate_lines(lines)
    assert len(translate("rerank", 1.0)) == len(lines)
    with pytest.raises(mtkit.MtkitError, match="its vocabulary differs from the target vocabulary of"):
        translate("fusion", 1.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "lm", "test.en"], "lm/model: a language model, which translates nothing; rank the output"),
        (["translate", "run", "test.en", "--lm", "run"], "run/model: a translation model; --lm needs a language model"),
        (["translate", "run", "test.en", "--lm-weight", "1"], "--lm-weight is for a language model; add --lm MODEL"),
        (["translate", "run", "test.en", "--lm", "lm", "--lm-mode", "rerank", "--beam-size", "1"], "one hypothesis"),
        (["score", "lm", "--src", "test.en", "--ref", "test.de"], "reads no source; omit --src"),
        (["score", "run", "--ref", "test.de"], "a translation model, which needs the sources; give --src FILE"),
    ],
)
def test_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(folder)
    assert entry.execute(words) == UsageError.exit_code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("corpus.valid={src: valid.en, tgt: valid.de}", "corpus.valid: a language model, which is trained on"),
        ("corpus.test={toy: {src: test.en, tgt: test.de}}", "corpus.test.toy: a language model, which is trained on"),
    ],
)
def test_recipes_that_ask_it_to_translate_are_refused(folder: Path, override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe(str(folder / "lm.yaml"), [override])
