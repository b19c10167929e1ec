"""Choice of the engine that runs models: the fast road where it takes them, else the models as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.hardware import parse_device, runs_on_cpu
from mtkit.inference.compute_type import ComputeType, cpu_compute_type
from mtkit.inference.served import unserved_model
from mtkit.model_folder.folder import StoredModel, read_stored_model
from mtkit.translate.engines.interface import Engine
from mtkit.translate.engines.started_engine import StartedEngine

if TYPE_CHECKING:
    from mtkit.inference.packing import PackedParts
    from mtkit.translate.engines.model_engine import FusedLanguageModel

PROBE_TOKENS = 6  # of a source and of a target whose scores are compared; any table of positions has as many
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
    language_model: FusedLanguageModel | None = None,
    parts: PackedParts | None = None,
) -> Engine:
    """Load the engine of a model, as `_load_engine`, with the tokens that begin its translations."""
    engine = _load_engine(
        models, compute_type=compute_type, device=device, rewrite=rewrite, language_model=language_model, parts=parts
    )
    start = models[0].tokenizers.tgt.before
    return StartedEngine(engine, start) if start else engine


def _load_engine(
    models: Sequence[StoredModel],
    *,
    compute_type: ComputeType,
    device: str,
    rewrite: bool,
    language_model: FusedLanguageModel | None,
    parts: PackedParts | None,
) -> Engine:
    """Load the engine of a model, or of an ensemble over the same vocabularies.

    Args:
        compute_type: see `resolved_compute_type`.
        device: a result of `device_name`.
        rewrite: False: models and searches as they are written.
        language_model: of shallow fusion, which runs as written; None: there is none.
        parts: packed parts of other models, which are shared where the weights are the same arrays.

    Raises:
        UsageError: the device does not support the compute type.
    """
    name = ", ".join(str(one.folder) for one in models)
    written = partial(_model_engine, compute_type=compute_type, device=device, name=name)
    is_plain = len(models) == 1 and device == "cpu" and rewrite and language_model is None
    if not is_plain or unserved_model(models[0].metadata.model) is not None or not has_library():
        return written(models, rewrite=rewrite, language_model=language_model)
    from mtkit.inference.fast_search import FastModel
    from mtkit.translate.engines.fast_engine import FastEngine

    if not _gives_results_of_layers(models[0]):
        return written(models)
    model = FastModel(models[0].metadata.model, models[0].weights, cpu_compute_type(compute_type), parts=parts)
    # The weights are read again for a search that runs as written: most commands need none.
    folder, adapter = models[0].folder, models[0].adapter
    return FastEngine(model, name=name, load_written=lambda: written([_read_again(folder, adapter)]))


def has_library() -> bool:
    """Return whether the native library can be used."""
    from mtkit.inference.library import native

    return native().functions is not None


def _gives_results_of_layers(model: StoredModel) -> bool:
    """Return whether the library computes what the layers do that are in this installation.

    It does if it was compiled beside them. In a checkout whose layers were edited, scores of a few tokens are compared.
    """
    from mtkit.inference.library import native

    if native().matches_layers:
        return True
    from mtkit.inference.fast_search import FastModel
    from mtkit.translate.engines.interface import special_ids

    src, tgt = model.tokenizers.src.vocab, model.tokenizers.tgt.vocab
    tokens = [*range(min(PROBE_TOKENS, src.size, tgt.size))]
    pairs = [([*tokens, src.eos], tokens[::-1])]
    written = _model_engine([model], compute_type="float32", device="cpu", name="", rewrite=False)
    fast = FastModel(model.metadata.model, model.weights, "float32")
    (ours,), (theirs,) = (each.score(pairs, special_ids(model.tokenizers.tgt)) for each in (fast, written))
    return all(
        abs(one.log_prob - other.log_prob) <= TOLERANCE * max(1.0, abs(other.log_prob))
        for one, other in zip(ours, theirs, strict=True)
    )


def _read_again(folder: Path, adapter: Path | None) -> StoredModel:
    model = read_stored_model(folder)
    return model if adapter is None else model.with_adapter(adapter)


def _model_engine(
    models: Sequence[StoredModel],
    *,
    compute_type: ComputeType,
    device: str,
    name: str,
    rewrite: bool = True,
    language_model: FusedLanguageModel | None = None,
) -> Engine:
    from mtkit.translate.engines.model_engine import ModelEngine

    return ModelEngine(
        [one.load().model for one in models],
        compute_type=compute_type,
        device=device,
        rewrite=rewrite,
        name=name,
        language_model=language_model,
    )
