"""Every position encoding and kind of attention inside the whole Transformer."""

import pytest
import torch

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.attention import sliding_window as block_attention
from mtkit.layers.attention.average import AverageAttentionConfig
from mtkit.layers.attention.linformer import LinformerConfig
from mtkit.layers.attention.longformer import LongformerConfig
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.attention.sliding_window import StridedAttentionConfig, WindowAttentionConfig
from mtkit.layers.attention.softmax import FullAttentionConfig
from mtkit.layers.attention.ssru import SSRUConfig
from mtkit.layers.positions.alibi import ALiBiConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.layers.positions.sinusoidal import SinusoidalConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.weights import load_weights, weights

V, B, S, T, W = 23, 3, 9, 7, 2
POSITIONS = [
    SinusoidalConfig(),
    LearnedConfig(max_length=8, stretch=2.0),
    NoPositionConfig(),
    RoPEConfig(),
    ALiBiConfig(),
    ShawConfig(max_distance=3),
    T5BiasConfig(num_buckets=8, max_distance=16),
    TransformerXLConfig(),
    DeBERTaConfig(max_distance=3),
]
ENCODER = [
    WindowAttentionConfig(width=2),
    StridedAttentionConfig(stride=3),
    LongformerConfig(width=2),
    LongformerConfig(width=2, first=False, last=False, sentence_ends=True),
    LinformerConfig(mixtures=4, max_length=20),
    PerformerConfig(num_features=5),
]
DECODER = [WindowAttentionConfig(width=2), StridedAttentionConfig(stride=3), PerformerConfig(num_features=5)]
EVERY = [
    *({"encoder_positions": p, "decoder_positions": POSITIONS[i - 1]} for i, p in enumerate(POSITIONS)),
    *({"encoder_attention": a, "encoder_positions": RoPEConfig(), "decoder_positions": RoPEConfig()} for a in ENCODER),
    *({"decoder_attention": a, "decoder_positions": RoPEConfig()} for a in DECODER),
    {"decoder_attention": SSRUConfig()},
    {"decoder_attention": AverageAttentionConfig()},
    {"encoder_attention": WindowAttentionConfig(width=2), "encoder_positions": ShawConfig(max_distance=2)},
    {"decoder_attention": WindowAttentionConfig(width=2), "decoder_positions": DeBERTaConfig(max_distance=2)},
    {"query_key_norm": "rms", "decoder_positions": RoPEConfig()},
    {"query_key_norm": "layer", "num_kv_heads": 1},
    {"num_kv_heads": 1, "head_dim": 6, "decoder_positions": TransformerXLConfig()},
]  # fmt: skip


def name(keys):
    return "-".join(value if isinstance(value, str) else str(getattr(value, "kind", value)) for value in keys.values())


every = pytest.mark.parametrize("keys", EVERY, ids=name)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(block_attention, "SMALLEST_BLOCK", 2)


def small(**keys):
    keys = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0} | keys
    model = TransformerConfig(**keys).build(V, V).double().eval()
    for p in model.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    if model.sentence_ends is not None:
        model.sentence_ends.mark(range(0, V, 4))
    return model


def source(ends=(9, 4, 6)):
    pos = torch.arange(S).expand(len(ends), -1)
    ids = torch.randint(V, (len(ends), S), generator=torch.Generator().manual_seed(1))
    return Source(ids, pos < torch.tensor(ends).unsqueeze(1), pos)


def target():
    pos = torch.arange(T).expand(B, -1)
    return Target(torch.randint(V, (B, T), generator=torch.Generator().manual_seed(2)), pos >= 0, pos)


@every
def test_steps_of_many_hypotheses_equal_the_whole_sentence(keys):
    model, tgt = small(**keys), target()
    hidden = model.hidden(source(), tgt)
    other = (tgt.ids + 1) % V
    state = model.start(source()).select_rows(torch.arange(B).repeat_interleave(W))
    for t in range(T):
        tokens = torch.stack([tgt.ids[:, t], other[:, t]], 1).flatten()
        found, state, _ = model.step(tokens, state)
        assert torch.allclose(found[::W], hidden[:, t])
    state = state.keep_sentences(torch.tensor([2, 0]))
    assert state.num_rows == 2 * W


@every
def test_padding_and_batch_mates_change_nothing(keys):
    model, tgt = small(**keys), target()
    truth = model.hidden(source(), tgt)[1:2]
    alone = Source(*(t[1:2, :4] for t in (source().ids, source().real, source().pos)))
    left = Source(*(torch.cat([t.new_zeros(1, 3), t], dim=1) for t in (alone.ids, alone.real, alone.pos)))
    one = Target(tgt.ids[1:2], tgt.real[1:2], tgt.pos[1:2])
    prefixed = Target(*(torch.cat([t.new_zeros(1, 2), t], dim=1) for t in (one.ids, one.real, one.pos)))
    assert torch.allclose(model.hidden(alone, one), truth)
    assert torch.allclose(model.hidden(left, one), truth)
    assert torch.allclose(model.hidden(alone, prefixed)[:, 2:], truth)


@every
def test_a_batch_of_no_sentences_passes(keys):
    model = small(**keys)
    none = torch.zeros(0, 5, dtype=torch.int64)
    hidden = model.hidden(Source(none, none.bool(), none), Target(none, none.bool(), none))
    assert hidden.shape == (0, 5, 16)


