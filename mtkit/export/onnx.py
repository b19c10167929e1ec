"""Model folder -> encoder and one decoder step in the ONNX format, by torch's own exporter."""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source
from mtkit.errors import MissingExtraError, UsageError
from mtkit.export.agreement import check_agreement, sample_lines
from mtkit.io.files import build_folder, writing
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.positions.base import Position
from mtkit.layers.positions.learned import Learned
from mtkit.model_folder.exported import is_exported, write_belongings
from mtkit.model_folder.folder import read_model
from mtkit.models.interface import State
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.model import DecoderCache, Memory, Transformer
from mtkit.recipe.recipe import ModelConfig
from mtkit.translate.engines.onnx import DECODER, ENCODER, MEMORY, PAST, OnnxEngine

REFUSED = {
    "feed_forward": {"experts"},
    "encoder_positions": {"transformer_xl"},
    "decoder_positions": {"transformer_xl"},
}
EXAMPLE = {"batch": 2, "source": 5, "width": 3, "past": 4}  # sizes to trace with; all are free afterwards


class _Encoder(nn.Module):
    """ids and real [B, S] -> keys and values of the source in every decoder layer, [L, B, G, S, K]."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        pos = torch.arange(ids.size(1)).expand_as(ids)
        x = self.model.encode(Source(ids, real, pos))
        attention: list[CrossAttention] = [layer.cross_attention for layer in self.model.decoder]  # type: ignore[misc]
        memory = [each.project(x, pos, real) for each in attention]
        return torch.stack([layer.k for layer in memory]), torch.stack([layer.v for layer in memory])


class _DecoderStep(nn.Module):
    """One step: token [B, W] -> logits [B·W, V], attention [B·W, H, S], and the past with the token."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token: Tensor, memory_keys: Tensor, memory_values: Tensor, real: Tensor, past_k: Tensor, past_v: Tensor
    ) -> tuple[Tensor, ...]:
        sentences, width = token.shape
        length = past_k.size(4)
        src_pos = torch.arange(real.size(1)).expand_as(real)
        memory = [
            KeyValues.of(k, v, src_pos, real)
            for k, v in zip(memory_keys.unbind(0), memory_values.unbind(0), strict=True)
        ]
        pos = torch.arange(length).expand(sentences * width, length)
        past = [
            KeyValues.of(k.flatten(0, 1), v.flatten(0, 1), pos, None)
            for k, v in zip(past_k.unbind(0), past_v.unbind(0), strict=True)
        ]
        state = State(
            memory=Memory(tuple(memory)),
            cache=DecoderCache(tuple(past), torch.full((sentences * width,), length, dtype=torch.int64)),
            num_sentences=sentences,
            num_rows=sentences * width,
            logits=self.model.output,
        )
        step = self.model.step(token.flatten(), state)
        layers: list[Any] = list(step.state.cache.layers)  # type: ignore[attr-defined]
        keys, values = torch.stack([layer.k for layer in layers]), torch.stack([layer.v for layer in layers])
        shape = (sentences, width)
        if step.attention is None:
            raise ValueError("a Transformer without attention")
        return step.logits(), step.attention, torch.unflatten(keys, 1, shape), torch.unflatten(values, 1, shape)


class _Table(Position):
    """Learned positions without a look at the numbers, which a traced model cannot take."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + self.rows[pos]


def export_onnx(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Write encoder.onnx and decoder.onnx and translate some lines with both engines; arguments as for CTranslate2.

    Raises:
        UsageError: the model cannot be traced, or `folder` is there and is no exported model.
        MissingExtraError: onnx, onnxscript or onnxruntime is not installed.
        DataError: the translations do not agree; nothing is written then.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    if folder.exists() and not is_exported(folder):
        raise UsageError(f"{folder}: is there and is no exported model; choose another name")
    loaded = read_model(model)
    _check(loaded.description.model)
    sample = sample_lines(model, loaded, check_file)
    traced = copy.deepcopy(loaded.model)
    if not isinstance(traced, Transformer):
        raise ValueError(f"{type(traced).__name__} of a TransformerConfig")
    for embedding in (traced.src_embedding, traced.tgt_embedding):
        if isinstance(embedding.position, Learned):
            embedding.position = _Table(_rows(embedding.position))
    with build_folder(folder) as temporary:
        with writing(temporary):
            _trace(traced, temporary)
        write_belongings(temporary, loaded.description, loaded.tokenizers)
        return check_agreement(loaded, OnnxEngine(temporary, compute_type="float32"), sample)


def _check(config: ModelConfig) -> None:
    """Raises UsageError, naming the keys, if the model cannot become an encoder and a step with keys and values."""
    if not isinstance(config, TransformerConfig):
        raise UsageError(f"model.kind: {config.kind}: only a transformer can be exported to ONNX")
    kinds = {name: vars(config)[name].kind for name in (*REFUSED, "encoder_attention", "decoder_attention")}
    faults = [f"{name}.kind: {kind}" for name, kind in kinds.items() if kind in REFUSED.get(name, set())]
    faults += [f"{name}.kind: {kind}" for name, kind in kinds.items() if "attention" in name and kind != "full"]
    if faults:
        raise UsageError("\n".join(f"model.{fault}: cannot be exported to ONNX" for fault in faults))


@torch.no_grad()
def _rows(position: Learned) -> Tensor:
    pos = torch.arange(position.reach).unsqueeze(0)
    return position.embed(torch.zeros(1, position.reach, position.table.embedding_dim), pos).squeeze(0).clone()


def _trace(model: Transformer, folder: Path) -> None:
    """Both graphs; gradients are on, because caches then grow by concatenation, which has any shape."""
    encoder, step = _Encoder(model).eval(), _DecoderStep(model).eval()
    size = EXAMPLE
    ids = torch.zeros(size["batch"], size["source"], dtype=torch.int64)
    real = torch.ones_like(ids, dtype=torch.bool)
    real[0, -1] = False
    batch, source, width, past = (torch.export.Dim(name) for name in size)
    with _quietly():
        memory = tuple(each.detach() for each in encoder(ids, real))
        layers, _, groups, _, head_dim = memory[0].shape
        token = torch.zeros(size["batch"], size["width"], dtype=torch.int64)
        cache = torch.zeros(layers, size["batch"], size["width"], groups, size["past"], head_dim)
        _export(
            encoder,
            (ids, real),
            folder / ENCODER,
            shapes=({0: batch, 1: source},) * 2,
            names=(["ids", "real"], [*MEMORY]),
        )
        of_memory, of_past = {1: batch, 3: source}, {1: batch, 2: width, 4: past}
        _export(
            step,
            (token, *memory, real, cache, cache.clone()),
            folder / DECODER,
            shapes=({0: batch, 1: width}, of_memory, of_memory, {0: batch, 1: source}, of_past, of_past),
            names=(["token", *MEMORY, "real", *PAST], ["logits", "attention", "keys", "values"]),
        )


def _export(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, *, shapes: Any, names: tuple[list[str], list[str]]
) -> None:
    try:
        torch.onnx.export(
            module,
            inputs,
            str(path),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=names[0],
            output_names=names[1],
            external_data=False,
            verbose=False,
        )
    except ModuleNotFoundError as error:
        raise MissingExtraError("onnx", "onnx and onnxscript") from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """The exporter warns of what does not concern a user."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
