"""Recipe → objects: the only place that builds the parts of a training or of a translation and joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from mtkit.beginnings import Say, begin
from mtkit.corpus.config import AnyFiles, Text
from mtkit.corpus.lexicon import Lexicon
from mtkit.corpus.noise.noise import Corpus, Denoising, NoisePieces
from mtkit.corpus.order.loader import Loader, Mixture
from mtkit.corpus.store import Store
from mtkit.errors import DataError, MissingInputError, RecipeError, UsageError
from mtkit.evaluation.score import score
from mtkit.evaluation.sentence import likeness
from mtkit.exported_model import is_exported, read_belongings
from mtkit.model_folder import LEXICON, Loaded, read_model
from mtkit.models.interface import TranslationModel
from mtkit.recipe.recipe import Recipe, load_search
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
from mtkit.translate.engines.ctranslate2 import CTranslate2Engine, Threads
from mtkit.translate.engines.interface import Engine, OwnEngine
from mtkit.translate.engines.onnx import ENCODER, OnnxEngine
from mtkit.translate.minimum_bayes_risk import minimum_bayes_risk
from mtkit.translate.score import ForcedScore, Given, score_lines
from mtkit.translate.shortlist import Shortlist
from mtkit.translate.translator import Rerank, TranslationOptions, Translator
from mtkit.validator import Part, Validator


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


def load_translator(
    models: Sequence[Path] | Path | str,
    *,
    search: SearchConfig | None = None,
    search_overrides: Sequence[str] = (),
    compute_type: ComputeType = "auto",
    device: str | None = None,
    threads: int | None = None,
    options: TranslationOptions | None = None,
    shortlist: bool = False,
) -> Translator:
    """A translator from one or more model folders or finished runs.

    Args:
        models: several are an ensemble: they vote on every piece.
        search: how translations are looked for; as the first model's folder says unless given.
        search_overrides: `search.KEY=VALUE` each, on top of that.
        compute_type: auto is bf16 where the processor has instructions for it, else float32.
        device: such as cuda:0; unless set a GPU if there is one.
        threads: of the CPU; torch's own number unless set.
        options: see TranslationOptions.
        shortlist: search among the target pieces that the first model's lexicon finds likely.

    Raises:
        MissingInputError, DataError: a model is not there or is damaged, or an ensemble's vocabularies differ.
        RecipeError: an override is wrong.
        UsageError: no model, or a compute type or device that this machine has not.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    paths = [Path(models)] if isinstance(models, str | Path) else models
    if exported := [path for path in paths if is_exported(path)]:
        if len(paths) > 1 or shortlist or device not in (None, "cpu"):
            raise UsageError(f"{exported[0]}: an exported model translates alone, on the CPU and without --shortlist")
        return load_exported(
            exported[0],
            search=search,
            search_overrides=search_overrides,
            compute_type=compute_type,
            threads=Threads(each=torch.get_num_threads()),  # one in a worker, whose like are as many as processors
            options=options,
        )
    loaded = _load(paths)
    first = loaded[0]
    config = load_search(search or first.description.search, search_overrides)
    for one in loaded:
        config = config.within(one.description.model.longest_target())
    members, device = [one.model for one in loaded], device or str(default_device())
    return Translator(
        OwnEngine(members, compute_type=compute_type, device=device, hypotheses=config.rows),
        first.tokenizers,
        config,
        longest_source=min(one.description.longest_source for one in loaded),
        options=options,
        rerank=_rerank(config),
        shortlist=_shortlist(first, config) if shortlist else None,
    )


def load_exported(
    folder: Path,
    *,
    search: SearchConfig | None = None,
    search_overrides: Sequence[str] = (),
    compute_type: ComputeType = "auto",
    threads: Threads | None = None,
    options: TranslationOptions | None = None,
) -> Translator:
    """A translator from the folder of an exported model; arguments and errors as `load_translator`."""
    found = read_belongings(folder)
    threads = threads or Threads()
    engine: Engine
    if (folder / ENCODER).is_file():
        engine = OnnxEngine(folder, compute_type=compute_type, threads=threads.each)
    else:
        engine = CTranslate2Engine(folder, found.tokenizers, compute_type=compute_type, threads=threads)
    config = load_search(search or found.description.search, search_overrides)
    config = config.within(found.description.model.longest_target())
    return Translator(
        engine,
        found.tokenizers,
        config,
        longest_source=found.description.longest_source,
        options=options,
        rerank=_rerank(config),
    )


def _rerank(search: SearchConfig) -> Rerank | None:
    return None if search.rerank is None else minimum_bayes_risk(likeness(search.rerank.metric))


def _shortlist(loaded: Loaded, search: SearchConfig) -> Shortlist:
    path = loaded.folder / LEXICON
    if not path.is_file():
        raise MissingInputError(
            f"{path}: no such file; the model was made without a lexicon and can translate only without --shortlist"
        )
    vocab = loaded.tokenizers.tgt.vocab
    return Shortlist(Lexicon.load(path), [vocab.eos, *([vocab.unk] if search.allow_unknown else [])])


def load_scorer(
    models: Sequence[Path],
    *,
    compute_type: ComputeType = "auto",
    device: str | None = None,
    threads: int | None = None,
    batch_tokens: int | None = None,
) -> Callable[[Iterable[tuple[str, Given]]], Iterator[ForcedScore]]:
    """What scores given translations with a model or an ensemble; arguments and errors as `load_translator`."""
    if threads is not None:
        torch.set_num_threads(threads)
    loaded = _load(models)
    engine = OwnEngine([one.model for one in loaded], compute_type=compute_type, device=device or str(default_device()))
    longest = min(one.description.longest_source for one in loaded)
    score_pairs = partial(score_lines, engine.models, loaded[0].tokenizers, longest_source=longest)
    return score_pairs if batch_tokens is None else partial(score_pairs, batch_tokens=batch_tokens)


def _load(paths: Sequence[Path]) -> list[Loaded]:
    if not paths:
        raise UsageError("no model to translate with")
    loaded = [read_model(path) for path in paths]
    _check_ensemble(loaded)
    return loaded


def _check_ensemble(loaded: Sequence[Loaded]) -> None:
    first = loaded[0]
    for other in loaded[1:]:
        if other.tokenizers.hash() != first.tokenizers.hash():
            raise DataError(
                f"{other.folder}: has other vocabularies than {first.folder}; an ensemble needs models that were "
                "trained with the same tokenizer"
            )
