"""Unknown keys that another toolkit knows are answered with mtkit's key."""

from __future__ import annotations

import random
import re
import tokenize
from pathlib import Path

import pytest

from mtkit import errors
from mtkit.cli.entry import execute
from mtkit.cli.option_synonyms import option_for_key
from mtkit.errors import RecipeError
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import Recipe
from mtkit.recipe.synonyms import KEY_SYNONYMS, KIND_SYNONYMS
from mtkit.recipe.type_hints import field_types, has_path, key_paths, kind_of, unwrap_hint
from mtkit.study.load import StudyConfig
from tests.toy.sampling import sampled
from tests.toy.studies import RECIPE
from tests.unit.house.source_code import FILES, PACKAGE, ROOT

COMMON = (
    "lr warmup_steps warmup_updates epochs max_tokens batch_size ff_size ffn_dim hidden_dim hidden_size embedding_dim "
    "beam beam_width lenpen alpha clip_grad_norm max_grad_norm gradient_clipping dropout_rate bpe_size vocabulary_size "
    "smoothing label_smoothing_factor update_freq accum_count save_steps eval_steps early_stopping heads "
    "num_attention_heads tie_embeddings share_all_embeddings fp16 amp random_seed max_len_a max_len_b "
    "no_repeat_ngram_size num_layers gradient_accumulation_steps optimizer scheduler nbest num_beams max_steps"
)


def test_the_table_has_the_words_of_other_toolkits() -> None:
    assert len(KEY_SYNONYMS) >= 80
    assert [word for word in COMMON.split() if word not in KEY_SYNONYMS] == []


def test_every_target_is_a_key() -> None:
    targets = {target for synonym in KEY_SYNONYMS.values() for target in synonym.targets}
    assert sorted(t for t in targets if not has_path(Recipe, t) and not has_path(StudyConfig, t)) == []


def test_no_synonym_has_its_own_name_as_target() -> None:
    """A key that stands in the wrong section is found without the table."""
    names = {word: [target.rpartition(".")[2] for target in each.targets] for word, each in KEY_SYNONYMS.items()}
    assert [word for word, targets in names.items() if word in targets] == []


def test_every_kind_of_the_table_exists() -> None:
    words = {word for words in KIND_SYNONYMS.values() for word in words}
    assert words - set(_kinds_and_choices(Recipe)) == set()


def _kinds_and_choices(cls: object) -> list[str]:
    found: list[str] = []
    for hint in field_types(cls).values():
        for member in unwrap_hint(hint).members:
            if kind_of(member) is not None:
                found.append(str(kind_of(member)))
            if hasattr(member, "__dataclass_fields__"):
                found += _kinds_and_choices(member)
            else:
                found += [str(word) for word in getattr(member, "__args__", ())]
    return found


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text(RECIPE)
    return path


@pytest.mark.parametrize(
    ("override", "answer"),
    [
        ("training.lr=1", "no such key; did you mean training.optimiser.learning_rate? (the peak, after warm-up)"),
        ("training.max_tokens=1", "no such key; did you mean training.batch_tokens? (sentences × longest side of a"),
        ("training.warmup-steps=1", "no such key; did you mean training.schedule.warmup? (in updates)"),
        ("training.epochs=1", "no such key; did you mean training.max_epochs?"),
        ("training.gradient_clipping=1", "no such key; did you mean training.clip_norm? (norm of the whole gradient)"),
        ("search.beam=5", "no such key; did you mean search.beam_size?"),
        ("search.max_len_a=1", "no such key; did you mean search.max_length.factor? (factor · source length + offset"),
        ("model.hidden_size=8", "no such key for kind transformer; did you mean model.d_model?"),
        ("model.ff_size=8", "no such key for kind transformer; did you mean model.d_ff?"),
        ("model.num_layers=8", "no such key for kind transformer; did you mean model.encoder_layers or model.decoder"),
        ("optimizer={name: adam}", "no such key; did you mean training.optimiser?"),
        ("model.encoder_attention.width=3", "no such key for kind full; it is a key of kind window or longformer"),
        ("training.learning_rate=1", "no such key; did you mean training.optimiser.learning_rate?"),
        ("training.learningrate=1", "no such key; did you mean training.optimiser.learning_rate?"),
        ("training.batchsize=1", "no such key; did you mean training.batch_tokens? (sentences"),
        ("training.maxUpdates=1", "no such key; did you mean training.max_updates?"),
        ("training.d_ff=1", "no such key; did you mean model.d_ff?"),
        ("search.max_length.b=1", "no such key; did you mean search.max_length.offset? (factor"),
        ("model.layer_drop=0.1", "no such key for kind transformer; did you mean model.layerdrop?"),
        ("model.kind=lstm", "no such kind: 'lstm'; did you mean rnn? (the kinds are transformer, "),
        ("training.precision=bfloat16", "'bfloat16' is not auto or float32 or bf16 or fp16; did you mean bf16?"),
    ],
)
def test_answers(toy: Path, override: str, answer: str) -> None:
    key = override.partition("=")[0]
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(toy), [override])
    location, path, message = str(caught.value).split(": ", 2)
    assert location == "command line"
    assert path == key or path.startswith(f"{key}.")
    assert message.startswith(answer)


