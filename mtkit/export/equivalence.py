"""Equivalence check of an exported model: both engines must give the same translations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mtkit.corpus.store import MANIFEST, Store
from mtkit.errors import DataError
from mtkit.model_folder.folder import LoadedModel
from mtkit.search.config import SearchConfig
from mtkit.text.lines import read_lines
from mtkit.translate.engines.interface import Engine, TorchEngine
from mtkit.translate.translator import Translator

NUM_LINES = 100
MIN_EQUAL_SHARE = 0.99  # of the translations; near-ties may be decided differently
MAX_RANDOM_TOKENS = 20  # in a random line


@dataclass(frozen=True)
class SampleLines:
    """Lines to translate with both engines, with a description of their origin."""

    lines: Sequence[str]
    origin: str


def sample_lines(model: Path, loaded: LoadedModel, file: Path | None) -> SampleLines:
    """Choose lines for the check: of a file, of the run's validation or training text, or random tokens.

    Args:
        model: model or run folder; a model folder contains no text, so that random lines are used.
        loaded: the model.
        file: text whose first lines are used; None looks for the text of the run.

    Raises:
        DataError: the file is empty.
        DataError, MissingInputError, ReadWriteError: as `read_lines`.
    """
    if file is not None:
        lines = list(itertools.islice(read_lines(file), NUM_LINES))
        if not lines:
            raise DataError(f"{file}: has no lines to translate")
        return SampleLines(lines, str(file))
    for name in ("valid", "train.0"):
        folder = model / "corpus" / name
        if (folder / MANIFEST).is_file():
            store = Store(folder)
            lines = [store.text("src", i) for i in range(min(NUM_LINES, len(store)))]
            return SampleLines(lines, f"the run's {name} text")
    tokenizer = loaded.tokenizers.src
    excluded = {*tokenizer.special_ids(), tokenizer.vocab.unk}
    tokens = [token for token in range(tokenizer.vocab.size) if token not in excluded]
    rng = random.Random(1)
    random_lines = [rng.choices(tokens, k=rng.randint(1, MAX_RANDOM_TOKENS)) for _ in range(NUM_LINES)]
    return SampleLines(tokenizer.decode(random_lines), "random tokens; --check FILE uses real text")


def check_equivalence(loaded: LoadedModel, engine: Engine, sample: SampleLines) -> str:
    """Translate the sample with both engines by greedy search in float32.

    Returns:
        A sentence with the number of equal translations.

    Raises:
        DataError: less than MIN_EQUAL_SHARE of the translations are equal; the message shows the first difference.
    """
    expected = _translate(loaded, TorchEngine([loaded.model], compute_type="float32"), sample)
    exported = _translate(loaded, engine, sample)
    triples = list(zip(sample.lines, expected, exported, strict=True))
    num_equal = sum(ours == theirs for _, ours, theirs in triples)
    summary = f"{num_equal} of {len(triples)} translations are equal (greedy, float32; {sample.origin})"
    if num_equal < MIN_EQUAL_SHARE * len(triples):
        line, ours, theirs = next(triple for triple in triples if triple[1] != triple[2])
        raise DataError(
            f"{loaded.folder}: the exported model translates differently: {summary}; nothing was written\n"
            f"source: {line}\nmtkit: {ours}\nexported: {theirs}"
        )
    return summary


def _translate(loaded: LoadedModel, engine: Engine, sample: SampleLines) -> list[str]:
    search = replace(loaded.metadata.search, beam_size=1, n_best=1, rerank=None, method=SearchConfig().method)
    # penalties that the other engine may lack, and that do not affect whether the models are equal
    plain = replace(search, length_penalty=1.0, coverage_penalty=0.0, repetition_penalty=1.0)
    plain = plain.limited_to(loaded.metadata.model.max_target_length())
    translator = Translator(engine, loaded.tokenizers, plain, max_source_length=loaded.metadata.max_source_length)
    return translator.translate_lines(sample.lines)
