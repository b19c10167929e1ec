"""Every position encoding and kind of attention in a whole Transformer, and combinations that are refused."""

from typing import get_args

import pytest
import torch

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.config import FullAttentionConfig, LearnedConfig, NoPositionConfig, RoPEConfig, SinusoidalConfig
from mtkit.layers.kinds import AttentionConfig, PositionConfig
from mtkit.layers.variants import sliding_window
from mtkit.layers.variants.config import (
    ALiBiConfig,
    AverageAttentionConfig,
    BinaryConfig,
    BinaryPartitionConfig,
    DeBERTaConfig,
    GatedMLPConfig,
    IndexConfig,
    LinformerConfig,
    LongformerConfig,
    LSHConfig,
    PerformerConfig,
    RelativeIndexConfig,
    ShawConfig,
    SSRUConfig,
    StridedAttentionConfig,
    T5BiasConfig,
    TransformerXLConfig,
    TUPEConfig,
    WindowAttentionConfig,
)
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.weights import load_weights, weights

V, B, S, T, W = 23, 3, 9, 7, 2
POSITIONS = [
    SinusoidalConfig(),
    LearnedConfig(max_length=8, interpolation_factor=2.0),
    NoPositionConfig(),
    RoPEConfig(),
    ALiBiConfig(),
    ShawConfig(max_distance=3),
    T5BiasConfig(num_buckets=8, max_distance=16),
    TransformerXLConfig(),
    DeBERTaConfig(max_distance=3),
    TUPEConfig(),
    IndexConfig(),
    BinaryConfig(),
]
ENCODER = [
    WindowAttentionConfig(width=2),
    StridedAttentionConfig(stride=3),
    LongformerConfig(width=2),
    LongformerConfig(width=2, global_bos=False, global_eos=False, global_stride=4),
    BinaryPartitionConfig(span_count=1),
    LSHConfig(chunk_length=3),
    LinformerConfig(projected_length=4, max_length=20),
    PerformerConfig(num_features=5),
]
DECODER = [
    WindowAttentionConfig(width=2),
    StridedAttentionConfig(stride=3),
    BinaryPartitionConfig(span_count=1),
    PerformerConfig(num_features=5),
]
EVERY = [
    *({"encoder_positions": p, "decoder_positions": POSITIONS[i - 1]} for i, p in enumerate(POSITIONS)),
    *({"encoder_attention": a, "encoder_positions": RoPEConfig(), "decoder_positions": RoPEConfig()} for a in ENCODER),
    *({"decoder_attention": a, "decoder_positions": RoPEConfig()} for a in DECODER),
    {"encoder_positions": RelativeIndexConfig()},
    {"encoder_attention": GatedMLPConfig(max_length=20)},
    {"encoder_attention": GatedMLPConfig(max_length=20, toeplitz=True)},
    {"encoder_attention": FullAttentionConfig(), "decoder_attention": SSRUConfig()},
    {"decoder_attention": AverageAttentionConfig()},
    {"encoder_attention": WindowAttentionConfig(width=2), "encoder_positions": ShawConfig(max_distance=2)},
    {"decoder_attention": WindowAttentionConfig(width=2), "decoder_positions": DeBERTaConfig(max_distance=2)},
    {"qk_norm": "rms", "decoder_positions": RoPEConfig()},
    {"qk_norm": "layer", "num_kv_heads": 1},
    {"value_head_dim": 3, "decoder_positions": ShawConfig(max_distance=2)},
    {"value_head_dim": 6, "num_kv_heads": 1, "decoder_positions": RoPEConfig()},
    {"num_kv_heads": 1, "head_dim": 6, "decoder_positions": TransformerXLConfig()},
]  # fmt: skip


def name(keys):
    return "-".join(value if isinstance(value, str) else str(getattr(value, "kind", value)) for value in keys.values())


every = pytest.mark.parametrize("keys", EVERY, ids=name)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(sliding_window, "MIN_BLOCK", 2)


def small(**keys):
    keys = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0} | keys
    model = TransformerConfig(**keys).build(V, V).double().eval()
    for p in model.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    return model