@pytest.mark.parametrize(
    ("override", "answer"),
    [
        ("search.temperature=1", "did you mean search.method.temperature? (with kind: sampling)"),
        ("search.top_p=0.9", "search.method.top_p? (with kind: sampling)"),
        ("search.nucleus=true", "write search.method: {kind: sampling, top_p: P}"),
        ("search.mbr=true", "search.rerank?"),
        ("search.greedy=true", "search.beam_size? (1 is greedy search)"),
        ("model.num_experts=4", "model.feed_forward.num_experts?"),
        ("model.mlp_dim=4", "model.d_ff?"),
        ("model.alibi=true", "positions"),
        ("model.gelu=true", "model.feed_forward.activation? (the value gelu)"),
        ("model.enc_hid_dim=4", "model.d_model?"),
        ("model.attn_pdrop=0.1", "model.attention_dropout?"),
        ("training.tf_ratio=0.5", "training.decoder_input.teacher_forcing_ratio?"),
        ("training.cosine=true", "training.schedule? (with kind: cosine)"),
        ("training.adamw=true", "training.optimiser? (with kind: adamw)"),
        ("training.save_every=1", "training.checkpoint_every?"),
        ("training.gradientClip=1", "training.clip_norm?"),
        ("corpus.max_src_len=1", "corpus.cleaning.max_length?"),
        ("tokenizer.min_count=1", "tokenizer.min_frequency?"),
        ("tokenizer.algorithm=bpe", "tokenizer.model_type?"),
        ("model.vocab_size=1", "tokenizer.vocab_size?"),
        ("training.device=cpu", "the option --device"),
    ],
)
def test_words_that_people_type(toy: Path, override: str, answer: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(toy), [override])
    assert answer in str(caught.value)


def moved_keys(count: int) -> list[str]:
    """Keys below the mappings of a section whose names no other key, kind or toolkit has."""
    others = {*KEY_SYNONYMS, "cross_entropy"}
    items = ((name, paths[0]) for name, paths in key_paths(Recipe).items() if len(paths) == 1 and "_" in name)
    alone = [path for name, path in items if path.count(".") > 1 and name not in others]
    return random.Random(1).sample(sorted(alone), min(count, len(alone)))


@pytest.mark.whole
@pytest.mark.parametrize(
    "path", [*moved_keys(sampled(20)), *(pytest.param(each, marks=pytest.mark.slow) for each in moved_keys(200)[20:])]
)
def test_a_key_that_stands_too_high_is_found(toy: Path, path: str) -> None:
    top, name = path.partition(".")[0], path.rpartition(".")[2]
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    for word in {name, name.upper(), camel}:
        with pytest.raises(RecipeError) as caught:
            load_recipe(str(toy), [f"{top}.{word}=1"])
        assert path in str(caught.value)


WORDS = [line.split("\t") for line in Path(__file__).with_name("words.tsv").read_text().splitlines()[1:]]


