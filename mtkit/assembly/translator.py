"""Building translators and scorers from model folders, exported models and ensembles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from mtkit.assembly.language_model import LanguageModelRanking, check_sources, require_translation_model
from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.evaluation.metrics import sentence_similarity
from mtkit.hardware import parse_device
from mtkit.inference.prepare import ComputeType
from mtkit.model_folder.config_file import EXPORTED, LEXICON, verified
from mtkit.model_folder.exported import is_exported, read_exported_model
from mtkit.model_folder.folder import LoadedModel, read_model
from mtkit.recipe.recipe import load_search
from mtkit.search.config import SearchConfig
from mtkit.translate.engines.ctranslate2 import CTranslate2Engine, Threads
from mtkit.translate.engines.interface import Engine, TorchEngine
from mtkit.translate.engines.onnx import ENCODER, OnnxEngine
from mtkit.translate.reranking import MinimumBayesRisk, Rerank
from mtkit.translate.score import ForcedScore, GivenTranslation, score_lines
from mtkit.translate.shortlist import Shortlist
from mtkit.translate.translator import TranslationOptions, Translator

_EXPORTED_LIMITS = "an exported model works only on the CPU, without --ensemble, --lm, --shortlist and --no-rewrite"


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
    """Load a translator from a model folder, a finished run, an exported model, or several models as an ensemble.

    In Python it is also available as `mtkit.load_model`.

    Args:
        models: one path, or the paths of an ensemble, whose probabilities are averaged at every step.
        search: search configuration; None: that of the first model.
        search_overrides: `search.KEY=VALUE` each, applied on top of `search`.
        compute_type: float32, bf16 or int8; auto is bf16 on hardware with instructions for it, else float32.
        device: such as cuda:0; None: a GPU if there is one, else the CPU.
        threads: CPU threads; None: torch's default.
        options: batch size, n-best list and other settings; see TranslationOptions.
        shortlist: restrict the output to target tokens that are likely by the lexicon of the first model.

    Returns:
        A translator; see `Translator.translate` and `Translator.translate_lines`.

    Raises:
        MissingInputError: a model does not exist.
        DataError: a model is damaged or has another format (FormatError), or the vocabularies of an ensemble differ.
        RecipeError: an override is invalid.
        UsageError: no model, an override has no effect, or this machine does not support the compute type or device.

    Example:
        >>> translator = load_model("runs/quickstart", search_overrides=["beam_size=1"])
        >>> translator.translate_lines(["The dog runs .", "A cat sleeps ."])
    """
    options, threads = options or TranslationOptions(), threads or torch.get_num_threads()
    torch.set_num_threads(threads)
    paths = [Path(models)] if isinstance(models, str | Path) else models
    if exported := [path for path in paths if is_exported(path)]:
        if len(paths) > 1 or shortlist or device not in (None, "cpu") or not options.runs_exported:
            raise UsageError(f"{exported[0]}: {_EXPORTED_LIMITS}")
        return load_exported(
            exported[0],
            search=search,
            search_overrides=search_overrides,
            compute_type=compute_type,
            threads=Threads(intra_threads=threads),  # 1 in a worker process
            options=options,
        )
    device, loaded = str(parse_device(device)), _load_translation_models(paths)  # errors of the device come first
    first = loaded[0]
    config = _within_positions(search_config(search or first.metadata.search, search_overrides), loaded)
    ranking = options.language_model and LanguageModelRanking.read(options.language_model, first)
    config = ranking.limit(config) if ranking else config
    rerank = _rerank(config, first.metadata.tgt_lang)
    engine = TorchEngine(
        [one.model for one in loaded],
        compute_type=compute_type,
        device=device,
        beam_size=config.num_hypotheses,
        rewrite=options.rewrite,
        name=_names(loaded),
        language_model=ranking.fused() if ranking else None,
    )
    return Translator(
        engine,
        first.tokenizers,
        config,
        max_source_length=min(one.metadata.max_source_length for one in loaded),
        options=options,
        rerank=_both(ranking.reranking(config, engine, rewrite=options.rewrite), rerank) if ranking else rerank,
        shortlist=_shortlist(first, config) if shortlist else None,
        requires_tag=first.metadata.requires_tag,
    )


def search_config(default: SearchConfig, overrides: Sequence[str]) -> SearchConfig:
    """The search with overrides, each `search.KEY=VALUE`.

    Raises:
        RecipeError: an override is invalid.
        UsageError: an override has no effect.
    """
    config = load_search(default, overrides)
    ignored = config.ignored_keys()
    for key in override_keys(overrides):
        if key in ignored:
            raise UsageError(f"search.{key} has no effect with {ignored[key]}; omit it")
    return config


def override_keys(overrides: Sequence[str]) -> list[str]:
    """The keys directly below `search` that overrides set."""
    return [text.partition("=")[0].removeprefix("search.").partition(".")[0] for text in overrides]


def load_exported(
    folder: Path,
    *,
    search: SearchConfig | None = None,
    search_overrides: Sequence[str] = (),
    compute_type: ComputeType = "auto",
    threads: Threads | None = None,
    options: TranslationOptions | None = None,
) -> Translator:
    """Load a translator from the folder of an exported model; arguments and errors as `load_translator`."""
    threads = threads or Threads()
    engine: Engine
    with verified(folder, EXPORTED):
        model = read_exported_model(folder)
        if (folder / ENCODER).is_file():
            engine = OnnxEngine(folder, compute_type=compute_type, threads=threads.intra_threads)
        else:
            engine = CTranslate2Engine(folder, model.tokenizers, compute_type=compute_type, threads=threads)
    config = search_config(search or model.metadata.search, search_overrides)
    config = config.limited_to(model.metadata.model.max_target_length())
    return Translator(
        engine,
        model.tokenizers,
        config,
        max_source_length=model.metadata.max_source_length,
        options=options,
        rerank=_rerank(config, model.metadata.tgt_lang),
        requires_tag=model.metadata.requires_tag,
    )


def _rerank(search: SearchConfig, tgt_lang: str) -> Rerank | None:
    return None if search.rerank is None else MinimumBayesRisk(sentence_similarity(search.rerank.metric, tgt_lang))


def _both(first: Rerank | None, second: Rerank | None) -> Rerank | None:
    """One ranking after another."""
    if first is None or second is None:
        return first or second
    return lambda lists: second(first(lists))


def _shortlist(loaded: LoadedModel, search: SearchConfig) -> Shortlist:
    path = loaded.folder / LEXICON
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; the model has no lexicon, so translate without --shortlist")
    src, vocab = loaded.tokenizers.src.vocab, loaded.tokenizers.tgt.vocab
    lexicon = Lexicon.load(path)
    sizes = len(lexicon.targets), len(lexicon.frequent)
    if sizes != (src.size, vocab.size):
        raise DataError(
            f"{path}: the lexicon of another model ({sizes[0]} source and {sizes[1]} target tokens, the model has "
            f"{src.size} and {vocab.size}); copy the model again, or translate without --shortlist"
        )
    return Shortlist(lexicon, [vocab.eos, *([vocab.unk] if search.allow_unknown else [])])


def load_scorer(
    models: Sequence[Path],
    *,
    compute_type: ComputeType = "auto",
    device: str | None = None,
    threads: int | None = None,
    options: TranslationOptions | None = None,
    with_source: bool = True,
) -> Callable[[Iterable[tuple[str, GivenTranslation]]], Iterator[ForcedScore]]:
    """Load a function that scores given translations with a model or an ensemble.

    Arguments and errors as `load_translator`; of `options` those of search have no effect. The function takes pairs of
    a source line and a given translation, and yields their forced-decoding scores in order. `with_source`: False for a
    language model, whose sources are blank.
    """
    options = options or TranslationOptions()
    if threads is not None:
        torch.set_num_threads(threads)
    device = str(parse_device(device))  # before the models are read
    loaded = _load(models)
    for one in loaded:
        check_sources(one, with_source=with_source)
    engine = TorchEngine(
        [one.model for one in loaded],
        compute_type=compute_type,
        device=device,
        rewrite=options.rewrite,
    )
    max_length = min(one.metadata.max_source_length for one in loaded)
    tokenizers = loaded[0].tokenizers
    options.source_prefix.check_tag(tokenizers, requires_tag=loaded[0].metadata.requires_tag)
    return partial(
        score_lines,
        engine.models,
        tokenizers,
        max_source_length=max_length,
        batch_tokens=options.batch_tokens,
        prefix_ids=options.source_prefix.ids(tokenizers, max_source_length=max_length),
        name=_names(loaded),
        report_oom=options.report_oom,
    )


def _names(loaded: Sequence[LoadedModel]) -> str:
    return ", ".join(str(one.folder) for one in loaded)


def _load(paths: Sequence[Path]) -> list[LoadedModel]:
    if not paths:
        raise UsageError("no model is given")
    loaded = [read_model(path) for path in paths]
    _check_ensemble(loaded)
    return loaded


def _load_translation_models(paths: Sequence[Path]) -> list[LoadedModel]:
    loaded = _load(paths)
    for one in loaded:
        require_translation_model(one)
    return loaded


def _within_positions(search: SearchConfig, loaded: Sequence[LoadedModel]) -> SearchConfig:
    """The search without translations that are longer than a model can generate."""
    for one in loaded:
        search = search.limited_to(one.metadata.model.max_target_length())
    return search


def _check_ensemble(loaded: Sequence[LoadedModel]) -> None:
    first = loaded[0]
    for other in loaded[1:]:
        if other.tokenizers.hash() != first.tokenizers.hash():
            raise DataError(
                f"{other.folder}: its vocabularies differ from those of {first.folder}; the models of an ensemble "
                "must be trained with the same tokenizer"
            )
