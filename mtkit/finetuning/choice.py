"""The model that a fine-tuning keeps: the base where nothing is gained, the fine-tuned one, or a mixture of both.

Weights (1 - t)·before + t·after keep much of the gain and lose less of what the model could do before: Wortsman et al.
2022, sec. 3 (WiSE-FT), https://arxiv.org/abs/2109.01903 .
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtkit.display import Table, count_of
from mtkit.evaluation.comparison import compare
from mtkit.evaluation.config import REPORTED
from mtkit.evaluation.metrics import choose_metrics
from mtkit.evaluation.score import bleu_of
from mtkit.io.files import atomic_folder, hash_file, temporary_folder, write_bytes
from mtkit.io.records import write_record
from mtkit.model_folder.config_file import CONFIG, WEIGHTS, read_config, update_fields
from mtkit.model_folder.folder import read_model
from mtkit.model_folder.model_card import write_new_model
from mtkit.pipeline.builders import build_model
from mtkit.pipeline.open_run import Run
from mtkit.pipeline.validator import evenly_spaced
from mtkit.recipe.sections import Recipe
from mtkit.text.lines import read_lines
from mtkit.training.monitoring.meter import Stopwatch
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator

BEFORE, AFTER = "before", "after"
CHOICE, TUNED = "choice.json", "tuned"  # in the run folder: the record, and the fine-tuned model where the base is kept
MAX_LINES = 500  # of own valid
FIRST_LINES = 16  # of the lines whose comparison is timed
MAX_P = 0.05
MODELS = {  # by what a choice is about: the model before it and the one after it
    "fine-tuning": ("base model", "fine-tuned model"),
    "back-translation": ("model of the pairs alone", "model with back-translations"),
}


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """The model that a fine-tuning keeps, and why.

    Attributes:
        keeps_base: the model folder of the run has the base.
        metric: BLEU, or chrF where BLEU does not suit the script.
        before, after: scores on `lines` of own valid.
        p_value: the larger of those of both paired tests.
        means: what makes the new model of the base, a key of MODELS.
        weights: hash of the fine-tuned weights.
    """

    keeps_base: bool
    metric: str
    lines: int
    before: float
    after: float
    p_value: float
    weights: str
    means: str = "fine-tuning"

    def sentence(self) -> str:
        """The choice and its reason."""
        base, new = MODELS[self.means]
        what = f"{base} is kept: {self.means} gained" if self.keeps_base else f"{new} is kept: it gained"
        how = "no more than noise on" if self.keeps_base else "on"
        scores = (
            f"{REPORTED[self.metric].heading} {self.before:.2f} before, {self.after:.2f} after, p {self.p_value:.3f}"
        )
        return f"the {what} {how} {count_of(self.lines, 'line')} of own valid ({scores})"

    def as_dict(self) -> dict[str, Any]:
        """The fields, and the sentence."""
        return {**asdict(self), "sentence": self.sentence()}


def choose_back_translation(run: Run, base: Path) -> None:
    """Keep the model of a run that was trained on back-translations too, or that of the pairs; see `choose_model`."""
    choose_model(run, base, means="back-translation")


def choose_model(run: Run, base: Path, max_lines: int = MAX_LINES, *, means: str = "fine-tuning") -> ModelChoice:
    """Keep the fine-tuned model of a run if it is better than the base on own valid, beyond noise; otherwise the base.

    Better is a higher BLEU with p < 0.05 in the paired bootstrap and in paired randomisation. The loss is no criterion:
    it falls with hardly any training, as the model learns the style and the frequent words of the text, also where all
    translations stay useless, and its noise is too small to hold that back. Two tests, since samples of a few lines are
    too alike for the bootstrap alone. Of useless fine-tunings 1 in 40 or fewer seem better so.

    The base is copied to the model folder, with the record of the training, so that the run stays a finished one. The
    fine-tuned model is copied to TUNED before. An interrupted call is repeated with the same result.

    At most `max_lines` of own valid are compared.

    Raises:
        MissingInputError, DataError, ReadWriteError: a model or text cannot be read, or a file not be written.
    """
    folder, path = run.folder, run.folder.path / CHOICE
    weights = hash_file(folder.model / WEIGHTS)
    known = run.read_record(path)
    known.pop("sentence", None)
    if known and weights == (hash_file(base / WEIGHTS) if known["keeps_base"] else known["weights"]):
        return ModelChoice(**known)
    choice = (
        ModelChoice(**known)
        if known and weights == known["weights"]
        else replace(_compare(run, base, folder.model, max_lines, weights), means=means)
    )
    if choice.keeps_base:
        _copy_model(folder.model, folder.path / TUNED, {})
    else:
        shutil.rmtree(folder.path / TUNED, ignore_errors=True)  # of an earlier training
    write_record(path, choice.as_dict())
    run.update_record(folder.report, {"choice": choice.sentence()})
    if choice.keeps_base:
        _copy_model(base, folder.model, {"training": read_config(folder.model / CONFIG)["training"]})
    run.notify("choice", choice.sentence())
    return choice


def lines_within(run: Run, base: Path, seconds: float) -> tuple[int, float]:
    """Lines that are compared within some seconds, and the seconds that their comparison takes.

    The base is compared with itself, with twice the lines each time.
    """
    count = FIRST_LINES
    while True:
        watch = Stopwatch()
        compared = _compare(run, base, base, count, "")
        took = watch.seconds
        if compared.lines < count or count >= MAX_LINES or 2 * took > seconds:
            return count, took
        count = min(2 * count, MAX_LINES)


def tuned_model(run: Path, choice: ModelChoice) -> Path:
    """The folder of the fine-tuned model."""
    return run / (TUNED if choice.keeps_base else "model")


def _compare(run: Run, base: Path, tuned: Path, max_lines: int, weights: str) -> ModelChoice:
    recipe, files = run.recipe, run.recipe.corpus.valid_sets[0]
    src, ref = list(read_lines(files.src)), list(read_lines(files.tgt))
    lines = evenly_spaced(len(src), max_lines)
    hyps = {}
    for label, model in ((BEFORE, base), (AFTER, tuned)):
        translator = load_translator(model, search=recipe.search).with_source_prefix(files)
        hyps[label] = translator.translate_lines([src[line] for line in lines])
    refs, lang = [[ref[line] for line in lines]], recipe.corpus.language_of_target(files)
    tokenize, lowercase = recipe.evaluation.tokenize, recipe.evaluation.lowercase
    metric = next(iter(choose_metrics(refs, ("bleu", "chrf"), tgt_lang=lang, tokenize=tokenize).metrics))
    result = compare(hyps, refs, (metric,), tgt_lang=lang, tokenize=tokenize, lowercase=lowercase)
    before, after = (result.scores[label].values[metric].value for label in (BEFORE, AFTER))
    p_value = max(test[metric][AFTER] for test in result.p_values.values())
    return ModelChoice(
        keeps_base=not (after > before and p_value < MAX_P),
        metric=metric,
        lines=len(lines),
        before=before,
        after=after,
        p_value=p_value,
        weights=weights,
    )


def _copy_model(model: Path, output: Path, changes: dict[str, Any]) -> None:
    """Copy a model folder, with changed fields of its config.json; the lexicon may be missing."""
    with atomic_folder(output) as temporary:
        for name in (*read_config(model / CONFIG)["files"], CONFIG):
            if (model / name).is_file():
                write_bytes(temporary / name, (model / name).read_bytes())
        update_fields(temporary, **changes)


SHARES = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0)  # of the weights after; 0 is the model before
MIXTURE_LINES = 300  # of each validation set
MIXTURE = "mixture"  # folder of the chosen model

Bleu = Mapping[str, float]  # by validation set, own and general


def mix(
    recipe: Recipe, run: Path, tuned: Path, *, max_loss: float, notify: Callable[[str, str], None]
) -> tuple[Path, Table]:
    """Measure mixtures on the validation sets, own first and general second, and write the chosen one.

    Args:
        tuned: folder of the model after.
        max_loss: BLEU of general text that may be lost.
        notify: receives the name of the step and a message.

    Returns:
        The model folder of the chosen mixture, and a table of all.

    Raises:
        MissingInputError, DataError, ReadWriteError: a model or a text cannot be read, or the mixture not be written.
    """
    loaded, output = read_model(tuned), run / MIXTURE
    before = weights(build_model(recipe, loaded.tokenizers, lambda stage, message: None).cpu())
    after = weights(loaded.model)
    bleu: dict[float, Bleu] = {}
    for share in SHARES:
        with temporary_folder(output) as temporary:
            model = temporary / "model"
            write_new_model(model, interpolate(before, after, share), loaded.metadata, loaded.tokenizers)
            bleu[share] = _bleu_by_set(model, recipe)
        values = ", ".join(f"{name} {value:.2f}" for name, value in bleu[share].items())
        notify("mixture", f"{share:.2f} of the weights after: BLEU {values}")
    chosen = choose(bleu, max_loss)
    write_new_model(output, interpolate(before, after, chosen), loaded.metadata, loaded.tokenizers)
    rows = [
        [f"{share:.2f}", *(f"{value:.2f}" for value in by_set.values()), "chosen" if share == chosen else ""]
        for share, by_set in bleu.items()
    ]
    headings = ["share of after", *(f"{name} BLEU" for name in bleu[chosen]), ""]
    title = f"mixtures of the weights before and after, on valid; at most {max_loss:g} BLEU of general lost"
    return output, Table(headings, rows, text=("",), title=title)


def interpolate(before: Mapping[str, Tensor], after: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """(1 - share)·before + share·after; tensors of integers are those after."""
    return {
        name: torch.lerp(before[name], tensor, share) if tensor.is_floating_point() else tensor
        for name, tensor in after.items()
    }


def choose(bleu: Mapping[float, Bleu], max_loss: float) -> float:
    """The share with the highest own BLEU among those that lose at most `max_loss` of each general one."""
    own, *general = next(iter(bleu.values()))
    allowed = [share for share, each in bleu.items() if all(each[n] >= bleu[0.0][n] - max_loss for n in general)]
    return max(allowed, key=lambda share: bleu[share][own])


def _bleu_by_set(model: Path, recipe: Recipe) -> Bleu:
    translator = load_translator(model, search=recipe.search)
    bleu: dict[str, float] = {}
    for name, files in zip(recipe.corpus.test, recipe.corpus.valid_sets, strict=True):
        src, ref = list(read_lines(files.src)), list(read_lines(files.tgt))
        lines = evenly_spaced(len(src), MIXTURE_LINES)
        hyps = translator.with_source_prefix(files).translate_lines([src[line] for line in lines])
        refs = [ref[line] for line in lines]
        scoring = recipe.evaluation
        lang = recipe.corpus.language_of_target(files)
        bleu[name] = bleu_of(hyps, refs, tgt_lang=lang, tokenize=scoring.tokenize, lowercase=scoring.lowercase)
    return bleu