@pytest.mark.whole
@pytest.mark.parametrize("row", WORDS, ids=[f"{section}.{key}" for section, _, key, *_ in WORDS])
def test_words_of_tutorials_are_answered_with_the_key(
    toy: Path, row: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys as configurations and tutorials of other toolkits write them; the answer is a regular expression."""
    monkeypatch.setattr(errors, "option_for", option_for_key)  # as the command line does
    section, model, key, value, answer = row
    kind = [] if model == "transformer" else [f"model={{kind: {model}}}"]
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(toy), [*kind, f"{section}.{key}={value}".lstrip(".")])
    assert re.search(answer, str(caught.value).partition("no such key")[2])


@pytest.mark.parametrize(
    ("override", "answer"),
    [
        ("search.glossary=x", "glossary: no such key; on the command line of mtkit translate: give --glossary"),
        ("fresh=true", "fresh: no such key; on the command line of mtkit run: give --fresh"),
        ("evaluation.tok=13a", "evaluation.tok: no such key; did you mean evaluation.tokenize?"),
    ],
)
def test_a_word_that_is_an_option_is_answered_with_it(
    override: str, answer: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert execute(["train", "quickstart", override]) == 78
    assert answer in capfd.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "answer"),
    [
        ("training.schedule", "noam", "write {kind: inverse_sqrt, d_model: D}"),
        ("training.schedule.kind", "noam", "write {kind: inverse_sqrt, d_model: D}"),
        ("training.schedule", "cosin", "did you mean cosine"),
        ("model.feed_forward", "swiglu", "write {kind: gated, activation: silu}"),
        ("model.swiglu", "true", "write model.feed_forward: {kind: gated, activation: silu}"),
        ("model.feed_forward.activation", "geglu", "write model.feed_forward: {kind: gated, activation: gelu}"),
        ("search.method", "nucleus", "write {kind: sampling, top_p: P}"),
        ("model.encoder_sharing", "cycle", "encoder_sharing.distinct: missing"),
    ],
)
def test_words_that_stand_for_a_kind_and_its_keys(toy: Path, key: str, value: str, answer: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(answer)):
        load_recipe(str(toy), [f"{key}={value}"])


def test_layers_of_a_recurrent_model_have_one_key(toy: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(toy), ["model={kind: rnn, enc_layers: 2}"])
    assert (
        str(caught.value) == "command line: model.enc_layers: no such key for kind rnn; did you mean model.num_layers?"
    )


def test_answers_name_file_and_line(toy: Path) -> None:
    toy.write_text(RECIPE.replace("max_updates:", "max_steps:"))
    line = RECIPE[: RECIPE.index("max_updates:")].count("\n") + 1
    with pytest.raises(
        RecipeError, match=f"toy.yaml:{line}: training.max_steps: no such key; did you mean training.max"
    ):
        load_recipe(str(toy))


SECTION_PATH = re.compile(r"(?<![\w./])(?:corpus|tokenizer|model|training|search|evaluation)(?:\.[a-z_]+)+")
NO_KEYS = {  # methods, attributes and files
    "model.forward",
    "model.name",
    "model.safetensors.index.json",
    "model.safetensors",
    "model.bin",
    "tokenizer.json",
    "training.resolved_batch_tokens",
    "model.yml",  # in a file of Marian
}


@pytest.mark.whole
def test_messages_and_comments_name_keys_that_exist() -> None:
    """Former keys do not survive in messages, docstrings, comments and recipes."""
    faults = []
    for path in [*FILES, *(ROOT / "recipes").rglob("*.yaml")]:
        texts = path.read_text(encoding="utf-8").split("\n")
        if path.suffix == ".py":
            with path.open("rb") as file:
                tokens = list(tokenize.tokenize(file.readline))
            texts = [token.string for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT)]
        for key in (key for text in texts if path.stem != "synonyms" for key in SECTION_PATH.findall(text)):
            parts = key.split(".")
            is_module = any(PACKAGE.joinpath(*parts[:count]).with_suffix(".py").is_file() for count in (2, len(parts)))
            is_weight = parts[-1] in ("weight", "weights", "bias") and len(parts) > 2  # of other programs
            if not (has_path(Recipe, key) or key in NO_KEYS or key.endswith(".kind") or is_module or is_weight):
                faults.append(f"{path.relative_to(ROOT)}: {key}")
    assert faults == []
