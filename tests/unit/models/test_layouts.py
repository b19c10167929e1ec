"""Layouts of the Transformer: shared layers, layers left out, sublayers side by side, experts."""

import pytest
import torch

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.layers.attention.average import AverageAttentionConfig
from mtkit.layers.attention.ssru import SSRUConfig
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.feed_forward.mixture_of_experts import ExpertsConfig
from mtkit.layers.norms.deepnorm import DeepNormConfig
from mtkit.layers.norms.residual import PostNormConfig
from mtkit.layers.norms.rms_norm import RMSNormConfig
from mtkit.layers.norms.sandwich import SandwichConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.sharing import (
    AllSharedConfig,
    CycleConfig,
    NoSharingConfig,
    ReversedCycleConfig,
    SandwichSharingConfig,
    SequenceConfig,
)
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy

V, B, S, T = 23, 3, 7, 5
VARIANTS = {
    "parallel": {"sublayers": "parallel"},
    "parallel-post": {"sublayers": "parallel", "norm": PostNormConfig()},
    "gated": {"feed_forward": GatedConfig()},
    "switch": {"feed_forward": ExpertsConfig(num_experts=3)},
    "top2": {"feed_forward": ExpertsConfig(num_experts=3, routing="top2", every=1, expert=GatedConfig())},
    "universal": {"encoder_sharing": AllSharedConfig(), "decoder_sharing": AllSharedConfig()},
    "cycle": {"decoder_sharing": ReversedCycleConfig(distinct=2), "encoder_sharing": CycleConfig(distinct=1)},
    "sandwich-rms": {"norm": SandwichConfig(norm_layer=RMSNormConfig())},
    "deep": {"norm": DeepNormConfig()},
    "ssru": {"decoder_attention": SSRUConfig()},
    "average": {"decoder_attention": AverageAttentionConfig(d_ff=8)},
    "layer-drop": {"layer_drop": 0.5},
}


def config(**keys):
    shape = {"d_model": 12, "d_ff": 16, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0}
    return TransformerConfig(**(shape | keys))


def small(**keys):
    torch.manual_seed(4)
    return config(**keys).build(V, V).double().eval()


def source(ends=(7, 4, 5)):
    pos = torch.arange(S).expand(len(ends), -1)
    ids = torch.randint(V, (len(ends), S), generator=torch.Generator().manual_seed(1))
    return Source(ids, pos < torch.tensor(ends).unsqueeze(1), pos)


def target():
    pos = torch.arange(T).expand(B, -1)
    return Target(torch.randint(V, (B, T), generator=torch.Generator().manual_seed(2)), pos >= 0, pos)


def batch():
    return Batch(source(), target(), target().ids, target().real, torch.arange(B))


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_steps_equal_the_whole_sentence(keys):
    model = small(**keys)
    hidden, state = model.hidden(source(), target()), model.start(source())
    for t in range(T):
        step = model.step(target().ids[:, t], state)
        logits, state, attention = step.logits(), step.state, step.attention
        assert torch.allclose(logits, model.output(hidden[:, t]))
        assert torch.allclose(attention.sum(-1), torch.ones(B, 3, dtype=torch.float64))


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_padding_batch_mates_and_hypotheses_change_nothing(keys):
    model = small(**keys)
    truth = model.hidden(source(), target())
    alone = Source(source().ids[1:2, :4], source().real[1:2, :4], source().pos[1:2, :4])
    left = Source(*(torch.cat([t.new_zeros(1, 3), t], dim=1) for t in (alone.ids, alone.real, alone.pos)))
    one = Target(target().ids[1:2], target().real[1:2], target().pos[1:2])
    assert torch.allclose(model.hidden(left, one), truth[1:2])
    _, state, _ = model.step(target().ids[:, 0], model.start(source()))
    state = state.select_rows(torch.arange(B).repeat_interleave(2)).keep_sentences(torch.tensor([2, 1]))
    logits = model.step(target().ids[[2, 2, 1, 1], 1], state).logits()
    assert torch.allclose(logits[::2], model.output(truth[[2, 1], 1]))


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_with_weights_in_bf16(keys):
    model = small(**keys)
    truth = model.float().hidden(source(), target())
    found = model.bfloat16().hidden(source(), target())
    assert found.dtype == torch.bfloat16
    error = (found.float() - truth).norm(dim=-1) / truth.norm(dim=-1)
    assert float(error.detach().median()) < 0.05


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_no_sentences_at_all(keys):
    none = torch.zeros(0, dtype=torch.int64)
    tgt = Target(*(t[:0] for t in (target().ids, target().real, target().pos)))
    assert small(**keys).hidden(source().select(none), tgt).shape == (0, T, 12)


