"""The Transformer behind start and step."""

import pytest
import torch

from mtkit.corpus.order.batch import Source, Target
from mtkit.errors import DataError
from mtkit.layers.norms.residual import PostNormConfig, PreNormConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.sinusoidal import SinusoidalConfig
from mtkit.models.transformer.config import TransformerConfig

V, B, S, T = 23, 3, 7, 5
POSITIONS = [SinusoidalConfig(), LearnedConfig(max_length=16), NoPositionConfig()]


def small(**keys):
    keys = {"d_model": 12, "d_ff": 16, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0} | keys
    return TransformerConfig(**keys).build(V, V).double().eval()


def source(ends=(7, 4, 5)):
    pos = torch.arange(S).expand(len(ends), -1)
    ids = torch.randint(V, (len(ends), S), generator=torch.Generator().manual_seed(1))
    return Source(ids, pos < torch.tensor(ends).unsqueeze(1), pos)


def target():
    pos = torch.arange(T).expand(B, -1)
    return Target(torch.randint(V, (B, T), generator=torch.Generator().manual_seed(2)), pos >= 0, pos)


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda config: config.kind)
@pytest.mark.parametrize("norm", [PreNormConfig(), PostNormConfig()], ids=lambda config: config.kind)
def test_steps_equal_the_whole_sentence(positions, norm):
    model = small(encoder_positions=positions, decoder_positions=positions, norm=norm)
    hidden = model.hidden(source(), target())
    state = model.start(source())
    for t in range(T):
        step = model.step(target().ids[:, t], state)
        logits, state, attention = step.logits(), step.state, step.attention
        assert torch.allclose(logits, model.output(hidden[:, t]))
        assert attention.shape == (B, 3, S)
        assert torch.allclose(attention.sum(-1), torch.ones(B, 3, dtype=torch.float64))


@pytest.mark.usefixtures("forgotten_memory_is_nan")
@pytest.mark.parametrize("places", [1, 2 * S, 1000])
def test_what_is_beyond_the_keys_does_not_count(places, monkeypatch):
    monkeypatch.setattr("mtkit.models.transformer.model.PLACES_AT_ONCE", places)  # sources are encoded in parts
    model, length = small(), 20
    ids = torch.randint(V, (B, length), generator=torch.Generator().manual_seed(3))
    pos = torch.arange(length).expand(B, -1)
    with torch.inference_mode():
        hidden, state = model.hidden(source(), Target(ids, pos >= 0, pos)), model.start(source())
        for t in range(length):
            found, state, _ = model.step(ids[:, t], state)
            assert torch.allclose(found, hidden[:, t])
            if t == length // 4:
                state = state.select_rows(torch.arange(B))


def test_hypotheses_share_one_row_of_memory():
    model = small()
    hidden = model.hidden(source(), target())
    _, state, _ = model.step(target().ids[:, 0], model.start(source()))
    state = state.select_rows(torch.arange(B).repeat_interleave(4))
    assert state.memory.layers[0].k.size(0) == B
    other = (target().ids[:, 1] + 1) % V
    step = model.step(torch.stack([target().ids[:, 1], other, other, other], 1).flatten(), state)
    logits, state, attention = step.logits(), step.state, step.attention
    assert attention.shape == (4 * B, 3, S)
    assert torch.allclose(logits[::4], model.output(hidden[:, 1]))
    assert not torch.allclose(logits[1::4], model.output(hidden[:, 1]))
    state = state.keep_sentences(torch.tensor([2, 0]))
    logits = model.step(target().ids[[2, 0], 2].repeat_interleave(4), state).logits()
    assert torch.allclose(logits[::4], model.output(hidden[[2, 0], 2]))


def test_padding_and_batch_mates_change_nothing():
    model = small()
    alone = Source(source().ids[1:2, :4], source().real[1:2, :4], source().pos[1:2, :4])
    left = Source(*(torch.cat([t.new_zeros(1, 3), t], dim=1) for t in (alone.ids, alone.real, alone.pos)))
    one = Target(target().ids[1:2], target().real[1:2], target().pos[1:2])
    truth = model.hidden(source(), target())[1:2]
    assert torch.allclose(model.hidden(alone, one), truth)
    assert torch.allclose(model.hidden(left, one), truth)


def test_columns_narrow_the_logits():
    model = small()
    columns = torch.tensor([3, 1, 20])
    logits = model.step(target().ids[:, 0], model.start(source())).logits()
    narrow = model.step(target().ids[:, 0], model.start(source(), columns)).logits()
    assert torch.allclose(narrow, logits[:, columns])


@pytest.mark.parametrize(("tied", "tables"), [("all", 1), ("target", 2), ("none", 3)])
def test_tying_shares_the_tables(tied, tables):
    weights = {id(p) for p in small(tied_embeddings=tied).parameters() if V in p.shape}
    assert len(weights) == tables


def test_tying_all_needs_one_vocabulary():
    with pytest.raises(ValueError, match="tied_embeddings"):
        TransformerConfig().build(10, 11)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="num_heads: 5 does not divide d_model 256"):
        TransformerConfig(num_heads=5)
    with pytest.raises(ValueError, match="num_kv_heads"):
        TransformerConfig(num_kv_heads=3)


def test_learned_positions_beyond_the_table_are_an_error():
    model = small(encoder_positions=LearnedConfig(max_length=6))
    with pytest.raises(DataError, match="7 tokens"):
        model.start(source())


def test_grad_flows_through_steps():
    """Scheduled sampling trains through start and step, so caches must keep the gradient."""
    model = small().train()
    state, total = model.start(source()), torch.zeros((), dtype=torch.float64)
    for t in range(T):
        hidden, state, _ = model.step(target().ids[:, t], state)
        total = total + hidden.pow(2).sum()
    stepwise = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    whole = torch.autograd.grad(
        model.hidden(source(), target()).pow(2).sum(), list(model.parameters()), allow_unused=True
    )
    for a, b in zip(stepwise, whole, strict=True):
        assert (a is None and b is None) or torch.allclose(a, b)
