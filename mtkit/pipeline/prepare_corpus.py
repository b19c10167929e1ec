"""The binarised corpora and the lexicon of a run, each kept while its inputs are unchanged."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from mtkit.corpus.binarise import PairSelection, binarise
from mtkit.corpus.clean import TextCleaner
from mtkit.corpus.config import (
    CleaningConfig,
    CorpusConfig,
    CorpusFiles,
    SentencePairs,
    TrainBacktranslated,
    TrainFiles,
    extract_lines,
    require_corpora,
    training_text,
)
from mtkit.corpus.coverage import WordCoverage
from mtkit.corpus.ibm_model1 import learn_lexicon
from mtkit.corpus.store import MANIFEST, SIDES, Store
from mtkit.errors import DamagedError, DataError, MissingInputError, RecipeError
from mtkit.io.files import changed_files, hash_file, require_regular_file, translate_write_errors
from mtkit.io.records import Json, write_record
from mtkit.model_folder.config_file import model_hash
from mtkit.model_folder.folder import find_model
from mtkit.pipeline.check_text import held_out_of, text_of
from mtkit.pipeline.clean_text import recipe_context
from mtkit.pipeline.open_run import Run
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import Recipe
from mtkit.text.lines import Text, check_line_counts, read_lines
from mtkit.text.tokenizer import TokenizerPair

MAX_LISTED = 8  # missing files in an error message
SHARE_SAMPLE = 10_000  # lines whose sentences are counted: a share of 0.1 has a standard deviation of 0.003


@dataclass(frozen=True)
class PreparedCorpora:
    """The binarised corpora of a run.

    Attributes:
        train: the training corpora, in the order of the recipe.
        lexicon: file of the lexicon of the training corpora (see corpus/ibm_model1.py).
    """

    train: list[Store]
    valid: list[Store]
    lexicon: Path

    @property
    def max_source_length(self) -> int:
        """Tokens of the longest training source, without eos."""
        return max(store.stats("src").max_length for store in self.train)

    @property
    def length_ratio(self) -> float:
        """Target tokens for each token of a training source, without their prefixes."""
        num_src, num_tgt = (
            sum(each.stats(side).num_tokens - len(each.manifest.prefix_of(side)) * len(each) for each in self.train)
            for side in SIDES
        )
        return num_tgt / num_src

    @property
    def sizes(self) -> list[int]:
        """Samples of each training corpus."""
        return list(map(len, self.train))

    def multi_sentence_share(self, weights: Sequence[float]) -> float:
        """Share of the training sources that have several sentences, from at most SHARE_SAMPLE of each corpus.

        Args:
            weights: of the corpora in the training; empty: their numbers of lines.
        """
        from mtkit.text.sentences import sentence_ends  # its patterns take long to compile

        counts = []
        for store, weight in zip(self.train, weights or self.sizes, strict=True):
            sample = range(0, len(store), -(-len(store) // SHARE_SAMPLE))
            count = sum(next(sentence_ends(store.text("src", each)), None) is not None for each in sample)
            counts.append((weight, count / len(sample)))
        return sum(weight * share for weight, share in counts) / sum(weight for weight, _ in counts)


def check_inputs(recipe: Recipe) -> None:
    """Check all text files of a recipe before any work, and extract the lines of those with both sides.

    Raises:
        MissingInputError: files do not exist; all are listed.
        UsageError, MissingExtraError, ReadWriteError: as `PairLines.extract`.
        DataError: the two sides of a corpus have different numbers of lines, or none, or a validation or test file is
            not UTF-8; all such corpora are listed.
    """
    _check_filters(recipe.corpus)
    require_corpora(recipe.corpus.all_files)
    missing: dict[Path, str] = {}
    for path in _given_files(recipe):
        try:
            require_regular_file(path)
        except MissingInputError as error:
            missing[path] = str(error)
    if missing:
        listed = list(missing.values())[:MAX_LISTED]
        more = [f"... and {len(missing) - MAX_LISTED} more"] if len(missing) > MAX_LISTED else []
        is_known = any("multi30k" in str(path) for path in missing)
        remedy = ["mtkit fetch multi30k downloads this corpus; then add corpus.root=data/multi30k"] if is_known else []
        here, root = Path.cwd(), recipe.corpus.root
        if any(path.is_relative_to(here) and not (root and path.is_relative_to(root)) for path in missing):
            remedy.append(f"relative paths of the command line are relative to the current directory, {here}")
        raise MissingInputError("\n".join([*listed, *more, *remedy]))
    extract_lines(recipe.corpus.all_files)
    pairs = [
        each
        for each in recipe.corpus.all_files
        if not isinstance(each, TrainBacktranslated) or each.src.exists()  # otherwise they are not made yet
    ]
    held_out_pairs = [pair for pair in pairs if not isinstance(pair, TrainFiles)]
    held_out = {path for pair in held_out_pairs for path in (pair.src, pair.tgt)}
    errors = []
    for pair in pairs:
        try:
            check_line_counts(pair.src, pair.tgt)
            for path in held_out & {pair.src, pair.tgt}:
                deque(read_lines(path), maxlen=0)  # otherwise invalid UTF-8 would be noticed only after training
        except DataError as error:
            errors.append(str(error))
    if errors:
        raise DataError("\n".join(list(dict.fromkeys(errors))[:10]))


def _check_filters(corpus: CorpusConfig) -> None:
    """Check that training can apply the filters of a recipe.

    Raises:
        RecipeError: one has a weight that keeps pairs and lowers their share.
        MissingInputError: there is no model of one.
    """
    for number, each in enumerate(corpus.filters):
        if 0 < each.weight < 1:
            raise RecipeError(
                f"corpus.filters.{number}.weight: {each.weight:g}, and training applies 0 and 1; mtkit clean writes "
                "texts of other weights and the corpus.train that mixes them"
            )
        for model in each.models:
            find_model(model)


def check_existing_inputs(recipe: Recipe) -> list[str]:
    """Check the text files of a dry run as `check_inputs`; return a note if none exists: a dry run needs no corpus."""
    paths = _given_files(recipe)
    if paths and not any(path.exists() for path in paths):
        return [f"without --dry-run this ends with an error: no text file of the recipe exists, such as {paths[0]}"]
    check_inputs(recipe)
    return []


def _given_files(recipe: Recipe) -> list[Path]:
    """The text files of a recipe that the user has, each once."""
    return list(dict.fromkeys(path for each in recipe.corpus.all_files for path in each.given))


def prepare_corpus(run: Run, tokenizers: TokenizerPair) -> PreparedCorpora:
    """Return the binarised corpora of a run, made again if their inputs changed or a file is damaged.

    Raises:
        RecipeError: a corpus changed that a training which was started depends on, or the prefix of a test set is as
            long as the longest training source.
        DataError, MissingInputError, ReadWriteError: as `binarise`.
    """
    corpus = run.recipe.corpus
    jobs: list[tuple[CorpusFiles, Path]] = [
        (pair, run.folder.train(number)) for number, pair in enumerate(corpus.train)
    ]
    jobs += [(pair, run.folder.valid(number)) for number, pair in enumerate(corpus.valid_sets)]
    for number, (pair, folder) in enumerate(jobs):
        name, prefixes = folder.name, (pair.ids(tokenizers), pair.tgt_ids(tokenizers))
        state = _corpus_state(run, folder, pair, tokenizers)
        if state == "current":
            run.mark_unchanged(name)
            continue
        is_train = number < len(corpus.train)
        if state == "changed" and is_train:
            run.forbid_overwrite("the training text")
        if state == "changed" and run.recipe.training.schedule.depends_on_validation:
            run.forbid_overwrite("the validation set, which the learning rate depends on (training.schedule),")
        run.report_mistakes()
        src: Text = pair.src
        tgt: Text = pair.tgt
        if isinstance(pair, TrainFiles):
            src, tgt = training_text(pair)
        run.begin(name, f"{src} and {tgt} are read")
        selection = None
        if is_train and isinstance(pair, SentencePairs) and corpus.filters:
            cleaner = TextCleaner(text_of(corpus, pair), corpus.filters, recipe_context(corpus))
            run.notify(name, "; ".join(cleaner.judge().lines()))
            selection = PairSelection(_filter_inputs(run, pair), cleaner.weights > 0)
        report = binarise(src, tgt, folder, tokenizers, corpus.cleaning, selection=selection, prefixes=prefixes)
        run.notify(name, "; ".join(report.summary()))
    with translate_write_errors(run.folder.corpus):
        for folder in set(run.folder.corpus.iterdir()) - {folder for _, folder in jobs}:
            if (folder / MANIFEST).is_file():  # of a corpus that the recipe no longer has
                shutil.rmtree(folder)
    train, valid = run.folder.open_train(run.recipe), run.folder.open_valid(run.recipe)
    prepared = PreparedCorpora(train, valid, _prepare_lexicon(run, train, valid, tokenizers))
    for name, files in corpus.test.items():  # otherwise refused after the training, when test sets are translated
        count = len(files.ids(tokenizers))
        if count >= prepared.max_source_length:
            raise RecipeError(
                f"corpus.test.{name}.prefix: {count} tokens, and the longest training source has "
                f"{prepared.max_source_length}, prefix included; shorten it"
            )
    return prepared


def _prepare_lexicon(run: Run, train: Sequence[Store], valid: Sequence[Store], tokenizers: TokenizerPair) -> Path:
    """Return the file of the lexicon and of coverage, made again if the binarised corpora changed."""
    path = run.folder.lexicon
    fingerprint = path.with_suffix(".json")
    hashes = [[[s.manifest.columns[f"{side}.ids"].sha256 for side in SIDES] for s in each] for each in (train, valid)]
    inputs = {"training_corpora": hashes[0], "validation_sets": hashes[1]}
    known_inputs = run.read_record(fingerprint)
    files = known_inputs.pop("files", {})
    damaged = changed_files(path.parent, files)
    if known_inputs == inputs and not damaged:
        run.mark_unchanged("lexicon")
        return path
    if damaged:
        run.notify("damaged", f"{path.parent}: {', '.join(damaged)} not as written; it is made again")
    fingerprint.unlink(missing_ok=True)
    run.begin("lexicon", "word translations are counted in the training text")
    lexicon = learn_lexicon(train)
    coverage = None if run.recipe.corpus.is_language_model else WordCoverage.learn(train, valid, lexicon, tokenizers)
    lexicon.save(path, coverage.columns() if coverage else None)
    write_record(fingerprint, {**inputs, "files": {path.name: hash_file(path)}})
    num_sources = int((lexicon.targets.lengths > 0).sum())
    mean_targets = len(lexicon.targets.flat) / max(1, num_sources)
    run.notify("lexicon", f"{num_sources:,} source tokens with {mean_targets:.0f} translations each")
    return path


def _corpus_state(
    run: Run, folder: Path, pair: CorpusFiles, tokenizers: TokenizerPair
) -> Literal["current", "changed", "lost"]:
    """Compare a binarised corpus with its inputs; "lost" if it is missing, damaged or in another format."""
    if not (folder / MANIFEST).is_file():
        return "lost"
    try:
        store = Store(folder)
        store.verify()
        manifest = store.manifest
    except DamagedError as error:
        run.notify("damaged", f"{error.what}; it is made again")
        return "lost"
    limits = {**asdict(run.recipe.corpus.cleaning), **_filter_inputs(run, pair)}
    # A key of cleaning that the manifest lacks, since an older version wrote it, had its default then. Older versions
    # did not clean validation sets; a training that one of them began keeps its set.
    known_limits = limits if manifest.cleaning is None else {**asdict(CleaningConfig()), **manifest.cleaning}
    known_inputs = (
        manifest.src.sha256,
        manifest.tgt.sha256,
        manifest.tokenizer,
        known_limits,
        (list(manifest.prefix), list(manifest.tgt_prefix)),
        manifest.limit,
    )
    limit = pair.limit if isinstance(pair, TrainFiles) else None
    prefixes = pair.ids(tokenizers), pair.tgt_ids(tokenizers)
    inputs = (run.hash(pair.src), run.hash(pair.tgt), tokenizers.hash(), limits, prefixes, limit)
    return "current" if known_inputs == inputs else "changed"


def _filter_inputs(run: Run, files: CorpusFiles) -> Json:
    """Inputs of the filters of a training corpus besides its text; empty if it has no filters."""
    corpus = run.recipe.corpus
    if not corpus.filters or files not in corpus.train_pairs.values():
        return {}
    inputs: Json = {"filters": to_plain(corpus.filters), "langs": list(corpus.languages_of(files))}
    if any(each.reads_held_out for each in corpus.filters):
        inputs["held_out"] = [run.hash(path) for pair in held_out_of(corpus) for path in pair]
    return {**inputs, "models": [model_hash(find_model(model)) for each in corpus.filters for model in each.models]}
