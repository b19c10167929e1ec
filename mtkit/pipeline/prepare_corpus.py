"""The stages before training: tokenizer and binary corpus, each kept as long as what it was made from is the same."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from mtkit.corpus.binarise import binarise, check_partners
from mtkit.corpus.cleaning import CleaningConfig
from mtkit.corpus.config import AnyFiles, Text, TrainFiles, TrainText
from mtkit.corpus.lexicon import learn_lexicon
from mtkit.corpus.store import MANIFEST, SIDES, Store
from mtkit.errors import DamagedError, DataError, MissingInputError
from mtkit.io.files import build_folder, changed_files, check_plain, hash_file, hash_files, write_json, writing
from mtkit.model_folder.folder import find_model, read_description, read_tokenizers
from mtkit.pipeline.records import Json, read_json
from mtkit.pipeline.run_folder import Run
from mtkit.recipe.recipe import Recipe, plain
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import TokenizerPair, model_names
from mtkit.text.train_tokenizer import train_pair

STAMP = "stamp.json"


@dataclass(frozen=True)
class Stores:
    """The binary corpus."""

    train: list[Store]
    valid: Store | None
    lexicon: Path  # the file; see corpus/lexicon.py

    @property
    def longest_source(self) -> int:
        """Pieces of the longest training source."""
        return max(store.summary("src").longest for store in self.train)


def check_inputs(recipe: Recipe) -> None:
    """Look at all text files before any work.

    Raises:
        MissingInputError: files are not there; names all of them.
        DataError: the sides of a pair have unequal numbers of lines, or none; names all such pairs.
    """
    pairs: list[AnyFiles] = [*recipe.corpus.train, *recipe.corpus.test.values()]
    if recipe.corpus.valid is not None:
        pairs.append(recipe.corpus.valid)
    paths = dict.fromkeys(path for pair in pairs for path in (pair.src, pair.tgt))
    missing = {path: said for path in paths if (said := _not_there(path))}
    if missing:
        shown = list(missing.values())[:8]
        more = [f"... and {len(missing) - 8} more"] if len(missing) > 8 else []
        known = any("multi30k" in str(path) for path in missing)
        remedy = ["mtkit fetch multi30k downloads this corpus"] if known else []
        raise MissingInputError("\n".join([*shown, *more, *remedy]))
    unread = [pair for pair in pairs if not isinstance(pair, TrainFiles | TrainText)]
    held_out = {path for pair in unread for path in (pair.src, pair.tgt)}
    faults = []
    for pair in pairs:
        try:
            check_partners(pair.src, pair.tgt)
            for path in held_out & {pair.src, pair.tgt}:
                deque(read_lines(path), maxlen=0)  # bytes that are no text would be found only after training
        except DataError as error:
            faults.append(str(error))
    if faults:
        raise DataError("\n".join(list(dict.fromkeys(faults))[:10]))


def _not_there(path: Path) -> str:
    try:
        check_plain(path)
    except MissingInputError as error:
        return str(error)
    return ""


def make_tokenizer(run: Run) -> TokenizerPair:
    """The tokenizers of a run, learned anew if the training text or their keys have changed, or a file is damaged.

    Raises:
        RecipeError: they would change under a training that was begun.
        DataError, MissingInputError, ReadWriteError: as `train_pair`.
    """
    recipe, folder = run.recipe, run.folder.tokenizer
    stamp = _read_stamp(run, folder / STAMP)
    wanted = _made_from(run, stamp)
    files = stamp.pop("sha256", {})
    damaged = changed_files(folder, files)
    if not stamp and folder.is_dir():  # nobody knows what it was made from: it stays if it comes out the same
        files, stamp, damaged = _without_stamp(hash_files(folder)), wanted, [STAMP]
    if stamp == wanted and not damaged:
        run.keep("tokenizer")
    else:
        if stamp != wanted:
            run.refuse_to_replace("the training text or the tokenizer")
        if damaged:
            run.say("damaged", f"{folder}: {', '.join(damaged)} not as written; the tokenizer is made again")
        with build_folder(folder) as temporary:
            result = _learn(recipe, temporary)
            made = hash_files(temporary)
            if stamp == wanted and made != files:
                run.refuse_to_replace("the tokenizer was damaged and came out differently; so it")
            write_json(temporary / STAMP, {**wanted, "sha256": made})
        run.say("tokenizer", result)
    pair = TokenizerPair.load(folder)
    # how it samples in training is no property of the model
    return replace(pair, config=replace(pair.config, sampling=recipe.tokenizer.sampling))


def _without_stamp(hashes: Json) -> Json:
    return {name: stated for name, stated in hashes.items() if name != STAMP}


def _read_stamp(run: Run, path: Path) -> Json:
    """What something was made from, with the hashes of its files; empty if nobody knows any more."""
    try:
        return read_json(path)
    except DamagedError as error:
        run.say("damaged", f"{error.what}; what it describes is made again")
        return {}


def _made_from(run: Run, stamp: Json) -> Json:
    """What decides the tokenizer, and the training text, which must not change under a training even if it does not.

    A training that was begun with a model's tokenizer has its own copy: that model may be gone, `stamp` knows it.
    """
    recipe = run.recipe
    text = [run.hash(path) for pair in recipe.corpus.train for path in (pair.src, pair.tgt)]
    if recipe.training.tokenizer_from is not None:
        if run.folder.has_training() and "init_from" in stamp:
            return {"text": text, "init_from": stamp["init_from"]}
        model = find_model(recipe.training.tokenizer_from)
        names = model_names(read_description(model).tokenizer.shared)
        return {"text": text, "init_from": [hash_file(model / name) for name in names]}
    config = plain(recipe.tokenizer)
    del config["sampling"]
    return {"text": text, "config": config}


def _learn(recipe: Recipe, folder: Path) -> str:
    """Make the tokenizers in an empty folder; gives a sentence on them."""
    if recipe.training.tokenizer_from is not None:
        model = find_model(recipe.training.tokenizer_from)
        read_tokenizers(model, read_description(model).tokenizer).save(folder)
        return f"taken from {model}"
    pairs = recipe.corpus.train
    src, tgt = [pair.src for pair in pairs], [pair.tgt for pair in pairs if not isinstance(pair, Text)]
    return "; ".join(report.describe() for report in train_pair(src, tgt, folder, recipe.tokenizer))


def make_corpus(run: Run, tokenizers: TokenizerPair) -> Stores:
    """The binary corpus of a run; what changed since it was made is made again.

    Raises:
        RecipeError: the training text, or what else training depends on, would change under one that was begun.
        DataError, MissingInputError, ReadWriteError: as `binarise`.
    """
    corpus = run.recipe.corpus
    jobs: list[tuple[str, AnyFiles, Path, CleaningConfig | None]] = [
        (f"train.{number}", pair, run.folder.train(number), corpus.cleaning) for number, pair in enumerate(corpus.train)
    ]
    if corpus.valid is not None:
        jobs.append(("valid", corpus.valid, run.folder.valid, None))
    for name, pair, folder, cleaning in jobs:
        state = state_of(run, folder, pair, tokenizers, cleaning)
        if state == "current":
            run.keep(name)
            continue
        if state == "changed" and name != "valid":
            run.refuse_to_replace("the training text")
        if state == "changed" and run.recipe.training.schedule.kind == "plateau":
            run.refuse_to_replace("the valid set, which the learning rate depends on (training.schedule),")
        report = binarise(pair.src, pair.tgt, folder, tokenizers, cleaning)
        run.say(name, "; ".join(report.summary()))
    _remove_others(run.folder.valid.parent, [folder for _, _, folder, _ in jobs])
    train = [Store(run.folder.train(number)) for number in range(len(corpus.train))]
    return Stores(train, None if corpus.valid is None else Store(run.folder.valid), _make_lexicon(run, train))


def _make_lexicon(run: Run, train: Sequence[Store]) -> Path:
    """The lexicon of the training corpus, learned anew if that has changed."""
    path = run.folder.lexicon
    stamp = path.with_suffix(".json")
    wanted = {"made_from": [[store.manifest.columns[f"{side}.ids"].sha256 for side in SIDES] for store in train]}
    known = _read_stamp(run, stamp)
    files = known.pop("sha256", {})
    if known == wanted and files and not changed_files(path.parent, files):
        run.keep("lexicon")
        return path
    stamp.unlink(missing_ok=True)
    lexicon = learn_lexicon(train)
    lexicon.save(path)
    write_json(stamp, {**wanted, "sha256": {path.name: hash_file(path)}})
    pieces = int((lexicon.targets.lengths > 0).sum())
    each = len(lexicon.targets.flat) / max(1, pieces)
    run.say("lexicon", f"{pieces:,} source pieces with {each:.0f} translations each")
    return path


def state_of(
    run: Run, folder: Path, pair: AnyFiles, tokenizers: TokenizerPair, cleaning: CleaningConfig | None
) -> Literal["current", "changed", "lost"]:
    """Whether a store was made from these files in this way; one that is damaged is lost, as if it were not there."""
    if not (folder / MANIFEST).is_file():
        return "lost"
    try:
        store = Store(folder)
        store.verify()
        manifest = store.manifest
    except DamagedError as error:
        run.say("damaged", f"{error.what}; it is made again")
        return "lost"
    made_from = (manifest.src.sha256, manifest.tgt.sha256, manifest.tokenizer, manifest.cleaning)
    bounds = None if cleaning is None else asdict(cleaning)
    wanted = (run.hash(pair.src), run.hash(pair.tgt), tokenizers.hash(), bounds)
    return "current" if made_from == wanted else "changed"


def _remove_others(corpus: Path, wanted: Sequence[Path]) -> None:
    """Remove stores of an earlier recipe."""
    with writing(corpus):
        for folder in corpus.iterdir():
            if folder not in wanted and (folder / MANIFEST).is_file():
                shutil.rmtree(folder)
