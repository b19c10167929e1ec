"""Export of a model folder to ONNX: the encoder and one decoder step, traced by torch's exporter."""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source
from mtkit.errors import require_extra
from mtkit.export.equivalence import check_equivalence, lost_settings, sample_lines
from mtkit.export.supported_models import ONNX
from mtkit.export.usage import onnx_usage, write_card
from mtkit.io.files import atomic_folder, translate_write_errors
from mtkit.io.lock import OutputLock
from mtkit.layers.attention import CrossAttention
from mtkit.layers.cache import KVCache
from mtkit.layers.positions import Learned, Position, RoPE, rotate_halves
from mtkit.model_folder.config_file import EXPORTED, require_replaceable
from mtkit.model_folder.folder import write_metadata
from mtkit.models.interface import State
from mtkit.models.transformer.model import EncoderMemory, Transformer, TransformerCache
from mtkit.search.config import SearchConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engine import special_ids
from mtkit.translate.load import read_translation_model

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
MEMORY = ("memory_keys", "memory_values")  # [L, B, G, S, K] of the L decoder layers
PAST = ("past_keys", "past_values")  # [L, B, W, G, T, K]
BATCH = 16  # sentences, so that keys and values of long ones fit into memory
# sizes for tracing, all dynamic in the graphs: sentences, source length, hypotheses per sentence, tokens so far
EXAMPLE_SIZES = {"batch": 2, "source": 5, "width": 3, "past": 4}


class _Encoder(nn.Module):
    """Encoder graph: ids and real [B, S] -> source keys and values of every decoder layer, [L, B, G, S, K]."""

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
    """Decoder graph: token [B, W] -> logits [B·W, V], attention [B·W, H, S], and the extended cache."""

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
            KVCache.of(k, v, src_pos, real) for k, v in zip(memory_keys.unbind(0), memory_values.unbind(0), strict=True)
        ]
        pos = torch.arange(length).expand(sentences * width, length)
        past = [
            KVCache.of(k.flatten(0, 1), v.flatten(0, 1), pos, None)
            for k, v in zip(past_k.unbind(0), past_v.unbind(0), strict=True)
        ]
        state = State(
            memory=EncoderMemory(tuple(memory)),
            cache=TransformerCache(tuple(past), torch.full((sentences * width,), length, dtype=torch.int64)),
            num_sentences=sentences,
            num_rows=sentences * width,
            output_projection=self.model.output,
        )
        step = self.model.step(token.flatten(), state)
        layers: list[Any] = list(step.state.cache.layers)  # type: ignore[attr-defined]
        keys, values = torch.stack([layer.k for layer in layers]), torch.stack([layer.v for layer in layers])
        shape = (sentences, width)
        if step.attention is None:
            raise ValueError("a decoder step of a Transformer returned no attention")
        return step.logits(), step.attention, torch.unflatten(keys, 1, shape), torch.unflatten(values, 1, shape)


class _PositionTable(Position):
    """Learned positions as a table, without the range check, which depends on values and cannot be traced."""

    def __init__(self, position: Learned) -> None:
        super().__init__()
        count, width = position.num_positions, position.table.embedding_dim
        with torch.no_grad():
            table = position.embed(torch.zeros(1, count, width), torch.arange(count).unsqueeze(0))[0].clone()  # [N, D]
        self.table = nn.Parameter(table)

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        return x + self.table[pos]


class _RealRoPE(Position):
    """RoPE in real arithmetic: ONNX has no complex numbers, and exporters decompose only some operations on them."""

    frequency: Tensor  # [K/2]

    def __init__(self, rope: RoPE) -> None:
        super().__init__()
        self.register_buffer("frequency", rope.frequency)
        self.rotates_halves = rope.rotate_pairs is rotate_halves

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        angle = (pos.unsqueeze(-1).float() * self.frequency).unsqueeze(1)  # [B, 1, T, K/2]
        cos, sin = angle.cos(), angle.sin()
        if self.rotates_halves:
            first, second = x.chunk(2, dim=-1)  # [B, H, T, K/2]
            return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
        first, second = torch.unflatten(x, -1, (-1, 2)).unbind(-1)  # [B, H, T, K/2]
        return torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)


