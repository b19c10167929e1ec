"""Measurements of a claim: the values of a metric for each system and seed, and translations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.config import TrainParallelFiles, training_text
from mtkit.errors import DataError
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.evaluation.word_statistics import rare_word_f1, repetition_rate, word_counts
from mtkit.evidence.claim import CheckConfig, Claim
from mtkit.evidence.paired_effect import (
    BleuContrast,
    Effect,
    Floats,
    bleu_of_statistics,
    bleu_statistics,
    paired_effect,
)
from mtkit.evidence.run_values import best_validation, positional_head, seconds_to_bleu
from mtkit.evidence.system import hyps_of_system
from mtkit.study.by_length import lines_by_length
from mtkit.study.free_running import free_running_loss
from mtkit.study.runs import StudyRun, runs_of
from mtkit.text.lines import read_lines

_LOGGED = {"loss": "nll", "perplexity": "perplexity", "token_accuracy": "token_accuracy", "ece": "ece"}


class Measurements:
    """Values of all systems of a claim from the finished runs of its study.

    Args:
        claim: the claim.
        folder: of the study's runs.
    """

    def __init__(self, claim: Claim, folder: Path) -> None:
        self.claim = claim
        self.runs = [run for run in runs_of(claim.study, folder) if run.is_finished()]
        recipe = next(iter(claim.study.recipes.values()))
        files = recipe.corpus.test[claim.study.test]
        self.srcs, self.refs = list(read_lines(files.src)), list(read_lines(files.tgt))
        self.tokenizer = choose_tokenizer(
            self.refs, recipe.corpus.language_of_target(files), recipe.evaluation.tokenize
        ).name
        self._statistics: dict[str, Mapping[int, Floats]] = {}

    @cached_property
    def training_words(self) -> Counter[str]:
        """Occurrences of each target word in the parallel training text."""
        corpora = next(iter(self.claim.study.recipes.values())).corpus.train
        return word_counts(
            line
            for files in corpora
            if isinstance(files, TrainParallelFiles)
            for line in read_lines(training_text(files)[1])
        )

    def runs_of_system(self, system: str) -> list[StudyRun]:
        """Finished runs that a system uses."""
        return [run for run in self.runs if run.variant == self.claim.config.variant_of(system)]

    def effect(self, check: CheckConfig) -> tuple[dict[int, float], Effect]:
        """Difference of a check for each seed that both systems have, and the effect.

        Raises:
            DataError: the systems have no finished run of the same seed.
        """
        if check.metric == "bleu" and not check.ratio:
            return self._bleu_effect(check)
        of, against = self.values(check.of, check), self.values(check.against, check)
        differences = {
            seed: 100 * math.log(of[seed] / against[seed]) if check.ratio else of[seed] - against[seed]
            for seed in sorted(of.keys() & against.keys())
        }
        _require_seeds(check, differences)
        return differences, paired_effect(list(differences.values()))

    def values(self, system: str, check: CheckConfig) -> dict[int, float]:
        """Value of a check's metric for each seed.

        Raises:
            DataError: a run has no such value.
        """
        if check.metric == "bleu":
            chosen = self._lines(check.words)
            statistics = self.statistics(system)
            return {seed: float(bleu_of_statistics(lines[chosen].sum(axis=0))) for seed, lines in statistics.items()}
        return {run.seed: self._value(run, system, check) for run in self.runs_of_system(system)}

    def _lines(self, words: Sequence[int] | None) -> NDArray[np.bool_]:
        """Test lines [L] whose sources have a number of words in this range; None: all."""
        least, largest = (0, math.inf) if words is None else words
        return np.array([least <= len(src.split()) <= largest for src in self.srcs], dtype=np.bool_)

    def statistics(self, system: str) -> Mapping[int, Floats]:
        """BLEU statistics of each seed's translations, [L, 10]."""
        if system not in self._statistics:
            self._statistics[system] = {
                run.seed: bleu_statistics(self.hyps(run, system), self.refs, tokenize=self.tokenizer)
                for run in self.runs_of_system(system)
            }
        return self._statistics[system]

    def hyps(self, run: StudyRun, system: str) -> list[str]:
        """Translations of the test set: those of the run, or with the settings of the system, kept beside the run."""
        config = self.claim.config.systems.get(system)
        path = run.folder.hyps(run.test) if config is None else hyps_of_system(run, config, self.srcs)
        return list(read_lines(path))

    def _value(self, run: StudyRun, system: str, check: CheckConfig) -> float:
        metric = check.metric
        if metric in _LOGGED:
            return float(best_validation(run)[_LOGGED[metric]])
        report = run.folder.read_report()
        match metric:
            case "repetition":
                return repetition_rate(self.hyps(run, system))
            case "rare_words":
                return rare_word_f1(self.hyps(run, system), self.refs, self.training_words)
            case "unseen_words":
                return rare_word_f1(self.hyps(run, system), self.refs, self.training_words, max_count=0)
            case "free_running_gap":
                return free_running_loss(run.folder) - float(best_validation(run)["nll"])
            case "positional_head":
                return positional_head(run)
            case "seconds_to_bleu":
                return seconds_to_bleu(run, check.goal or 0.0)
            case "train_seconds":
                return float(report["train"]["seconds"])
            case "tokens_per_second":
                return float(report["train"]["tokens_per_second"])
            case _:
                return len(self.refs) / float(report["test"][run.test]["seconds"])

    def _bleu_effect(self, check: CheckConfig) -> tuple[dict[int, float], Effect]:
        of, against = self.statistics(check.of), self.statistics(check.against)
        seeds = sorted(of.keys() & against.keys())
        _require_seeds(check, seeds)
        selections = [(1.0, self._lines(check.words))]
        if check.longer_than is not None:
            _, long = lines_by_length(self.srcs, [check.longer_than]).values()
            is_long = np.isin(np.arange(len(self.refs)), long)
            selections = [(1.0, is_long), (-1.0, ~is_long)]
        contrast = BleuContrast({s: of[s] for s in seeds}, {s: against[s] for s in seeds}, selections)
        differences, effect = contrast.effect()
        return dict(zip(seeds, differences, strict=True)), effect


def _require_seeds(check: CheckConfig, seeds: Collection[int]) -> None:
    if not seeds:
        raise DataError(f"{check.of} and {check.against}: no finished run of the same seed; run mtkit reproduce first")
