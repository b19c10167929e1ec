"""Building translators and scorers from model folders and ensembles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from mtkit.assembly.language_model import LanguageModelRanking, check_sources, require_translation_model
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.metrics import sentence_similarity
from mtkit.hardware import parse_device
from mtkit.inference.prepare import ComputeType
from mtkit.model_folder.folder import LoadedModel, read_model
from mtkit.recipe.recipe import load_search
from mtkit.search.config import SearchConfig
from mtkit.text.lines import list_of_texts, require_list
from mtkit.translate.engines.interface import ModelEngine
from mtkit.translate.reranking import MinimumBayesRisk, Rerank
from mtkit.translate.score import ForcedScore, GivenTranslation, score_lines
from mtkit.translate.translator import TranslationOptions, Translator


def load_translator(
    models: Sequence[Path | str] | Path | str,
    *,
    search: SearchConfig | None = None,
    search_overrides: Sequence[str] = (),
    compute_type: ComputeType = "auto",
    device: str | None = None,
    threads: int | None = None,
    options: TranslationOptions | None = None,
) -> Translator:
    """Load a translator from a model folder, a finished run, or several models as an ensemble.

    In Python it is also available as `mtkit.load_model`.

    Args:
        models: one path, or the paths of an ensemble, whose probabilities are averaged at every step.
        search: search configuration; None: that of the first model.
        search_overrides: `search.KEY=VALUE` each, applied on top of `search`.
        compute_type: float32, bf16 or int8; auto is bf16 on hardware with instructions for it, else float32.
        device: such as cuda:0; None: a GPU if there is one, else the CPU.
        threads: CPU threads; None: torch's default.
        options: batch size, n-best list and other settings; see TranslationOptions.

    Returns:
        A translator; see `Translator.translate` and `Translator.translate_lines`.

    Raises:
        MissingInputError: a model does not exist.
        DataError: a model is damaged or has another format (FormatError), or the vocabularies of an ensemble differ.
        RecipeError: an override is invalid.
        UsageError: no model, an override has no effect, or this machine does not support the compute type or device.
        TypeError: `search_overrides` is one text instead of a list.

    Example:
        >>> translator = load_model("runs/quickstart", search_overrides=["beam_size=1"])
        >>> translator.translate_lines(["The dog runs .", "A cat sleeps ."])
    """
    options = options or TranslationOptions()
    if threads is not None:
        torch.set_num_threads(threads)
    list_of_texts("search_overrides", search_overrides)
    if not isinstance(models, str | Path):
        require_list("models", models)
    paths = [Path(each) for each in ([models] if isinstance(models, str | Path) else models)]
    device, loaded = str(parse_device(device)), _load_translation_models(paths)  # errors of the device come first
    first = loaded[0]
    config = _within_positions(search_config(search or first.metadata.search, search_overrides), loaded)
    ranking = options.language_model and LanguageModelRanking.read(options.language_model, first)
    config = ranking.limit(config) if ranking else config
    rerank = _rerank(config, first.metadata.tgt_lang)
    engine = ModelEngine(
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


def _rerank(search: SearchConfig, tgt_lang: str) -> Rerank | None:
    return None if search.rerank is None else MinimumBayesRisk(sentence_similarity(search.rerank.metric, tgt_lang))


def _both(first: Rerank | None, second: Rerank | None) -> Rerank | None:
    """One ranking after another."""
    if first is None or second is None:
        return first or second
    return lambda lists: second(first(lists))


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
    engine = ModelEngine(
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
