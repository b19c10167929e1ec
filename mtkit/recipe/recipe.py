"""A recipe: one YAML file that says everything about a run, read into frozen dataclasses and checked at once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from mtkit.corpus.config import CorpusConfig, Text
from mtkit.errors import MissingInputError, RecipeError
from mtkit.evaluation.config import EvaluationConfig
from mtkit.io.files import write_text
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe import schema
from mtkit.recipe.overrides import apply_overrides, merge
from mtkit.recipe.shipped import find
from mtkit.recipe.yaml_reader import Origin, Stated, StrictLoader, read_yaml_file
from mtkit.search.config import SearchConfig
from mtkit.text.tokenizer import TokenizerConfig
from mtkit.training.config import TrainingConfig
from mtkit.training.objectives.joint_lm import SourceAndTargetConfig

ModelConfig = Annotated[
    TransformerConfig | DecoderOnlyConfig | LSTMConfig | AttentionRNNConfig, Field(discriminator="kind")
]
RunName = Annotated[  # it names the run folder, runs/NAME
    str, Field(pattern=r"^[^/\s.][^/\n]*$", description="a name without / that begins with neither . nor a space")
]
_WITH_POSITIONS = TransformerConfig | DecoderOnlyConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything about a run; paths are absolute."""

    name: RunName
    corpus: CorpusConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        if self.model.tied_embeddings == "all" and not self.tokenizer.shared:
            raise ValueError(
                "model.tied_embeddings: all needs one vocabulary for both sides; set it to target, or tokenizer.shared "
                "to true"
            )
        self._positions_reach()
        self._objective_fits()
        self._compiles()
        self._shards()
        self._noise_fits()
        if self.search.coverage_penalty and isinstance(self.model, LSTMConfig):
            raise ValueError(
                "search.coverage_penalty: a model of kind lstm gives no attention over the source; set it to 0"
            )
        needing = {
            "training.patience": self.training.patience is not None,
            "training.average.of": self.training.average is not None and self.training.average.of == "best",
            "training.schedule.kind": self.training.schedule.kind == "plateau",
        }
        if self.corpus.valid is None and any(needing.values()):
            key = next(key for key, needs in needing.items() if needs)
            raise ValueError(f"{key}: this needs a valid set to judge by; name one as corpus.valid, or change this key")

    def _positions_reach(self) -> None:
        longest = self.corpus.cleaning.max_length + 1  # the end of sentence
        for key, most in self.model.most_pieces().items() if isinstance(self.model, _WITH_POSITIONS) else ():
            if most < longest:
                raise ValueError(
                    f"model.{key}: there are {most} positions, and sentences may have {longest} pieces with their end; "
                    "raise it, or lower corpus.cleaning.max_length"
                )

    def _compiles(self) -> None:
        model = self.model
        if not self.training.compile or (isinstance(model, _WITH_POSITIONS) and model.feed_forward.kind != "experts"):
            return
        what = "a mixture of experts" if isinstance(model, _WITH_POSITIONS) else f"model.kind {model.kind}"
        raise ValueError(
            f"training.compile: {what} takes as many steps as its sentences ask, and would be compiled for each number "
            "anew; set it to false"
        )

    def _shards(self) -> None:
        is_dropping = isinstance(self.model, _WITH_POSITIONS) and self.model.layer_drop > 0
        if self.training.parallel == "fsdp" and is_dropping:
            raise ValueError(
                "training.parallel: with fsdp all processes go through the same layers, of which model.layer_drop has "
                "each leave out others; set that to 0, or parallel to ddp"
            )

    def _noise_fits(self) -> None:
        noise, training = self.corpus.noise, self.training
        is_masked = training.objective.kind == "masked_language_model"
        if is_masked != (noise is not None and noise.kind == "masks"):
            raise ValueError(
                "training.objective.kind: masked_language_model and corpus.noise.kind masks need each other; set both "
                "or neither"
            )
        if is_masked and not isinstance(self.model, TransformerConfig):
            raise ValueError(
                f"model.kind: masked_language_model trains an encoder of states, which {self.model.kind} has not; take "
                "transformer, or another corpus.noise.kind"
            )
        if noise is not None and not self.tokenizer.shared:
            raise ValueError(
                "tokenizer.shared: text in one language is source and target at once, which needs one vocabulary; set "
                "it to true"
            )
        if isinstance(self.corpus.valid, Text) and training.validation.metric == "bleu":
            raise ValueError(
                "training.validation.metric: text in one language has no translations to score; set it to nll"
            )

    def _objective_fits(self) -> None:
        if not isinstance(self.training.objective, SourceAndTargetConfig):
            return
        model = self.model
        if not (isinstance(model, DecoderOnlyConfig) and model.source_visibility == "causal"):
            raise ValueError(
                "training.objective.kind: source_and_target predicts the source from what stands before; it needs "
                "model.kind decoder_only with source_visibility causal, or take cross_entropy"
            )
        if model.tied_embeddings != "all" or self.training.decoder_input.kind != "teacher_forcing":
            raise ValueError(
                "training.objective.kind: source_and_target needs model.tied_embeddings all (one projection for both "
                "sides) and training.decoder_input.kind teacher_forcing"
            )


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        name_or_path: a YAML file, or the name of a recipe that comes with mtkit.
        overrides: `key=value` each; relative paths in them are relative to the current directory.

    Raises:
        MissingInputError: there is no such recipe; similar names are listed.
        RecipeError: it is wrong; all faults are named with their lines.
    """
    faults: list[str] = []
    tree = read_tree(find("recipe", name_or_path), faults)
    tree = apply_overrides(tree, overrides, Path.cwd(), faults)
    return build_recipe(tree, faults)


def build_recipe(tree: Stated, faults: Sequence[str]) -> Recipe:
    """Check a tree of stated values."""
    _root_paths(tree)
    recipe: Recipe = schema.build(Recipe, tree, faults)
    return recipe


def load_search(default: SearchConfig, overrides: Sequence[str]) -> SearchConfig:
    """A search with some keys changed: `search.beam_size=1`, or without the `search.`.

    Raises:
        RecipeError: an override is wrong.
    """
    if not overrides:
        return default
    faults: list[str] = []
    tree = stated({"search": plain(default)}, "config.json", Path.cwd())
    full = [text if text.startswith("search.") else f"search.{text}" for text in overrides]
    tree = apply_overrides(tree, full, Path.cwd(), faults)
    found: _Search = schema.build(_Search, tree, faults)
    return found.search


@dataclass(frozen=True)
class _Search:
    search: SearchConfig


def read_tree(path: Path, faults: list[str]) -> Stated:
    """What a recipe and those it is based on state.

    Raises:
        RecipeError: not YAML, not a mapping, or the bases go in a circle.
        MissingInputError: a base is not there.
    """
    tree = read_yaml_file(path, faults)
    seen = [path.resolve()]
    while True:
        if not isinstance(tree.value, dict):
            raise RecipeError(f"{tree.origin.place}: a recipe is a mapping with the keys {', '.join(_keys())}")
        if "base" not in tree.value:
            return tree
        base = tree.value["base"]
        if not isinstance(base.value, str):
            raise RecipeError(f"{base.origin.place}: base: {base.plain()!r} is not a path")
        base_path = base.origin.folder / os.path.expanduser(base.value)
        if not base_path.is_file():
            raise MissingInputError(f"{base.origin.place}: base: {base.value}: no such recipe")
        seen.append(base_path.resolve())
        if seen[-1] in seen[:-1]:
            circle = " -> ".join(each.name for each in seen[seen.index(seen[-1]) :])
            raise RecipeError(f"{base.origin.place}: base: these recipes stand on each other in a circle: {circle}")
        top = Stated({k: v for k, v in tree.value.items() if k != "base"}, tree.origin)
        below = read_yaml_file(base_path, faults)
        tree = merge(below, top) if isinstance(below.value, dict) else below


def _keys() -> list[str]:
    return [f.name for f in dataclasses.fields(Recipe)]


def _root_paths(tree: Stated) -> None:
    """Make what files state under `corpus` relative to `corpus.root`."""
    corpus = tree.value.get("corpus") if isinstance(tree.value, dict) else None
    root = corpus.value.get("root") if corpus is not None and isinstance(corpus.value, dict) else None
    if corpus is None or root is None or not isinstance(root.value, str):
        return
    folder = root.origin.folder / os.path.expanduser(root.value)
    for key, value in corpus.value.items():
        if key != "root":
            _move(value, folder)


def _move(value: Stated, folder: Path) -> None:
    if value.origin.from_file:
        value.origin = dataclasses.replace(value.origin, folder=folder)
    inner = value.value.values() if isinstance(value.value, dict) else value.value
    for item in inner if isinstance(value.value, dict | list) else ():
        _move(item, folder)


def plain(value: Any) -> Any:
    """Dataclasses as plain mappings, lists and scalars, every key written out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def stated(value: Any, place: str, folder: Path) -> Stated:
    """Plain values as if a file had stated them, to be checked again."""
    origin = Origin(place, folder, from_file=True)
    if isinstance(value, dict):
        return Stated({key: stated(item, place, folder) for key, item in value.items()}, origin)
    if isinstance(value, list):
        return Stated([stated(item, place, folder) for item in value], origin)
    return Stated(value, origin)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that YAML 1.1 or 1.2 would read as something else."""


for _first, _pairs in StrictLoader.yaml_implicit_resolvers.items():
    for _tag, _pattern in _pairs:
        _Dumper.add_implicit_resolver(_tag, _pattern, [_first])


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe with every key and absolute paths, so that it means the same from anywhere.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    text = yaml.dump(plain(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    write_text(path, text)


def load_saved(path: Path) -> Recipe:
    """Read what `save_recipe` wrote.

    Raises:
        RecipeError: somebody changed it and it is wrong, or another version of mtkit wrote it.
    """
    faults: list[str] = []
    return build_recipe(read_tree(path, faults), faults)
