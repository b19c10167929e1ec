"""Settings of a fine-tuning by rule: batch size, updates, validations, averaging, and the share of general text.

The learning rate is the one setting that no rule gives: `learning_rate` measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mtkit.errors import UsageError
from mtkit.io.files import write_text
from mtkit.model_folder.folder import ModelMetadata
from mtkit.pipeline.run_folder import recipe_text
from mtkit.recipe.defaults.facts import BudgetLimits, CorpusStatistics, corpus_statistics
from mtkit.recipe.defaults.schedule import (
    CPU_BATCH,
    EMA_SHARE,
    TINY_BATCH,
    TINY_CORPUS,
    WARMUP_SHARE,
    updates_of_epochs,
)
from mtkit.recipe.located import COMMAND_LINE, LocatedValue
from mtkit.recipe.paths import escape_path, to_plain
from mtkit.text.source_prefix import SourcePrefix

EPOCHS = 10  # of the own text at most; validation ends a training that has learned it before
MIN_UPDATES, MAX_UPDATES = 100, 20_000
TRAINING_SHARE = 0.7  # of a budget is expected for updates, the rest for the range test and validations
VALIDATIONS = 10
MIN_BETWEEN_VALIDATIONS = 20  # updates
PATIENCE = 3  # validations
VALIDATION_SENTENCES = 50  # that are decoded, of each set
UNTESTED_RATE = 1e-4  # until the range test, and where an override of the rate or the optimiser replaces it
MAX_LENGTH = 256  # tokens of a side, unless the model has fewer positions
OWN, GENERAL = "own", "general"  # names of the texts, of their test sets and folders


@dataclass(frozen=True)
class TrainingPlan:
    """Facts about a fine-tuning that its settings follow from.

    Attributes:
        base: folder of the model.
        run: the run folder, with the split texts in its folders `own` and `general`.
        general: prefix of each general text to watch, by the name of its folder.
        general_share: share of the training tokens that come from these; 0 only watches.
        prefix: of the own text.
        adapter: kind of adapter; None: all weights are trained.
    """

    base: Path
    metadata: ModelMetadata
    run: Path
    general: Mapping[str, SourcePrefix]
    general_share: float
    prefix: SourcePrefix
    limits: BudgetLimits
    adapter: str | None = None

    def recipe_tree(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The recipe as a tree of values, and the reasons of those that follow from the text."""
        tokens = self._own.tokens
        batch = TINY_BATCH if tokens < TINY_CORPUS else CPU_BATCH
        most = updates_of_epochs(EPOCHS, tokens, batch) / (1 - self.general_share)
        updates = round(min(max(most, MIN_UPDATES), MAX_UPDATES))
        reasons = {
            "training.batch_tokens": f"{tokens:,} tokens of own text",
            "training.max_updates": f"at most {EPOCHS} epochs of {tokens:,} tokens",
        }
        training = {
            "init_from": escape_path(self.base.resolve()),
            "batch_tokens": batch,
            **course_of(updates),
            "optimiser": {"kind": "adam", "learning_rate": UNTESTED_RATE},
        }
        if self.adapter is not None:
            training["adapter"] = {"kind": self.adapter}
        if self.limits.budget_hours is not None:
            training |= {"budget_hours": self.limits.budget_hours, "budget_updates": None}  # once they are measured
        watched = [OWN, *self.general]
        train = [self._pair(OWN, "train")]
        if self.general_share:
            train = [{**self._pair(text, "train"), "weight": share} for text, share in self.sample_shares().items()]
        positions = min(self.metadata.model.max_lengths().values(), default=MAX_LENGTH + 1)
        tree = {
            "name": self.run.name,
            "defaults": "fixed",
            "corpus": {
                "src_lang": self.metadata.src_lang,
                "tgt_lang": self.metadata.tgt_lang,
                "train": train,
                "valid": [self._pair(text, "valid") for text in watched],
                "test": {text: self._pair(text, "test") for text in watched},
                "cleaning": {"max_length": min(MAX_LENGTH, positions - 1)},
            },
            "tokenizer": {"shared": self.metadata.tokenizer.shared},
            "model": to_plain(self.metadata.model),
            "training": training,
            "search": to_plain(self.metadata.search),
            "evaluation": {"metrics": ["bleu", "chrf"], "lowercase": self.metadata.tokenizer.lowercase},
        }
        return tree, reasons

    @cached_property
    def _own(self) -> CorpusStatistics:
        return corpus_statistics(*([file] for file in self._files(OWN, "train")))

    def sample_shares(self) -> dict[str, float]:
        """The share of the samples of each text, so that the general ones have their share of the tokens, evenly."""
        samples = {OWN: (1 - self.general_share) * self._own.pairs / self._own.tokens}
        for text in self.general:
            statistics = corpus_statistics(*([file] for file in self._files(text, "train")))
            samples[text] = self.general_share / len(self.general) * statistics.pairs / statistics.tokens
        return {text: round(each / sum(samples.values()), 4) for text, each in samples.items()}

    def _files(self, text: str, part: str) -> list[Path]:
        return [self.run / text / f"{part}.{lang}" for lang in self.metadata.direction(self._prefix(text))]

    def _prefix(self, text: str) -> SourcePrefix:
        return self.prefix if text == OWN else self.general[text]

    def _pair(self, text: str, part: str) -> dict[str, Any]:
        files = [file.resolve() for file in self._files(text, part)]
        prefix = {key: value for key, value in to_plain(self._prefix(text)).items() if value is not None}
        return {**dict(zip(("src", "tgt"), map(escape_path, files), strict=True)), **prefix}


