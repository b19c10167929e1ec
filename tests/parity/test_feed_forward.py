"""Gated layers and the mixture of experts against the package transformers, with the same weights."""

import pytest
import torch
from transformers import LlamaConfig, SwitchTransformersConfig
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.switch_transformers import modeling_switch_transformers as hf

from mtkit.layers.feed_forward.aux_loss import recording
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.feed_forward.mixture_of_experts import ExpertsConfig, balance_loss, router_z_loss
from mtkit.layers.norms.layer_norm import LayerNormConfig
from mtkit.layers.norms.rms_norm import RMSNormConfig

D, F, E, B, T = 8, 12, 4, 3, 7


def relative_error(found, truth):
    return float((found - truth).detach().abs().max() / truth.detach().abs().max())


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_gated_layer_is_llamas(activation):
    ours = GatedConfig(activation=activation).build(D, F, 0.0)
    theirs = LlamaMLP(LlamaConfig(hidden_size=D, num_attention_heads=1, intermediate_size=F, hidden_act=activation))
    gate, value = ours.gate_value.weight.chunk(2)
    theirs.load_state_dict({"gate_proj.weight": gate, "up_proj.weight": value, "down_proj.weight": ours.outer.weight})
    x = torch.randn(B, T, D)
    assert relative_error(ours(x), theirs(x)) < 1e-5


def switch_pair(capacity):
    """A Switch layer of ours and of theirs; theirs counts the capacity of each sequence, so give both one sequence."""
    ours = ExpertsConfig(num_experts=E, every=1).build(D, F, 0.0)
    config = SwitchTransformersConfig(
        d_model=D, d_ff=F, num_experts=E, expert_capacity=capacity, dropout_rate=0.0, router_jitter_noise=0.0
    )
    theirs = hf.SwitchTransformersSparseMLP(config)
    theirs.router.classifier.load_state_dict(ours.router.logits.state_dict())
    for expert, other in zip(ours.experts, theirs.experts.values(), strict=True):
        other.wi.weight.data.copy_(expert.inner.weight)  # our biases are zero to begin with, theirs has none
        other.wo.weight.data.copy_(expert.outer.weight)
    return ours, theirs


def test_switch_layer_is_theirs():
    ours, theirs = switch_pair(capacity=1000)
    x = torch.randn(B, T, D)
    assert relative_error(ours.eval()(x), theirs.eval()(x)) < 1e-5


def test_switch_layer_drops_the_same_tokens():
    ours, theirs = switch_pair(capacity=3)  # ceil(1.25 · 8 / 4)
    x = torch.randn(1, 8, D) + 2 * torch.randn(D)  # nearly all to one expert
    found, truth = ours.train()(x), theirs.train()(x)
    assert (truth == 0).all(-1).any()
    assert relative_error(found, truth) < 1e-5


def test_switch_losses_are_theirs():
    ours, theirs = switch_pair(capacity=1000)
    x = torch.randn(B, T, D)
    _, _, logits = theirs.router(x)
    prob = logits.softmax(-1)
    balance = hf.load_balancing_loss_func(prob, prob.argmax(-1))
    with recording() as tape:
        ours(x)
    (note,) = next(iter(tape.notes.values()))
    # theirs takes the mean over sequences of each one's product of shares; ours has one product for all tokens
    alone = [hf.load_balancing_loss_func(p.unsqueeze(0), p.argmax(-1).unsqueeze(0)) for p in prob]
    assert relative_error(torch.stack([balance_loss(p, p.argmax(-1)) for p in prob]), torch.stack(alone)) < 1e-5
    assert relative_error(torch.stack(alone).mean(), balance) < 1e-5
    assert relative_error(router_z_loss(logits.flatten(0, 1)), hf.router_z_loss_func(logits)) < 1e-5
    flat = prob.flatten(0, 1)
    expected = 0.01 * balance_loss(flat, flat.argmax(-1)) + 0.001 * hf.router_z_loss_func(logits)
    assert relative_error(note.loss, expected) < 1e-5
    assert float(note.figures["expert_utilisation"]) <= 1


def test_rms_norm_is_theirs():
    ours, theirs = RMSNormConfig(epsilon=1e-6).build(D), hf.SwitchTransformersLayerNorm(D)
    torch.nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(B, D)
    assert relative_error(ours(x), theirs(x)) < 1e-5


def test_layer_norm_is_torchs():
    assert LayerNormConfig().build(D).eps == torch.nn.LayerNorm(D).eps
