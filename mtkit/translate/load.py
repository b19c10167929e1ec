"""Loading of translators and scorers from model folders, with the engine that suits them; ensembles and adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit import __version__
from mtkit.corpus.coverage import WordCoverage
from mtkit.errors import DataError, UsageError
from mtkit.hardware import parse_device, runs_on_cpu, set_num_threads
from mtkit.inference.native_search import NativeModel
from mtkit.inference.support import ComputeType, cpu_compute_type, unsupported_model_key
from mtkit.io.files import hash_files
from mtkit.model_folder.config_file import LEXICON, model_hash
from mtkit.model_folder.folder import (
    LoadedModel,
    ModelMetadata,
    StoredModel,
    find_model,
    read_metadata,
    read_stored_model,
)
from mtkit.native.library import native
from mtkit.recipe.tree import load_search
from mtkit.search.config import SearchConfig
from mtkit.text.lines import list_of_texts, require_list
from mtkit.translate.engine import Engine, NativeEngine, StartedEngine, special_ids
from mtkit.translate.lines import MAX_QUOTED, ConstrainedLine, Line, adapter_of, read_windows
from mtkit.translate.reranking import LanguageModelReranking, MinimumBayesRisk, Rerank, read_language_model
from mtkit.translate.score import ForcedScore, GivenTranslation, score_lines
from mtkit.translate.translation import LanguageModelOptions, Translation, TranslationOptions
from mtkit.translate.translator import Translator

if TYPE_CHECKING:
    from mtkit.inference.packing import PackedWeights


def load_translator(
    models: Sequence[Path | str] | Path | str,
    *,
    search: SearchConfig | None = None,
    search_overrides: Sequence[str] = (),
    compute_type: ComputeType = "auto",
    device: str | None = None,
    threads: int | None = None,
    rewrite: bool = True,
    language_model: LanguageModelOptions | None = None,
    adapter: Path | None = None,
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
        rewrite: faster code of mtkit/inference; False: the reference implementation, equal up to rounding.
        language_model: ranks hypotheses too.
        adapter: folder of an adapter, which is merged into the model.
        options: batch size, scores and other settings of the calls; see TranslationOptions.
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
    list_of_texts("search_overrides", search_overrides)
    if not isinstance(models, str | Path):
        require_list("models", models)
    spec = TranslatorSpec(
        models=[Path(each) for each in ([models] if isinstance(models, str | Path) else models)],
        search=search,
        search_overrides=search_overrides,
        compute_type=compute_type,
        device=device,
        threads=threads,
        rewrite=rewrite,
        language_model=language_model,
        adapter=adapter,
        options=options or TranslationOptions(),
        allow_masked=allow_masked,
    )
    return spec.load()


@dataclass(frozen=True, kw_only=True)
class TranslatorSpec:
    """The arguments of `load_translator` as one value, which can be sent to worker processes.

    Its methods raise the errors of `load_translator`.
    """

    models: Sequence[Path]
    search: SearchConfig | None = None
    search_overrides: Sequence[str] = ()
    compute_type: ComputeType = "auto"
    device: str | None = None
    threads: int | None = None
    rewrite: bool = True
    language_model: LanguageModelOptions | None = None
    adapter: Path | None = None
    options: TranslationOptions = field(default_factory=TranslationOptions)
    allow_masked: bool = False

    def load(self) -> Translator:
        """Load the translator."""
        (translator,) = self.load_adapted([self.adapter])
        return translator

    def load_adapted(self, adapters: Sequence[Path | None]) -> list[Translator]:
        """Load a translator for each adapter; None: without one.

        The translators share tokenizers, and in the native backend the weights that no adapter changes.
        """
        if self.threads is not None:
            set_num_threads(self.threads)
        device = device_name(self.device)  # its errors come before those of the models
        models = _read(self.models)
        first = models[0]
        _, tgt_lang = first.metadata.direction(self.options.source_prefix)
        for model in models:
            _require_translation_model(model, allow_masked=self.allow_masked)
        config = search_config(self.search or first.metadata.search, self.search_overrides)
        begin = self.options.source_prefix.tgt_ids(first.tokenizers)
        for model in models:
            config = config.limited_to(model.metadata.model.max_target_length(), begin=begin)
        load = partial(load_engine, compute_type=self.compute_type, device=device, rewrite=self.rewrite)
        fusion, rerankings = None, list[Rerank]()
        if (options := self.language_model) is not None:
            language = read_language_model(options, config, translation=first)
            config = config.limited_to(language.metadata.model.max_target_length())
            if options.mode == "rerank":
                engine = load([language])
                rerankings = [LanguageModelReranking(engine, language.tokenizers, options.weight, config.penalty())]
            else:
                fusion = language.load(), options.weight
        if config.rerank is not None:
            from mtkit.evaluation.similarity import pairwise_similarity

            rerankings.append(MinimumBayesRisk(pairwise_similarity(config.rerank.metric, tgt_lang)))
        packed = None
        if len(adapters) > 1:
            from mtkit.inference.packing import PackedWeights

            packed, models = PackedWeights(), [replace(model, weights=dict(model.weights)) for model in models]
        coverage = WordCoverage.load(first.folder / LEXICON, first.tokenizers.vocab_sizes)
        translators = []
        for adapter in adapters:
            if adapter is not None and len(models) > 1:
                raise UsageError(
                    f"--adapter {adapter}: belongs to one model, and an ensemble has several; give one of the two"
                )
            adapted = models if adapter is None else [models[0].with_adapter(adapter)]
            translator = Translator(
                load(adapted, language_model=fusion, packed=packed),
                first.tokenizers,
                config,
                max_source_length=min(model.metadata.max_source_length for model in models),
                options=self.options,
                rerankings=rerankings,
                requires_tag=first.metadata.requires_tag,
                single_sentences=any(model.metadata.is_of_single_sentences for model in models),
                length_ratio=first.metadata.length_ratio,
                coverage=coverage,
            )
            translators.append(translator)
            if packed is not None:
                packed.is_complete = True
        return translators

    def settings(self) -> dict[str, Any]:
        """Everything that determines the translation of a line, as plain values."""
        language = self.language_model
        return {
            "mtkit": __version__,
            "models": [model_hash(find_model(path)) for path in self.models],
            "search": list(self.search_overrides),
            "compute_type": resolved_compute_type(self.compute_type, device_name(self.device)),
            "rewrite": self.rewrite,
            "split_sentences": self.options.split_sentences,
            "source_prefix": asdict(self.options.source_prefix),
            "language_model": None
            if language is None
            else [model_hash(find_model(language.model)), language.weight, language.mode],
            "adapter": None if self.adapter is None else hash_files(self.adapter),
            "with_scores": self.options.with_scores,
            "glossary": None if self.options.glossary is None else self.options.glossary.terms,
            "restore": self.options.restore,
        }

    def unwritten_n_best(self) -> str | None:
        """A note for output with one translation a line: n_best of the model's recipe has no effect; None if it is 1.

        Raises:
            UsageError: the overrides ask for more than one translation.
        """
        n_best = load_search(_metadata(self.models[0]).search, self.search_overrides).n_best
        if n_best == 1:
            return None
        sentence = f"search.n_best: {n_best} has no effect here: one translation is written for each line"
        if "n_best" in override_keys(self.search_overrides):
            raise UsageError(f"{sentence}; use --n-best {n_best} instead, or add --jsonl")
        return f"{sentence}; --n-best {n_best} or --jsonl writes all"

    def require_attention(self) -> None:
        """Check that word alignments can be computed.

        Raises:
            UsageError: no model has attention over the source.
        """
        models = [_metadata(path).model for path in self.models]
        if not any(model.has_attention for model in models):
            raise UsageError(
                f"translate: --alignments needs attention over the source; a model of kind {models[0].kind} has none"
            )


COMPARED_TOKENS = 6  # of a source and of a target whose scores are compared; any table of positions has as many
TOLERANCE = 1e-5  # of a log-probability, relative to it above 1; rounding is 1e-7, queries 1% larger are 5e-4


def device_name(name: str | None) -> str:
    """The device of this name, for None the default one; without torch if it is the CPU.

    Raises:
        UsageError: this machine lacks it.
    """
    return "cpu" if runs_on_cpu(name) else str(parse_device(name))


def resolved_compute_type(requested: ComputeType, device: str) -> ComputeType:
    """The compute type on a device, with `auto` resolved.

    Raises:
        UsageError: the device does not support the type.
    """
    if device == "cpu":
        return cpu_compute_type(requested)
    from mtkit.inference.prepare import NAMES, resolve_compute_type

    return NAMES[resolve_compute_type(requested, parse_device(device))]


def load_engine(
    models: Sequence[StoredModel],
    *,
    compute_type: ComputeType,
    device: str,
    rewrite: bool = True,
    language_model: tuple[LoadedModel, float] | None = None,
    packed: PackedWeights | None = None,
) -> Engine:
    """Load the engine of a model, or of an ensemble over the same vocabularies.

    The native backend is the engine of what it supports: one model on the CPU, of a kind in inference/support.py.

    Args:
        models: as they were read.
        compute_type: see `resolved_compute_type`.
        device: a result of `device_name`.
        rewrite: False: the reference implementation.
        language_model: of shallow fusion, which the native backend does not support, and its weight.
        packed: packed weights of other models, which are shared where the arrays are the same.

    Raises:
        UsageError: the device does not support the compute type.
    """
    name = ", ".join(str(model.folder) for model in models)

    def reference(stored: Sequence[StoredModel]) -> Engine:
        from mtkit.translate.model_engine import ModelEngine

        return ModelEngine(
            [model.load().model for model in stored],
            compute_type=compute_type,
            device=device,
            rewrite=rewrite,
            name=name,
            language_model=language_model,
        )

    first = models[0]
    is_plain = len(models) == 1 and device == "cpu" and rewrite and language_model is None
    is_supported = is_plain and unsupported_model_key(first.metadata.model) is None and native().functions is not None
    engine: Engine
    if is_supported and _agrees_with_layers(first):
        model = NativeModel(first.metadata.model, first.weights, cpu_compute_type(compute_type), packed=packed)
        folder, adapter = first.folder, first.adapter

        def load_reference() -> Engine:
            """Read the weights again, since most commands need no search of the reference implementation."""
            again = read_stored_model(folder)
            return reference([again if adapter is None else again.with_adapter(adapter)])

        engine = NativeEngine(model, name=name, load_reference=load_reference)
    else:
        engine = reference(models)
    return engine


def _agrees_with_layers(model: StoredModel) -> bool:
    """Return whether the library computes what the layers do that are in this installation.

    It does if it was compiled beside them. In a checkout whose layers were edited, scores of a few tokens are compared.
    """
    if native().matches_layers:
        return True
    from mtkit.translate.model_engine import ModelEngine

    src, tgt = model.tokenizers.src.vocab, model.tokenizers.tgt.vocab
    tokens = [*range(min(COMPARED_TOKENS, src.size, tgt.size))]
    pairs = [([*tokens, src.eos], tokens[::-1])]
    reference = ModelEngine([model.load().model], compute_type="float32", rewrite=False)
    backend = NativeModel(model.metadata.model, model.weights, "float32")
    (ours,), (theirs,) = (each.score(pairs, special_ids(model.tokenizers.tgt)) for each in (backend, reference))
    return all(
        abs(score.log_prob - expected.log_prob) <= TOLERANCE * max(1.0, abs(expected.log_prob))
        for score, expected in zip(ours, theirs, strict=True)
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


def load_scorer(
    models: Sequence[Path],
    *,
    compute_type: ComputeType = "auto",
    device: str | None = None,
    threads: int | None = None,
    rewrite: bool = True,
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
    device = device_name(device)  # its errors come before those of the models
    stored = _read(models)
    for each in stored:
        _require_decoder(each)
        if each.metadata.is_language_model and with_source:
            raise UsageError(f"{each.folder}: a language model, which reads no source; omit --src")
        if not each.metadata.is_language_model and not with_source:
            raise UsageError(f"{each.folder}: a translation model, which needs the sources; give --src FILE")
    engine = load_engine(stored, compute_type=compute_type, device=device, rewrite=rewrite)
    max_length = min(model.metadata.max_source_length for model in stored)
    tokenizers = stored[0].tokenizers
    stored[0].metadata.direction(options.source_prefix)  # its errors
    if start := options.source_prefix.tgt_ids(tokenizers):
        engine = StartedEngine(engine, start)
    options.source_prefix.check_tag(tokenizers, requires_tag=stored[0].metadata.requires_tag)
    return partial(
        score_lines,
        engine,
        tokenizers,
        max_source_length=max_length,
        batch_tokens=options.batch_tokens,
        tag_ids=options.source_prefix.ids(tokenizers, max_source_length=max_length),
        report_oom=options.report_oom,
    )


def _read(paths: Sequence[Path]) -> list[StoredModel]:
    if not paths:
        raise UsageError("no model is given")
    first, *others = loaded = [read_stored_model(path) for path in paths]
    for other in others:
        if other.tokenizers.hash() != first.tokenizers.hash():
            raise DataError(
                f"{other.folder}: its vocabularies differ from those of {first.folder}; the models of an ensemble "
                "must be trained with the same tokenizer"
            )
    return loaded


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


def _metadata(model: Path) -> ModelMetadata:
    return read_metadata(find_model(model))


class AdaptedTranslators:
    """Translators of a model and of its adapters, with the interface of one Translator.

    An adapter is merged into a copy of the matrices that it changes, so that its lines are as fast as those of the
    model. All other memory is shared: embeddings, output projection, tokenizers.

    Attributes:
        options: those of all translators.
        compute_type: see Translator; it is the same for all.
        can_fork: see Engine.
    """

    def __init__(self, base: TranslatorSpec, adapters: Mapping[str, Path]) -> None:
        """Load all translators.

        Args:
            base: of the lines that name no adapter.
            adapters: folders of adapters by name.

        Raises:
            UsageError, MissingInputError, DataError: as `load_translator`.
        """
        self.options = base.options
        translators = base.load_adapted([base.adapter, *adapters.values()])
        self._translators = dict(zip(["", *adapters], translators, strict=True))
        self.compute_type = translators[0].compute_type
        self.can_fork = all(each.can_fork for each in translators)

    def __getitem__(self, name: str) -> Translator:
        """The translator of an adapter, which must be one of them; of the model for the empty name."""
        return self._translators[name]

    def translate(self, lines: Iterable[Line], *, first: int = 1) -> Iterator[Translation]:
        """Translate each line with the adapter that it names.

        Every adapter that a window of lines names translates this window, in which the lines of the others are blank:
        blank lines take no time, and all lines keep their numbers.

        Arguments and errors as `Translator.translate`.

        Raises:
            DataError: a line names an unknown adapter; raised after the translations of all lines before.
        """
        for window, error in read_windows(self._checked(lines, first), self.options):
            names = [adapter_of(line) for line in window]
            used = list(dict.fromkeys(names))
            parts = []
            for name in used:
                of_name = (line if each == name else "" for line, each in zip(window, names, strict=True))
                texts = [replace(line, adapter="") if isinstance(line, ConstrainedLine) else line for line in of_name]
                parts.append(self._translators[name].translate(texts, first=first))
            for name, translations in zip(names, zip(*parts, strict=True), strict=True):
                yield translations[used.index(name)]
            first += len(window)
            if error is not None:
                raise error

    def _checked(self, lines: Iterable[Line], first: int) -> Iterator[Line]:
        for number, line in enumerate(lines, start=first):
            if (name := adapter_of(line)) not in self._translators:
                known = ", ".join(sorted(filter(None, self._translators)))
                raise DataError(f"line {number}: adapter {name[:MAX_QUOTED]!r}: unknown; the adapters are {known}")
            yield line
