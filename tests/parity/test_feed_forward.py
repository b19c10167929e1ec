"""Gated feed-forward, mixture of experts and RMS norm against the package transformers with the same weights."""

import pytest
import torch
from transformers import LlamaConfig, SwitchTransformersConfig
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.switch_transformers import modeling_switch_transformers as hf

from mtkit.layers.config import GatedConfig, LayerNormConfig, RMSNormConfig
from mtkit.layers.layer_call import collect_aux_losses
from mtkit.layers.variants.config import MixtureOfExpertsConfig
from mtkit.layers.variants.mixture_of_experts import balance_loss, router_z_loss

D, F, E, B, T = 8, 12, 4, 3, 7


def relative_error(output, expected):
    return float((output - expected).detach().abs().max() / expected.detach().abs().max())


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_gated_feed_forward_equals_llama(activation):
    ours = GatedConfig(activation=activation).build(D, F, 0.0)
    theirs = LlamaMLP(LlamaConfig(hidden_size=D, num_attention_heads=1, intermediate_size=F, hidden_act=activation))
    gate, value = ours.gate_value.weight.chunk(2)
    theirs.load_state_dict({"gate_proj.weight": gate, "up_proj.weight": value, "down_proj.weight": ours.outer.weight})
    x = torch.randn(B, T, D)
    assert relative_error(ours(x), theirs(x)) < 1e-5


def switch_pair(capacity):
    """A Switch layer of ours and of theirs. Their capacity is per sequence: compare dropping on a single sequence."""
    ours = MixtureOfExpertsConfig(num_experts=E, moe_every=1).build(D, F, 0.0)
    config = SwitchTransformersConfig(
        d_model=D, d_ff=F, num_experts=E, expert_capacity=capacity, dropout_rate=0.0, router_jitter_noise=0.0
    )
    theirs = hf.SwitchTransformersSparseMLP(config)
    theirs.router.classifier.load_state_dict(ours.router.logits.state_dict())
    for expert, other in zip(ours.experts, theirs.experts.values(), strict=True):
        other.wi.weight.data.copy_(expert.inner.weight)  # our biases are zero initially, theirs has none
        other.wo.weight.data.copy_(expert.outer.weight)
    return ours, theirs


def test_switch_layer_equals_theirs():
    ours, theirs = switch_pair(capacity=1000)
    x = torch.randn(B, T, D)
    assert relative_error(ours.eval()(x), theirs.eval()(x)) < 1e-5


def test_switch_layer_drops_the_same_tokens():
    ours, theirs = switch_pair(capacity=3)  # ceil(1.25 · 8 / 4)
    x = torch.randn(1, 8, D) + 2 * torch.randn(D)  # nearly all to one expert
    output, expected = ours.train()(x), theirs.train()(x)
    assert (expected == 0).all(-1).any()
    assert relative_error(output, expected) < 1e-5


def test_switch_losses_equal_theirs():
    ours, theirs = switch_pair(capacity=1000)
    x = torch.randn(B, T, D)
    _, _, logits = theirs.router(x)
    prob = logits.softmax(-1)
    balance = hf.load_balancing_loss_func(prob, prob.argmax(-1))
    with collect_aux_losses() as aux_losses:
        ours(x)
    (aux_loss,) = next(iter(aux_losses.by_layer.values()))
    # theirs averages the loss over sequences; ours is one product of shares over all tokens
    alone = [hf.load_balancing_loss_func(p.unsqueeze(0), p.argmax(-1).unsqueeze(0)) for p in prob]
    assert relative_error(torch.stack([balance_loss(p, p.argmax(-1)) for p in prob]), torch.stack(alone)) < 1e-5
    assert relative_error(torch.stack(alone).mean(), balance) < 1e-5
    assert relative_error(router_z_loss(logits.flatten(0, 1)), hf.router_z_loss_func(logits)) < 1e-5
    flat = prob.flatten(0, 1)
    expected = 0.01 * balance_loss(flat, flat.argmax(-1)) + 0.001 * hf.router_z_loss_func(logits)
    assert relative_error(aux_loss.loss, expected) < 1e-5
    assert float(aux_loss.metrics["expert_utilisation"]) <= 1


def test_rms_norm_equals_theirs():
    ours, theirs = RMSNormConfig(epsilon=1e-6).build(D), hf.SwitchTransformersLayerNorm(D)
    torch.nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(B, D)
    assert relative_error(ours(x), theirs(x)) < 1e-5


def test_layer_norm_has_torchs_epsilon():
    assert LayerNormConfig().build(D).eps == torch.nn.LayerNorm(D).eps
