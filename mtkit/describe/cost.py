"""What a model costs for each token, counted without weights and without a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.dummy_batch import made_up_batch
from mtkit.describe.weightless import Weightless, Where
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.layers.feed_forward.mixture_of_experts import Experts
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.stack import Stack
from mtkit.text.vocab import Vocab
from mtkit.training.chunked_loss import label_smoothed_loss

BATCH = 4096  # tokens of a side; what is computed once for a batch (such as a table of positions) is spread over them
FIRST_STEPS, LAST_STEPS = 2, 4  # decoder steps after which the cache is looked at


@dataclass(frozen=True)
class Decoding:
    """Bytes of floating-point numbers that translation holds in float32, for one hypothesis of one sentence.

    Attributes:
        cache_per_token: by which the cache grows with each output token.
        cache_fixed: what the cache takes besides.
        memory_per_token: what is held of each source token.
    """

    cache_per_token: float
    cache_fixed: float
    memory_per_token: float


@dataclass(frozen=True)
class Cost:
    """Of a pair of sentences with `length` tokens each, divided by `length`; parts are named by their paths.

    Attributes:
        forward: floating-point operations of the matrix products of one pass, by the part that computes them.
        training: the same of a pass forward and backward, of the whole model.
        activations: bytes that a training pass keeps for the gradient in float32, by part; weights and the loss, which
            goes in chunks, left out.
        decoding: what translation holds.
    """

    length: int
    forward: dict[str, float]
    training: float
    activations: dict[str, float]
    decoding: Decoding


def measure(model: TranslationModel, src_vocab: int, tgt_vocab: int, *, length: int) -> Cost:
    """Count what a model on the meta device computes and keeps.

    Args:
        model: built on the meta device.
        src_vocab: pieces.
        tgt_vocab: pieces.
        length: tokens of either side of each sentence, the end of sentence included.
    """
    src, tgt = (Vocab(size=size, pad=0, unk=1, bos=2, eos=3) for size in (src_vocab, tgt_vocab))
    batch = made_up_batch(max(1, BATCH // length), length, src, tgt)
    tokens = batch.num_sentences * length
    forward = _forward(model, batch)
    training, activations = _training(model, batch)
    return Cost(
        length=length,
        forward={path: flops / tokens for path, flops in forward.items()},
        training=training / tokens,
        activations={path: size / tokens for path, size in activations.items()},
        decoding=_decoding(model, batch),
    )


@torch.no_grad()
def _forward(model: TranslationModel, batch: Batch) -> Counter[str]:
    model.eval()
    where = Where()
    counted = Weightless(where)
    with where.following(model), counted:
        model.output(model.hidden(batch.source, batch.target))
    return counted.flops


def _training(model: TranslationModel, batch: Batch) -> tuple[int, Counter[str]]:
    model.train()
    for module in model.modules():
        if isinstance(module, Stack | Experts):
            module.training = False  # the module, not what is in it: no layer is left out, no token dropped
    where = Where()
    kept, counted = _Kept(model, where), Weightless(where)
    with where.following(model), counted:
        with torch.autograd.graph.saved_tensors_hooks(kept, lambda tensor: tensor):
            hidden = model.hidden(batch.source, batch.target).flatten(0, 1)  # [B·T, D]
        weight, bias = model.output.weight, model.output.bias
        loss = label_smoothed_loss(hidden, weight, bias, batch.labels.flatten(), smoothing=0.1)
        loss.backward()  # type: ignore[no-untyped-call]
    model.eval()
    return counted.flops.total(), kept.bytes


class _Kept:
    """Counts the bytes that a forward pass keeps for the backward one, by part; weights are left out."""

    def __init__(self, model: TranslationModel, where: Where) -> None:
        self.seen = {_storage(p) for p in model.parameters()}
        self.where = where
        self.bytes: Counter[str] = Counter()

    def __call__(self, tensor: Tensor) -> Tensor:
        storage = _storage(tensor)
        if storage not in self.seen:
            self.seen.add(storage)
            self.bytes[self.where.path] += tensor.untyped_storage().nbytes()
        return tensor


def _storage(tensor: Tensor) -> int:
    """Which memory a tensor is in; where there is none its address is no sign."""
    return tensor.untyped_storage()._cdata  # type: ignore[no-any-return]


@torch.no_grad()
def _decoding(model: TranslationModel, batch: Batch) -> Decoding:
    model.eval()
    rows, length = batch.source.ids.shape
    sizes = {}
    with Weightless(Where()):
        state = model.start(batch.source)
        memory = _bytes(state.memory)
        for step in range(1, LAST_STEPS + 1):
            _, state, _ = model.step(batch.target.ids[:, 0], state)
            sizes[step] = _bytes(state.cache) / rows
    grown = (sizes[LAST_STEPS] - sizes[FIRST_STEPS]) / (LAST_STEPS - FIRST_STEPS)
    return Decoding(grown, sizes[LAST_STEPS] - LAST_STEPS * grown, memory / (rows * length))


def _bytes(held: Rows) -> int:
    """Of the floating-point tensors, without the room that is kept for more."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(held) if tensor.is_floating_point())


def _tensors(held: object) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, KeyValues):
        yield from (held.k, held.v)
    elif isinstance(held, tuple):
        for item in held:
            yield from _tensors(item)
    elif isinstance(held, Rows):
        for each in fields(held):
            yield from _tensors(getattr(held, each.name))
