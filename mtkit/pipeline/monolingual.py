"""A system of pairs and of further text in the target language, which a system of the other direction translates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mtkit.corpus.config import SentencePairs, extract_lines
from mtkit.errors import UsageError
from mtkit.pipeline import stages
from mtkit.pipeline.choices import choose_for_run
from mtkit.pipeline.languages import language_mistake
from mtkit.pipeline.open_run import Run, run_folder_path
from mtkit.recipe.defaults.choose import Draft
from mtkit.recipe.defaults.facts import BudgetLimits
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import Recipe
from mtkit.training.distributed import num_processes
from mtkit.training.monitoring.log import Display

REVERSE, PAIRS = "reverse", "pairs"  # in the run folder: runs of the other direction, and of the pairs alone
SHARE = 0.25  # of a budget, for each of the two; the translation and the training on both have the rest


@dataclass(frozen=True, kw_only=True)
class MonolingualText:
    """Text in the target language beside the pairs of a recipe.

    Attributes:
        text: file in the target language, line by line.
        read: reads the recipe of the pairs, with overrides.
        choose: keeps the model of the run if it is better than the one of a folder on valid, otherwise that one.
    """

    text: Path
    read: Callable[[Sequence[str]], Draft]
    choose: Callable[[Run, Path], None]

    def draft(self, run_dir: Path | None) -> Draft:
        """The recipe with the text, whose sources the reverse system of the run folder makes."""
        recipe = self.read([]).recipe
        reverse = run_folder_path(recipe, run_dir) / REVERSE
        number = len(recipe.corpus.train)
        paths = {"mono": self.text.absolute(), "backtranslate": reverse, "output": reverse.parent / "backtranslated"}
        return self.read([f"corpus.train.{number}={_as_yaml({**paths, 'tag': 'BT'})}"])

    def run(
        self,
        limits: BudgetLimits,
        *,
        run_dir: Path | None,
        fresh: bool,
        display: Display,
        notify: Callable[[str], None],
    ) -> stages.Report:
        """Train the reverse system, that of the pairs and that of both, and keep the better one of the last two.

        Arguments and errors as `choose_for_run` and `run_stages`; UsageError also if there are several processes.
        """
        if num_processes() > 1:  # noticed before the first training, not at the translation
            raise UsageError("--mono: one process translates the text; run it without torchrun, or on one GPU")
        pairs = self.read([])
        extract_lines(pairs.recipe.corpus.all_files, notify)
        folder = run_folder_path(pairs.recipe, run_dir)
        if mistake := language_mistake(self.text, pairs.recipe.corpus.tgt_lang):
            notify(f"--mono: {mistake}; check the file")
        part = partial(_limited, limits)
        for name, draft in ((REVERSE, self.read(_reversed(pairs.recipe))), (PAIRS, pairs)):
            notify(f"{name}: {folder / name}")
            shared = part(SHARE)
            recipe = choose_for_run(draft, shared, run_dir=folder / name, fresh=fresh)
            stages.train_stages(recipe, run_dir=folder / name, fresh=fresh, display=display, started=shared.started)
        rest = part(1 - 2 * SHARE)
        recipe = choose_for_run(self.draft(run_dir), rest, run_dir=folder, fresh=fresh, notify=notify)
        return stages.run_stages(
            recipe,
            run_dir=folder,
            fresh=fresh,
            display=display,
            started=rest.started,
            after_training=lambda run: self.choose(run, folder / PAIRS / "model"),
        )


def _limited(limits: BudgetLimits, share: float) -> BudgetLimits:
    """A share of a budget, which begins now."""
    hours = None if limits.hours is None else limits.hours * share
    return replace(limits, hours=hours, started=time.perf_counter())


def _as_yaml(fields: Mapping[str, Path | str | float]) -> str:
    return json.dumps(to_plain(fields), ensure_ascii=False)


def _reversed(recipe: Recipe) -> list[str]:
    """Overrides that exchange source and target of a recipe of texts, without test sets.

    Weights and limits stay. Tags, prefixes and languages go: the text that is translated back has none of them.
    """

    def swapped(files: SentencePairs) -> str:
        values = to_plain(files)
        share = {key: values[key] for key in ("weight", "limit") if values.get(key) is not None}
        return _as_yaml({"src": files.tgt.absolute(), "tgt": files.src.absolute(), **share})

    corpus = recipe.corpus
    train = corpus.train_pairs.values()
    valid = [each for each in corpus.valid_sets if isinstance(each, SentencePairs)]
    return [
        f"corpus.src_lang={corpus.tgt_lang}",
        f"corpus.tgt_lang={corpus.src_lang}",
        f"corpus.train=[{', '.join(map(swapped, train))}]",
        *(f"corpus.valid={swapped(each)}" for each in valid[:1]),
        "corpus.test={}",
    ]
