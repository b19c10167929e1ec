"""The training stage: from the binarised corpora to a model folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.batch import dummy_batch
from mtkit.corpus.order.loader import Loader
from mtkit.corpus.store import SIDES
from mtkit.errors import DamagedError, DataError, MissingInputError, RecipeError
from mtkit.hardware import trim_malloc
from mtkit.io.files import hash_file, require_regular_file
from mtkit.io.records import Json, write_record
from mtkit.layers.projections import DOWN, UP, is_low_rank, merge_low_rank
from mtkit.model_folder.adapter_folder import write_lora, write_trained
from mtkit.model_folder.config_file import (
    CONFIG,
    LEXICON,
    MODEL_CARD,
    WEIGHTS,
    damaged_files,
    read_config,
    restore_lexicon,
)
from mtkit.model_folder.folder import ModelMetadata, find_model, read_metadata, update_search_config, write_model
from mtkit.model_folder.model_card import model_card, write_model_card
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import META_DEVICE, build_on_meta
from mtkit.pipeline.builders import (
    build_architecture,
    build_loader,
    build_model,
    build_objective,
    find_teacher,
    load_teacher,
    with_updates_of_epochs,
)
from mtkit.pipeline.open_run import Run, run_folder_path, text_sources, training_summary
from mtkit.pipeline.prepare_corpus import PreparedCorpora
from mtkit.pipeline.prepare_tokenizer import load_tokenizers
from mtkit.pipeline.reconcile import training_fingerprint, validation_fingerprints
from mtkit.pipeline.run_folder import RunFolder, save_recipe
from mtkit.pipeline.validator import TrainingSampler, build_validator, target_vocab_ids
from mtkit.recipe.sections import Recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.checkpoints.checkpoint import list_checkpoints
from mtkit.training.config import LoRAConfig, NormAdapterConfig
from mtkit.training.distributed import SINGLE_PROCESS, ProcessGroup
from mtkit.training.learner import Learner, build_learner
from mtkit.training.loop import TrainingResult, train
from mtkit.training.memory import find_max_batch_tokens
from mtkit.training.monitoring.log import Log, NullDisplay
from mtkit.training.numerics import compile_model
from mtkit.training.run import TrainingRun


@dataclass(frozen=True)
class TrainingOutcome:
    """Result of the training stage.

    Attributes:
        finished: False if `training.max_hours` ran out first.
        summary: `train` of report.json.
    """

    finished: bool
    message: str
    summary: Json


def model_metadata(recipe: Recipe, tokenizers: TokenizerPair, corpora: PreparedCorpora) -> ModelMetadata:
    """Return the metadata of a recipe's model; models to start from may have read longer sources than its corpora."""
    corpus = recipe.corpus
    sources = []
    for config in recipe.training.init_from_list:
        with contextlib.suppress(MissingInputError, DataError):  # moved away since the training began
            sources.append((config, read_metadata(find_model(config.model))))
    base = next((metadata for _, metadata in sources if metadata.base_model is not None), None)
    read_before = (each.max_source_length for config, each in sources if config.parts is None and config.tokenizer)
    return ModelMetadata(
        src_lang=corpus.src_lang,
        tgt_lang=corpus.tgt_lang,
        max_source_length=max(corpora.max_source_length, *read_before, 0),
        multi_sentence_share=round(corpora.multi_sentence_share(corpus.weights(corpora.sizes)), 4),
        length_ratio=round(corpora.length_ratio, 4),
        tokenizer=tokenizers.config,
        tags=list(tokenizers.tags),
        languages=list(tokenizers.languages),
        forms=tokenizers.forms,
        requires_tag=corpus.requires_tag,
        is_language_model=corpus.is_language_model,
        is_encoder_only=recipe.training.objective.trains_encoder_only,
        model=recipe.model,
        search=recipe.search,
        base_model=base.base_model if base else None,
        licence=base.licence if base else None,
    )