def source(ends=(9, 4, 6)):
    pos = torch.arange(S).expand(len(ends), -1)
    ids = torch.randint(V, (len(ends), S), generator=torch.Generator().manual_seed(1))
    return Source(ids, pos < torch.tensor(ends).unsqueeze(1), pos)


def target():
    pos = torch.arange(T).expand(B, -1)
    return Target(torch.randint(V, (B, T), generator=torch.Generator().manual_seed(2)), pos >= 0, pos)


@pytest.mark.whole
@every
def test_steps_of_many_hypotheses_equal_the_whole_sentence(keys):
    model, tgt = small(**keys), target()
    hidden = model.decode_states(source(), tgt)
    other = (tgt.ids + 1) % V
    state = model.start(source()).select_rows(torch.arange(B).repeat_interleave(W))
    for t in range(T):
        tokens = torch.stack([tgt.ids[:, t], other[:, t]], 1).flatten()
        found, state, _ = model.step(tokens, state)
        assert torch.allclose(found[::W], hidden[:, t])
    state = state.keep_sentences(torch.tensor([2, 0]))
    assert state.num_rows == 2 * W


@every
def test_padding_and_other_sentences_change_nothing(keys):
    model, tgt = small(**keys), target()
    truth = model.decode_states(source(), tgt)[1:2]
    alone = Source(*(t[1:2, :4] for t in (source().ids, source().real, source().pos)))
    left = Source(*(torch.cat([t.new_zeros(1, 3), t], dim=1) for t in (alone.ids, alone.real, alone.pos)))
    one = Target(tgt.ids[1:2], tgt.real[1:2], tgt.pos[1:2])
    prefixed = Target(*(torch.cat([t.new_zeros(1, 2), t], dim=1) for t in (one.ids, one.real, one.pos)))
    assert torch.allclose(model.decode_states(alone, one), truth)
    assert torch.allclose(model.decode_states(left, one), truth)
    assert torch.allclose(model.decode_states(alone, prefixed)[:, 2:], truth)


@every
def test_a_batch_without_sentences_passes(keys):
    model = small(**keys)
    none = torch.zeros(0, 5, dtype=torch.int64)
    hidden = model.decode_states(Source(none, none.bool(), none), Target(none, none.bool(), none))
    assert hidden.shape == (0, 5, 16)


@pytest.mark.parametrize("union", [PositionConfig, AttentionConfig], ids=["positions", "attention"])
def test_every_kind_is_listed_above(union):
    listed = {type(value) for keys in EVERY for value in keys.values()}
    assert set(get_args(union)) - listed == set()


def test_names_of_the_weights_of_the_default_model():
    names = set(TransformerConfig(encoder_layers=1, decoder_layers=1).build(V, V).state_dict())
    attention = {f"{side}.0.attention.{part}" for side in ("encoder", "decoder") for part in ("query_key_value", "out")}
    cross = {f"decoder.0.cross_attention.{part}" for part in ("query", "key_value", "out")}
    expected = {f"{layer}.{kind}" for layer in attention | cross for kind in ("weight", "bias")}
    assert {n for n in names if "attention." in n} == expected


def test_random_features_are_saved_with_the_weights():
    """A copy of a model's weights is the same function."""
    keys = {"encoder_attention": PerformerConfig(num_features=5), "decoder_attention": PerformerConfig(num_features=5)}
    one, other = small(**keys), small(**keys)
    load_weights(other, weights(one))
    assert other.decode_states(source(), target()).equal(one.decode_states(source(), target()))


@pytest.mark.parametrize("parallel_sublayers", [False, True])
def test_global_tokens_are_seen_at_any_distance(parallel_sublayers):
    attention = LongformerConfig(width=1, global_bos=False, global_eos=False, global_stride=5)
    keys = {"encoder_attention": attention, "encoder_positions": RoPEConfig()}
    model = small(**keys, parallel_sublayers=parallel_sublayers)
    pos = torch.arange(S).unsqueeze(0)
    plain, changed_global, changed_local = (torch.full_like(pos, 1) for _ in range(3))
    changed_global[0, 4], changed_local[0, 2] = 8, 8  # of positions 0 to 8 only 4 is global
    states = [model.encode(Source(ids, pos >= 0, pos))[0] for ids in (plain, changed_global, changed_local)]
    changed = [(state != states[0]).any(-1).nonzero().flatten().tolist() for state in states[1:]]
    assert changed == [list(range(S)), [1, 2, 3, 4]]  # of one layer; token 4 attends to all


