"""Shared-prefix cache: the same attention as with one row of keys for each hypothesis."""

from __future__ import annotations

import pytest
import torch

from mtkit.layers.attention import SelfAttention
from mtkit.layers.cache import KVCache, SharedPrefixCache
from mtkit.layers.positions import Position
from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import ALiBiConfig
from tests.toy.attention import self_attention

D, H, N, W = 12, 3, 4, 5
STEPS = 40  # enough to fill the buffers and drop dead tokens several times
CPU = torch.device("cpu")
ALIBI = ALiBiConfig().module(D, Heads(H, H, D // H), causal=True)


def layer(position: Position, kv_heads: int) -> SelfAttention:
    torch.manual_seed(1)
    return self_attention(D, Heads(H, kv_heads, D // H), position=position, causal=True).double().eval()


def parents(generator: torch.Generator) -> torch.Tensor:
    """A random parent in the same sentence for each hypothesis, [N·W] rows."""
    chosen = torch.randint(W, (N, W), generator=generator)
    return (torch.arange(N).unsqueeze(1) * W + chosen).flatten()


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("position", [Position(), ALIBI], ids=["none", "alibi"])
def test_attention_equals_that_to_one_row_for_each_hypothesis(position: Position, kv_heads: int) -> None:
    attention, generator = layer(position, kv_heads), torch.Generator().manual_seed(2)
    with torch.inference_mode():
        x = torch.randn(N, 2, D, dtype=torch.float64, generator=generator)  # a prefix of two tokens
        pos = torch.arange(2).expand(N, -1)
        expected, rows = attention(x, pos)
        assert isinstance(rows, KVCache)
        found, shared = attention(x, pos, past=attention.initial_state(N, CPU))
        assert isinstance(shared, SharedPrefixCache)
        torch.testing.assert_close(found, expected)
        first = torch.arange(N).repeat_interleave(W)
        rows, shared = rows.index_select(first), shared.index_select(first)
        for t in range(2, STEPS):
            x = torch.randn(N * W, 1, D, dtype=torch.float64, generator=generator)
            pos = torch.full((N * W, 1), t)
            expected, rows = attention(x, pos, past=rows)
            found, shared = attention(x, pos, past=shared)
            torch.testing.assert_close(found, expected)
            chosen = parents(generator)
            rows, shared = rows.index_select(chosen), shared.index_select(chosen)
            if t == STEPS // 2:
                kept = torch.tensor([2, 0, 3, 1])
                rows, shared = rows.compact_(kept, N), shared.compact_(kept, N)
        assert shared.kv.length < 0.8 * W * STEPS  # dead tokens were dropped


def test_several_tokens_at_once_equal_several_steps() -> None:
    attention, generator = layer(Position(), H), torch.Generator().manual_seed(3)
    first, start = torch.randn(N, 1, D, dtype=torch.float64), attention.initial_state(N, CPU)
    _, stem = attention(first, torch.zeros(N, 1, dtype=torch.int64), past=start)
    stem = stem.index_select(torch.arange(N).repeat_interleave(W))
    x = torch.randn(N * W, 3, D, dtype=torch.float64, generator=generator)
    pos = torch.arange(1, 4).expand(N * W, -1)
    whole, _ = attention(x, pos, past=stem)
    past = stem
    for t in range(3):
        y, past = attention(x[:, t : t + 1], pos[:, t : t + 1], past=past)
        torch.testing.assert_close(y, whole[:, t : t + 1])


def test_one_hypothesis_per_sentence_needs_no_mask() -> None:
    k = torch.randn(N, 1, 1, 3)
    cache = SharedPrefixCache(KVCache.of(k, k, torch.zeros(N, 1, dtype=torch.int64), None))
    again = cache.index_select(torch.arange(N))
    assert again.mask is None
    longer = again.append(KVCache.of(k, k, torch.ones(N, 1, dtype=torch.int64), None))
    assert longer.mask is None
    assert longer.compact_(torch.tensor([3, 1]), N).kv.k[:, :, 0].equal(k[[3, 1], :, 0])


def test_rows_selected_before_the_first_token_share_nothing() -> None:
    """Independent paths of a sentence (sampling) are rows of their own, without masks between them."""
    start = SharedPrefixCache(KVCache.empty(N, 1, 3, CPU)).index_select(torch.arange(N).repeat_interleave(W))
    k = torch.randn(N * W, 1, 1, 3)
    cache = start.append(KVCache.of(k, k, torch.zeros(N * W, 1, dtype=torch.int64), None))
    assert (cache.num_sentences, cache.beam_size, cache.mask) == (N * W, 1, None)
