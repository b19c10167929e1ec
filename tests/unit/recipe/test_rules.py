"""Rules across the sections of a recipe: monolingual text and noise, capabilities of models and objectives."""

import re
from pathlib import Path

import pytest

from mtkit.corpus.config import MonolingualFile, TrainMonolingualFile, TrainParallelFiles
from mtkit.errors import RecipeError
from mtkit.pipeline.run_folder import save_recipe
from mtkit.recipe.recipe import load_recipe, load_saved

RECIPE = """\
name: denoising
corpus:
  root: text
  src_lang: de
  tgt_lang: de
  train: [{text: mono.de}, {text: more.de}]
  valid: {text: valid.de}
  noise: {kind: bart, infilling_rate: 0.4}
model: {kind: transformer}
"""


def written(folder: Path, *changes: tuple[str, str]) -> str:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "recipe.yaml"
    path.write_text(text)
    return str(path)


def test_monolingual_text_is_source_and_target(tmp_path):
    recipe = load_recipe(written(tmp_path))
    first, valid = recipe.corpus.train[0], recipe.corpus.valid
    assert isinstance(first, TrainMonolingualFile)
    assert isinstance(valid, MonolingualFile)
    assert first.src == first.tgt == tmp_path / "text" / "mono.de"
    save_recipe(recipe, tmp_path / "saved.yaml")
    assert load_saved(tmp_path / "saved.yaml") == recipe


def test_parallel_and_monolingual_corpora_can_be_mixed(tmp_path):
    change = ("{text: mono.de}, {text: more.de}", "{text: mono.de, weight: 2}, {src: a.en, tgt: a.de, weight: 1}")
    text, pair = load_recipe(written(tmp_path, change)).corpus.train
    assert isinstance(text, TrainMonolingualFile)
    assert isinstance(pair, TrainParallelFiles)
    assert (text.weight, pair.weight) == (2, 1)


MONOLINGUAL = [
    (
        [("  noise: {kind: bart, infilling_rate: 0.4}\n", "")],
        r"6: corpus.train.0: text in one language needs corpus.noise, such as {kind: span_corruption",
    ),
    (
        [("{text: mono.de}, {text: more.de}", "{src: a, tgt: b}"), ("{text: valid.de}", "{src: a, tgt: b}")],
        "8: corpus.noise: it applies to text in one language only",
    ),
    (
        [("{text: more.de}", "{text: more.de, src: a.de}")],
        r"6: corpus.train.1.src: no such key; known here: tag, prefix, src_lang, tgt_lang, text, weight",
    ),
    (
        [("{text: more.de}", "{src: a, tgt: b}"), ("kind: bart, infilling_rate: 0.4", "kind: mlm")],
        "corpus.train.1: sentence pairs cannot be combined with noise.kind mlm",
    ),
    ([("kind: bart, infilling_rate: 0.4", "kind: mlm")], "training.objective.kind: masked_lm and corpus.noise"),
    (
        [("kind: bart, infilling_rate: 0.4", "kind: bert")],
        r"no such kind: 'bert'; did you mean bart\? \(the kinds are ",
    ),
    ([("infilling_rate: 0.4", "infilling_rate: 1")], "corpus.noise.infilling_rate: 1: must be less than 1"),
    (
        [("model:", "tokenizer: {shared: false}\nmodel:")],
        "tokenizer.shared: monolingual text is both source and target",
    ),
    (
        [
            ("kind: transformer", "kind: rnn, tied_embeddings: target"),
            ("model:", "tokenizer: {shared: false}\nmodel:"),
        ],
        "tokenizer.shared: monolingual text is both source and target",
    ),
    (
        [("model:", "training: {validation: {metric: bleu}}\nmodel:")],
        "training.validation.metric: monolingual text has no translations",
    ),
    (
        [
            ("kind: bart, infilling_rate: 0.4", "kind: mlm"),
            ("kind: transformer", "kind: rnn"),
            ("model:", "training: {objective: {kind: masked_lm}}\nmodel:"),
        ],
        "model.kind: training.objective.kind masked_lm needs a model with an encoder; rnn has none. Use kind: transf",
    ),
]  # changes of the recipe, and the message


