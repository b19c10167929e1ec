"""Windows, landmarks, Longformer, Linformer and Performer: what each kind of attention must be."""

import pytest
import torch

from mtkit.errors import DataError
from mtkit.layers.attention import sliding_window as block_attention
from mtkit.layers.attention.global_tokens import Landmarks, Places
from mtkit.layers.attention.linformer import LinformerConfig
from mtkit.layers.attention.longformer import LongformerConfig
from mtkit.layers.attention.multi_head import SelfAttentionParts
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.attention.sliding_window import StridedAttentionConfig, WindowAttentionConfig, in_order
from mtkit.layers.attention.softmax import FullAttentionConfig
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.heads import Heads
from mtkit.layers.positions.alibi import ALiBiConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig

D, B, T = 8, 2, 19
HEADS = Heads(num_heads=2, num_kv_heads=1, head_dim=4)
SCHEMES = [
    NoPositionConfig(),
    RoPEConfig(),
    ALiBiConfig(),
    ShawConfig(max_distance=2),
    T5BiasConfig(num_buckets=8, max_distance=16),
    TransformerXLConfig(),
    DeBERTaConfig(max_distance=2),
]
ENCODER = [
    WindowAttentionConfig(width=3),
    StridedAttentionConfig(stride=3),
    LongformerConfig(width=2, every=7),
    LinformerConfig(mixtures=5, max_length=64),
    PerformerConfig(num_features=6),
]
DECODER = [WindowAttentionConfig(width=3), StridedAttentionConfig(stride=3), PerformerConfig(num_features=6)]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(block_attention, "SMALLEST_BLOCK", 4)


def build(config, scheme=None, causal=False, norm="none", seed=0):
    torch.manual_seed(seed)
    position = (scheme or NoPositionConfig()).build(D, HEADS, layers=1, causal=causal).layers[0]
    parts = SelfAttentionParts(d_model=D, heads=HEADS, position=position, causal=causal, dropout=0.0, norm=norm)
    layer = config.build(parts).double()
    for p in layer.parameters():
        p.data.add_(torch.randn_like(p) * 0.3)
    return layer


def x_and_pos(length=T, first=0):
    return torch.randn(B, length, D, dtype=torch.float64), torch.arange(first, first + length).expand(B, -1)


def ids(config):
    return config.kind


@pytest.mark.parametrize("scheme", SCHEMES, ids=ids)
@pytest.mark.parametrize("config", [WindowAttentionConfig(width=3), StridedAttentionConfig(stride=3)], ids=ids)
@pytest.mark.parametrize("causal", [False, True])
def test_blocks_equal_the_masked_whole(config, scheme, causal):
    layer, (x, pos) = build(config, scheme, causal), x_and_pos(first=5)
    real = torch.arange(T).unsqueeze(0) < torch.tensor([[T], [11]])
    q, new = layer.project(x, pos, real)
    kernel = layer.kernel
    landmark = kernel.sight.landmarks.find(pos, real)
    truth, _ = kernel.weigh(q, pos, new, kernel.sight(pos, new, landmark))
    found = kernel.in_blocks(q, new, landmark)
    seen = real[:, None, :, None].expand_as(truth)
    assert torch.allclose(found[seen], truth[seen])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [T, 40])
def test_a_window_as_wide_as_the_sentence_is_full_attention(causal, width):
    window, whole = (build(c, causal=causal) for c in (WindowAttentionConfig(width=width), FullAttentionConfig()))
    x, pos = x_and_pos()
    assert torch.allclose(window(x, pos)[0], whole(x, pos)[0])
    nowhere = torch.zeros_like(pos, dtype=torch.bool)
    assert torch.allclose(window.kernel.in_blocks(*window.project(x, pos, None), nowhere), whole.kernel.attend(
        *whole.project(x, pos, None), None)[0])  # fmt: skip


def test_a_window_sees_so_far_and_no_farther():
    layer, (x, pos) = build(WindowAttentionConfig(width=3), causal=True), x_and_pos()
    x.requires_grad_()
    layer(x, pos)[0][0, 12].sum().backward()
    assert x.grad[0].abs().sum(-1).nonzero().flatten().tolist() == [9, 10, 11, 12]


@pytest.mark.parametrize("config", ENCODER, ids=ids)
@pytest.mark.parametrize("norm", ["none", "rms", "layer"])
def test_padding_anywhere_and_batch_mates_change_nothing(config, norm):
    layer, (x, pos) = build(config, RoPEConfig(), norm=norm), x_and_pos()
    truth, _ = layer(x, pos)
    keep = torch.tensor([*range(5), *range(7, 15), *range(18, 24)])  # holes at 5, 6 and from 15
    padded = torch.randn(B, 26, D, dtype=torch.float64)
    padded[:, keep] = x
    padded_pos, real = torch.zeros(B, 26, dtype=torch.int64), torch.zeros(B, 26, dtype=torch.bool)
    padded_pos[:, keep], real[:, keep] = pos, True
    assert torch.allclose(layer(padded, padded_pos, real=real)[0][:, keep], truth)
    assert torch.allclose(layer(x[1:], pos[1:])[0], truth[1:])


@pytest.mark.parametrize("config", DECODER, ids=ids)
@pytest.mark.parametrize("scheme", [NoPositionConfig(), RoPEConfig()], ids=ids)
@pytest.mark.parametrize("prefix", [0, 1, 9])
def test_cached_steps_equal_the_whole_sequence(config, scheme, prefix):
    layer, (x, pos) = build(config, scheme, causal=True), x_and_pos(first=3)
    whole, _ = layer(x, pos)
    past = layer(x[:, :prefix], pos[:, :prefix])[1] if prefix else None
    for t in range(prefix, T):
        y, past = layer(x[:, t : t + 1], pos[:, t : t + 1], past=past)
        assert torch.allclose(y[:, 0], whole[:, t])


