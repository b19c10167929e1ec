"""TODO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from mtkit.build.training import default_device
from mtkit.corpus.lexicon import Lexicon
from mtkit.errors import DataError, MissingInputError, UsageError
from mtkit.evaluation.sentence import likeness
from mtkit.model_folder.exported import is_exported, read_belongings
from mtkit.model_folder.folder import LEXICON, Loaded, read_model
from mtkit.recipe.recipe import load_search
from mtkit.search.config import SearchConfig
from mtkit.translate.compute_type import ComputeType
from mtkit.translate.engines.ctranslate2 import CTranslate2Engine, Threads
from mtkit.translate.engines.interface import Engine, OwnEngine
from mtkit.translate.engines.onnx import ENCODER, OnnxEngine
from mtkit.translate.minimum_bayes_risk import minimum_bayes_risk
from mtkit.translate.score import ForcedScore, Given, score_lines
from mtkit.translate.shortlist import Shortlist
from mtkit.translate.translator import Rerank, TranslationOptions, Translator


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
