"""onnxruntime on an exported model: greedy search over encoder and decoder step, for the check of an export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.errors import MissingExtraError
from mtkit.search.config import SearchConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.special_ids import special_ids

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
MEMORY = ("memory_keys", "memory_values")  # [L, B, G, S, K] of the L decoder layers
PAST = ("past_keys", "past_values")  # [L, B, W, G, T, K]
BATCH = 16  # sentences, so that keys and values of long ones fit into memory


class OnnxRunner:
    """An exported model."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair) -> None:
        """Load the model.

        Raises:
            MissingExtraError: onnxruntime is not installed.
        """
        try:
            import onnxruntime
        except ModuleNotFoundError as error:
            raise MissingExtraError("onnx", "onnxruntime") from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised, so that onnxruntime need not log them
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(folder / name, options, providers=["CPUExecutionProvider"])
            for name in (ENCODER, DECODER)
        )
        self._src_vocab, self._tgt_vocab = tokenizers.src.vocab, tokenizers.tgt.vocab
        self._banned = list(special_ids(tokenizers.tgt).banned)

    def translate(self, sources: Sequence[Sequence[int]], search: SearchConfig) -> list[list[int]]:
        """The greedy translation of each source, all as ids without the end of sentence.

        Of the search configuration only the maximum length counts.
        """
        batches = (sources[start : start + BATCH] for start in range(0, len(sources), BATCH))
        return [ids for batch in batches for ids in self._search(batch, search)]

    def _search(self, sources: Sequence[Sequence[int]], search: SearchConfig) -> list[list[int]]:
        eos, width = self._tgt_vocab.eos, 1 + max(map(len, sources))
        ids = np.full((len(sources), width), self._src_vocab.pad)  # [B, S]
        for row, source in zip(ids, sources, strict=True):
            row[: len(source) + 1] = [*source, self._src_vocab.eos]
        real = np.arange(width) <= np.array([[len(source)] for source in sources])  # [B, S]
        limits = np.array([search.max_length.of(len(source)) for source in sources])
        memory = _run(self._encoder, {"ids": ids, "real": real})
        layers, sentences, groups, _, head_dim = memory[0].shape
        past = [np.zeros((layers, sentences, 1, groups, 0, head_dim), dtype=np.float32)] * 2
        token, tokens = np.full(sentences, self._tgt_vocab.bos), np.empty((sentences, 0), dtype=np.int64)
        while not (tokens == eos).any(1).all():
            inputs = {"token": token[:, None], "real": real, **dict(zip(MEMORY, memory, strict=True))}
            logits, _, *past = _run(self._decoder, {**inputs, **dict(zip(PAST, past, strict=True))})
            logits[:, self._banned] = -np.inf
            token = np.where(tokens.shape[1] >= limits, eos, logits.argmax(1))
            tokens = np.append(tokens, token[:, None], axis=1)
        return [row[: row.index(eos)] for row in tokens.tolist()]


def _run(session: Any, inputs: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    names = {each.name for each in session.get_inputs()}  # the export drops inputs that a model does not use
    outputs: list[np.ndarray[Any, Any]] = session.run(None, {name: inputs[name] for name in names})
    return outputs
