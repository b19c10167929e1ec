"""Variants of the Transformer: shared layers, LayerDrop, parallel sublayers, mixtures of experts."""

import pytest
import torch

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.layers.config import (
    DeepNormConfig,
    GatedConfig,
    NoNormConfig,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    SandwichNormConfig,
)
from mtkit.layers.variants.config import AverageAttentionConfig, MixtureOfExpertsConfig, SSRUConfig
from mtkit.models.transformer.config import (
    AllSharedConfig,
    CycleConfig,
    NoSharingConfig,
    ReversedCycleConfig,
    SandwichSharingConfig,
    SequenceConfig,
    TransformerConfig,
)
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy
from tests.unit.models.transformer.toy_transformer import B, T, V, source, target

VARIANTS = {
    "parallel": {"parallel_sublayers": True},
    "parallel-post": {"parallel_sublayers": True, "residual": PostNormConfig()},
    "gated": {"feed_forward": GatedConfig()},
    "switch": {"feed_forward": MixtureOfExpertsConfig(num_experts=3)},
    "top2": {"feed_forward": MixtureOfExpertsConfig(num_experts=3, routing="top2", moe_every=1, expert=GatedConfig())},
    "universal": {"encoder_sharing": AllSharedConfig(), "decoder_sharing": AllSharedConfig()},
    "cycle": {"decoder_sharing": ReversedCycleConfig(distinct=2), "encoder_sharing": CycleConfig(distinct=1)},
    "sandwich-rms": {"residual": SandwichNormConfig(norm=RMSNormConfig())},
    "deep": {"residual": DeepNormConfig()},
    "ssru": {"decoder_attention": SSRUConfig()},
    "average": {"decoder_attention": AverageAttentionConfig(d_ff=8)},
    "layer-drop": {"layerdrop": 0.5},
}


def config(**keys):
    shape = {"d_model": 12, "d_ff": 16, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 3, "dropout": 0.0}
    return TransformerConfig(**(shape | keys))


def small(**keys):
    torch.manual_seed(4)
    return config(**keys).build(V, V).double().eval()


def batch():
    return Batch(source(), target(), target().ids, target().real, torch.arange(B))


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_steps_equal_the_whole_sentence(keys):
    model = small(**keys)
    hidden, state = model.decode_states(source(), target()), model.start(source())
    for t in range(T):
        step = model.step(target().ids[:, t], state)
        logits, state, attention = step.logits(), step.state, step.attention
        assert torch.allclose(logits, model.output(hidden[:, t]))
        assert torch.allclose(attention.sum(-1), torch.ones(B, 3, dtype=torch.float64))


@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 0)])
def test_an_alignment_head_is_that_of_its_layer(layer: int, head: int):
    model, chosen = small(), small(alignment_head=[layer, head])
    chosen.load_state_dict(model.state_dict())
    model.alignment_layer = layer
    _, expected = model.decode_with_attention(source(), target())
    state = chosen.start(source())
    for t in range(T):
        step = chosen.step(target().ids[:, t], state)
        state = step.state
        assert torch.allclose(step.attention[:, 0], expected[:, head, t])


@pytest.mark.parametrize("pair", [[0], [9, 0], [0, 99]])
def test_an_alignment_head_that_is_not_there_is_refused(pair: list[int]):
    with pytest.raises(ValueError, match="alignment_head: "):
        config(alignment_head=pair)


def test_an_alignment_head_that_was_pruned_is_refused():
    layers = config().decoder_layers
    assert config(cross_heads=[2] * layers, alignment_head=[0, 1]).alignment == (0, 1)
    with pytest.raises(ValueError, match="alignment_head: there is no head 1 of decoder layer 0"):
        config(cross_heads=[1] * layers, alignment_head=[0, 1])


@pytest.mark.parametrize("residual", [PostNormConfig(), DeepNormConfig(), PreNormConfig(norm=NoNormConfig())])
def test_a_scaled_output_needs_a_norm_before_it(residual):
    with pytest.raises(ValueError, match="scaled_output: no norm follows the last layer"):
        config(residual=residual, scaled_output=True)


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_padding_other_sentences_and_hypotheses_change_nothing(keys):
    model = small(**keys)
    truth = model.decode_states(source(), target())
    alone = Source(source().ids[1:2, :4], source().real[1:2, :4], source().pos[1:2, :4])
    left = Source(*(torch.cat([t.new_zeros(1, 3), t], dim=1) for t in (alone.ids, alone.real, alone.pos)))
    one = Target(target().ids[1:2], target().real[1:2], target().pos[1:2])
    assert torch.allclose(model.decode_states(left, one), truth[1:2])
    _, state, _ = model.step(target().ids[:, 0], model.start(source()))
    state = state.select_rows(torch.arange(B).repeat_interleave(2)).keep_sentences(torch.tensor([2, 1]))
    logits = model.step(target().ids[[2, 2, 1, 1], 1], state).logits()
    assert torch.allclose(logits[::2], model.output(truth[[2, 1], 1]))


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_bf16_weights_are_near_float32(keys):
    model = small(**keys)
    truth = model.float().decode_states(source(), target())
    found = model.bfloat16().decode_states(source(), target())
    assert found.dtype == torch.bfloat16
    error = (found.float() - truth).norm(dim=-1) / truth.norm(dim=-1)
    assert float(error.detach().median()) < 0.05


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_batch_without_sentences_passes(keys):
    none = torch.zeros(0, dtype=torch.int64)
    tgt = Target(*(t[:0] for t in (target().ids, target().real, target().pos)))
    assert small(**keys).decode_states(source().select(none), tgt).shape == (0, T, 12)


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
def test_layer_orders_equal_the_papers(sharing, layers, order):
    assert list(sharing.order(layers)) == order