@pytest.mark.parametrize(
    ("sharing", "layers", "order"),
    [
        (NoSharingConfig(), 3, [0, 1, 2]),
        (AllSharedConfig(), 3, [0, 0, 0]),
        (SequenceConfig(distinct=3), 6, [0, 0, 1, 1, 2, 2]),
        (CycleConfig(distinct=3), 6, [0, 1, 2, 0, 1, 2]),
        (ReversedCycleConfig(distinct=3), 6, [0, 1, 2, 2, 1, 0]),
        (ReversedCycleConfig(distinct=3), 9, [0, 1, 2, 0, 1, 2, 2, 1, 0]),
        (ReversedCycleConfig(distinct=3), 3, [0, 1, 2]),
        (SandwichSharingConfig(), 5, [0, 1, 1, 1, 2]),
        (SandwichSharingConfig(), 2, [0, 1]),
        (SandwichSharingConfig(), 1, [0]),
    ],
)
def test_orders_are_the_papers(sharing, layers, order):
    assert list(sharing.order(layers)) == order


def test_shared_layers_have_their_weights_once():
    model = small(decoder_sharing=AllSharedConfig(), decoder_layers=6)
    assert {name.split(".")[1] for name, _ in model.named_parameters() if name.startswith("decoder.")} == {"0"}
    assert len(model.start(source()).memory.layers) == 1


def test_sharing_equals_copies():
    shared, copies = small(encoder_sharing=AllSharedConfig()), small()
    state = shared.state_dict()
    more = {n.replace("encoder.0", "encoder.1"): t for n, t in state.items() if n.startswith("encoder.0")}
    copies.load_state_dict(state | more)
    assert torch.equal(shared.hidden(source(), target()), copies.hidden(source(), target()))


def test_more_distinct_layers_than_places_are_refused():
    with pytest.raises(ValueError, match=r"encoder_sharing\.distinct: 3 layers cannot be shared by 2 places"):
        config(encoder_sharing=CycleConfig(distinct=3))


def test_layers_are_left_out_at_the_stated_rate():
    stack = small(layer_drop=0.25, encoder_layers=4).encoder
    assert stack.passes() == (0, 1, 2, 3)
    kept = sum(len(stack.train().passes()) for _ in range(2000)) / 8000
    assert kept == pytest.approx(0.75, abs=0.02)
    assert small().train().encoder.passes() == (0, 1)


def test_parallel_sublayers_read_the_same():
    layer = small(sublayers="parallel").encoder[0]
    x, pos = torch.randn(2, 4, 12, dtype=torch.float64), torch.arange(4).expand(2, -1)
    real = pos >= 0
    h = layer.joint.norm(x)
    assert torch.allclose(layer(x, pos, real), x + layer.attention(h, pos, real=real)[0] + layer.feed_forward(h))


def test_deep_norm_and_parallel_sublayers_are_refused():
    with pytest.raises(ValueError, match="sublayers: parallel does not go with norm deep"):
        config(sublayers="parallel", norm=DeepNormConfig())


def test_losses_of_the_layers_reach_the_objective_in_training_only():
    model = small(feed_forward=ExpertsConfig(num_experts=3, every=1))
    objective = CrossEntropy(TeacherForcing(), 0.0)
    judged = model(batch(), objective)
    assert judged.extra == {}
    trained = model.train()(batch(), objective)
    assert set(trained.extra) == {
        "balance_loss", "router_z_loss", "expert_utilisation", "expert_peak", "dropped",
    }  # fmt: skip
    trained.sum.backward()
    router = model.encoder[0].feed_forward.router.logits.weight
    assert router.grad is not None
    assert float(router.grad.abs().max()) > 0


def test_the_losses_of_the_layers_count_as_often_as_tokens_are_scored():
    """So that the sum over micro-batches, divided by the update's tokens, is a mean weighted by tokens."""
    keys = {"num_experts": 3, "every": 1, "capacity_factor": None}
    plain = small(feed_forward=ExpertsConfig(**keys, balance_weight=0.0, z_weight=0.0)).train()
    model = small(feed_forward=ExpertsConfig(**keys, balance_weight=0.5, z_weight=0.0)).train()
    objective = CrossEntropy(TeacherForcing(), 0.0)
    with torch.no_grad():
        assert model(batch(), objective).extra == {}
    losses = model(batch(), objective)
    added = (losses.sum - plain(batch(), objective).sum).detach()
    layers = len(model.encoder) + len(model.decoder)
    assert float(added) == pytest.approx(0.5 * layers * float(losses.extra["balance_loss"]))
    assert layers * losses.tokens < float(added) * 2 * 1.01 < 3 * layers * losses.tokens * 1.01