@pytest.mark.parametrize(("changes", "message"), MONOLINGUAL)
def test_messages_about_monolingual_text(tmp_path, changes, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe(written(tmp_path, *changes))


PARALLEL = RECIPE.replace("text: mono.de}, {text: more.de", "src: a, tgt: b").replace(
    "  valid: {text: valid.de}\n  noise: {kind: bart, infilling_rate: 0.4}\n", ""
)
JOINT_LM = "training.objective.kind=joint_lm"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model={kind: rnn}", "search.coverage_penalty=0.2"], "search.coverage_penalty: needs attention over the"),
        (["model={kind: rnn}", "training.compile=true"], "training.compile: this rnn model runs a data-dependent num"),
        (["model.feed_forward.kind=moe", "training.compile=true"], "training.compile: this transformer model runs"),
        (["model.layerdrop=0.1", "training.parallel=fsdp"], "training.parallel: FSDP requires every process to run"),
        (
            ["model.encoder_positions={kind: learned, max_length: 9}"],
            "model.encoder_positions.max_length: there are",
        ),
        ([JOINT_LM], "training.objective.kind: joint_lm predicts each source token"),
        ([JOINT_LM, "model={kind: decoder_only}"], "training.objective.kind: joint_lm predicts each source token"),
        (
            [JOINT_LM, "model={kind: decoder_only, source_visibility: causal, tied_embeddings: target}"],
            "training.objective.kind: joint_lm needs model.tied_embeddings: all",
        ),
        (
            [
                JOINT_LM,
                "model={kind: decoder_only, source_visibility: causal}",
                "training.decoder_input={kind: word_dropout}",
            ],
            "training.objective.kind: joint_lm needs training.decoder_input.kind teacher_forcing",
        ),
        (
            ["training.objective.kind=guided_alignment", "model={kind: attention_rnn}"],
            "training.objective.kind: guided_alignment needs the attention of all target tokens .* attention_rnn has",
        ),
        (
            ["training.objective.kind=guided_alignment", "training.decoder_input={kind: word_dropout}"],
            "training.objective.kind: guided_alignment needs training.decoder_input.kind teacher_forcing",
        ),
        (["training.objective.kind=masked_lm"], "training.objective.kind: masked_lm and corpus.noise.kind mlm need e"),
        (["training.schedule={kind: plateau}"], "training.schedule.kind: needs a validation set; set corpus.valid"),
        (
            ["training.checkpoint_average={which: best}"],
            "training.checkpoint_average.which: needs a validation set; set corpus.valid",
        ),
    ],
)
def test_messages_about_capabilities(tmp_path, overrides, message):
    path = tmp_path / "recipe.yaml"
    path.write_text(PARALLEL)
    load_recipe(str(path))
    with pytest.raises(RecipeError, match=message):
        load_recipe(str(path), overrides)


PARALLEL = """\
name: parallel
corpus: {src_lang: en, tgt_lang: de, train: [{src: a, tgt: b}]}
"""
IGNORED = "tokenizer.vocab_size: has no effect, since tokenizer.model names an existing tokenizer; remove one of them"


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        ("tokenizer: {model: x, vocab_size: 900}\n", [], f"top.yaml:3: {IGNORED}"),
        ("tokenizer: {model: x}\n", ["tokenizer.vocab_size=900"], f"command line: {IGNORED}"),
        ("", ["tokenizer={model: x, vocab_size: 900}"], f"command line: {IGNORED}"),
        (
            "model: {tied_embeddings: none}\ntokenizer: {model: {src: x, tgt: y}, shared: false, vocab_size: 900}\n",
            [],
            f"top.yaml:4: {IGNORED}",
        ),
        (
            "tokenizer: {model_type: bpe}\ntraining: {init_from: x}\n",
            [],
            "top.yaml:3: tokenizer.model_type: has no effect, since training.init_from names an existing tokenizer",
        ),
    ],
)
def test_keys_of_a_training_of_the_tokenizer_beside_an_existing_one(tmp_path, recipe, overrides, message):
    (tmp_path / "top.yaml").write_text(PARALLEL + recipe)
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_recipe(str(tmp_path / "top.yaml"), overrides)


def test_such_keys_above_that_of_a_base(tmp_path):
    (tmp_path / "base.yaml").write_text(f"{PARALLEL}tokenizer: {{model: x}}\n")
    (tmp_path / "top.yaml").write_text("base: base.yaml\ntokenizer: {vocab_size: 900}\n")
    with pytest.raises(RecipeError, match=re.escape(f"top.yaml:2: {IGNORED}")):
        load_recipe(str(tmp_path / "top.yaml"))


def test_such_keys_of_a_base_or_a_saved_recipe_are_no_mistake(tmp_path):
    (tmp_path / "base.yaml").write_text(f"{PARALLEL}tokenizer: {{vocab_size: 900}}\n")
    (tmp_path / "top.yaml").write_text("base: base.yaml\ntokenizer: {model: x}\n")
    assert load_recipe(str(tmp_path / "base.yaml"), ["tokenizer.model=x"]).tokenizer.model is not None
    recipe = load_recipe(str(tmp_path / "top.yaml"))
    save_recipe(recipe, tmp_path / "recipe.yaml")
    assert load_recipe(str(tmp_path / "recipe.yaml")) == recipe
    own_tokenizer = ["tokenizer.vocab_size=800", "training.init_from={model: x, tokenizer: false}"]
    assert load_recipe(str(tmp_path / "base.yaml"), own_tokenizer).tokenizer.vocab_size == 800
