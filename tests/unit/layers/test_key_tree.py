"""Keys that hypotheses share, against one row of keys for each hypothesis."""

from __future__ import annotations

import pytest
import torch

from mtkit.layers.attention.masks import causal
from mtkit.layers.attention.multi_head import Heads, SelfAttention
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.shared_prefix import KeyTree
from mtkit.layers.positions.alibi import ALiBi
from mtkit.layers.positions.base import Position

D, H, N, W = 12, 3, 4, 5
STEPS = 40  # so many that room is needed, and what is on no path dropped, several times


def layer(position: Position, kv_heads: int) -> SelfAttention:
    torch.manual_seed(1)
    kernel = SoftmaxAttention(position=position, pattern=causal, dropout=0.0)
    return SelfAttention(D, Heads(H, kv_heads, D // H), position=position, kernel=kernel).double().eval()


def parents(generator: torch.Generator) -> torch.Tensor:
    """Each hypothesis of a tree goes on from a random one of it, [N·W] rows."""
    chosen = torch.randint(W, (N, W), generator=generator)
    return (torch.arange(N).unsqueeze(1) * W + chosen).flatten()


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("position", [Position(), ALiBi(H)], ids=["none", "alibi"])
def test_a_tree_is_as_good_as_a_row_for_each_hypothesis(position: Position, kv_heads: int) -> None:
    attention, generator = layer(position, kv_heads), torch.Generator().manual_seed(2)
    with torch.inference_mode():
        x = torch.randn(N, 2, D, dtype=torch.float64, generator=generator)  # a beginning of two tokens
        _, tree = attention(x, torch.arange(2).expand(N, -1))
        assert isinstance(tree, KeyTree)
        first = torch.arange(N).repeat_interleave(W)
        rows: KeyValues = tree.nodes.select(first)
        tree = tree.select(first)
        for t in range(2, STEPS):
            x = torch.randn(N * W, 1, D, dtype=torch.float64, generator=generator)
            pos = torch.full((N * W, 1), t)
            expected, rows = attention(x, pos, past=rows)
            found, tree = attention(x, pos, past=tree)
            torch.testing.assert_close(found, expected)
            chosen = parents(generator)
            rows, tree = rows.select(chosen), tree.select(chosen)
            if t == STEPS // 2:
                rows, tree = rows.keep(torch.tensor([2, 0, 3, 1]), N), tree.keep(torch.tensor([2, 0, 3, 1]), N)
        assert tree.nodes.length < N * STEPS


def test_several_tokens_at_once_are_several_steps() -> None:
    attention, generator = layer(Position(), H), torch.Generator().manual_seed(3)
    _, stem = attention(torch.randn(N, 1, D, dtype=torch.float64), torch.zeros(N, 1, dtype=torch.int64))
    stem = stem.select(torch.arange(N).repeat_interleave(W))
    x = torch.randn(N * W, 3, D, dtype=torch.float64, generator=generator)
    pos = torch.arange(1, 4).expand(N * W, -1)
    whole, _ = attention(x, pos, past=stem)
    past = stem
    for t in range(3):
        y, past = attention(x[:, t : t + 1], pos[:, t : t + 1], past=past)
        torch.testing.assert_close(y, whole[:, t : t + 1])


def test_one_hypothesis_a_tree_needs_no_mask() -> None:
    k = torch.randn(N, 1, 1, 3)
    tree = KeyTree(KeyValues.of(k, k, torch.zeros(N, 1, dtype=torch.int64), None))
    again = tree.select(torch.arange(N))
    assert again.mask is None
    longer = again.append(KeyValues.of(k, k, torch.ones(N, 1, dtype=torch.int64), None))
    assert longer.mask is None
    assert longer.keep(torch.tensor([3, 1]), N).nodes.k[:, :, 0].equal(k[[3, 1], :, 0])
