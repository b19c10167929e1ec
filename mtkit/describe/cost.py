"""Cost of a model per token (FLOPs, saved activations, decoder cache), without weights and without a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from mtkit.corpus.order.batch import Batch, dummy_batch
from mtkit.layers.cache import BatchedState, KVCache
from mtkit.layers.dropout import StructuralDropout
from mtkit.models.interface import TranslationModel
from mtkit.models.skip_init import META_DEVICE
from mtkit.text.vocab import Vocab
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.memory import SavedTensorBytes

BATCH_TOKENS = 4096  # per side; spreads what is computed once for a batch (a table of positions) over enough tokens
FIRST_STEP, LAST_STEP = 2, 4  # decoder steps between which the growth of the cache is measured


@dataclass(frozen=True)
class DecodingMemory:
    """Bytes of floating-point decoder state in float32, for one hypothesis of one sentence.

    Attributes:
        cache_per_token: growth of the cache with each output token.
        cache_fixed: size of the cache that does not depend on the number of output tokens.
        memory_per_token: encoder memory for each source token.
    """

    cache_per_token: float
    cache_fixed: float
    memory_per_token: float


@dataclass(frozen=True)
class ModelCost:
    """Cost of a pair of sentences with `length` tokens on each side, divided by `length`.

    Attributes:
        length: tokens per side, including the end of sentence.
        forward: FLOPs of the matrix products of a forward pass, by the path of the module that computes them.
        training: FLOPs of the matrix products of a forward and a backward pass of the whole model.
        activations: bytes that a training pass saves for the gradient in float32, by the path of the module. Weights
            are excluded, and so is the loss, which is computed in chunks.
    """

    length: int
    forward: dict[str, float]
    training: float
    activations: dict[str, float]
    decoding: DecodingMemory


def count_cost(model: TranslationModel, src_vocab: int, tgt_vocab: int, *, length: int) -> ModelCost:
    """Count the operations and the memory of a model on the meta device.

    Args:
        model: built on the meta device.
        length: tokens per side of each sentence, including the end of sentence.
    """
    src, tgt = (Vocab(size=size, pad=0, unk=1, bos=2, eos=3) for size in (src_vocab, tgt_vocab))
    batch = dummy_batch(max(1, BATCH_TOKENS // length), length, src, tgt)
    tokens = batch.num_sentences * length
    with torch.no_grad(), running_modules(model.eval()) as path, FlopCounter(path) as forward:
        model.output(model.decode_states(batch.source, batch.target))
    model.train()
    for module in model.modules():
        if isinstance(module, StructuralDropout):
            module.training = False  # of the module alone, not of its submodules: skip no layer and drop no token
    with running_modules(model) as path, FlopCounter(path) as training:
        saved = SavedTensorBytes(model, lambda: path[-1])
        with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
            hidden = model.decode_states(batch.source, batch.target).flatten(0, 1)  # [B·T, D]
        weight, bias = model.output.weight, model.output.bias
        loss = label_smoothed_loss(hidden, weight, bias, batch.labels.flatten(), smoothing=0.1)
        loss.backward()  # type: ignore[no-untyped-call]
    model.eval()
    return ModelCost(
        length=length,
        forward={name: flops / tokens for name, flops in forward.flops.items()},
        training=training.flops.total() / tokens,
        activations={name: size / tokens for name, size in saved.by_group.items()},
        decoding=_measure_decoding(model, batch),
    )


@torch.no_grad()
def _measure_decoding(model: TranslationModel, batch: Batch) -> DecodingMemory:
    model.eval()
    sentences, length = batch.source.ids.shape
    cache_bytes: dict[int, float] = {}  # by decoder step
    with FlopCounter([""]):
        state = model.start(batch.source)
        memory_bytes = _count_bytes(state.memory)
        for step in range(1, LAST_STEP + 1):
            _, state, _ = model.step(batch.target.ids[:, 0], state)
            cache_bytes[step] = _count_bytes(state.cache) / sentences
    growth = (cache_bytes[LAST_STEP] - cache_bytes[FIRST_STEP]) / (LAST_STEP - FIRST_STEP)
    return DecodingMemory(growth, cache_bytes[LAST_STEP] - LAST_STEP * growth, memory_bytes / (sentences * length))


def _count_bytes(state: BatchedState) -> int:
    """Bytes of the floating-point tensors, without the spare capacity of buffers."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(state) if tensor.is_floating_point())


def _tensors(state: object) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, KVCache):
        yield from (state.k, state.v)
    elif isinstance(state, tuple):
        for item in state:
            yield from _tensors(item)
    elif isinstance(state, BatchedState):
        for each in fields(state):
            yield from _tensors(getattr(state, each.name))


aten = torch.ops.aten


# matrix products, and the index of their first factor among the arguments; the second factor follows it
MATMULS = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1}


@contextmanager
def running_modules(model: nn.Module) -> Iterator[list[str]]:
    """Yield the paths of the modules whose forward is running, as in `named_modules`; that of the innermost is last."""
    stack = [""]

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        stack.pop()

    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda module, args, path=path: stack.append(path)))
        handles.append(module.register_forward_hook(leave))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the FLOPs of matrix products by module; all other operations count as 0.

    Tensors on the meta device have shapes but no values. Ids, positions and padding masks are real tensors on the CPU,
    so that a model may branch on their values. An operation with at least one meta tensor gives a meta tensor. Counts
    of unknown values (`bincount`), such as the number of tokens for each expert, are assumed to be uniform.

    Args:
        path: see `running_modules`.
    """

    def __init__(self, path: Sequence[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._path = path
        self.flops: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one torch operation, on the meta device if an argument is there; called by torch."""
        leaves, tree = tree_flatten((args, kwargs or {}))
        if any(isinstance(leaf, Tensor) and leaf.device == META_DEVICE for leaf in leaves):
            leaves = [leaf.to(META_DEVICE) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(leaves, tree)
        packet = func.overloadpacket
        if packet is aten.arange:  # positions have values
            return func(*args, **{**(kwargs or {}), "device": "cpu"})
        if packet is aten.bincount and args[0].device == META_DEVICE:
            return _uniform_counts(args[0].numel(), *args[1:], **kwargs or {})
        if (first := MATMULS.get(packet)) is not None:
            # [..., M, K] @ [..., K, N]: K multiplications and K additions for each of the M·N results
            self.flops[self._path[-1]] += 2 * prod(args[first].shape) * args[first + 1].shape[-1]
        return func(*args, **kwargs or {})


def _uniform_counts(total: int, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """`bincount` of `total` uniformly distributed values: [minlength] integers with that sum."""
    count, remainder = divmod(total, minlength)
    return torch.tensor([count + (bin_index < remainder) for bin_index in range(minlength)])