def test_the_default_model_keeps_the_names_of_its_weights():
    names = set(TransformerConfig(encoder_layers=1, decoder_layers=1).build(V, V).state_dict())
    attention = {f"{side}.0.attention.{part}" for side in ("encoder", "decoder") for part in ("query_key_value", "out")}
    cross = {f"decoder.0.cross_attention.{part}" for part in ("query", "key_value", "out")}
    expected = {f"{layer}.{kind}" for layer in attention | cross for kind in ("weight", "bias")}
    assert {n for n in names if "attention." in n} == expected


def test_what_was_drawn_is_saved_with_the_weights():
    """Random features belong to the model: a copy of its weights is the same function."""
    keys = {"encoder_attention": PerformerConfig(num_features=5), "decoder_attention": PerformerConfig(num_features=5)}
    one, other = small(**keys), small(**keys)
    load_weights(other, weights(one))
    assert other.hidden(source(), target()).equal(one.hidden(source(), target()))


@pytest.mark.parametrize("sublayers", ["sequential", "parallel"])
def test_a_sentence_end_is_seen_from_afar(sublayers):
    attention = LongformerConfig(width=1, first=False, last=False, sentence_ends=True)
    model = small(encoder_attention=attention, encoder_positions=RoPEConfig(), sublayers=sublayers)
    pos = torch.arange(S).unsqueeze(0)
    before, end, word = (torch.full_like(pos, 1) for _ in range(3))
    end[0, 4], word[0, 4] = 8, 9  # 8 ends a sentence, 9 does not
    states = [model.encode(Source(ids, pos >= 0, pos))[0] for ids in (before, end, word)]
    changed = [(state != states[0]).any(-1).nonzero().flatten().tolist() for state in states[1:]]
    assert changed == [list(range(S)), [3, 4, 5]]  # of one layer
    model.sentence_ends.mark([])
    assert not model.encode(Source(end, pos >= 0, pos))[0].equal(states[1])


def test_which_pieces_end_a_sentence_is_saved_with_the_weights():
    keys = {"encoder_attention": LongformerConfig(sentence_ends=True), "encoder_positions": RoPEConfig()}
    one, other = small(**keys), small(**keys)
    other.sentence_ends.mark([])
    load_weights(other, weights(one))
    assert other.sentence_ends(torch.arange(V)).tolist() == [number % 4 == 0 for number in range(V)]


BIASES = [ALiBiConfig(), ShawConfig(), T5BiasConfig(), TransformerXLConfig(), DeBERTaConfig()]


@pytest.mark.parametrize("attention", [LinformerConfig(), PerformerConfig()], ids=lambda config: config.kind)
@pytest.mark.parametrize("positions", BIASES, ids=lambda config: config.kind)
def test_linear_attention_refuses_score_biases(attention, positions):
    with pytest.raises(ValueError, match=rf"^encoder_positions.kind: {positions.kind} .* {attention.kind} .* use rope"):
        TransformerConfig(encoder_attention=attention, encoder_positions=positions)


@pytest.mark.parametrize(("keys", "message"), [
    ({"decoder_attention": LinformerConfig()}, r"^decoder_attention.kind: linformer .* encoder only; use full, window"),
    ({"decoder_attention": LongformerConfig()}, r"^decoder_attention.kind: longformer .* encoder only; use full"),
    ({"decoder_attention": PerformerConfig(), "decoder_positions": ShawConfig()}, r"^decoder_positions.kind: shaw"),
    ({"encoder_positions": RoPEConfig(), "head_dim": 7}, r"^encoder_positions.kind: rope .* 7 wide; change num_heads"),
    ({"decoder_positions": RoPEConfig(), "d_model": 9, "num_heads": 3}, r"^decoder_positions.kind: rope .* 3 wide"),
    ({"encoder_attention": WindowAttentionConfig(), "encoder_positions": NoPositionConfig()},
     r"^encoder_positions.kind: with none, window .* use rope"),
    ({"decoder_attention": StridedAttentionConfig(), "decoder_positions": NoPositionConfig()},
     r"^decoder_positions.kind: with none, strided"),
    ({"encoder_attention": SSRUConfig()}, r"^encoder_attention.kind: ssru .* decoder only; use full"),
    ({"decoder_attention": SSRUConfig(), "decoder_positions": RoPEConfig()},
     r"^decoder_positions.kind: rope acts inside of attention, .* use sinusoidal"),
    ({"decoder_attention": AverageAttentionConfig(), "decoder_positions": NoPositionConfig()},
     r"^decoder_positions.kind: with none, an average knows no order; use sinusoidal"),
])  # fmt: skip
def test_what_cannot_work_is_refused_by_key(keys, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**keys)


def test_configurations_refuse_what_they_alone_can_see():
    with pytest.raises(ValueError, match=r"^max_distance: 16 leaves nothing"):
        T5BiasConfig(max_distance=16)
    with pytest.raises(ValueError, match=r"^first: no token is global"):
        LongformerConfig(first=False, last=False)
    assert FullAttentionConfig().kind == "full"


@every
def test_bf16_autocast_is_near_float32_and_trains(keys):
    torch.manual_seed(0)
    model, src, tgt = small(**keys).float(), source(), target()
    exact = model.hidden(src, tgt)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.hidden(src, tgt)
        found.float().square().mean().backward()
        state = model.start(src)
        for t in range(3):
            hidden, state, _ = model.step(tgt.ids[:, t], state)
    scale = exact.detach().abs().mean()
    assert (found - exact).abs().mean() < 0.05 * scale
    assert (hidden - exact[:, 2]).abs().mean() < 0.05 * scale
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