def course_of(updates: int) -> dict[str, Any]:
    """Keys of `training` that depend on the number of updates."""
    every = max(updates // VALIDATIONS, min(MIN_BETWEEN_VALIDATIONS, updates))
    return {
        "max_updates": updates,
        "validate_every": every,
        "checkpoint_every": every,
        "log_every": max(1, every // 2),
        "patience": PATIENCE,
        "validation": {"sentences": 2 * VALIDATION_SENTENCES, "pool_sets": False},
        "schedule": {"kind": "linear", "warmup": round(WARMUP_SHARE * updates)},
        "ema": {"decay": round(1 - 1 / max(10, EMA_SHARE * updates), 5), "update_every": 1},
    }


def fit_updates(updates: int, limits: BudgetLimits, seconds: float) -> int:
    """Updates that are expected to fit into a budget, at most those that are given.

    Args:
        seconds: of an update on free cores, measured.

    Raises:
        UsageError: hardly any update fits.
    """
    if limits.hours is None:
        return updates
    fitting = int(TRAINING_SHARE * 3600 * limits.hours / seconds)
    if fitting < MIN_BETWEEN_VALIDATIONS:
        raise UsageError(
            f"--budget {limits.words}: an update takes {seconds:.1f} s here, so that {fitting} fit; give more time, or "
            "smaller batches: training.batch_tokens=512"
        )
    return min(fitting, updates)


def with_course(tree: Mapping[str, Any], max_updates: int, expected: int) -> dict[str, Any]:
    """A tree of `recipe_tree` with another number of updates, of which fewer may be expected within the budget."""
    training = {**tree["training"], **course_of(expected), "max_updates": max_updates}
    budget = {"budget_updates": expected} if expected < max_updates else {}
    return {**tree, "training": training | budget}


def unstated_reasons(reasons: Mapping[str, str], tree: LocatedValue) -> dict[str, str]:
    """The reasons of the values that no override states.

    Args:
        tree: of the recipe with its overrides, some of which may have removed a key: another kind has other ones.
    """
    values = ((key, tree.at(key)) for key in reasons)
    return {key: reasons[key] for key, value in values if value and value.origin.location != COMMAND_LINE}


def write_tree(path: Path, tree: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Write a tree as a recipe, with the reasons of its values.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    content = {**tree, "chosen": dict(reasons)}
    write_text(path, f"# Written by mtkit finetune; --fresh writes it again.\n{recipe_text(content)}")
