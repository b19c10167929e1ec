"""Attention of BP-Transformer against its definition as loops over tokens and spans."""

import math

import pytest
import torch
from torch.testing import assert_close

from mtkit.layers.config import FullAttentionConfig, RoPEConfig
from mtkit.layers.variants import binary_partition
from mtkit.layers.variants.binary_partition import BinaryPartition, Nodes
from mtkit.layers.variants.config import ALiBiConfig, BinaryPartitionConfig, TransformerXLConfig
from tests.unit.layers.toy_kernels import D, build


def spans(i, length, k, causal):
    """Nodes (first, end) of query i: walk away from it, k nodes a level, and on to a node with an even number."""
    nodes = [(i, i + 1)]
    left, right, size = i, i + 1, 1
    while left > 0 or (right < length and not causal):
        for number in range(k + 1):
            if left > 0 and (number < k or left % (2 * size)):
                nodes.append((left - size, left))
                left -= size
            if right < length and not causal and (number < k or right % (2 * size)):
                nodes.append((right, min(length, right + size)))
                right += size
        size *= 2
    return nodes


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("length", [1, 2, 7, 33])
def test_every_token_is_in_exactly_one_node(length, k, causal):
    partition, levels = BinaryPartition(k, causal), range(length.bit_length() + 1)
    for i in range(length):
        seen = []
        for level in levels:
            node = torch.arange(-(-length // (1 << level)))
            for m in node[partition.visible(torch.tensor(i), node, level)].tolist():
                seen.append((m << level, min(length, (m + 1) << level)))
        assert sorted(seen) == sorted(spans(i, length, k, causal))
        tokens = [token for first, end in seen for token in range(first, end)]
        assert sorted(tokens) == list(range(i + 1 if causal else length))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block", [4, 64])
def test_attention_equals_loops_over_nodes(causal, block, monkeypatch):
    monkeypatch.setattr(binary_partition, "BLOCK", block)
    length, k = 37, 2
    layer = build(BinaryPartitionConfig(span_count=k), causal=causal)
    x, pos = torch.randn(2, length, D, dtype=torch.float64), torch.arange(3, length + 3).expand(2, -1)
    q, new = layer.project(x, pos, None)
    output, _ = layer.kernel(q, new, None)
    for h in range(2):
        for i in range(length):
            nodes = spans(i, length, k, causal)
            keys, values = (torch.stack([t[0, 0, a:b].mean(0) for a, b in nodes]) for t in (new.k, new.v))
            weights = (keys @ q[0, h, i] / math.sqrt(q.size(-1))).softmax(0)
            assert_close(output[0, h, i], weights @ values)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", [RoPEConfig(), ALiBiConfig(), TransformerXLConfig()], ids=lambda c: c.kind)
def test_blocks_equal_the_dense_form_with_padding(positions, causal, monkeypatch):
    monkeypatch.setattr(binary_partition, "BLOCK", 4)
    layer = build(BinaryPartitionConfig(span_count=1), positions, causal)
    x, pos = torch.randn(2, 19, D, dtype=torch.float64), torch.arange(19).expand(2, -1)
    real = pos < torch.tensor([[19], [10]])
    q, new = layer.project(x, pos, real)
    blocked, _ = layer.kernel(q, new, None)
    dense = layer.kernel.attend_dense(q, pos, pos, Nodes.of(new))
    seen = real[:, None, :, None].expand_as(dense)
    assert_close(blocked[seen], dense[seen])
    blocked[seen].square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)


def test_with_many_nodes_of_each_level_it_is_full_attention():
    ours, full = (build(c, RoPEConfig()) for c in (BinaryPartitionConfig(span_count=40), FullAttentionConfig()))
    x, pos = torch.randn(2, 30, D, dtype=torch.float64), torch.arange(30).expand(2, -1)
    assert_close(ours(x, pos)[0], full(x, pos)[0])


@pytest.mark.parametrize("causal", [False, True])
def test_nodes_of_a_block_grow_with_the_logarithm_of_the_length(causal):
    kernel = build(BinaryPartitionConfig(span_count=2), causal=causal).kernel
    widths = []
    for length in (1 << 10, 1 << 12, 1 << 14):
        first = torch.arange(0, length, binary_partition.BLOCK)
        rank = first.unsqueeze(1) + torch.arange(binary_partition.BLOCK)
        sizes = tuple(length >> level for level in range(length.bit_length()))
        widths.append(kernel._nodes_of_blocks(first, rank, sizes)[0].size(1))
    assert widths[1] - widths[0] == widths[2] - widths[1] < 50
