"""The training stage: from the binary corpus to a model folder."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mtkit.build.training import build_loader, build_model, build_training, build_untrained, build_validator
from mtkit.build.training_sampler import SampledTranslations, target_pieces
from mtkit.corpus.store import Store
from mtkit.errors import DamagedError, MissingInputError
from mtkit.model_folder.folder import Description, change_search, find_model, verify_model, write_model
from mtkit.models.interface import TranslationModel
from mtkit.pipeline.model_card import model_card
from mtkit.pipeline.prepare_corpus import Stores
from mtkit.pipeline.run_folder import Run, RunFolder, run_folder_path
from mtkit.pipeline.validation_fingerprint import measure
from mtkit.recipe.recipe import Recipe, load_saved, plain
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.compile import compile_model
from mtkit.training.distributed.process_group import Ranks
from mtkit.training.loop import TrainingResult, train
from mtkit.training.monitoring.log import Log, Silent
from mtkit.training.run import Surroundings


@dataclass(frozen=True)
class Trained:
    """What became of training; `summary` is the `train` of report.json, `sentence` says it to a person."""

    finished: bool
    sentence: str
    summary: dict[str, Any]


def describe(recipe: Recipe, tokenizers: TokenizerPair, longest_source: int) -> Description:
    """What the model folder says of a recipe's model."""
    return Description(
        src_lang=recipe.corpus.src_lang,
        tgt_lang=recipe.corpus.tgt_lang,
        longest_source=longest_source,
        tokenizer=tokenizers.config,
        model=recipe.model,
        search=recipe.search,
    )


def train_model(run: Run, tokenizers: TokenizerPair, stores: Stores, ranks: Ranks) -> Trained:
    """Train to the end of the recipe and write the model folder; go on where an earlier call was interrupted.

    Of several processes only the first writes the model.

    Raises:
        RecipeError: parts of the recipe do not fit each other.
        MissingInputError: there is a model and no checkpoint to make it from again.
        TrainingError, Interrupted, ReadWriteError, DataError: as `training.loop.train`.
    """
    recipe, folder = run.recipe, run.folder
    key = _key(recipe)
    report = folder.read_report()
    is_finished = folder.model.is_dir() and "train" in report and folder.read_stamps().get("train") == key
    if is_finished and _is_whole(run):
        run.keep("training")
        if ranks.is_first:
            change_search(folder.model, recipe.search)
        sentence = f"training is finished already, after {report['train']['updates']:,} updates; --fresh starts over"
        return Trained(True, sentence, report["train"])
    if folder.model.is_dir() and not list_checkpoints(folder.checkpoints):
        raise MissingInputError(
            f"{folder.checkpoints}: no checkpoint is left to go on from, and the model that is there would be lost; "
            "--fresh starts over"
        )
    model = _first_model(run, tokenizers)
    generation = SampledTranslations.of(recipe, tokenizers.tgt)
    learner = build_training(recipe, model, target_pieces(tokenizers.tgt), generation, ranks=ranks)
    if recipe.training.compile:
        compile_model(learner.model)  # here, as what only measures a model looks at its operations one by one
    valid = stores.valid
    validate = None if valid is None else build_validator(recipe, valid, tokenizers, learner.precision)
    around = Surroundings(
        config=recipe.training,
        folder=folder.path,
        log=run.log,
        validate=validate,
        measure=measure(recipe, valid),
        called=run.called,
    )
    result = train(learner, build_loader(recipe, stores.train, tokenizers, ranks=ranks), around)
    summary = _summary(result, recipe)
    if not result.finished:
        most = recipe.training.max_updates
        sentence = f"not finished: {result.update:,} of {most:,} updates; the same command goes on from there"
        return Trained(False, sentence, summary)
    sentence = f"training ended after {result.update:,} updates ({result.reason})"
    if not ranks.is_first:
        return Trained(True, sentence, summary)
    description = describe(recipe, tokenizers, stores.longest_source)
    card = model_card(description, {"train": summary}, parameters=sum(p.numel() for p in model.parameters()))
    write_model(folder.model, result.weights, description, tokenizers, card=card, lexicon=stores.lexicon)
    run.update_json(folder.report, {"train": summary})
    run.update_json(folder.stamps, {"train": key})
    return Trained(True, sentence, summary)


def check_beginnings(run: Run) -> None:
    """Look for what training begins with before any work; one that was begun needs none of it any more.

    Raises:
        MissingInputError: a model or a file of word vectors is not there.
    """
    if run.folder.has_training():
        return
    training = run.recipe.training
    for config in training.beginnings:
        find_model(config.model)
    vectors = training.word_vectors
    for path in () if vectors is None else (vectors.src, vectors.tgt):
        if path is not None and not path.is_file():
            raise MissingInputError(f"{path}: no such file; training.word_vectors names it")


def _first_model(run: Run, tokenizers: TokenizerPair) -> TranslationModel:
    """The model as training begins; one that goes on takes its weights from a checkpoint, whatever it began with."""
    recipe = run.recipe
    if list_checkpoints(run.folder.checkpoints):
        return build_untrained(recipe, tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
    run.log.rewind(0)  # what an earlier call said of updates that were lost
    return build_model(recipe, tokenizers, run.say)


def _is_whole(run: Run) -> bool:
    """Whether the finished model is as it was written; if not, and there are checkpoints, it is made from them again.

    Raises:
        DamagedError: it is damaged and there are none.
    """
    try:
        verify_model(run.folder.model)
    except DamagedError as error:
        if not list_checkpoints(run.folder.checkpoints):
            raise DamagedError(error.what, "no checkpoint is left to make it from; --fresh starts over") from error
        run.say("damaged", f"{error.what}; it is made again from the checkpoints")
        return False
    return True


def _key(recipe: Recipe) -> str:
    """Changes if a finished training has to be taken up again, or its model to be chosen anew."""
    text = json.dumps([plain(recipe.model), plain(recipe.training)])
    return hashlib.sha256(text.encode()).hexdigest()


def _summary(result: TrainingResult, recipe: Recipe) -> dict[str, Any]:
    return {
        "updates": result.update,
        "seconds": round(result.seconds, 1),
        "tokens_per_second": round(result.tokens_per_second, 1),
        "reason": result.reason,
        "best_update": result.best.update if result.best else None,
        "precision": recipe.training.precision,
    }


def follow(recipe: Recipe, run_dir: Path | None, ranks: Ranks) -> Path:
    """Train beside the first process, in the same run folder; gives that folder.

    Raises:
        MtkitError: as `training.loop.train`.
    """
    ranks.wait()
    folder = RunFolder(run_folder_path(recipe, run_dir))
    with TemporaryDirectory() as own, Log(Path(own) / "log.jsonl", Silent()) as log:
        run = Run(load_saved(folder.recipe), folder, log)
        pair = TokenizerPair.load(folder.tokenizer)
        tokenizers = replace(pair, config=replace(pair.config, sampling=run.recipe.tokenizer.sampling))
        train = [Store(folder.train(number)) for number in range(len(run.recipe.corpus.train))]
        valid = None if run.recipe.corpus.valid is None else Store(folder.valid)
        train_model(run, tokenizers, Stores(train, valid, folder.lexicon), ranks)
    return folder.path
