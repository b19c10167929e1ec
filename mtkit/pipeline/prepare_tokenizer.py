"""The tokenizer of a run: trained, read from a file, or copied from a model, and kept while its inputs are unchanged.

A training that was started keeps its tokenizer: damage is repaired only by the same tokenizer, bit for bit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mtkit.corpus.config import MonolingualFile, training_text
from mtkit.corpus.store import Manifest, read_manifest
from mtkit.errors import DamagedError, DataError, MissingInputError, RecipeError, UsageError
from mtkit.hardware import trim_malloc
from mtkit.io.files import atomic_folder, changed_files, hash_file, hash_files
from mtkit.io.records import Json, write_record
from mtkit.model_folder.config_file import verify_model
from mtkit.model_folder.folder import find_model, read_metadata, read_tokenizers
from mtkit.pipeline.open_run import Run
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import Recipe
from mtkit.text.config import TokenizerConfig
from mtkit.text.source_prefix import merge_tags
from mtkit.text.subword.import_tokenizer import import_pair, model_paths
from mtkit.text.tokenizer import TokenizerPair, model_names
from mtkit.text.train_tokenizer import train_pair
from mtkit.text.vocab import NUM_TAGS

FINGERPRINT = "fingerprint.json"  # hashes of the inputs of the tokenizer and of its files
_SOURCES = {"config", "model", "init_from"}  # fields of fingerprint.json; it has one of them
_FIELD_NAMES = {  # of other fields, for messages
    "model": "the model of tokenizer.model",
    "init_from": "the tokenizer of training.init_from",
    "normalisation": "tokenizer.normalisation",
    "lowercase": "tokenizer.lowercase",
    "normaliser": "tokenizer.normaliser",
    "copy_tokens": "tokenizer.copy_tokens",
    "pad_to_multiple_of": "tokenizer.pad_to_multiple_of",
    "tags": "a tag of corpus.train",
    "limits": "a limit of corpus.train",
}


def prepare_tokenizer(run: Run) -> TokenizerPair:
    """Return the tokenizers of a run, trained again if their inputs changed or a file is damaged.

    Raises:
        RecipeError: they would change, and training was started with them.
        DamagedError: they are damaged, training was started with them, and they cannot be made again.
        DataError, MissingInputError, ReadWriteError: as `train_pair`, or source and target are swapped.
    """
    folder = run.folder.tokenizer
    known_inputs = run.read_record(folder / FINGERPRINT) or _derive_record(run)
    inputs = _tokenizer_inputs(run, known_inputs)
    known_files: dict[str, str] = known_inputs.pop("files", {})
    damaged = changed_files(folder, known_files)
    changed = _changed_inputs(known_inputs, inputs, run.recipe) if known_inputs else []
    if known_inputs and not changed and not damaged:
        run.mark_unchanged("tokenizer")
        return load_tokenizers(run)
    if changed:
        run.forbid_overwrite(", ".join(changed))
    if damaged:
        run.notify("damaged", f"{folder}: {', '.join(damaged)} not as written; the tokenizer is made again")
    run.begin("tokenizer", "prepared from the training text")
    run.report_mistakes()  # before work is spent on them
    with atomic_folder(folder) as temporary:
        result = _make_tokenizer(run.recipe, temporary)
        if run.folder.has_training():
            _require_same(run, temporary, known_files)
        write_record(temporary / FINGERPRINT, {**inputs, "files": hash_files(temporary)})
    run.notify("tokenizer", result)
    return load_tokenizers(run)


def load_tokenizers(run: Run) -> TokenizerPair:
    """Read the tokenizers of a run, with the keys of its recipe that are no properties of the files.

    Raises:
        MissingInputError, DataError: as `TokenizerPair.load`.
    """
    pair = TokenizerPair.load(run.folder.tokenizer)
    stated = run.recipe.tokenizer
    config = replace(pair.config, subword_regularization=stated.subword_regularization, robustness=stated.robustness)
    corpus = run.recipe.corpus
    return replace(pair, config=config, direction=(corpus.src_lang, corpus.tgt_lang))


def _tokenizer_inputs(run: Run, known_inputs: Json) -> Json:
    """Return hashes of the training text and the configuration, or the model, that the tokenizer is made from.

    The training text is included even if the tokenizer is taken from a model, since it must not change during training.
    A training that was started has its own copy of that tokenizer, and the model may have been deleted since: then its
    hashes are taken from `known_inputs`, as are those of a deleted `tokenizer.model`.
    """
    recipe = run.recipe
    text = [run.hash(path) for pair in recipe.corpus.train for path in (pair.src, pair.tgt)]
    tags = _corpus_fields(recipe)
    copies: Json = {"copy_tokens": True} if recipe.tokenizer.copy_tokens else {}
    if recipe.training.tokenizer_from is not None:
        if run.folder.has_training() and "init_from" in known_inputs:
            return {"text": text, "init_from": known_inputs["init_from"], **copies, **tags}
        model = find_model(recipe.training.tokenizer_from)
        names = model_names(read_metadata(model).tokenizer.shared)
        return {"text": text, "init_from": [hash_file(model / name) for name in names], **copies, **tags}
    if recipe.tokenizer.model is not None:
        paths = model_paths(recipe.tokenizer)
        is_lost = run.folder.has_training() and not all(path.is_file() for path in paths)
        hashes = known_inputs["model"] if is_lost and "model" in known_inputs else [hash_file(path) for path in paths]
        multiple = recipe.tokenizer.pad_to_multiple_of
        more: Json = {"pad_to_multiple_of": multiple, **copies} if multiple > 1 else {**copies}
        if (normaliser := recipe.tokenizer.normaliser) != TokenizerConfig().normaliser:
            more["normaliser"] = normaliser
        if recipe.tokenizer.lowercase:
            more["lowercase"] = True
        return {"text": text, "model": hashes, "normalisation": recipe.tokenizer.normalisation, **more, **tags}
    return {"text": text, "config": _training_keys(recipe.tokenizer), **tags}


def _corpus_fields(recipe: Recipe) -> Json:
    """Return the fields of fingerprint.json with the tags and limits of the training corpora, if there are any."""
    limits = [pair.limit for pair in recipe.corpus.train]
    fields: Json = {"limits": limits} if any(limits) else {}
    return {"tags": list(recipe.corpus.tags), **fields} if recipe.corpus.tags else fields


def _training_keys(config: object) -> Json:
    keys: Json = to_plain(config)
    del keys["subword_regularization"], keys["robustness"], keys["model"]
    return keys


def _changed_inputs(known: Json, inputs: Json, recipe: Recipe) -> list[str]:
    """Name the inputs of the tokenizer that differ from those in fingerprint.json.

    A key of the recipe that fingerprint.json lacks, since an older version wrote it, had its default then.
    """
    files = [path for pair in recipe.corpus.train for path in (pair.src, pair.tgt)]
    if len(known["text"]) != len(files):
        changed = ["the number of training files"]
    else:
        changed = [str(path) for path, old, new in zip(files, known["text"], inputs["text"], strict=True) if old != new]
    if _SOURCES & known.keys() != _SOURCES & inputs.keys():
        return [*changed, "the source of the tokenizer (tokenizer.model, training.init_from)"]
    if "config" in inputs:
        old = {**_training_keys(TokenizerConfig()), **known["config"]}
        changed += [f"tokenizer.{key}" for key in old if old[key] != inputs["config"].get(key)]
    changed += [name for field, name in _FIELD_NAMES.items() if known.get(field) != inputs.get(field)]
    return list(dict.fromkeys(changed))  # a monolingual file is both source and target


def _make_tokenizer(recipe: Recipe, folder: Path) -> str:
    """Train, read or copy the tokenizers into an empty folder; return a sentence about them for the log.

    Raises:
        RecipeError: tokenizers to copy have no normaliser for copy tokens, or lack these, or reserve too few tags.
    """
    if recipe.training.tokenizer_from is not None:
        model = find_model(recipe.training.tokenizer_from)
        verify_model(model)
        copied = read_tokenizers(model, read_metadata(model))
        require_trainable(copied, model)
        if recipe.tokenizer.copy_tokens:  # training then teaches them
            try:
                copied = replace(copied, config=replace(copied.config, copy_tokens=True))
                copied.copy_ids("src"), copied.copy_ids("tgt")
            except ValueError as error:
                raise RecipeError(f"tokenizer.{error}; the tokenizer of training.init_from has none") from error
            except KeyError as error:
                raise RecipeError(
                    f"tokenizer.copy_tokens: the tokenizer of training.init_from has no token {error}; set it to false"
                ) from error
        _with_tags(copied, recipe).save(folder)  # tags of the model keep their numbers
        return f"copied from {model}"
    pairs = recipe.corpus.train
    src = [training_text(pair)[0] for pair in pairs]
    tgt = [training_text(pair)[1] for pair in pairs if not isinstance(pair, MonolingualFile)]
    if recipe.tokenizer.model is not None:
        tokenizers, sentences = import_pair(recipe.tokenizer, src, tgt)
        tokenizers.save(folder)
    else:
        sentences = [report.describe() for report in train_pair(src, tgt, folder, recipe.tokenizer)]
        trim_malloc()
    if recipe.corpus.tags or recipe.corpus.language_tokens:
        _with_tags(TokenizerPair.load(folder), recipe).save(folder)
    return "; ".join(sentences)


def require_trainable(pair: TokenizerPair, model: Path) -> None:
    """Raise UsageError if sources of a model end with a token of their language, as those of the first mBART."""
    if pair.src.after:
        raise UsageError(
            f"{model}: its sources end with a token of their language, with which mtkit does not train; begin with "
            "mBART-50, NLLB, M2M-100 or a model of one direction, such as one of OPUS-MT"
        )


def _with_tags(pair: TokenizerPair, recipe: Recipe) -> TokenizerPair:
    """Return tokenizers that also have the tags and languages of the recipe.

    Raises:
        RecipeError: these are more than the tokenizer reserves, or a language is none of an initial model.
    """
    try:
        tags, languages = merge_tags(pair.tags, recipe.corpus.tags), pair.languages
        if languages and (unknown := set(recipe.corpus.languages).difference(languages)):
            raise RecipeError(
                f"corpus: language {sorted(unknown)[0]}: unknown to the model of training.init_from, which has "
                f"{', '.join(sorted(languages))}"
            )
        if recipe.corpus.language_tokens and not languages:
            languages = recipe.corpus.languages
        if not pair.src.languages and (count := len(tags) + len(languages)) > NUM_TAGS:
            raise ValueError(f"{count} tags and languages, and the tokenizer reserves {NUM_TAGS} tokens for them")
        return replace(pair, tags=tags, languages=languages)
    except ValueError as error:
        raise RecipeError(f"corpus.train: with those of training.init_from there are {error}") from error


def _derive_record(run: Run) -> Json:
    """Make fingerprint.json again if the binarised corpora of a training name this tokenizer and their text.

    Returns:
        Its content; empty if no training was started, or if the corpora or the tokenizer are damaged too.
    """
    folder, corpora = run.folder.tokenizer, _manifests(run)
    if not run.folder.has_training() or len(corpora) < len(run.recipe.corpus.train):
        return {}
    with suppress(DataError, MissingInputError):
        pair = TokenizerPair.load(folder)
        if {corpus.tokenizer for corpus in corpora} == {pair.hash()}:
            text = [side.sha256 for corpus in corpora for side in (corpus.src, corpus.tgt)]
            names = model_names(pair.shared)
            made_from: Json = {"config": _training_keys(pair.config)}
            if run.recipe.training.tokenizer_from is not None:
                made_from = {"init_from": [hash_file(folder / name) for name in names]}
            elif run.recipe.tokenizer.model is not None:  # mapped, so that its hash is not that of its file
                made_from = _tokenizer_inputs(run, {"model": []})
            inputs = {"text": text, **made_from, **_corpus_fields(run.recipe)}
            files = {name: digest for name, digest in hash_files(folder).items() if name != FINGERPRINT}
            write_record(folder / FINGERPRINT, {**inputs, "files": files})
            run.notify("tokenizer", f"{FINGERPRINT} made again: the corpora were made with these files")
            return {**inputs, "files": files}
    return {}


def _manifests(run: Run) -> list[Manifest]:
    """Return the manifests of the training corpora that are intact."""
    manifests = []
    for number in range(len(run.recipe.corpus.train)):
        with suppress(DamagedError, MissingInputError):
            manifests.append(read_manifest(run.folder.train(number)))
    return manifests


def _require_same(run: Run, new: Path, known_files: Json) -> None:
    """Check that a tokenizer that was made again is the one that the training was started with.

    Raises:
        DamagedError: it is another one, or nothing is left to compare it with.
    """
    folder = run.folder.tokenizer
    pair = TokenizerPair.load(new)
    expected = {name: digest for name, digest in known_files.items() if name.endswith(".model")}
    corpora = {corpus.tokenizer for corpus in _manifests(run)}
    if expected:
        is_same = all((new / name).is_file() and hash_file(new / name) == expected[name] for name in expected)
    elif corpora:
        is_same = corpora == {pair.hash()}
    else:
        is_same = not changed_files(folder, {name: hash_file(new / name) for name in model_names(pair.shared)})
    if not is_same:
        raise DamagedError(
            f"{folder}: damaged, and making the tokenizer again gave another one than this training was started with",
            "restore this folder from a copy; nothing was changed",
        )
