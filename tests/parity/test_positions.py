"""Position encodings against the package `transformers`, or against the papers' equations as loops."""

import math

import pytest
import torch
from torch import Tensor

from mtkit.layers.cache import KVCache
from mtkit.layers.config import LinearScaling, NoScaling, NTKScaling, RoPEConfig, SinusoidalConfig
from mtkit.layers.positions import Position
from mtkit.layers.sizes import Heads, split_heads
from mtkit.layers.softmax import causal, full
from mtkit.layers.variants.config import ALiBiConfig, DeBERTaConfig, ShawConfig, T5BiasConfig, TransformerXLConfig
from mtkit.layers.variants.positions import relative_position_bucket
from tests.parity.references import relative_error, shake, transformers_module
from tests.toy.attention import softmax_kernel

D, H, K, B, T = 24, 3, 8, 2, 9
HEADS = Heads(H, H, K)


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(3, B, H, T, K)
    return q, k, v, torch.arange(T).expand(B, -1)


def attend(position: Position, pattern=full, kv_heads: int = H) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Output of our kernel on random queries, keys and values, and these."""
    q, k, v, pos = inputs()
    k, v = k[:, :kv_heads], v[:, :kv_heads]
    y, _ = softmax_kernel(position, causal=pattern is causal)(q, KVCache.of(k, v, pos, None), None)
    return y, (q, k, v)


def test_interleaved_rope_equals_gptj():
    theirs = transformers_module("models.gptj.modeling_gptj")
    q, _, _, pos = inputs()
    sin, cos = theirs.create_sinusoidal_positions(T, K).unsqueeze(0).chunk(2, dim=-1)
    expected = theirs.apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)
    assert relative_error(RoPEConfig().module(D, HEADS, causal=False).rotate(q, pos), expected) < 1e-5


@pytest.mark.parametrize("scaling", [NoScaling(), LinearScaling(factor=4.0), NTKScaling(factor=2.0)])
def test_rotate_half_rope_equals_llama(scaling):
    theirs = transformers_module("models.llama.modeling_llama")
    rules = transformers_module("modeling_rope_utils").ROPE_INIT_FUNCTIONS
    rope = {"none": {"rope_type": "default"}, "linear": {"rope_type": "linear", "factor": 4.0}}
    parameters = rope.get(scaling.kind, {"rope_type": "dynamic", "factor": 1.0}) | {"rope_theta": 500.0}
    config = theirs.LlamaConfig(
        hidden_size=D, num_attention_heads=H, max_position_embeddings=64, rope_parameters=parameters
    )
    if scaling.kind == "ntk":  # the dynamic rule at twice the length of training is the static one with factor 2
        frequency, _ = rules["dynamic"](config, torch.device("cpu"), seq_len=128)
    else:
        frequency = theirs.LlamaRotaryEmbedding(config).inv_freq
    q, k, _, pos = inputs()
    angle = pos.unsqueeze(-1) * frequency.repeat(2)
    expected, _ = theirs.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    ours = RoPEConfig(base=500.0, rotate_half=True, scaling=scaling)
    output = ours.build(D, Heads(H, H, K), layers=1, causal=False).layers[0].rotate(q, pos)
    assert relative_error(output, expected) < 1e-5


@pytest.mark.parametrize("heads", [H, 8, 12])
def test_causal_alibi_equals_bloom(heads):
    theirs = transformers_module("models.bloom.modeling_bloom")
    q, k, v = torch.randn(3, B, heads, T, K)
    pos = torch.arange(T).expand(B, -1)
    alibi = ALiBiConfig().module(D, Heads(heads, heads, K), causal=True)
    output, _ = softmax_kernel(alibi, causal=True)(q, KVCache.of(k, v, pos, None), None)
    bias = theirs.build_alibi_tensor(torch.ones(B, T), heads, torch.float32).view(B, heads, 1, T)
    score = q @ k.mT / math.sqrt(K) + bias
    expected = score.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf).softmax(-1) @ v
    assert relative_error(output, expected) < 1e-5


def test_symmetric_alibi_equals_its_definition():
    output, (q, k, v) = attend(ALiBiConfig().module(D, HEADS, causal=False))
    expected = torch.zeros_like(q)
    for h, slope in enumerate([2**-4, 2**-8, 2**-2]):  # two heads of the sequence for 2, then the first for 4
        for i in range(T):
            score = torch.stack([q[:, h, i].mul(k[:, h, j]).sum(-1) / K**0.5 - slope * abs(i - j) for j in range(T)])
            expected[:, h, i] = (score.softmax(0).unsqueeze(-1) * v[:, h].transpose(0, 1)).sum(0)
    assert relative_error(output, expected) < 1e-5


@pytest.mark.parametrize(("is_causal", "scaled"), [(False, False), (True, False), (True, True)])
def test_t5_buckets_and_bias_equal_t5(is_causal, scaled):
    theirs = transformers_module("models.t5.modeling_t5")
    distances = torch.arange(-300, 301)
    expected = theirs.T5Attention._relative_position_bucket(-distances, bidirectional=not is_causal)
    assert relative_position_bucket(distances, 32, max_distance=128, causal=is_causal).equal(expected)
    config = theirs.T5Config(d_model=D, d_kv=K, num_heads=H, is_decoder=is_causal, dropout_rate=0.0)
    layer = theirs.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = T5BiasConfig(scaled=scaled).module(D, HEADS, causal=is_causal)
    shake(ours)
    layer.relative_attention_bias.load_state_dict(ours.table.state_dict())
    output, (q, k, v) = attend(ours, causal if is_causal else full)
    score = q @ k.mT / (K**0.5 if scaled else 1) + layer.compute_bias(T, T)
    if is_causal:
        score = score.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
    assert relative_error(output, score.softmax(-1) @ v) < 1e-5


@pytest.mark.parametrize("span", [4, 16])
def test_disentangled_attention_equals_deberta(span):
    theirs = transformers_module("models.deberta.modeling_deberta")
    config = theirs.DebertaConfig(
        hidden_size=D, num_attention_heads=H, relative_attention=True, max_relative_positions=span,
        pos_att_type=["c2p", "p2c"], attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0,
    )  # fmt: skip
    layer = theirs.DisentangledSelfAttention(config).eval()
    ours = DeBERTaConfig(max_distance=span).build(D, Heads(H, H, K), layers=1, causal=False).layers[0]
    shake(ours)
    shake(layer)
    layer.pos_proj.load_state_dict(ours.key.state_dict())
    layer.pos_q_proj.load_state_dict(ours.query.state_dict())
    x = torch.randn(B, T, D)
    relative = theirs.build_relative_position(torch.empty(1, T, K), torch.empty(1, T, K))
    visible = torch.ones(B, 1, T, T, dtype=torch.bool)
    expected, _ = layer(x, visible, relative_pos=relative, rel_embeddings=ours.table.weight)
    q, k, v = split_heads(layer.in_proj(x), H).chunk(3, dim=-1)
    q, v = q + split_heads(layer.q_bias.view(1, 1, -1), H), v + split_heads(layer.v_bias.view(1, 1, -1), H)
    pos = torch.arange(T).expand(B, -1)
    output, _ = softmax_kernel(ours, causal=False)(q, KVCache.of(k, v, pos, None), None)
    assert relative_error(output.transpose(1, 2).flatten(-2), expected) < 1e-5


@pytest.mark.parametrize("clip", [2, 16])
def test_shaw_equals_the_papers_equations(clip):
    """Equations 3 and 4, one pair at a time."""
    ours = ShawConfig(max_distance=clip).module(D, HEADS, causal=False)
    shake(ours)
    output, (q, k, v) = attend(ours)
    expected = torch.zeros_like(q)
    for i in range(T):
        index = [max(-clip, min(clip, j - i)) + clip for j in range(T)]
        score = [(q[:, :, i] * (k[:, :, j] + ours.key.weight[n])).sum(-1) / K**0.5 for j, n in enumerate(index)]
        weight = torch.stack(score).softmax(0)
        for j, n in enumerate(index):
            expected[:, :, i] += weight[j].unsqueeze(-1) * (v[:, :, j] + ours.value.weight[n])
    assert relative_error(output, expected) < 1e-5


@pytest.mark.parametrize("kv_heads", [H, 1])
@pytest.mark.parametrize("pattern", [causal, full])
def test_transformer_xl_equals_the_papers_equation(pattern, kv_heads):
    """The four terms of section 3.3, one pair at a time."""
    ours = TransformerXLConfig().module(D, HEADS, causal=pattern is causal)
    shake(ours)
    output, (q, k, v) = attend(ours, pattern, kv_heads)
    k, v = k.expand(-1, H, -1, -1), v.expand(-1, H, -1, -1)
    u, w = ours.content.weight, ours.position.weight
    expected = torch.zeros_like(q)
    for i in range(T):
        scores = []
        for j in range(i + 1 if pattern is causal else T):
            angle = (i - j) / 10_000 ** (torch.arange(0, D, 2) / D)
            sinusoid = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten()
            relative = (ours.relative.weight @ sinusoid).view(H, K)
            a, b = (q[:, :, i] * k[:, :, j]).sum(-1), (q[:, :, i] * relative).sum(-1)
            c, d = (u * k[:, :, j]).sum(-1), (w * relative).sum(-1)
            scores.append((a + b + c + d) / K**0.5)
        weight = torch.stack(scores, dim=-1).softmax(-1)  # [B, H, S]
        expected[:, :, i] = (weight.unsqueeze(2) @ v[:, :, : weight.size(-1)]).squeeze(2)
    assert relative_error(output, expected) < 1e-5


def encoded(config: SinusoidalConfig, width: int) -> Tensor:
    """Vectors of the first positions."""
    position = config.module(width, Heads(1, 1, width), causal=False)
    return position.embed(torch.zeros(1, 40, width), torch.arange(40).unsqueeze(0))[0]


@pytest.mark.parametrize("width", [24, 25])
def test_concatenated_sinusoids_equal_marian(width):
    theirs = transformers_module("models.marian.modeling_marian")
    expected = theirs.MarianSinusoidalPositionalEmbedding(40, width).create_weight()
    torch.testing.assert_close(encoded(SinusoidalConfig(layout="concatenated"), width), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("width", [24, 64])
def test_sinusoids_that_begin_with_two_equal_m2m100(width):
    theirs = transformers_module("models.m2m_100.modeling_m2m_100")
    expected = theirs.M2M100SinusoidalPositionalEmbedding(40, width, padding_idx=1)(torch.zeros(1, 40).long() + 5)[0]
    config = SinusoidalConfig(layout="concatenated", offset=2, reaches_base=True)
    torch.testing.assert_close(encoded(config, width), expected, rtol=0, atol=4e-6)