def test_shared_layers_have_one_set_of_weights():
    model = small(decoder_sharing=AllSharedConfig(), decoder_layers=6)
    assert {name.split(".")[1] for name, _ in model.named_parameters() if name.startswith("decoder.")} == {"0"}
    assert len(model.start(source()).memory.layers) == 1


def test_sharing_equals_copies():
    shared, copies = small(encoder_sharing=AllSharedConfig()), small()
    state = shared.state_dict()
    more = {n.replace("encoder.0", "encoder.1"): t for n, t in state.items() if n.startswith("encoder.0")}
    copies.load_state_dict(state | more)
    assert torch.equal(shared.decode_states(source(), target()), copies.decode_states(source(), target()))


def test_more_distinct_layers_than_layers_are_refused():
    with pytest.raises(ValueError, match=r"encoder_sharing\.distinct: 3 layers are more than the 2 of the stack"):
        config(encoder_sharing=CycleConfig(distinct=3))


@pytest.mark.whole
def test_layerdrop_skips_layers_at_its_rate():
    stack = small(layerdrop=0.25, encoder_layers=4).encoder
    assert stack.sample_layers() == (0, 1, 2, 3)
    kept = sum(len(stack.train().sample_layers()) for _ in range(2000)) / 8000
    assert kept == pytest.approx(0.75, abs=0.02)
    assert small().train().encoder.sample_layers() == (0, 1)


def test_parallel_sublayers_read_the_same_input():
    layer = small(parallel_sublayers=True).encoder[0]
    x, pos = torch.randn(2, 4, 12, dtype=torch.float64), torch.arange(4).expand(2, -1)
    real = pos >= 0
    h = layer.residual.norm(x)
    assert torch.allclose(layer(x, pos, real), x + layer.attention(h, pos, real=real)[0] + layer.feed_forward(h))


def test_deepnorm_with_parallel_sublayers_is_refused():
    with pytest.raises(ValueError, match=r"^parallel_sublayers: residual\.kind deepnorm is derived for"):
        config(parallel_sublayers=True, residual=DeepNormConfig())


def test_aux_losses_reach_the_objective_in_training_only():
    model = small(feed_forward=MixtureOfExpertsConfig(num_experts=3, moe_every=1))
    objective = CrossEntropy(TeacherForcing(), 0.0)
    evaluated = model(batch(), objective)
    assert evaluated.extra == {}
    trained = model.train()(batch(), objective)
    assert set(trained.extra) == {
        "balance_loss", "router_z_loss", "expert_utilisation", "expert_peak", "dropped",
    }  # fmt: skip
    trained.sum.backward()
    router = model.encoder[0].feed_forward.router.logits.weight
    assert router.grad is not None
    assert float(router.grad.abs().max()) > 0


def test_aux_losses_are_multiplied_by_the_number_of_scored_tokens():
    """The sum over micro-batches, divided by the update's tokens, is therefore a mean weighted by tokens."""
    keys = {"num_experts": 3, "moe_every": 1, "capacity_factor": None}
    plain = small(feed_forward=MixtureOfExpertsConfig(**keys, balance_weight=0.0, z_weight=0.0)).train()
    model = small(feed_forward=MixtureOfExpertsConfig(**keys, balance_weight=0.5, z_weight=0.0)).train()
    objective = CrossEntropy(TeacherForcing(), 0.0)
    with torch.no_grad():
        assert model(batch(), objective).extra == {}
    losses = model(batch(), objective)
    added = (losses.sum - plain(batch(), objective).sum).detach()
    layers = len(model.encoder) + len(model.decoder)
    assert float(added) == pytest.approx(0.5 * layers * float(losses.extra["balance_loss"]))
    assert layers * losses.tokens < float(added) * 2 * 1.01 < 3 * layers * losses.tokens * 1.01
