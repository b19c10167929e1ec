"""Size, speed and BLEU of a model, and their table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.display import Table
from mtkit.evaluation.score import bleu_of
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.inference.support import ComputeType
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.translate.load import load_translator
from mtkit.translate.reference_text import ReferenceText

WARM_UP_LINES = 16
NUM_TURNS = 3  # the fastest counts: other programs can only slow a translation down
MIB = 1 << 20


@dataclass(frozen=True)
class ModelFigures:
    """Figures of a model: parameters, MiB of its file of weights, BLEU, and lines per second."""

    parameters: int
    mebibytes: float
    bleu: float | None = None
    lines_per_second: float | None = None


def measure(
    folders: Sequence[Path],
    parameters: Sequence[int],
    text: ReferenceText | None,
    *,
    tgt_lang: str,
    compute_type: ComputeType,
) -> list[ModelFigures]:
    """Measure model folders; without text their sizes alone. The models take turns in translating, several times.

    Raises:
        MissingInputError, DataError, UsageError: as `load_translator` and `Translator.translate`.
    """
    sizes = [(folder / WEIGHTS).stat().st_size / MIB for folder in folders]
    if text is None:
        return [ModelFigures(*figures) for figures in zip(parameters, sizes, strict=True)]
    translators = [
        load_translator(folder, compute_type=compute_type).with_source_prefix(text.prefix) for folder in folders
    ]
    for translator in translators:
        translator.translate_lines(text.src[:WARM_UP_LINES])
    seconds, hyps = [float("inf")] * len(folders), [[""]] * len(folders)
    for turn in range(NUM_TURNS * len(folders)):
        number, start = turn % len(folders), time.perf_counter()
        hyps[number] = translators[number].translate_lines(text.src)
        seconds[number] = min(seconds[number], time.perf_counter() - start)
    tokenizer = choose_tokenizer(text.ref, tgt_lang, "auto").name
    return [
        ModelFigures(parameters[n], sizes[n], bleu_of(each, text.ref, tokenize=tokenizer), len(text.src) / seconds[n])
        for n, each in enumerate(hyps)
    ]


def size_table(rows: Sequence[tuple[str, ModelFigures]]) -> Table:
    """One row for each model, with its share of the first one's size and speed."""
    first = rows[0][1]
    all_cells = []
    for name, row in rows:
        cells = [f"{row.parameters:,}", f"{row.mebibytes:.2f}", f"{100 * row.mebibytes / first.mebibytes:.0f} %"]
        if row.bleu is not None and row.lines_per_second is not None and first.lines_per_second is not None:
            speed = row.lines_per_second / first.lines_per_second
            cells += [f"{row.bleu:.2f}", f"{row.lines_per_second:.1f}", f"{speed:.2f}×"]
        else:
            cells += ["", "", ""]
        all_cells.append([name, *cells])
    return Table(("model", "parameters", "MiB", "size", "BLEU", "lines/s", "speed"), all_cells, text=("model",))
