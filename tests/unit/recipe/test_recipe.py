"""Recipes: messages about invalid recipes, overrides, bases, paths, and saving."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from mtkit.errors import MissingInputError, RecipeError
from mtkit.pipeline.run_folder import save_recipe
from mtkit.recipe.paths import builtin_files, to_plain
from mtkit.recipe.recipe import load_recipe, load_saved
from mtkit.recipe.sections import Recipe
from mtkit.recipe.tree import load_search
from mtkit.search.config import LengthLimit, MaxLength, SearchConfig

BASIC = """\
name: basic
corpus:
  root: text
  src_lang: no
  tgt_lang: de
  train: [{src: a.no, tgt: a.de}]
  test:
    2016: {src: t.no, tgt: t.de}
model: {kind: transformer}
"""


@pytest.fixture
def basic(tmp_path: Path) -> Path:
    path = tmp_path / "recipes" / "basic.yaml"
    path.parent.mkdir()
    path.write_text(BASIC)
    return path


C = "command line: "


def error(path: Path, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path), overrides)
    return str(caught.value).replace(str(path), "FILE")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_language_codes_are_strings_and_paths_become_absolute(basic: Path) -> None:
    recipe = load_recipe(str(basic))
    root = basic.parent / "text"
    assert recipe.corpus.src_lang == "no"
    assert recipe.corpus.root == root
    assert recipe.corpus.train[0].src == root / "a.no"
    assert recipe.corpus.test["2016"].tgt == root / "t.de"


def test_paths_of_overrides_are_relative_to_the_current_directory(basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    assert load_recipe(str(basic), ["corpus.train.0.src=x"]).corpus.train[0].src == Path("/tmp/x").resolve()
    recipe = load_recipe(str(basic), ["corpus.root=other"])
    assert recipe.corpus.train[0].src == Path("/tmp/other/a.no").resolve()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.num_head=2", C + "model.num_head: no such key for kind transformer; did you mean model.num_heads?"),
        ("training.zzz=2", C + "training.zzz: no such key; known here: max_updates, "),
        ("model.num_heads=yes", C + "model.num_heads: 'yes' is not an integer"),
        ("model.num_heads=true", C + "model.num_heads: true is not an integer"),
        ("model.num_heads=2.0", C + "model.num_heads: 2.0 is not an integer"),
        ("model.num_heads=", C + "model.num_heads: null is not an integer"),
        ("model.num_heads=0", C + "model.num_heads: 0: must be greater than 0"),
        ("model.dropout=1", C + "model.dropout: 1: must be less than 1"),
        ("model.dropout=true", C + "model.dropout: true is not a number"),
        ("name=3", C + 'name: 3 is not a string; write name=\'"3"\''),
        ("name=a/b", C + "name: 'a/b': must be a name of at most 200 characters without / that begins with neither"),
        ('name="a\\0b"', C + "name: 'a\\x00b': must be a name of at most 200 characters without /"),
        ("tokenizer.shared=1", C + "tokenizer.shared: 1 is not true or false"),
        ("tokenizer.model_type=bqe", C + "tokenizer.model_type: 'bqe' is not bpe or byte_bpe or unigram or"),
        ("model=rnm", C + "model.kind: no such kind: 'rnm'; did you mean rnn? (the kinds are transformer, "),
        ("model.kind=rnm", C + "model.kind: no such kind: 'rnm'; did you mean rnn? (the kinds are transformer, "),
        ("training.schedule=3", C + "training.schedule: 3 is not a mapping with kind: inverse_sqrt, "),
        ("corpus.train=[]", C + "corpus.train: must have at least 1 item, not 0"),
        ("corpus.train.0=a", C + "corpus.train.0: 'a' is not a mapping of keys"),
        ("search.max_length=9.5", C + "search.max_length.max: 9.5 is not an integer"),
        ("search.max_length=far", C + "search.max_length: 'far' is not a mapping of keys (factor, offset, max)"),
        ("corpus.train.1.src=a", C + "corpus.train.1.tgt: missing; this key has no default"),
        ("corpus.train.7.src=a", C + "corpus.train.7.src: 7 is not an index of this list of 1 items; indices start"),
        ("corpus.train.x.src=a", C + "corpus.train.x.src: x is not an index of this list of 1 items; indices start"),
        ("corpus.test.a/b={src: x, tgt: y}", C + "corpus.test.a/b: must be a name of at most 60 letters, digits, _"),
        (f"corpus.test.{61 * 'x'}={{src: x, tgt: y}}", f"{C}corpus.test.{61 * 'x'}: must be a name of at most 60"),
        ("evaluation.metrics=bleu", C + "evaluation.metrics: 'bleu' is not a list"),
        ("evaluation.metrics=[blue]", C + "evaluation.metrics.0: 'blue' is not bleu or chrf or chrf++ or ter or"),
        ("training.seed", C + "training.seed: an override has the form key=value, such as training.seed=2"),
        ("x" * 300, C + "x" * 300 + ": an override has the form key=value, such as training.seed=2"),
        ("=2", C + "=2: an override has the form key=value, such as training.seed=2"),
        ("training.seed=.inf", C + "training.seed: .inf is not a finite number"),
        ("model.num_heads=3", C + "model.num_heads: 3 does not divide d_model 256; change one or set head_dim"),
        ("training.patience=3", C + "training.patience: needs a validation set; set corpus.valid, or change this key"),
        ('training.init_from="a\\0b"', C + "training.init_from: 'a\\x00b' is not a valid path"),
        ("corpus.train.0.limit=0", C + "corpus.train.0.limit: 0: must be greater than 0"),
        ("corpus.train.0.limit=1.5", C + "corpus.train.0.limit: 1.5 is not an integer"),
        ("training.max_epochs=0", C + "training.max_epochs: 0: must be greater than 0"),
        ("training.max_epochs=.inf", C + "training.max_epochs: .inf is not a finite number"),
        ("corpus.train.0.weight=-1", C + "corpus.train.0.weight: -1: must be greater than 0"),
    ],
)  # fmt: skip
def test_messages(basic: Path, override: str, message: str) -> None:
    found = error(basic, override)
    assert found.startswith(message)
    assert "\n" not in found


def test_two_texts_are_answered_with_the_command_for_them(tmp_path: Path) -> None:
    src, tgt = written(tmp_path / "a.en", "a\n"), written(tmp_path / "a.de", "b\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(src), ["training.seed=2", str(tgt)])
    assert str(caught.value).startswith(f"{src} {tgt}: two texts are no recipe; mtkit run {src} {tgt} writes one")


def test_two_vocabularies_have_two_embeddings(basic: Path) -> None:
    recipe = load_recipe(str(basic), ["tokenizer.shared=false"])
    assert recipe.model.tied_embeddings == "target"
    models = load_recipe(str(basic), ["tokenizer.model.src=a.model", "tokenizer.model.tgt=b.model"])
    assert (models.tokenizer.shared, models.model.tied_embeddings) == (False, "target")
    for more in ("model.tied_embeddings=all", "defaults=fixed"):
        with pytest.raises(RecipeError, match=r"model\.tied_embeddings: all needs one vocabulary for both sides"):
            load_recipe(str(basic), ["tokenizer.shared=false", more])


def test_messages_begin_with_file_and_line(tmp_path: Path) -> None:
    path = written(tmp_path / "x.yaml", BASIC.replace("root: text", "rot: text"))
    assert error(path) == "FILE:3: corpus.rot: no such key; did you mean root?"


def test_all_errors_are_reported(tmp_path: Path) -> None:
    many = "\n".join(f"key{number}: 1" for number in range(20))
    path = written(tmp_path / "x.yaml", f"name: 3\nname: b\nmodel: {{kind: rnn, dropout: .inf}}\n{many}\n")
    lines = error(path).split("\n")
    assert lines[:3] == [
        "FILE:2: name: duplicate key; first defined in line 1",
        "FILE:3: .inf is not a finite number",
        "FILE:4: key0: no such key; known here: name, corpus, tokenizer, model, training, search, evaluation, "
        "defaults, chosen",
    ]
    assert [line.partition(": ")[2].partition(":")[0] for line in lines[2:22]] == [f"key{n}" for n in range(20)]


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("training.schedule=cosine", "training.schedule.kind", "cosine"),
        ("training.optimiser=adamw", "training.optimiser.kind", "adamw"),
        ("model.encoder_positions=rope", "model.encoder_positions.kind", "rope"),
        ("search.max_length=60", "search.max_length", {"factor": 2.0, "offset": 10, "max": 60}),
        ("search.length_penalty=gnmt", "search.length_penalty.kind", "gnmt"),
        ("search.length_penalty=0.6", "search.length_penalty", 0.6),
        *(
            (
                f"training.decoder_input={{kind: scheduled_sampling, teacher_forcing_ratio: {ratio}}}",
                "training.decoder_input.teacher_forcing_ratio",
                {"kind": "constant", "value": 0.5},
            )
            for ratio in ("0.5", "constant", "{kind: constant}")
        ),
    ],
)
def test_a_word_is_a_kind_and_a_number_a_key(basic: Path, override: str, path: str, value: object) -> None:
    plain = to_plain(load_recipe(str(basic), [override]))
    for key in path.split("."):
        plain = plain[key]
    assert plain == value


def test_keys_below_a_word_keep_its_kind(tmp_path: Path, basic: Path) -> None:
    path = written(tmp_path / "top.yaml", f"base: {basic}\ntraining: {{schedule: cosine}}\n")
    top = written(tmp_path / "over.yaml", f"base: {path}\ntraining: {{schedule: {{warmup: 7}}}}\n")
    overridden = load_recipe(str(path), ["training.schedule.warmup=7"]).training.schedule
    assert load_recipe(str(top)).training.schedule == overridden
    assert to_plain(overridden)["kind"] == "cosine"
    assert to_plain(overridden)["warmup"] == 7


def test_keys_beside_a_number_keep_it(tmp_path: Path, basic: Path) -> None:
    path = written(tmp_path / "top.yaml", f"base: {basic}\nsearch: {{max_length: 60}}\n")
    top = written(tmp_path / "over.yaml", f"base: {path}\nsearch: {{max_length: {{factor: 1.5}}}}\n")
    expected = {"factor": 1.5, "offset": 10, "max": 60}
    assert to_plain(load_recipe(str(top)).search)["max_length"] == expected
    assert to_plain(load_recipe(str(path), ["search.max_length.factor=1.5"]).search)["max_length"] == expected


def test_a_recipe_is_a_mapping(tmp_path: Path) -> None:
    path = written(tmp_path / "x.yaml", "- a\n")
    assert error(path).startswith("FILE:1: a recipe is a mapping with the keys name, corpus, ")


def test_missing_keys_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "x.yaml", "name: a\n")
    assert error(path) == "FILE:1: corpus: missing; this key has no default"


def test_another_kind_discards_the_keys_of_the_old_one(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.yaml", BASIC.replace("kind: transformer", "kind: transformer, num_heads: 8, d_model: 64")
    )
    recipe = load_recipe(str(path), ["model.num_layers=3", "model.kind=rnn"])
    assert recipe.model.kind == "rnn"
    assert recipe.model.d_model != 64
    assert load_recipe(str(path), ["model.kind=transformer"]).model.d_model == 64


def test_a_key_of_the_default_kind_needs_no_kind(basic: Path) -> None:
    default = load_recipe(str(basic)).training.schedule
    found = load_recipe(str(basic), ["training.schedule.warmup=7"]).training.schedule
    assert (found.kind, found.warmup) == (default.kind, 7)


def test_length_penalty_is_a_number_or_a_mapping(basic: Path) -> None:
    assert load_recipe(str(basic), ["search.length_penalty=0.6"]).search.length_penalty == 0.6
    gnmt = load_recipe(str(basic), ["search.length_penalty={kind: gnmt, alpha: 1}"]).search.length_penalty
    assert (
        gnmt
        == load_recipe(
            str(basic), ["search.length_penalty.kind=gnmt", "search.length_penalty.alpha=1"]
        ).search.length_penalty
    )


def test_base(basic: Path) -> None:
    sub = basic.parent / "sub"
    sub.mkdir()
    top = written(
        sub / "top.yaml",
        "base: ../basic.yaml\nname: top\ncorpus:\n  valid: {src: v.no, tgt: v.de}\nmodel: {dropout: 0.5}\n",
    )
    recipe = load_recipe(str(top))
    assert (recipe.name, recipe.model.kind, recipe.model.dropout) == ("top", "transformer", 0.5)
    assert recipe.corpus.valid is not None
    assert recipe.corpus.valid.src == basic.parent / "text" / "v.no"  # relative to the root, which the base states


def test_missing_and_circular_bases(tmp_path: Path) -> None:
    path = written(tmp_path / "x.yaml", "name: a\nbase: y.yaml\n")
    with pytest.raises(MissingInputError, match=r"x.yaml:2: base: y.yaml: no such recipe"):
        load_recipe(str(path))
    assert load_recipe(str(written(tmp_path / "z.yaml", "base: quickstart\n"))).tokenizer.vocab_size == 2000
    written(tmp_path / "y.yaml", "base: x.yaml\n")
    assert "y.yaml:1: base: circular: x.yaml -> y.yaml -> x.yaml" in error(path)
    written(path, "base: 3\n")
    assert error(path) == "FILE:1: base: 3 is not a path"


def test_missing_recipes_are_answered_with_similar_names(tmp_path: Path, basic: Path) -> None:
    with pytest.raises(MissingInputError) as caught:
        load_recipe("quikstart")
    assert str(caught.value).startswith(
        "quikstart: no such recipe; did you mean quickstart?\na recipe is a file or one of: "
    )
    with pytest.raises(MissingInputError, match=r"did you mean .*basic.yaml\?"):
        load_recipe(str(basic.parent / "basik.yaml"))
    with pytest.raises(MissingInputError, match="a folder, not a recipe; pass the YAML file"):
        load_recipe(str(tmp_path))


def test_builtin_recipes_are_valid() -> None:
    assert {"quickstart", "multi30k-transformer", "wmt14-transformer-big"} <= builtin_files("recipe").keys()
    for name in builtin_files("recipe"):
        assert load_recipe(name).name == name


def test_a_saved_recipe_is_read_unchanged(basic: Path, tmp_path: Path) -> None:
    recipe = load_recipe(str(basic), ["training.optimiser.eps=1e-9", "name='1e-4'", "corpus.tgt_lang='0o7'"])
    path = tmp_path / "saved.yaml"
    save_recipe(recipe, path)
    assert load_saved(path) == recipe
    plainly = yaml.safe_load(path.read_text())  # PyYAML reads YAML 1.1
    assert plainly["corpus"]["src_lang"] == "no"
    assert plainly["name"] == "1e-4"
    assert Path(plainly["corpus"]["train"][0]["src"]).is_absolute()


def test_recipes_are_immutable_and_comparable(basic: Path) -> None:
    recipe = load_recipe(str(basic))
    assert isinstance(recipe, Recipe)
    assert recipe == load_recipe(str(basic))
    with pytest.raises(AttributeError):
        recipe.name = "x"  # type: ignore[misc]


def test_a_mapping_keeps_the_defaults_of_omitted_keys(basic: Path) -> None:
    assert load_recipe(str(basic), ["search.max_length.offset=7"]).search.max_length == MaxLength(factor=2.0, offset=7)
    assert load_recipe(str(basic), ["search.min_length.offset=7"]).search.min_length == LengthLimit(
        factor=0.0, offset=7
    )


def test_search_overrides_with_and_without_section() -> None:
    assert load_search(SearchConfig(), ["search.beam_size=2", "n_best=2"]) == SearchConfig(beam_size=2, n_best=2)
    assert load_search(SearchConfig(beam_size=3), []) == SearchConfig(beam_size=3)
    with pytest.raises(RecipeError, match=r"search.bem_size: no such key; did you mean search.beam_size"):
        load_search(SearchConfig(), ["bem_size=2"])


def test_a_kind_that_is_not_a_string(basic: Path) -> None:
    assert error(basic, "model.kind=[a]").startswith(C + 'model.kind: no such kind: ["a"] (the kinds are ')
    assert error(basic, "model.kind=.nan") == C + "model.kind: .nan is not a finite number"


@pytest.mark.parametrize("name", builtin_files("recipe"))
def test_a_shipped_recipe_leaves_nothing_to_be_chosen(name: str) -> None:
    assert load_recipe(name).defaults == "fixed"


def test_former_keys_of_trackers_are_read_as_the_list(basic: Path) -> None:
    def trackers(*overrides: str) -> list[str]:
        return load_recipe(str(basic), overrides).training.trackers

    basic.write_text(BASIC + "training: {wandb: true, tensorboard: false}\n")
    assert trackers() == ["wandb"]
    assert trackers("training.mlflow=true") == ["wandb", "mlflow"]
    assert trackers("training.wandb=false") == []
    assert trackers("training.trackers=[mlflow]") == ["mlflow", "wandb"]
    saved = basic.with_name("saved.yaml")
    save_recipe(load_recipe(str(basic)), saved)
    assert load_saved(saved).training.trackers == ["wandb"]
    assert "training.wandb" in error(basic, "training.wandb=3")
