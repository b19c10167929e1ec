"""Whether an exported model translates as the model that it was made from."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.corpus.store import MANIFEST, Store
from mtkit.errors import DataError
from mtkit.model_folder.folder import Loaded
from mtkit.search.config import SearchConfig
from mtkit.text.lines import read_lines
from mtkit.translate.engines.interface import Engine, OwnEngine
from mtkit.translate.translator import Translator

LINES = 100
LEAST = 0.99  # share of the lines that must come out equal
LONGEST = 20  # pieces of a line that is made up


@dataclass(frozen=True)
class Sample:
    """Lines to translate with both engines, and where they are from."""

    lines: Sequence[str]
    origin: str


def sample_lines(model: Path, loaded: Loaded, file: Path | None) -> Sample:
    """The first lines of a file; else of the validation or training text, if the model lies in a run folder.

    A model folder holds no text: then lines are made up of pieces of the vocabulary.

    Raises:
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
        DataError: the file has no lines.
    """
    if file is not None:
        lines = list(itertools.islice(read_lines(file), LINES))
        if not lines:
            raise DataError(f"{file}: has no lines to translate")
        return Sample(lines, str(file))
    for name in ("valid", "train.0"):
        folder = model / "corpus" / name
        if (folder / MANIFEST).is_file():
            store = Store(folder)
            return Sample([store.text("src", i) for i in range(min(LINES, len(store)))], f"the run's {name} text")
    tokenizer = loaded.tokenizers.src
    unwanted = {*tokenizer.control_ids(), tokenizer.vocab.unk}
    pieces = [piece for piece in range(tokenizer.vocab.size) if piece not in unwanted]
    rng = random.Random(1)
    made = [rng.choices(pieces, k=rng.randint(1, LONGEST)) for _ in range(LINES)]
    return Sample(tokenizer.decode(made), "lines of random pieces; --check FILE takes better ones")


def check_agreement(loaded: Loaded, engine: Engine, sample: Sample) -> str:
    """Translate the sample greedily in float32 with both engines; gives a sentence on how many lines are equal.

    Raises:
        DataError: fewer are equal than LEAST.
    """
    ours = _translate(loaded, OwnEngine([loaded.model], compute_type="float32"), sample)
    theirs = _translate(loaded, engine, sample)
    pairs = list(zip(sample.lines, ours, theirs, strict=True))
    equal = sum(own == other for _, own, other in pairs)
    said = f"{equal} of {len(pairs)} lines are translated equally (greedy, float32; {sample.origin})"
    if equal < LEAST * len(pairs):
        line, own, other = next(pair for pair in pairs if pair[1] != pair[2])
        raise DataError(
            f"{loaded.folder}: the exported model is not the same: {said}; nothing was written\n"
            f"source: {line}\nmtkit: {own}\nexported: {other}"
        )
    return said


def _translate(loaded: Loaded, engine: Engine, sample: Sample) -> list[str]:
    search = replace(loaded.description.search, beam_size=1, n_best=1, rerank=None, method=SearchConfig().method)
    plain = replace(search, length_penalty=1.0, coverage_penalty=0.0, repetition_penalty=1.0)
    plain = plain.within(loaded.description.model.longest_target())
    longest = loaded.description.longest_source
    return Translator(engine, loaded.tokenizers, plain, longest_source=longest).translate_lines(sample.lines)
