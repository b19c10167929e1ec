"""Building translators and scorers from model folders and ensembles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypedDict

from mtkit.assembly.engine import device_name, load_engine
from mtkit.assembly.language_model import LanguageModelRanking
from mtkit.errors import DataError, UsageError
from mtkit.hardware import set_num_threads
from mtkit.inference.compute_type import ComputeType
from mtkit.model_folder.folder import StoredModel, read_stored_model
from mtkit.recipe.tree import load_search
from mtkit.search.config import SearchConfig
from mtkit.text.lines import list_of_texts, require_list
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
    allow_masked: bool = False,
) -> Translator:
    """Load a translator from a model folder, a finished run, or several models as an ensemble.

    In Python it is also available as `mtkit.load_model`.

    Args:
        models: one path, or the paths of an ensemble, whose probabilities are averaged at every step.
        search: search configuration; None: that of the first model.
        search_overrides: `search.KEY=VALUE` each, applied on top of `search`.
        compute_type: float32, bf16 or int8; auto is bf16 on hardware with instructions for it, else float32.
        device: such as cuda:0; None: a GPU if there is one, else the CPU.
        threads: CPU threads; None: one for each core.
        options: batch size, n-best list and other settings; see TranslationOptions.
        allow_masked: load a masked language model too, whose test scores a study states beside those of others.

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
    (translator,) = load_translators(
        models,
        [options or TranslationOptions()],
        search=search,
        search_overrides=search_overrides,
        compute_type=compute_type,
        device=device,
        threads=threads,
        allow_masked=allow_masked,
    )
    return translator


def load_translators(
    models: Sequence[Path | str] | Path | str,
    options: Sequence[TranslationOptions],
    *,
    search: SearchConfig | None = None,
    search_overrides: Sequence[str] = (),
    compute_type: ComputeType = "auto",
    device: str | None = None,
    threads: int | None = None,
    allow_masked: bool = False,
) -> list[Translator]:
    """Load a translator for each of several options, which may differ in their adapters.

    The translators share tokenizers, and on the fast road the weights that no adapter changes. Other arguments and
    errors as `load_translator`.
    """
    if threads is not None:
        set_num_threads(threads)
    list_of_texts("search_overrides", search_overrides)
    if not isinstance(models, str | Path):
        require_list("models", models)
    paths = [Path(each) for each in ([models] if isinstance(models, str | Path) else models)]
    device, loaded = device_name(device), _read(paths)  # errors of the device come first
    for one in loaded:
        _require_translation_model(one, allow_masked=allow_masked)
    first, general = loaded[0], options[0]
    config = _within_positions(search_config(search or first.metadata.search, search_overrides), loaded)
    ranking = general.language_model and LanguageModelRanking.read(general.language_model, first)
    config = ranking.limit(config) if ranking else config
    rerank = _rerank(config, first.metadata.tgt_lang)
    place: _Place = {"compute_type": compute_type, "device": device, "rewrite": general.rewrite}
    fused = ranking.fused() if ranking else None
    rerank = _both(ranking.reranking(config, **place), rerank) if ranking else rerank
    parts = None
    if len(options) > 1:
        from mtkit.inference.packing import PackedParts

        parts, loaded = PackedParts(), [replace(one, weights=dict(one.weights)) for one in loaded]
    translators = []
    for each in options:
        engine = load_engine(_adapted(loaded, each.adapter), language_model=fused, parts=parts, **place)
        translator = Translator(
            engine,
            first.tokenizers,
            config,
            max_source_length=min(one.metadata.max_source_length for one in loaded),
            options=each,
            rerank=rerank,
            requires_tag=first.metadata.requires_tag,
            single_sentences=any(one.metadata.is_of_single_sentences for one in loaded),
            length_ratio=first.metadata.length_ratio,
        )
        translators.append(translator)
        if parts is not None:
            parts.is_complete = True
    return translators


