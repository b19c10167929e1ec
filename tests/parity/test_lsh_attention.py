"""LSH attention against dense attention that is masked by bucket and chunk, as loops over pairs of tokens."""

import pytest
import torch
from torch.testing import assert_close

from mtkit.layers.attention import AttentionParts
from mtkit.layers.cache import KVCache
from mtkit.layers.config import NoPositionConfig, RoPEConfig
from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import LSHConfig
from mtkit.layers.variants.lsh import NORM_EPSILON

D, H, K, V = 12, 2, 6, 5
HEADS = Heads(H, H, K, V)


def build(config, positions=None):
    torch.manual_seed(0)
    position = (positions or NoPositionConfig()).build(D, HEADS, layers=1, causal=False).layers[0]
    return config.build(parts(position)).double()


def parts(position):
    return AttentionParts(d_model=D, heads=HEADS, position=position, causal=False, dropout=0.0, norm="none")


def dense(kernel, q, v, length):
    """Attention [length, V] of one head of one sentence of `length` tokens, without padding, pair by pair."""
    size, columns = kernel.chunk_length, -(-length // kernel.chunk_length)
    visible = torch.zeros(length, length, dtype=torch.bool)
    for rotation in kernel.rotations.double():
        products = q @ rotation[:, :columns]
        bucket = torch.cat([products, -products], 1).argmax(1).tolist() if columns > 1 else [0] * length
        place = {i: n for n, i in enumerate(sorted(range(length), key=lambda i: (bucket[i], i)))}
        for i in range(length):
            for j in range(length):
                near = place[i] // size - place[j] // size in (0, 1)
                visible[i, j] |= bucket[i] == bucket[j] and near and i != j
    for i in range(length):
        visible[i, i] = not visible[i].any()
    keys = q / (q.square().mean(1, keepdim=True) + NORM_EPSILON).sqrt()
    scores = (q @ keys.T / K**0.5).masked_fill(~visible, -torch.inf)
    return scores.softmax(1) @ v, visible


@pytest.mark.whole
@pytest.mark.parametrize("num_hashes", [1, 2, 4])
@pytest.mark.parametrize("chunk_length", [4, 7, 64])
@pytest.mark.parametrize("positions", [None, RoPEConfig()])
def test_equals_dense_attention_masked_by_bucket(num_hashes, chunk_length, positions):
    layer = build(LSHConfig(num_hashes=num_hashes, chunk_length=chunk_length), positions)
    x = torch.randn(3, 37, D, dtype=torch.float64)
    real = torch.rand(3, 37) < torch.tensor([[1.1], [0.7], [0.1]])  # padding anywhere
    real[:, 0] = True
    pos = (real.cumsum(1) - 1).clamp(min=0)
    q, new = layer.project(x, pos, real)
    output, _ = layer.kernel(q, new, None)
    shares = []
    for b in range(3):
        for h in range(H):
            length = int(real[b].sum())
            expected, visible = dense(layer.kernel, q[b, h, real[b]], new.v[b, h, real[b]], length)
            assert_close(output[b, h, real[b]], expected)
            shares.append(visible.double().mean())
    if chunk_length < 64:
        assert shares[0] < (0.5 if num_hashes < 4 else 0.8)  # sparse indeed
    assert not output.movedim(1, 2)[~real].any()


def test_padding_changes_nothing_and_gradients_are_those_of_the_dense_form():
    layer = build(LSHConfig(num_hashes=2, chunk_length=4), RoPEConfig())
    x = torch.randn(1, 21, D, dtype=torch.float64)
    pos = torch.arange(21).unsqueeze(0)
    alone, _ = layer(x, pos)
    longer = torch.cat([x, torch.randn(1, 9, D, dtype=torch.float64)], 1)
    padded, _ = layer(longer, torch.arange(30).unsqueeze(0), real=torch.arange(30).unsqueeze(0) < 21)
    assert_close(padded[:, :21], alone)
    q, new = layer.project(x, pos, None)
    q0, v0 = q.detach().requires_grad_(), new.v.detach().requires_grad_()
    keys = torch.nn.functional.rms_norm(q0, (K,), eps=NORM_EPSILON)
    ours = layer.kernel(q0, KVCache.of(keys, v0, pos, None), None)[0]
    theirs = torch.stack([dense(layer.kernel, q0[0, h], v0[0, h], 21)[0] for h in range(H)])
    for one, other in zip(
        torch.autograd.grad(ours.square().sum(), [q0, v0]),
        torch.autograd.grad(theirs.square().sum(), [q0, v0]),
        strict=True,
    ):
        assert_close(one, other)


def test_a_token_without_company_sees_itself():
    layer = build(LSHConfig(num_hashes=3, chunk_length=4))
    x, pos = torch.randn(1, 1, D, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.int64)
    q, new = layer.project(x, pos, None)
    assert_close(layer.kernel(q, new, None)[0], new.v)
    assert layer(x[:, :0], pos[:, :0])[0].shape == (1, 0, D)


@torch.no_grad()
def test_more_rounds_come_closer_to_complete_attention():
    distances = []
    for num_hashes in (1, 4, 16):
        layer = build(LSHConfig(num_hashes=num_hashes, chunk_length=8))
        x, pos = torch.randn(2, 64, D, dtype=torch.float64), torch.arange(64).expand(2, -1)
        q, new = layer.project(x, pos, None)
        complete = (q @ new.k.mT / K**0.5).masked_fill(torch.eye(64, dtype=torch.bool), -torch.inf).softmax(-1) @ new.v
        distances.append(float((layer.kernel(q, new, None)[0] - complete).square().mean()))
    assert distances[0] > distances[1] > distances[2]


def test_it_cannot_decode_step_by_step():
    layer = build(LSHConfig())
    x, pos = torch.randn(1, 3, D, dtype=torch.float64), torch.arange(3).unsqueeze(0)
    with pytest.raises(ValueError, match="it cannot decode by steps"):
        layer(x, pos + 3, past=layer(x, pos)[1])
