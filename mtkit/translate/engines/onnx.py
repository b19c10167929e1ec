"""ONNX engine: exported encoder and decoder step, run by onnxruntime, with mtkit's search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Source
from mtkit.errors import DataError, MissingExtraError, UsageError
from mtkit.inference.prepare import ComputeType
from mtkit.search.config import SearchConfig
from mtkit.search.interface import SearchFn, SpecialIds

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
MEMORY = ("memory_keys", "memory_values")  # [L, B, G, S, K] of the L decoder layers
PAST = ("past_keys", "past_values")  # [L, B, W, G, T, K]


@dataclass(frozen=True)
class OnnxState:
    """See DecoderState; `shortlist_ids` [C] or None."""

    memory: tuple[Tensor, Tensor]  # keys and values [L, B, G, S, K]
    real: Tensor  # [B, S]
    past: tuple[Tensor, Tensor]  # keys and values [L, B·W, G, T, K]
    shortlist_ids: Tensor | None

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.real.size(0)

    @property
    def num_rows(self) -> int:
        """B·W."""
        return self.past[0].size(1)

    def select_rows(self, rows: Tensor) -> OnnxState:
        """See DecoderState."""
        keys, values = (each.index_select(1, rows) for each in self.past)
        return replace(self, past=(keys, values))

    def keep_sentences(self, sentences: Tensor) -> OnnxState:
        """See DecoderState."""
        width = self.num_rows // self.num_sentences
        rows = (sentences.unsqueeze(1) * width + torch.arange(width)).flatten()
        keys, values = (each.index_select(1, sentences) for each in self.memory)
        return replace(self.select_rows(rows), memory=(keys, values), real=self.real.index_select(0, sentences))


class OnnxStep(NamedTuple):
    """See search.interface.DecoderStep."""

    all_logits: Tensor
    state: OnnxState
    attention: Tensor | None

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """See search.interface.DecoderStep; onnxruntime has computed them already."""
        return self.all_logits[rows]

    def fast_argmax(self, banned: Tensor) -> None:
        """See search.interface.DecoderStep; not available."""

    def fast_ranking(self, rows: slice, log_prob: Tensor, **request: Any) -> None:
        """See search.interface.DecoderStep; not available."""

    def language_model_log_probs(self, rows: slice) -> None:
        """See search.interface.DecoderStep; a model without shallow fusion."""


class OnnxStepper:
    """See Stepper."""

    def __init__(self, encoder: Any, decoder: Any) -> None:
        """Take the onnxruntime sessions of encoder and decoder step."""
        self._encoder, self._decoder = encoder, decoder

    def start(self, source: Source, shortlist_ids: Tensor | None = None) -> OnnxState:
        """See Stepper."""
        keys, values = _run(self._encoder, {"ids": source.ids, "real": source.real})
        empty = keys.new_zeros(keys.size(0), keys.size(1), keys.size(2), 0, keys.size(4))  # [L, B, G, 0, K]
        return OnnxState((keys, values), source.real, (empty, empty), shortlist_ids)

    def step(self, token: Tensor, state: OnnxState) -> OnnxStep:
        """See Stepper."""
        sentences = state.num_sentences
        width = state.num_rows // max(1, sentences)
        inputs = {
            "token": token.view(sentences, width),
            "real": state.real,
            **dict(zip(MEMORY, state.memory, strict=True)),
            **{name: torch.unflatten(each, 1, (sentences, width)) for name, each in zip(PAST, state.past, strict=True)},
        }
        logits, attention, keys, values = _run(self._decoder, inputs)
        if state.shortlist_ids is not None:
            logits = logits.index_select(1, state.shortlist_ids)
        return OnnxStep(logits, replace(state, past=(keys.flatten(1, 2), values.flatten(1, 2))), attention)


class OnnxEngine:
    """An exported model; see Engine."""

    can_fork = False  # onnxruntime has threads

    def __init__(self, folder: Path, *, compute_type: ComputeType = "auto", threads: int = 0) -> None:
        """Load the model; with `threads` 0 onnxruntime chooses their number.

        Raises:
            MissingExtraError: onnxruntime is not installed.
            UsageError: a compute type other than float32.
            DataError: the files cannot be read.
        """
        try:
            import onnxruntime
            from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, InvalidProtobuf, NoSuchFile
        except ModuleNotFoundError as error:
            raise MissingExtraError("onnx", "onnxruntime") from error
        if compute_type not in ("auto", "float32"):
            raise UsageError(f"compute type {compute_type}: a model exported to ONNX computes with float32")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # errors are raised, so that onnxruntime need not log them
        try:
            sessions = [
                onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
                for name in (ENCODER, DECODER)
            ]
        except (Fail, InvalidGraph, InvalidProtobuf, NoSuchFile) as error:
            raise DataError(f"{folder}: onnxruntime cannot read it: {error}") from error
        self.name = str(folder)
        self.stepper = OnnxStepper(*sessions)
        self.compute_type = "float32"
        self.device = torch.device("cpu")

    def make_search(self, search: SearchConfig, special_ids: SpecialIds, *, with_scores: bool) -> SearchFn:
        """See Engine; every search is supported."""
        return partial(search.build(special_ids, with_log_probs=with_scores, with_attention=with_scores), self.stepper)


def _run(session: Any, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Run a session; DataError if a sentence exceeds the table of learned positions."""
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    names = {each.name for each in session.get_inputs()}  # the export drops inputs that a model does not use
    try:
        outputs = session.run(None, {name: each.contiguous().numpy() for name, each in inputs.items() if name in names})
    except InvalidArgument as error:
        if "invalid index" not in str(error):
            raise
        raise DataError(
            "a sentence is longer than the exported position table; set search.split_long_lines to true, or lower "
            "search.max_length"
        ) from error
    return [torch.from_numpy(each) for each in outputs]