BIASES = [ALiBiConfig(), ShawConfig(), T5BiasConfig(), TransformerXLConfig(), DeBERTaConfig()]


@pytest.mark.parametrize("attention", [LinformerConfig(), PerformerConfig()], ids=lambda config: config.kind)
@pytest.mark.parametrize("positions", BIASES, ids=lambda config: config.kind)
def test_linear_attention_refuses_score_biases(attention, positions):
    message = rf"^encoder_positions.kind: {positions.kind} .* {attention.kind} .* use sinusoidal, learned or rope, or"
    with pytest.raises(ValueError, match=message):
        TransformerConfig(encoder_attention=attention, encoder_positions=positions)


@pytest.mark.parametrize(("keys", "message"), [
    ({"decoder_attention": LinformerConfig()}, r"^decoder_attention.kind: linformer .* encoder only; use full, window"),
    ({"decoder_attention": LongformerConfig()}, r"^decoder_attention.kind: longformer .* encoder only; use full"),
    ({"decoder_attention": PerformerConfig(), "decoder_positions": ShawConfig()}, r"^decoder_positions.kind: shaw"),
    ({"encoder_positions": RoPEConfig(), "head_dim": 7}, r"^encoder_positions.kind: rope .* width 7; change num_heads"),
    ({"decoder_positions": RoPEConfig(), "d_model": 9, "num_heads": 3}, r"^decoder_positions.kind: rope .* width 3"),
    ({"encoder_attention": WindowAttentionConfig(), "encoder_positions": NoPositionConfig()},
     r"^encoder_positions.kind: without positions, window .* use sinusoidal, learned, rope, alibi"),
    ({"decoder_attention": StridedAttentionConfig(), "decoder_positions": NoPositionConfig()},
     r"^decoder_positions.kind: without positions, strided"),
    ({"decoder_attention": GatedMLPConfig()}, r"^decoder_attention.kind: gmlp .* encoder only; use full, window"),
    ({"encoder_attention": GatedMLPConfig(), "encoder_positions": RoPEConfig()},
     r"^encoder_positions.kind: rope acts on queries and keys, and gmlp has none"),
    ({"encoder_attention": SSRUConfig()}, r"^encoder_attention.kind: ssru .* decoder only; use full"),
    ({"decoder_attention": SSRUConfig(), "decoder_positions": RoPEConfig()},
     r"^decoder_positions.kind: rope acts on queries and keys, .* use sinusoidal or learned, or"),
    ({"decoder_attention": AverageAttentionConfig(), "decoder_positions": NoPositionConfig()},
     r"^decoder_positions.kind: without positions, average .* use sinusoidal or learned, or"),
])  # fmt: skip
def test_incompatible_kinds_are_refused_by_key(keys, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**keys)


def test_invalid_values_of_a_kind_are_refused():
    with pytest.raises(ValueError, match=r"^max_distance: 16 leaves no logarithmic buckets"):
        T5BiasConfig(max_distance=16)
    with pytest.raises(ValueError, match=r"^global_bos: no token is global"):
        LongformerConfig(global_bos=False, global_eos=False)
    assert FullAttentionConfig().kind == "full"


@pytest.mark.whole
@every
def test_bf16_autocast_is_near_float32_and_trains(keys):
    torch.manual_seed(0)
    model, src, tgt = small(**keys).float(), source(), target()
    exact = model.decode_states(src, tgt)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.decode_states(src, tgt)
        found.float().square().mean().backward()
        state = model.start(src)
        for t in range(3):
            hidden, state, _ = model.step(tgt.ids[:, t], state)
    scale = exact.detach().abs().mean()
    assert (found - exact).abs().mean() < 0.05 * scale
    assert (hidden - exact[:, 2]).abs().mean() < 0.05 * scale
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
