"""TUPE, naive positions and unscaled products against equations as loops; the tanh cell against torch.nn.RNN."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.errors import DataError
from mtkit.layers.cache import KVCache
from mtkit.layers.config import SinusoidalConfig
from mtkit.layers.recurrent.cells import CellState
from mtkit.layers.recurrent.config import TanhCellConfig
from mtkit.layers.recurrent.stack import RecurrentLayer
from mtkit.layers.sizes import Heads
from mtkit.layers.softmax import causal, full
from mtkit.layers.variants.config import BinaryConfig, IndexConfig, RelativeIndexConfig, TUPEConfig
from mtkit.layers.variants.positions import relative_position_bucket
from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from tests.parity.references import shake
from tests.toy.attention import softmax_kernel

D, H, K, B, T, V = 12, 3, 4, 2, 5, 9
HEADS = Heads(H, H, K)


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("pattern", [full, causal])
@torch.no_grad()
def test_tupe_equals_the_papers_equation(pattern, relative):
    torch.manual_seed(0)
    config = TUPEConfig(max_length=20, relative=relative, num_buckets=8, max_distance=6)
    tupe = config.build(D, HEADS, layers=2, causal=pattern is causal).layers[0].double()
    shake(tupe)
    q, k, v = torch.randn(3, B, H, T, K).double()
    pos = torch.stack([torch.arange(T), torch.arange(T) + 7])
    y, _ = softmax_kernel(tupe, causal=pattern is causal)(q, KVCache.of(k, v, pos, None), None)
    for b in range(B):
        p = [nn.functional.layer_norm(tupe.table.weight[i], (D,), tupe.norm.weight, tupe.norm.bias) for i in pos[b]]
        for h in range(H):
            rows = slice(h * K, (h + 1) * K)
            for i in range(T):
                keys, scores = range(i + 1 if pattern is causal else T), []
                for j in keys:
                    position = (tupe.query.weight[rows] @ p[i]) @ (tupe.key.weight[rows] @ p[j])
                    score = float(q[b, h, i] @ k[b, h, j] + position) / math.sqrt(2 * K)
                    if relative:
                        distance = torch.tensor(i - j)
                        bucket = relative_position_bucket(distance, 8, max_distance=6, causal=pattern is causal)
                        score += float(tupe.relative.table.weight[bucket, h])
                    scores.append(math.exp(score))
                expected = sum(s * v[b, h, j] for s, j in zip(scores, keys, strict=True)) / sum(scores)
                assert_close(y[b, h, i], expected)


def test_tupe_refuses_positions_beyond_its_table():
    tupe = TUPEConfig(max_length=4).build(D, HEADS, layers=1, causal=False).layers[0]
    q, pos = torch.randn(1, H, 5, K), torch.arange(5).unsqueeze(0)
    with pytest.raises(DataError, match=r"a sentence of 5 tokens is longer than the 4 learned positions; raise max_"):
        tupe.bias(q, q, pos, pos)


def test_naive_encodings_number_by_number():
    x, pos = torch.randn(2, 6, D), torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 0]])
    real = torch.tensor([[True] * 6, [False, False, True, True, True, False]])
    added = {}
    for config in (IndexConfig(), RelativeIndexConfig(), BinaryConfig()):
        position = config.build(D, HEADS, layers=1, causal=False).embedding
        added[config.kind] = position.embed(torch.zeros_like(x), pos, real)
        assert_close(position.embed(x, pos, real), x + added[config.kind])
    for b, length in enumerate((6, 3)):
        for t in range(6):
            p = int(pos[b, t])
            assert added["index"][b, t].tolist() == [p] * D
            assert_close(added["index_over_length"][b, t], torch.full((D,), p / length))
            assert added["binary"][b, t].tolist() == [int(bit) for bit in f"{p:0{D}b}"[::-1]]


def test_binary_codes_of_wide_models_and_large_positions():
    position = BinaryConfig().build(100, HEADS, layers=1, causal=False).embedding
    pos = torch.tensor([[2**40 + 5, 0]])
    code = position.embed(torch.zeros(1, 2, 100), pos)
    assert code[0, 0].nonzero().flatten().tolist() == [0, 2, 40]
    assert (code[0, 1] == 0).all()


def test_the_length_is_refused_in_a_decoder():
    with pytest.raises(ValueError, match=r"decoder_positions.kind: index_over_length uses the length .* unknown"):
        TransformerConfig(decoder_positions=RelativeIndexConfig())


@pytest.mark.parametrize("positions", [IndexConfig(), BinaryConfig(), TUPEConfig(max_length=30)], ids=lambda c: c.kind)
@torch.no_grad()
def test_steps_equal_the_whole_sentence_and_padding_changes_nothing(positions):
    torch.manual_seed(0)
    encoder = positions if positions.kind == "tupe" else RelativeIndexConfig()
    config = TransformerConfig(
        d_model=8, d_ff=8, num_heads=2, encoder_positions=encoder, decoder_positions=positions, scaled_attention=False
    )
    model = config.build(V, V).double().eval()
    pos = torch.arange(5).expand(2, -1)
    source = Source(torch.randint(3, V, (2, 5)), pos < torch.tensor([[5], [3]]), pos)
    target = Target(torch.randint(3, V, (2, 5)), pos >= 0, pos)
    whole, state = model.decode_states(source, target), model.start(source)
    for t in range(5):
        step = model.step(target.ids[:, t], state)
        state = step.state
        assert_close(step.hidden, whole[:, t])
    short = Source(source.ids[1:, :3], source.real[1:, :3], pos[1:, :3])
    assert_close(model.decode_states(short, Target(target.ids[1:], target.real[1:], pos[1:])), whole[1:])


@torch.no_grad()
def test_unscaled_products_equal_queries_times_the_root_of_the_width():
    """Softmax of q · k, in self- and cross-attention, against a scaled model with enlarged query weights."""
    models = []
    for scaled in (True, False):
        torch.manual_seed(0)
        config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, scaled_attention=scaled)
        models.append(config.build(V, V).double().eval())
    for layer in (*models[0].encoder, *models[0].decoder):
        layer.attention.query_key_value.weight[:8].mul_(2.0)  # sqrt(head_dim); biases are 0
        if hasattr(layer, "cross_attention"):
            layer.cross_attention.query.weight.mul_(2.0)
    pos = torch.arange(5).unsqueeze(0)
    source, target = Source(pos + 3, pos >= 0, pos), Target(pos + 2, pos >= 0, pos)
    assert_close(models[0].decode_states(source, target), models[1].decode_states(source, target))
    sinusoidal = SinusoidalConfig().build(8, Heads(2, 2, 4), layers=1, causal=True).layers[0]
    assert sinusoidal.scale(16) == 0.25  # the attribute belongs to one model


def test_tanh_cell_equals_torch_with_gradients():
    torch.manual_seed(0)
    cell, theirs = TanhCellConfig().build(D, K, 0.0).double(), nn.RNN(D, K, batch_first=True).double()
    shake(cell)
    for name, weight in (
        ("weight_ih_l0", cell.input_proj.weight),
        ("weight_hh_l0", cell.recurrent.weight),
        ("bias_ih_l0", cell.input_proj.bias),
        ("bias_hh_l0", torch.zeros(K)),
    ):
        theirs.get_parameter(name).data.copy_(weight)
    x, h = torch.randn(B, T, D).double(), torch.randn(B, K).double()
    output, end = RecurrentLayer(cell)(x, None, CellState(h))
    expected, last = theirs(x, h.unsqueeze(0))
    assert_close(output, expected)
    assert_close(end.h, last[0])
    output.square().sum().backward()
    expected.square().sum().backward()
    assert_close(cell.recurrent.weight.grad, theirs.weight_hh_l0.grad)
    assert_close(cell.input_proj.weight.grad, theirs.weight_ih_l0.grad)


def test_models_of_tanh_cells_are_built():
    config = AttentionRNNConfig(d_model=4, d_embed=4, encoder_cell=TanhCellConfig(), decoder_cell=TanhCellConfig())
    assert config.build(V, V).bridges[0].c is None