@pytest.mark.parametrize("config", DECODER, ids=ids)
def test_what_is_remembered_follows_the_hypotheses(config):
    layer, (x, pos) = build(config, causal=True), x_and_pos()
    _, past = layer(x[:, :6], pos[:, :6])
    rows = torch.tensor([1, 1, 0])
    y, _ = layer(x[rows, 6:7], pos[rows, 6:7], past=past.select(rows))
    assert torch.allclose(y[:, 0], layer(x, pos)[0][rows, 6])


@pytest.mark.parametrize("config", ENCODER, ids=ids)
def test_a_sentence_of_padding_yields_zeros(config):
    layer, (x, pos) = build(config), x_and_pos()
    real = torch.tensor([[True], [False]]).expand(B, T)
    q, new = layer.project(x, pos, real)
    y, _ = layer.kernel.attend(q, new, None)
    assert y[1].eq(0).all()
    assert y[0].ne(0).all()
    assert layer(x, pos, real=real)[0].isfinite().all()


@pytest.mark.parametrize("config", ENCODER, ids=ids)
@pytest.mark.parametrize("shape", [(0, 6), (2, 0), (0, 30)])
def test_empty_batches_pass(config, shape):
    layer = build(config)
    pos = torch.zeros(shape, dtype=torch.int64)
    y, _ = layer(torch.zeros(*shape, D, dtype=torch.float64), pos, real=torch.ones(shape, dtype=torch.bool))
    assert y.shape == (*shape, D)


@pytest.mark.parametrize("config", ENCODER, ids=ids)
def test_gradients_are_those_of_the_function(config):
    layer = build(config)
    x, pos = torch.randn(1, 9, D, dtype=torch.float64, requires_grad=True), torch.arange(9).unsqueeze(0)
    real = torch.arange(9).unsqueeze(0) < 8
    assert torch.autograd.gradcheck(lambda x: layer(x, pos, real=real)[0], x, fast_mode=True)


def test_causal_performer_gradients():
    layer = build(PerformerConfig(num_features=5), causal=True)
    x, pos = torch.randn(1, 7, D, dtype=torch.float64, requires_grad=True), torch.arange(7).unsqueeze(0)
    assert torch.autograd.gradcheck(lambda x: layer(x, pos)[0], x, fast_mode=True)


def test_performer_chunks_change_nothing(monkeypatch):
    layer, (x, pos) = build(PerformerConfig(), causal=True), x_and_pos()
    truth, _ = layer(x, pos)
    monkeypatch.setattr("mtkit.layers.attention.performer.CHUNK", 4)
    assert torch.allclose(layer(x, pos)[0], truth)


def test_performer_remembers_no_more_for_a_longer_past():
    layer = build(PerformerConfig(), causal=True)
    sizes = {layer(*x_and_pos(length))[1].sums.shape for length in (2, 19)}
    assert sizes == {(B, 1, 256, 5)}


def test_landmarks_by_rule():
    pos = torch.tensor([[0, 0, 1, 2, 3, 4], [5, 6, 7, 8, 0, 0]])
    real = torch.tensor([[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], dtype=torch.bool)
    ends = torch.tensor([[1, 0, 1, 0, 0, 0], [0, 0, 1, 0, 1, 0]], dtype=torch.bool)
    first, last, every = Landmarks(first=True), Landmarks(last=True), Landmarks(every=4)
    assert first.find(pos, real).nonzero().tolist() == [[0, 1], [1, 0]]
    assert last.find(pos, real).nonzero().tolist() == [[0, 5], [1, 3]]
    assert every.find(pos, real).nonzero().tolist() == [[0, 4], [1, 2]]
    assert Landmarks(sentence_ends=True).find(pos, real, ends).nonzero().tolist() == [[0, 2], [1, 2]]
    assert not Landmarks(every=10).find(pos, real, ends).any()
    places = Places.of(Landmarks(first=True, every=2).find(pos, real))
    assert places.gather(pos, 1).masked_fill(~places.real, -1).tolist() == [[0, 1, 3], [5, 7, -1]]


@pytest.mark.parametrize(("pos", "real", "ordered"), [
    ([0, 1, 2, 3], [1, 1, 1, 1], True),
    ([7, 8, 9, 0], [1, 1, 1, 0], True),
    ([0, 0, 1, 2], [0, 1, 1, 1], True),
    ([0, 1, 0, 2], [1, 1, 0, 1], False),
    ([1, 0, 2, 3], [1, 1, 1, 1], False),
])  # fmt: skip
def test_order_is_seen(pos, real, ordered):
    empty = torch.zeros(1, 1, 4, 1)
    keys = KeyValues.of(empty, empty, torch.tensor([pos]), torch.tensor([real]).bool())
    assert in_order(keys) is ordered


def test_what_an_encoder_alone_can_do_refuses_a_past():
    for config in (LongformerConfig(), LinformerConfig()):
        layer, (x, pos) = build(config), x_and_pos()
        _, past = layer(x, pos)
        with pytest.raises(ValueError, match="step by step"):
            layer(x, pos, past=past)


def test_linformer_names_the_sentence_that_is_too_long():
    with pytest.raises(DataError, match="19 tokens is longer than the 16 positions"):
        build(LinformerConfig(max_length=16))(*x_and_pos())