class _Place(TypedDict):
    """Device and number format of models."""

    compute_type: ComputeType
    device: str
    rewrite: bool


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
    if search.rerank is None:
        return None
    from mtkit.evaluation.similarity import pairwise_similarity

    return MinimumBayesRisk(pairwise_similarity(search.rerank.metric, tgt_lang))


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
        set_num_threads(threads)
    device, loaded = device_name(device), _read(models)  # errors of the device come first
    for one in loaded:
        check_sources(one, with_source=with_source)
    engine = load_engine(loaded, compute_type=compute_type, device=device, rewrite=options.rewrite)
    max_length = min(one.metadata.max_source_length for one in loaded)
    tokenizers = loaded[0].tokenizers
    options.source_prefix.check_tag(tokenizers, requires_tag=loaded[0].metadata.requires_tag)
    return partial(
        score_lines,
        engine,
        tokenizers,
        max_source_length=max_length,
        batch_tokens=options.batch_tokens,
        prefix_ids=options.source_prefix.ids(tokenizers, max_source_length=max_length),
        report_oom=options.report_oom,
    )


def _read(paths: Sequence[Path]) -> list[StoredModel]:
    if not paths:
        raise UsageError("no model is given")
    loaded = [read_stored_model(path) for path in paths]
    _check_ensemble(loaded)
    return loaded


def _adapted(loaded: Sequence[StoredModel], adapter: Path | None) -> Sequence[StoredModel]:
    """A model with an adapter, or models without one; UsageError if there are several models and an adapter."""
    if adapter is None:
        return loaded
    if len(loaded) > 1:
        raise UsageError(f"--adapter {adapter}: belongs to one model, and an ensemble has several; give one of the two")
    return [loaded[0].with_adapter(adapter)]


def _within_positions(search: SearchConfig, loaded: Sequence[StoredModel]) -> SearchConfig:
    """The search without translations that are longer than a model can generate."""
    for one in loaded:
        search = search.limited_to(one.metadata.model.max_target_length())
    return search


def _check_ensemble(loaded: Sequence[StoredModel]) -> None:
    first = loaded[0]
    for other in loaded[1:]:
        if other.tokenizers.hash() != first.tokenizers.hash():
            raise DataError(
                f"{other.folder}: its vocabularies differ from those of {first.folder}; the models of an ensemble "
                "must be trained with the same tokenizer"
            )


def read_translation_model(folder: Path) -> StoredModel:
    """Read a model that translates.

    Raises:
        UsageError: it does not.
        MissingInputError, DataError: as `read_stored_model`.
    """
    stored = read_stored_model(folder)
    _require_translation_model(stored)
    return stored


def _require_translation_model(loaded: StoredModel, *, allow_masked: bool = False) -> None:
    """Raise UsageError if the model is a language model, or a masked one and these are not allowed."""
    if not allow_masked:
        _require_decoder(loaded)
    if loaded.metadata.is_language_model:
        raise UsageError(
            f"{loaded.folder}: a language model, which translates nothing; rank the output of a translation model "
            "with it (translate --lm), or score text (score --ref)"
        )


def _require_decoder(loaded: StoredModel) -> None:
    if loaded.metadata.is_encoder_only:
        raise UsageError(
            f"{loaded.folder}: a masked language model, whose decoder is not trained; train a translation model from "
            f"it with training.init_from={{model: {loaded.folder}, parts: [embeddings, encoder]}}"
        )


def check_sources(loaded: StoredModel, *, with_source: bool) -> None:
    """Check that texts are scored with sources by a translation model, and without by a language model.

    Raises:
        UsageError: they are not, or the model is a masked language model.
    """
    _require_decoder(loaded)
    if loaded.metadata.is_language_model and with_source:
        raise UsageError(f"{loaded.folder}: a language model, which reads no source; omit --src")
    if not loaded.metadata.is_language_model and not with_source:
        raise UsageError(f"{loaded.folder}: a translation model, which needs the sources; give --src FILE")
