"""Texts to clean: two files of lines, parallel text by its names, or the training text of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from mtkit.corpus.clean import CleanReport, TextCleaner
from mtkit.corpus.config import CorpusConfig, extract_lines
from mtkit.corpus.filters.config import default_filters
from mtkit.corpus.filters.filter import Context
from mtkit.documents.reading import Report, ignore
from mtkit.errors import RecipeError, UsageError
from mtkit.io.files import atomic_folder
from mtkit.pipeline.check_text import Langs, Pair, given_text, held_out_of, held_out_text, open_text
from mtkit.translate.load import load_scorer


def clean_files(
    names: Sequence[Path],
    langs: Langs,
    held_out: Sequence[Pair],
    output: Path,
    notify: Report,
    encoding: str | None = None,
) -> CleanReport:
    """Clean a parallel text by the default filters; arguments and errors as `open_text`.

    Args:
        held_out: files of valid and test.
        output: the folder of the result, which appears when it is complete.

    Raises:
        UsageError: the folder has files.
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCleaner`.
    """
    _require_new_folder(output)
    cleaner = TextCleaner(
        open_text(names, langs, notify, encoding), default_filters(), Context(held_out=held_out_text(held_out))
    )
    with atomic_folder(output) as folder:
        return cleaner.write(cleaner.judge(), folder)


def clean_recipe(corpus: CorpusConfig, output: Path, notify: Report = ignore) -> Iterator[CleanReport]:
    """Clean the pairs of training text of a recipe by `corpus.filters`, or by the default ones where it has none.

    The result is in the folder `output`, of several corpora in folders in it that have their numbers.

    Raises:
        UsageError: the folder has files.
        RecipeError: there are no pairs.
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCleaner`.
    """
    _require_new_folder(output)
    pairs = corpus.train_pairs
    if not pairs:
        raise RecipeError("corpus.train: text in one language alone, and filters compare two sides; give src and tgt")
    extract_lines(corpus.all_files, notify)
    context = recipe_context(corpus)
    with atomic_folder(output) as folder:
        for number, files in pairs.items():
            part = folder / str(number) if len(corpus.train) > 1 else folder
            part.mkdir(exist_ok=True)
            cleaner = TextCleaner(given_text(corpus, files), corpus.filters or default_filters(), context)
            yield cleaner.write(cleaner.judge(), part)


def recipe_context(corpus: CorpusConfig) -> Context:
    """Held-out lines and models for the filters of a recipe; errors as `held_out_text`."""
    return Context(held_out=held_out_text(held_out_of(corpus)), cross_entropies=_cross_entropies)


def _require_new_folder(folder: Path) -> None:
    """Refuse a folder that has files, which would be lost."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists; delete it, or name another folder with -o")


_load = cache(lambda model: load_scorer([model]))


def _cross_entropies(model: Path, src: Sequence[str], tgt: Sequence[str]) -> list[float]:
    """The cross-entropy of each target by a model, nats a token with the end of sentence; errors as `load_scorer`."""
    scores = _load(model)(zip(src, tgt, strict=True))
    return [-each.log_prob / max(1, len(each.token_log_probs)) for each in scores]