def export_onnx(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Write encoder.onnx and decoder.onnx and compare the translations of both.

    Arguments and result as for `export_ctranslate2`.

    Raises:
        UsageError: ONNX export does not support the model, or `folder` exists and is no exported model.
        MissingExtraError: onnx, onnxscript or onnxruntime is not installed.
        DataError: the translations differ; nothing is written then.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    require_replaceable(folder, EXPORTED)
    loaded = read_translation_model(model).load()
    ONNX.check(loaded.metadata.model)
    sample = sample_lines(model, loaded, check_file)
    with OutputLock(folder, make_parents=True), atomic_folder(folder) as temporary:
        with translate_write_errors(temporary):
            _trace(loaded.model, temporary)
        write_card(temporary, loaded, "onnx", onnx_usage(loaded))
        write_metadata(temporary / EXPORTED, loaded.metadata, loaded.tokenizers)
        result = check_equivalence(loaded, OnnxRunner(temporary, loaded.tokenizers), sample)
    return "\n".join([result, *lost_settings("onnx", "a program that runs the ONNX model", loaded.metadata.search)])


def _trace(model: Any, folder: Path) -> None:
    """Trace both graphs.

    Gradients are enabled, because the cache then grows by concatenation, which works with any shape.
    """
    model = copy.deepcopy(model)
    # position encodings that cannot be traced are replaced by equal ones that can; shared modules stay shared
    replacements: dict[nn.Module, Position] = {}
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, Learned):
                replacements.setdefault(child, _PositionTable(child))
            elif isinstance(child, RoPE):
                replacements.setdefault(child, _RealRoPE(child))
            if child in replacements:
                setattr(module, name, replacements[child])
    encoder, step = _Encoder(model).eval(), _DecoderStep(model).eval()
    size = EXAMPLE_SIZES
    ids = torch.zeros(size["batch"], size["source"], dtype=torch.int64)
    real = torch.ones_like(ids, dtype=torch.bool)
    real[0, -1] = False
    batch, source, width, past = (torch.export.Dim(name) for name in size)
    with _silence_exporter():
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
        memory_shape, past_shape = {1: batch, 3: source}, {1: batch, 2: width, 4: past}  # dynamic dimensions
        _export(
            step,
            (token, *memory, real, cache, cache.clone()),
            folder / DECODER,
            shapes=(
                {0: batch, 1: width},
                memory_shape,
                memory_shape,
                {0: batch, 1: source},
                past_shape,
                past_shape,
            ),
            names=(["token", *MEMORY, "real", *PAST], ["logits", "attention", "keys", "values"]),
        )


def _export(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, *, shapes: Any, names: tuple[list[str], list[str]]
) -> None:
    with require_extra("onnx", "onnx and onnxscript"):
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


@contextlib.contextmanager
def _silence_exporter() -> Iterator[None]:
    """Suppress the exporter's warnings, which concern only its developers."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


class OnnxRunner:
    """An exported model."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair) -> None:
        """Load the model.

        Raises:
            MissingExtraError: onnxruntime is not installed.
        """
        with require_extra("onnx", "onnxruntime"):
            import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised, so that onnxruntime need not log them
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
            for name in (ENCODER, DECODER)
        )
        self._src_vocab, self._tgt_vocab = tokenizers.src.vocab, tokenizers.tgt.vocab
        self._banned = list(special_ids(tokenizers.tgt).banned)

    def translate(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, begin: Sequence[int] = ()
    ) -> list[list[int]]:
        """The greedy translation of each source; see ExportRunner.

        Of the search configuration only the maximum length counts.
        """
        eos, found = self._tgt_vocab.eos, list[list[int]]()
        for first in range(0, len(sources), BATCH):
            batch = sources[first : first + BATCH]
            width = 1 + max(map(len, batch))
            ids = np.full((len(batch), width), self._src_vocab.pad)  # [B, S]
            for row, source in zip(ids, batch, strict=True):
                row[: len(source) + 1] = [*source, self._src_vocab.eos]
            real = np.arange(width) <= np.array([[len(source)] for source in batch])  # [B, S]
            limits = np.array([search.max_length.of(len(source)) + len(begin) for source in batch])
            memory = _run(self._encoder, {"ids": ids, "real": real})
            layers, sentences, groups, _, head_dim = memory[0].shape
            past = [np.zeros((layers, sentences, 1, groups, 0, head_dim), dtype=np.float32)] * 2
            token, tokens = np.full(sentences, self._tgt_vocab.bos), np.empty((sentences, 0), dtype=np.int64)
            while not (tokens == eos).any(1).all():
                inputs = {"token": token[:, None], "real": real, **dict(zip(MEMORY, memory, strict=True))}
                logits, _, *past = _run(self._decoder, {**inputs, **dict(zip(PAST, past, strict=True))})
                logits[:, self._banned] = -np.inf
                token = np.where(tokens.shape[1] >= limits, eos, logits.argmax(1))
                if tokens.shape[1] < len(begin):
                    token = np.full_like(token, begin[tokens.shape[1]])
                tokens = np.append(tokens, token[:, None], axis=1)
            found += [row[len(begin) : row.index(eos)] for row in tokens.tolist()]
        return found


def _run(session: Any, inputs: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    names = {each.name for each in session.get_inputs()}  # the export drops inputs that a model does not use
    outputs: list[np.ndarray[Any, Any]] = session.run(None, {name: inputs[name] for name in names})
    return outputs