def train_model(run: Run, tokenizers: TokenizerPair, corpora: PreparedCorpora, ranks: ProcessGroup) -> TrainingOutcome:
    """Train to the end of the recipe and write the model folder, resuming an interrupted training.

    Args:
        ranks: the processes that train; only the first writes the model.

    Raises:
        RecipeError: sections of the recipe are incompatible.
        MissingInputError: there is a model, but no checkpoint that training could resume from.
        DamagedError: the model is damaged, and there is no checkpoint to make it again from.
        ComputeError, Interrupted, ReadWriteError, DataError: as `training.loop.train`.
    """
    recipe, folder = run.recipe, run.folder
    fingerprint = training_fingerprint(recipe.model, recipe.training)
    summary = _finished_training(run, fingerprint, ranks)
    if summary is not None:
        run.mark_unchanged("training")
        if ranks.is_first:
            update_search_config(folder.model, recipe.search)
        message = f"training is already finished, after {summary['updates']:,} updates; --fresh starts over"
        return TrainingOutcome(True, message, summary)
    if folder.model.is_dir() and not list_checkpoints(folder.checkpoints):
        # the recipe or the model changed since training finished; without checkpoints the model would be overwritten
        raise MissingInputError(
            f"{folder.checkpoints}: there is no checkpoint to resume from, and training would overwrite the existing "
            "model; start over with --fresh, or choose another --run-dir"
        )
    loader = build_loader(recipe, corpora.train, tokenizers, ranks=ranks)
    run = replace(run, recipe=with_updates_of_epochs(recipe, loader))
    result, learner = _run_training_loop(run, tokenizers, corpora, loader, ranks)
    summary = training_summary({"update": result.update, **result.as_event()}, recipe.training.precision)
    if not result.finished:
        updates = f"{result.update:,} of {run.recipe.training.max_updates:,} updates"
        return TrainingOutcome(False, f"not finished: {updates}; run the same command again to resume", summary)
    message = f"training ended after {result.update:,} updates ({result.reason})"
    if ranks.is_first:
        metadata = model_metadata(recipe, tokenizers, corpora)
        parameters = sum(p.numel() for name, p in learner.model.named_parameters() if not is_low_rank(name))
        texts = text_sources(run)
        card = model_card(metadata, {"train": summary, "texts": texts}, num_parameters=parameters)
        report = folder.read_report()
        if "test" in report:  # scores of the model that is replaced
            write_record(folder.report, {key: value for key, value in report.items() if key != "test"})
        trim_malloc()  # the memory of activations
        merged = _finish_adapter(recipe, tokenizers.vocab_sizes, result.weights, folder.adapter)
        # the model folder with its fingerprint marks the training as finished
        model, lexicon = folder.model, corpora.lexicon
        write_model(model, merged, metadata, tokenizers, card=card, lexicon=lexicon, training=fingerprint)
        run.update_record(folder.report, {"train": summary, "texts": texts})
    return TrainingOutcome(True, message, summary)


