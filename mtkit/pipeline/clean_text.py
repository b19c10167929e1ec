"""Texts to clean: two files of lines, parallel text by its names, or the training text of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from mtkit.corpus.clean import CleanReport, ShardFaults, TextCleaner
from mtkit.corpus.config import CorpusConfig, extract_lines
from mtkit.corpus.filters.config import FilterConfig, default_filters
from mtkit.corpus.filters.filter import Context
from mtkit.corpus.lenient_reading import ParallelInput
from mtkit.documents.reading import Report, ignore
from mtkit.errors import DataError, RecipeError, UsageError
from mtkit.io.files import atomic_folder, hash_file
from mtkit.io.records import Json
from mtkit.io.shards import Shard, find_shards, remove_shards
from mtkit.model_folder.config_file import model_hash
from mtkit.model_folder.folder import find_model
from mtkit.pipeline.check_text import Langs, Pair, given_text, held_out_of, held_out_text, open_text
from mtkit.recipe.paths import to_plain
from mtkit.translate.load import load_scorer
from mtkit.translate.ray_pool import RayCluster

SHARD_PAIRS = 50_000  # of a cluster: seconds to minutes of work each


@dataclass(frozen=True)
class Division:
    """The parts in which a text is cleaned; by default it is cleaned as a whole.

    Attributes:
        shard: the part whose faults are found, and nothing else; the cleaning that follows takes them.
        cluster: finds the faults of all parts.
    """

    shard: Shard | None = None
    cluster: RayCluster | None = None


WHOLE = Division()


def clean_files(
    names: Sequence[Path],
    langs: Langs,
    held_out: Sequence[Pair],
    output: Path,
    notify: Report,
    encoding: str | None = None,
    *,
    division: Division = WHOLE,
) -> CleanReport | None:
    """Clean a parallel text by the default filters; arguments and errors as `open_text`.

    Args:
        held_out: files of valid and test.
        output: the folder of the result, which appears when it is complete.

    Returns:
        None for a shard.

    Raises:
        UsageError: the folder has files.
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `TextCleaner`.
    """
    _require_new_folder(output)
    text, filters = open_text(names, langs, notify, encoding), default_filters()
    cleaner = TextCleaner(text, filters, Context(held_out=held_out_text(held_out)))
    parts = _parts(cleaner, text, filters, held_out, output, division)
    if parts is None:
        return None
    with atomic_folder(output) as folder:
        report = cleaner.write(cleaner.judge(parts), folder)
    remove_shards(output)
    return report


def _parts(
    cleaner: TextCleaner,
    text: ParallelInput,
    filters: Sequence[FilterConfig],
    held_out: Sequence[Pair],
    output: Path,
    division: Division,
) -> list[ShardFaults] | None:
    """The faults of all shards of a text, none if it has no shards; those of a stated one are written alone (None).

    Those of a cluster are written as they come, so that a command that was killed finds only what is left.

    Raises:
        UsageError: the text is that of stdin; shards are missing; as `find_shards`.
        DataError: shards were made from other text or filters.
    """
    if (division.shard or division.cluster) and text.resources is not None:
        raise UsageError("-: is stdin, which only this process can read; give a file")
    if not (division.shard or division.cluster or find_shards(output)):
        return []
    paths = [*text.paths, *(path for pair in held_out for path in pair)]
    models = [model_hash(find_model(model)) for each in filters for model in each.models]
    inputs: Json = {"text": [hash_file(path) for path in paths], "filters": to_plain(list(filters)), "models": models}
    if division.shard is not None:
        bounds = division.shard.bounds(cleaner.pairs)
        division.shard.make([output], inputs, lambda files: cleaner.finder(bounds).save(files[0]))
        return None
    if division.cluster is not None:
        count = -(-cleaner.pairs // SHARD_PAIRS)
        shards = [Shard(each, count) for each in range(1, count + 1)]
        left = [shard for shard in shards if not shard.is_made(output, inputs)]
        found = division.cluster.map(cleaner.finder, [shard.bounds(cleaner.pairs) for shard in left]) if left else ()
        for shard, faults in zip(left, found, strict=True):
            shard.make([output], inputs, partial(_save, faults))
    shards = find_shards(output)
    if changed := next((each for each in shards if not each.is_made(output, inputs)), None):
        raise DataError(f"{changed.of(output)}: made from other text or filters; delete it, and make it again")
    return [ShardFaults.load(each.of(output)) for each in shards]


def _save(faults: ShardFaults, files: list[Path]) -> None:
    faults.save(files[0])


def clean_recipe(
    corpus: CorpusConfig, output: Path, notify: Report = ignore, *, division: Division = WHOLE
) -> Iterator[CleanReport]:
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
    filters, held_out = corpus.filters or default_filters(), held_out_of(corpus)
    texts = {number: given_text(corpus, files) for number, files in pairs.items()}
    cleaners = {number: TextCleaner(text, filters, context) for number, text in texts.items()}
    has_several = len(corpus.train) > 1
    names = {number: output.with_name(f"{output.name}.{number}") if has_several else output for number in pairs}
    parts = {
        number: _parts(cleaners[number], text, filters, held_out, names[number], division)
        for number, text in texts.items()
    }
    if division.shard is not None:
        return
    with atomic_folder(output) as folder:
        for number in pairs:
            part = folder / str(number) if has_several else folder
            part.mkdir(exist_ok=True)
            cleaner = cleaners.pop(number)
            yield cleaner.write(cleaner.judge(parts[number] or ()), part)
    for name in names.values():
        remove_shards(name)


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
