"""Texts to clean: two files, one document with both sides, or the training text of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from mtkit.corpus.clean import CleanReport, TextCleaner
from mtkit.corpus.config import CorpusConfig, TrainParallelFiles
from mtkit.corpus.filters.config import default_filters
from mtkit.corpus.filters.filter import Context
from mtkit.corpus.lenient_reading import ParallelInput
from mtkit.errors import RecipeError, UsageError
from mtkit.io.files import atomic_folder, require_regular_file
from mtkit.pipeline.check_text import Langs, Pair, held_out_of, held_out_text, open_text
from mtkit.translate.load import load_scorer


def clean_files(
    files: Sequence[Path], langs: Langs, held_out: Sequence[Pair], output: Path, notify: Callable[[str], None]
) -> CleanReport:
    """Clean two files of lines, or one document with both sides, by the default filters.

    Args:
        langs: stated languages; a TMX document needs both.
        held_out: files of valid and test.
        output: the folder of the result, which appears when it is complete.

    Raises:
        UsageError: the folder has files; otherwise as `check_files`.
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCleaner`.
    """
    require_new_folder(output)
    for path in (*files, *chain.from_iterable(held_out)):
        require_regular_file(path)
    context = Context(held_out=held_out_text(held_out))
    text = open_text(files, langs, notify)
    with atomic_folder(output) as folder:
        return TextCleaner(text, default_filters(), context)(folder)


def clean_recipe(corpus: CorpusConfig, output: Path) -> Iterator[CleanReport]:
    """Clean the pairs of training text of a recipe by `corpus.filters`, or by the default ones where it has none.

    The result is in the folder `output`, of several corpora in folders in it that have their numbers.

    Raises:
        UsageError: the folder has files.
        RecipeError: there are no pairs.
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCleaner`.
    """
    require_new_folder(output)
    pairs = {number: each for number, each in enumerate(corpus.train) if isinstance(each, TrainParallelFiles)}
    if not pairs:
        raise RecipeError("corpus.train: text in one language alone, and filters compare two sides; give src and tgt")
    context = Context(held_out=held_out_text(held_out_of(corpus)), cross_entropies=cross_entropies)
    filters = corpus.filters or default_filters()
    with atomic_folder(output) as folder:
        for number, files in pairs.items():
            part = folder / str(number) if len(corpus.train) > 1 else folder
            part.mkdir(exist_ok=True)
            langs = corpus.languages_of(files)
            yield TextCleaner(ParallelInput.of_files(files.src, files.tgt, langs), filters, context)(part)


def require_new_folder(folder: Path) -> None:
    """Refuse a folder that has files, which would be lost.

    Raises:
        UsageError: it has some, or is a file.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists; delete it, or name another folder with -o")


_load = cache(lambda model: load_scorer([model]))


def cross_entropies(model: Path, src: Sequence[str], tgt: Sequence[str]) -> list[float]:
    """The cross-entropy of each target by a model, nats a token with the end of sentence.

    Raises:
        MissingInputError, DamagedError: as `load_scorer`.
    """
    scores = _load(model)(zip(src, tgt, strict=True))
    return [-each.log_prob / max(1, len(each.token_log_probs)) for each in scores]
