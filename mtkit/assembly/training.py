"""Building a training from a recipe: model, data loader, learner (objective, optimiser, schedule) and validator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mtkit.assembly.initial_weights import Notify, initialise
from mtkit.assembly.validator import BleuFn, DecodedSubset, TranslationValidator, ValidationSet, require_positions
from mtkit.corpus.config import CorpusFiles, MonolingualFile
from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.noise import Corpus, DenoisingCorpus, NoiseVocab
from mtkit.corpus.order.loader import Loader
from mtkit.corpus.store import Store
from mtkit.errors import MissingInputError, NonFiniteError, RecipeError
from mtkit.evaluation.score import bleu_of
from mtkit.evaluation.tokenizer_choice import choose_tokenizer
from mtkit.hardware import default_device
from mtkit.inference.support import ComputeType
from mtkit.model_folder.folder import find_model, read_model
from mtkit.models.interface import TranslationModel
from mtkit.recipe.sections import Recipe
from mtkit.search.config import SearchConfig
from mtkit.text.lines import COMPRESSION_SUFFIXES
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.config import TrainingConfig
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.decoder_inputs.scheduled_sampling import TeacherForcing
from mtkit.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup
from mtkit.training.learner import Learner, build_learner
from mtkit.training.monitoring.validation import ValidationCommand
from mtkit.training.objectives.config import DistillationConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy, MaskedLM
from mtkit.training.objectives.interface import ObjectiveInputs, TranslationSampler
from mtkit.training.precision import Precision, resolve_precision
from mtkit.training.seeding import seed_everything
from mtkit.training.weights import freeze
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.translator import Translator


def resolve_auto_precision(training: TrainingConfig) -> TrainingConfig:
    """Replace `training.precision: auto` by the best precision for this machine."""
    return replace(training, precision=resolve_precision(training.precision, default_device()).name)


def build_model(recipe: Recipe, tokenizers: TokenizerPair, notify: Notify) -> TranslationModel:
    """Build the model of a recipe with its initial weights, on the training device.

    Args:
        notify: receives a message about each source of pre-trained weights.

    Raises:
        RecipeError: the model does not match the vocabularies, or `training.init_from` does not match the model.
        MissingInputError, DataError: pre-trained weights cannot be read.
    """
    model = build_model_architecture(recipe, tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
    initialise(model, recipe, tokenizers, notify)
    return model


def build_model_architecture(recipe: Recipe, src_vocab: int, tgt_vocab: int) -> TranslationModel:
    """Build the model of a recipe for vocabularies of these sizes, with random weights from the recipe's seed.

    Raises:
        RecipeError: the model does not match the vocabularies.
    """
    seed_everything(recipe.training.seed)
    return build_modules(recipe, src_vocab, tgt_vocab).to(default_device())


def build_modules(recipe: Recipe, src_vocab: int, tgt_vocab: int) -> TranslationModel:
    """Build the model of a recipe on torch's current device.

    Raises:
        RecipeError: the model does not match the vocabularies.
    """
    try:
        model = recipe.model.build(src_vocab, tgt_vocab)
    except ValueError as error:
        raise RecipeError(f"model.{error}") from error
    if recipe.training.adapter is not None:
        recipe.training.adapter.attach(model)
    return model


def build_loader(
    recipe: Recipe, stores: Sequence[Store], tokenizers: TokenizerPair, *, ranks: ProcessGroup = SINGLE_PROCESS
) -> Loader:
    """Build the loader of the micro-batches that this process computes.

    Raises:
        RecipeError, DataError: as `Loader`.
    """
    weights = tuple(files.weight for files in recipe.corpus.train if files.weight is not None)
    training, corpora = recipe.training, _corpora_with_noise(recipe, recipe.corpus.train, stores, tokenizers)
    return Loader(
        corpora,
        tokenizers,
        weights=weights,
        seed=training.seed,
        batch_tokens=training.resolved_batch_tokens,
        micro_batches=training.micro_batches,
        subword_regularization=recipe.tokenizer.subword_regularization,
        rank=ranks.rank,
        world_size=ranks.world_size,
    )


def with_updates_of_epochs(recipe: Recipe, loader: Loader) -> Recipe:
    """Return a recipe in which `training.max_epochs` is counted in updates, see TrainingConfig."""
    training = recipe.training
    if training.max_epochs is None:
        return recipe
    return replace(recipe, training=training.with_updates_of_epochs(loader.count_updates(training.max_epochs)))


def _corpora_with_noise(
    recipe: Recipe, files: Sequence[CorpusFiles], stores: Sequence[Store], tokenizers: TokenizerPair
) -> tuple[Corpus, ...]:
    """Return the corpora to train or validate on: the pairs as they are, or noised text with its original."""
    if recipe.corpus.noise is None:
        return tuple(stores)
    noise = recipe.corpus.noise.build(NoiseVocab.of(tokenizers.src))
    pairs = zip(files, stores, strict=True)
    return tuple(DenoisingCorpus(store, noise) if isinstance(file, MonolingualFile) else store for file, store in pairs)


def learner_from_recipe(
    recipe: Recipe,
    model: TranslationModel,
    vocab_ids: TargetVocabIds,
    sampler: TranslationSampler,
    *,
    teacher: TranslationModel | None = None,
    lexicon: Lexicon | None = None,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> Learner:
    """Build the learner of a recipe: its model with objective, optimiser and schedule.

    Args:
        sampler: samples translations from the model, for objectives that need them.
        teacher: from `load_teacher`.

    Raises:
        RecipeError: the device does not support the precision, or `training.freeze` names no module of the model.
    """
    training = recipe.training
    freeze(model, training.freeze, key="training.freeze")
    decoder_input = training.decoder_input.build(vocab_ids)
    inputs = ObjectiveInputs(
        decoder_input,
        smoothing=training.label_smoothing,
        vocab_ids=vocab_ids,
        translation_sampler=sampler,
        teacher=teacher,
        lexicon=lexicon,
    )
    return build_learner(model, training.objective.build(inputs), config=training, ranks=ranks)


def find_teacher(path: Path) -> Path:
    """The model folder of a teacher.

    Raises:
        MissingInputError, DataError, UsageError: as `find_model`; a message about a missing model names the key.
    """
    try:
        return find_model(path)
    except MissingInputError as error:
        raise MissingInputError(f"training.objective.teacher: {error}") from error


def load_teacher(
    recipe: Recipe, model: TranslationModel, tokenizers: TokenizerPair | None = None
) -> TranslationModel | None:
    """Load the teacher of an objective that distils one, on the device of the model; None for other objectives.

    Args:
        tokenizers: of the student; None: the vocabularies are not compared.

    Raises:
        RecipeError: the teacher has another vocabulary, or states of another width, which the cosine loss compares.
        MissingInputError, DataError: as `read_model`.
    """
    objective = recipe.training.objective
    if objective.teacher_model is None:
        return None
    loaded, key = read_model(find_teacher(objective.teacher_model)), "training.objective.teacher"
    if tokenizers is not None and loaded.tokenizers.hash() != tokenizers.hash():
        raise RecipeError(
            f"{key}: {loaded.folder}: its vocabulary is not that of this training; a student needs its teacher's "
            f"tokenizer: set training.init_from to the teacher, or to a model that mtkit compress made from it"
        )
    widths = [each.output.weight.size(1) for each in (loaded.model, model)]
    if isinstance(objective, DistillationConfig) and objective.cosine and widths[0] != widths[1]:
        raise RecipeError(
            f"training.objective.cosine: compares states of the same width, but the teacher's have {widths[0]} numbers "
            f"and the student's {widths[1]}; set it to 0"
        )
    return loaded.model.to(next(model.parameters()).device)


def build_validator(
    recipe: Recipe,
    valid: Sequence[Store],
    tokenizers: TokenizerPair,
    precision: Precision,
    ranks: ProcessGroup = SINGLE_PROCESS,
    notify: Callable[[str], None] = lambda message: None,
) -> TranslationValidator:
    """Build the validator of a recipe: nll and BLEU on the validation sets, or nll alone on monolingual text.

    Args:
        notify: receives a sentence about a failure of `training.validation.command`.

    Raises:
        RecipeError: the command fails, which is tried, or a sentence has more tokens than the model has positions.
    """
    require_positions(valid, recipe.model.max_lengths())
    config, files = recipe.training.validation, recipe.corpus.valid_sets
    corpora = _corpora_with_noise(recipe, files, valid, tokenizers)
    is_masked = recipe.training.objective.trains_encoder_only
    search = _validation_search(recipe, valid)
    compute_type: ComputeType = "bf16" if precision.name == "bf16" else "float32"
    sentences = -(-config.sentences // max(1, len(valid)))  # of each set
    subsets = [
        DecodedSubset.from_store(store, 0 if isinstance(corpus, DenoisingCorpus) else sentences)
        for store, corpus in zip(valid, corpora, strict=True)
    ]

    def translate(prefix: SourcePrefix, model: TranslationModel, lines: Sequence[str]) -> list[str]:
        # Without rewrites: validation runs the same code as training, so that a change to a layer shows in both.
        engine = ModelEngine([model], compute_type=compute_type, device=precision.device, rewrite=False)
        try:
            return Translator(engine, tokenizers, search).with_source_prefix(prefix).translate_lines(lines)
        except NonFiniteError:  # a BLEU of 0 leaves it to training.on_divergence what becomes of such a model
            return [""] * len(lines)

    def bleu_in(lang: str, refs: Sequence[str]) -> BleuFn:
        return partial(bleu_of, tokenize=choose_tokenizer(refs, lang, recipe.evaluation.tokenize).name)

    langs = [recipe.corpus.language_of_target(one) for one in files]
    sets = [
        ValidationSet(_set_name(number, one), corpus, subset, partial(translate, one), bleu_in(lang, subset.ref))
        for number, (one, corpus, subset, lang) in enumerate(zip(files, corpora, subsets, langs, strict=True))
    ]
    refs = [ref for subset in subsets for ref in subset.ref]
    command = None if config.command is None else ValidationCommand(config.command, ranks=ranks, notify=notify)
    validator = TranslationValidator(
        sets,
        bleu=bleu_in(langs[0] if len(set(langs)) == 1 else recipe.corpus.tgt_lang, refs),
        batch_tokens=recipe.training.resolved_batch_tokens,
        precision=precision,
        objective=MaskedLM(0.0) if is_masked else CrossEntropy(TeacherForcing(), 0.0),
        command=command,
        pool_sets=config.pool_sets,
    )
    if command is not None:
        command.check(validator.sources(), validator.references())
    return validator


def _validation_search(recipe: Recipe, valid: Sequence[Store]) -> SearchConfig:
    """Plain beam search up to twice the tokens of the longest reference and 10: a young model may never end."""
    limit = 2 * max((store.stats("tgt").max_length for store in valid), default=0) + 11  # with the end of sentence
    limit = min(limit, recipe.model.max_target_length() or limit)
    return recipe.search.limited_to(limit).with_plain_beam(recipe.training.validation.beam_size)


def _set_name(number: int, files: CorpusFiles) -> str:
    """Name of a validation set in the log: its number and its file names, such as 0 val.en val.de."""
    paths = (path.with_suffix("") if path.suffix in COMPRESSION_SUFFIXES else path for path in (files.src, files.tgt))
    names = dict.fromkeys(path.name for path in paths)
    return " ".join([str(number), *names])
