"""Mixtures of the weights of a model before and after fine-tuning, chosen on the validation sets.

(1 - t)·before + t·after keeps much of the gain and loses less of what the model could do before: Wortsman et al. 2022,
sec. 3 (WiSE-FT), https://arxiv.org/abs/2109.01903 .
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtkit.corpus.config import MonolingualFile, ParallelFiles
from mtkit.display import Table
from mtkit.evaluation.score import bleu_of
from mtkit.io.files import temporary_folder
from mtkit.model_folder.folder import read_metadata, read_model, read_tokenizers
from mtkit.model_folder.model_card import write_new_model
from mtkit.pipeline.builders import build_model
from mtkit.pipeline.run_folder import RunFolder
from mtkit.pipeline.validator import evenly_spaced
from mtkit.recipe.sections import Recipe
from mtkit.text.lines import read_lines
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator
from mtkit.translate.translator import Translator

SHARES = (0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0)  # of the weights after; 0 is the model before
MAX_LINES = 300  # of each validation set
MIXTURE = "mixture"  # folder of the chosen model

Bleu = Mapping[str, float]  # by validation set, own and general


@dataclass(frozen=True)
class Mixtures:
    """Measured mixtures.

    Attributes:
        bleu: of each share of the weights after.
        chosen: the share whose own BLEU is highest among those that lose at most `max_loss` of the general one.
        folder: the model folder of that mixture.
    """

    bleu: Mapping[float, Bleu]
    chosen: float
    max_loss: float
    folder: Path

    def table(self) -> Table:
        """One row for each mixture."""
        rows = [
            [f"{share:.2f}", *(f"{value:.2f}" for value in bleu.values()), "chosen" if share == self.chosen else ""]
            for share, bleu in self.bleu.items()
        ]
        names = [f"{name} BLEU" for name in next(iter(self.bleu.values()))]
        title = f"mixtures of the weights before and after, on valid; at most {self.max_loss:g} BLEU of general lost"
        return Table(["share of after", *names, ""], rows, text=("",), title=title)


def mix(
    recipe: Recipe, folder: RunFolder, tuned: Path, *, max_loss: float, notify: Callable[[str, str], None]
) -> Mixtures:
    """Measure mixtures on the validation sets, own first and general second, and write the chosen one.

    Args:
        tuned: folder of the model after.
        max_loss: BLEU of general text that may be lost.
        notify: receives the name of the step and a message.

    Raises:
        MissingInputError, DataError, ReadWriteError: a model or a text cannot be read, or the mixture not be written.
    """
    metadata, tokenizers = read_metadata(tuned), read_tokenizers(tuned, read_metadata(tuned))
    before = weights(build_model(recipe, tokenizers, lambda stage, message: None).cpu())
    after = weights(read_model(tuned).model)
    output = folder.path / MIXTURE
    bleu: dict[float, Bleu] = {}

    def write(path: Path, share: float) -> None:
        tensors = interpolate(before, after, share)
        write_new_model(path, tensors, metadata, tokenizers)

    for share in SHARES:
        with temporary_folder(output) as temporary:
            write(temporary / "model", share)
            bleu[share] = _bleu(temporary / "model", recipe)
        values = ", ".join(f"{name} {value:.2f}" for name, value in bleu[share].items())
        notify("mixture", f"{share:.2f} of the weights after: BLEU {values}")
    chosen = choose(bleu, max_loss)
    write(output, chosen)
    return Mixtures(bleu, chosen, max_loss, output)


def interpolate(before: Mapping[str, Tensor], after: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """(1 - share)·before + share·after; tensors of integers are those after."""
    return {
        name: torch.lerp(before[name], tensor, share) if tensor.is_floating_point() else tensor
        for name, tensor in after.items()
    }


def choose(bleu: Mapping[float, Bleu], max_loss: float) -> float:
    """The share with the highest own BLEU among those that lose at most `max_loss` of the general one."""
    own, general = next(iter(bleu.values()))
    allowed = [share for share, each in bleu.items() if each[general] >= bleu[0.0][general] - max_loss]
    return max(allowed, key=lambda share: bleu[share][own])


def _bleu(model: Path, recipe: Recipe) -> Bleu:
    names = list(recipe.corpus.test)
    sets = zip(names, recipe.corpus.valid_sets, strict=True)
    translator = load_translator(model, search=recipe.search)
    return {name: _bleu_of(files, translator, recipe) for name, files in sets}


def _bleu_of(files: ParallelFiles | MonolingualFile, translator: Translator, recipe: Recipe) -> float:
    src, ref = list(read_lines(files.src)), list(read_lines(files.tgt))
    chosen = evenly_spaced(len(src), MAX_LINES)
    hyps = translator.with_source_prefix(files).translate_lines([src[line] for line in chosen])
    refs = [ref[line] for line in chosen]
    return bleu_of(hyps, refs, tgt_lang=recipe.corpus.tgt_lang, tokenize=recipe.evaluation.tokenize)
