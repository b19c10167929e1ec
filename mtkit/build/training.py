"""Recipe → objects: the only place that builds the parts of a training or of a translation and joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from mtkit.build.initial_weights import Say, begin
from mtkit.build.validator import Part, Validator
from mtkit.corpus.config import AnyFiles, Text
from mtkit.corpus.noise.noise import Corpus, Denoising, NoisePieces
from mtkit.corpus.order.loader import Loader, Mixture
from mtkit.corpus.store import Store
from mtkit.errors import RecipeError
from mtkit.evaluation.score import score
from mtkit.models.interface import TranslationModel
from mtkit.recipe.recipe import Recipe
from mtkit.search.config import SearchConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.distributed.process_group import ALONE, Ranks
from mtkit.training.learner import Learner, build_learner
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.interface import Generation, Parts
from mtkit.training.objectives.masked_lm import MaskedLanguageModel
from mtkit.training.parameter_selection import freeze
from mtkit.training.precision import Precision, resolve_precision
from mtkit.training.seeding import seed_everything
from mtkit.translate.compute_type import ComputeType
from mtkit.translate.engines.interface import OwnEngine
from mtkit.translate.translator import Translator


def default_device() -> torch.device:
    """A GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def with_precision(recipe: Recipe) -> Recipe:
    """The recipe with what `training.precision: auto` comes to on this machine."""
    precision = resolve_precision(recipe.training.precision, default_device())
    return replace(recipe, training=replace(recipe.training, precision=precision.name))


def build_model(recipe: Recipe, tokenizers: TokenizerPair, say: Say) -> TranslationModel:
    """The model of a recipe as its training begins, on the device of training.

    Args:
        recipe: says of what kind, and with which weights.
        tokenizers: of both sides.
        say: is told what of the weights is not random.

    Raises:
        RecipeError: model and vocabularies, or `training.init_from` and `model`, do not fit.
        MissingInputError, DataError: what to begin from cannot be read.
    """
    model = build_untrained(recipe, tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
    begin(model, recipe, tokenizers, say)
    return model


def build_untrained(recipe: Recipe, src_vocab: int, tgt_vocab: int) -> TranslationModel:
    """The model of a recipe for vocabularies of these sizes, with the first weights that its seed gives.

    Raises:
        RecipeError: model and vocabularies do not fit.
    """
    seed_everything(recipe.training.seed)
    try:
        return recipe.model.build(src_vocab, tgt_vocab).to(default_device())
    except ValueError as error:
        raise RecipeError(f"model.{error}") from error


def build_loader(recipe: Recipe, stores: Sequence[Store], tokenizers: TokenizerPair, *, ranks: Ranks = ALONE) -> Loader:
    """The training data of a recipe, as far as this process computes it.

    Raises:
        RecipeError, DataError: as `Loader`.
    """
    weights = tuple(files.weight for files in recipe.corpus.train if files.weight is not None)
    training, corpora = recipe.training, _corpora(recipe, recipe.corpus.train, stores, tokenizers)
    return Loader(
        Mixture(corpora, weights) if weights else corpora,
        tokenizers,
        seed=training.seed,
        batch_tokens=training.places,
        micro_batches=training.micro_batches,
        sampling=recipe.tokenizer.sampling,
        rank=ranks.rank,
        world_size=ranks.world_size,
    )


def _corpora(
    recipe: Recipe, files: Sequence[AnyFiles], stores: Sequence[Store], tokenizers: TokenizerPair
) -> tuple[Corpus, ...]:
    """What is learned from these stores: their pairs, or to restore their text."""
    if recipe.corpus.noise is None:
        return tuple(stores)
    noise = recipe.corpus.noise.build(NoisePieces.of(tokenizers.src))
    both = zip(files, stores, strict=True)
    return tuple(Denoising(store, noise) if isinstance(each, Text) else store for each, store in both)


def build_training(
    recipe: Recipe, model: TranslationModel, pieces: TargetPieces, generation: Generation, *, ranks: Ranks = ALONE
) -> Learner:
    """The objective, optimiser and schedule of a recipe around a model.

    Raises:
        RecipeError: the precision is not one of this device, or `training.freeze` names no part of the model.
    """
    training = recipe.training
    freeze(model, training.freeze, key="training.freeze")
    decoder_input = training.decoder_input.build(pieces)
    parts = Parts(decoder_input, smoothing=training.label_smoothing, pieces=pieces, generation=generation)
    return build_learner(model, training.objective.build(parts), config=training, ranks=ranks)


def build_validator(recipe: Recipe, valid: Store, tokenizers: TokenizerPair, precision: Precision) -> Validator:
    """What judges a model while it trains; where text is to be restored, by its nll alone."""
    config, files = recipe.training.validation, recipe.corpus.valid
    (corpus,) = _corpora(recipe, [] if files is None else [files], [valid], tokenizers)
    is_masked = recipe.training.objective.kind == "masked_language_model"
    search = recipe.search.within(recipe.model.longest_target())
    search = replace(search, beam_size=config.beam_size, n_best=1, rerank=None, method=SearchConfig().method)
    compute_type: ComputeType = "bf16" if precision.name == "bf16" else "float32"
    segmentation = recipe.evaluation.segmentation(recipe.corpus.tgt_lang)

    def translate(model: TranslationModel, lines: Sequence[str]) -> list[str]:
        engine = OwnEngine([model], compute_type=compute_type, device=precision.device, hypotheses=search.rows)
        return Translator(engine, tokenizers, search).translate_lines(lines)

    def bleu(hyps: Sequence[str], refs: Sequence[str]) -> float:
        found = score(hyps, [refs], ["bleu"], tokenize=segmentation).bleu
        return found.value if found else 0.0

    return Validator(
        corpus,
        Part.of(valid, 0 if isinstance(corpus, Denoising) else config.sentences),
        translate=translate,
        bleu=bleu,
        batch_tokens=recipe.training.places,
        precision=precision,
        objective=MaskedLanguageModel(0.0) if is_masked else CrossEntropy(TeacherForcing(), 0.0),
    )