def _finish_adapter(
    recipe: Recipe, vocab_sizes: tuple[int, int], tensors: Mapping[str, Tensor], output: Path
) -> dict[str, Tensor]:
    """Write the trained weights of an adapter into a folder; return the weights of the model with it merged.

    Without an adapter, nothing is written.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    adapter = recipe.training.adapter
    if adapter is None:
        return dict(tensors)
    base = None
    with contextlib.suppress(MissingInputError):  # the model may have been deleted since
        base = hash_file(find_model(recipe.training.init_from_list[-1].model) / WEIGHTS)
    if isinstance(adapter, LoRAConfig):
        updates = {name: tensor for name, tensor in tensors.items() if name.endswith((DOWN, UP))}
        write_lora(output, updates, rank=adapter.rank, alpha=adapter.alpha, base=base)
    else:
        model = build_on_meta(partial(build_architecture, recipe, vocab_sizes, device=META_DEVICE))
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        trained = {name: tensors[name] for name in names}
        write_trained(output, trained, norms=isinstance(adapter, NormAdapterConfig), base=base)
    return merge_low_rank(tensors)


def _run_training_loop(
    run: Run, tokenizers: TokenizerPair, corpora: PreparedCorpora, loader: Loader, ranks: ProcessGroup
) -> tuple[TrainingResult, Learner]:
    """Build everything that the training loop needs and run it; return its result and the learner."""
    recipe = run.recipe
    if list_checkpoints(run.folder.checkpoints):  # the weights are loaded from one of them later
        model = build_architecture(recipe, tokenizers.vocab_sizes)
    else:
        run.log.rewind(0)  # drop events of updates that were lost because no checkpoint was written
        model = build_model(recipe, tokenizers, run.notify)
    learner = build_run_learner(run, model, tokenizers, ranks)
    if recipe.training.compile:
        compile_model(learner.model)  # not in build/: dry runs and FLOP counts need the uncompiled operations
    valid, precision, validation = corpora.valid, learner.precision, recipe.training.validation
    notify = partial(run.notify, "validation_command")
    if command := validation.command:
        run.notify("command", f"the shell command {command!r} runs now and at every validation")
    fingerprint, former = validation_fingerprints(validation, recipe.search, recipe.evaluation.tokenize, valid)
    training_run = TrainingRun(
        learner,
        config=recipe.training,
        folder=run.folder.path,
        log=run.log,
        validator=None if not valid else build_validator(recipe, valid, tokenizers, precision, ranks, notify),
        validation_fingerprint=fingerprint,
        former_fingerprint=former,
        since_start=run.since_start,
    )
    return train(training_run, loader), learner


def build_run_learner(
    run: Run, model: TranslationModel, tokenizers: TokenizerPair, ranks: ProcessGroup = SINGLE_PROCESS
) -> Learner:
    """Build the learner of a run; its corpora are prepared. Errors as `load_teacher` and `build_learner`."""
    training, tgt = run.recipe.training, tokenizers.tgt
    objective = build_objective(
        training,
        target_vocab_ids(tgt),
        TrainingSampler.from_recipe(run.recipe, tgt),
        teacher=load_teacher(run.recipe, model, tokenizers),
        lexicon=Lexicon.load(run.folder.lexicon) if training.objective.needs_lexicon else None,
    )
    return build_learner(model, objective, config=training, ranks=ranks)


def resolve_auto_batch_tokens(run: Run, tokenizers: TokenizerPair, corpora: PreparedCorpora) -> Run:
    """Replace `training.batch_tokens: auto` by the largest micro-batch that fits in memory, and save the recipe.

    Raises:
        ComputeError: not even one sentence fits.
        ReadWriteError: the recipe cannot be saved.
    """
    if run.recipe.training.batch_tokens != "auto":
        return run
    model = build_architecture(run.recipe, tokenizers.vocab_sizes)
    learner = build_run_learner(run, model, tokenizers)
    max_length = max(store.stats(side).max_length for store in corpora.train for side in SIDES) + 1  # with eos
    local_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # set by torchrun
    processes = local_processes if learner.device.type == "cpu" else 1  # they share the RAM, but not a GPU
    make_batch = partial(dummy_batch, src=tokenizers.src.vocab, tgt=tokenizers.tgt.vocab)
    batch_tokens = find_max_batch_tokens(learner, max_length, make_batch, num_processes=processes)
    recipe = replace(run.recipe, training=replace(run.recipe.training, batch_tokens=batch_tokens))
    save_recipe(recipe, run.folder.recipe)
    run.notify("batch_tokens", f"{batch_tokens:,}: the largest batch that fits in memory")
    return replace(run, recipe=recipe)


def check_init_sources(run: Run) -> None:
    """Check that a teacher, pre-trained models and word vectors exist; a started training needs the teacher alone.

    Raises:
        RecipeError: an adapter has no model that it adapts.
        MissingInputError: a model or a file of word vectors does not exist.
    """
    training = run.recipe.training
    if training.adapter is not None and not training.init_from_list:  # a study sets it after the recipe is checked
        raise RecipeError(
            "training.adapter: the weights that an adapter does not train would stay random; set training.init_from to "
            "a model, or remove it"
        )
    if training.objective.teacher_model is not None:
        find_teacher(training.objective.teacher_model)
    if run.folder.has_training():
        return
    for config in training.init_from_list:
        find_model(config.model)
    vectors = training.word_vectors
    for path in () if vectors is None else (vectors.src, vectors.tgt):
        if path is not None and path.exists():
            require_regular_file(path)
        elif path is not None:
            raise MissingInputError(f"{path}: no such file; see training.word_vectors")


def _finished_training(run: Run, fingerprint: str, ranks: ProcessGroup) -> Json | None:
    """Return `train` of report.json if the model is intact and this training has made it; None if training must run.

    Raises:
        DamagedError: the model or the report is damaged, and there is no checkpoint to make it again from.
    """
    model, report = run.folder.model, run.folder.report
    if not model.is_dir() or not _is_intact(run, ranks) or read_config(model / CONFIG)["training"] != fingerprint:
        return None
    summary: Json | None = run.folder.read_report().get("train")
    if summary is None and not list_checkpoints(run.folder.checkpoints):
        raise DamagedError(
            f"{report}: no training statistics, and neither {run.folder.log.name} nor checkpoints to make them again "
            "from",
            f"restore it or {run.folder.log.name} from a copy; the model is intact, mtkit translate can use it",
        )
    return summary


def _is_intact(run: Run, ranks: ProcessGroup) -> bool:
    """Return whether the files of the finished model are unchanged; if not, it is made again from the checkpoints.

    A damaged model card is made again here, from the report.

    Raises:
        DamagedError: the model is damaged and there are no checkpoints.
    """
    model = run.folder.model
    try:
        damaged = damaged_files(model)
        if LEXICON in damaged and restore_lexicon(model, run.folder.lexicon):
            damaged.remove(LEXICON)
            run.notify("damaged", f"{model / LEXICON}: missing or damaged; it was copied from {run.folder.lexicon}")
        problem = f"{model}: damaged: {', '.join(damaged)} not as written"
    except (DamagedError, MissingInputError) as error:
        damaged = [CONFIG]
        problem = error.what if isinstance(error, DamagedError) else str(error)
    if damaged == [MODEL_CARD] and ranks.is_first:
        run.notify("damaged", f"{problem}; it is made again")
        write_model_card(model, run.folder.read_report())
    if damaged in ([], [MODEL_CARD]):
        return True
    if not list_checkpoints(run.folder.checkpoints):
        raise DamagedError(problem, "restore it from a copy; there is no checkpoint to make it again from")
    run.notify("damaged", f"{problem}; it is made again from the checkpoints")
    return False


def train_as_worker(recipe: Recipe, run_dir: Path | str | None, ranks: ProcessGroup) -> Path:
    """Train in a process other than the first, in the same run folder; return that folder.

    Raises:
        MtkitError: as `training.loop.train`.
    """
    ranks.barrier()  # until the first process has prepared the corpora and saved the recipe
    folder = RunFolder(run_folder_path(recipe, run_dir))
    with Log(Path(os.devnull), NullDisplay()) as log:
        run = Run(folder.load_recipe(), folder, log)
        tokenizers = load_tokenizers(run)
        train, valid = folder.open_train(run.recipe), folder.open_valid(run.recipe)
        train_model(run, tokenizers, PreparedCorpora(train, valid, folder.lexicon), ranks)
    return folder.path
