"""Every weight of every option acts on every path of a model: a whole target side, and steps from a fixed source.

A layer computes the same in several places (training, single steps, a prefix). An option that one of them leaves out
changes nothing there, and all other tests may stay green.
"""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from mtkit.layers.config import LearnedConfig, NoResidualConfig, ResidualConfig
from mtkit.layers.kinds import AttentionConfig, FeedForwardConfig, PositionConfig
from mtkit.layers.recurrent.config import CellConfig, ReadoutConfig, RecurrentAttentionConfig
from mtkit.layers.variants.config import MixtureOfExpertsConfig, ShawConfig, TUPEConfig
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from tests.toy.decoders import VOCAB, make_batch

SIZES = {"d_model": 16, "d_ff": 32, "num_heads": 2, "decoder_layers": 2, "dropout": 0.0}
# one key and value for several queries, so that its rotated pairs are not the same for all
OPTIONS = [{"qk_norm": "layer"}, {"num_kv_heads": 1}, {"value_head_dim": 3}, {"parallel_sublayers": True}]
# tables of which a short batch reads a part only are short too
SHORT = {LearnedConfig: LearnedConfig(max_length=12), TUPEConfig: TUPEConfig(max_length=12)}


def positions() -> list[PositionConfig]:
    kinds = (kind for kind in get_args(PositionConfig) if not kind.needs_whole_sentence)
    return [SHORT.get(kind) or (ShawConfig(max_distance=2) if kind is ShawConfig else kind()) for kind in kinds]


def configs() -> list[ModelConfigBase]:
    """Each kind of each part of each family, one at a time."""
    found: list[ModelConfigBase] = []
    for family in (TransformerConfig, DecoderOnlyConfig):
        found += [family(**SIZES, **keys) for keys in OPTIONS]
        residuals = (kind for kind in get_args(ResidualConfig) if kind is not NoResidualConfig)  # its gradients vanish
        found += [family(**SIZES, residual=kind()) for kind in residuals]
        moe = MixtureOfExpertsConfig(num_experts=2, routing="top2", moe_every=1)
        kinds = [moe if kind is MixtureOfExpertsConfig else kind() for kind in get_args(FeedForwardConfig)]
        found += [family(**SIZES, feed_forward=kind) for kind in kinds]
        found += [family(**SIZES, decoder_positions=kind) for kind in positions()]
    for kind in get_args(AttentionConfig):
        if kind.is_encoder_capable:
            found.append(TransformerConfig(**SIZES, encoder_attention=kind()))
        if kind.is_causal_capable:
            found.append(TransformerConfig(**SIZES, decoder_attention=kind()))
    rnn = {"d_model": 8, "d_embed": 8, "dropout": 0.0}
    found += [Seq2SeqRNNConfig(**rnn, cell=kind()) for kind in get_args(CellConfig)]
    for decoder in ("bahdanau", "luong", "input_feeding"):
        one_way = {"bidirectional_layers": 0}  # annotations as wide as the states, which a dot product needs
        for kind in get_args(RecurrentAttentionConfig):
            found.append(AttentionRNNConfig(**rnn, **one_way, d_attention=8, decoder=decoder, attention=kind()))
        found += [AttentionRNNConfig(**rnn, decoder=decoder, readout=kind()) for kind in get_args(ReadoutConfig)]
    return found


def without_influence(model: torch.nn.Module, outputs: torch.Tensor) -> set[str]:
    """Names of the parameters that the outputs do not depend on."""
    named = dict(model.named_parameters())
    loss = (outputs * torch.randn(outputs.shape, dtype=outputs.dtype)).sum()
    grads = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name for name, grad in zip(named, grads, strict=True) if grad is None or float(grad.abs().max()) < 1e-12}


def describe(config: ModelConfigBase) -> str:
    default = type(config)(**SIZES) if hasattr(config, "d_ff") else type(config)()
    changed = [key for key in vars(config) if getattr(config, key) != getattr(default, key)]
    return f"{config.kind}-" + "-".join(f"{key}={getattr(getattr(config, key), 'kind', '')}" for key in changed)


@pytest.mark.parametrize("config", configs(), ids=describe)
def test_every_weight_acts_in_training_and_in_every_step(config: ModelConfigBase) -> None:
    torch.manual_seed(3)
    model, batch = config.build(VOCAB, VOCAB).double().eval(), make_batch()
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    hidden = model.decode_states(batch.source, batch.target)[batch.target.real]
    unused = {name for name in without_influence(model, model.output(hidden)) if not shifts_all_scores(name)}
    assert unused == set()

    with torch.no_grad():
        state = model.start(batch.source)
    states = []
    for token in batch.target.ids.T[:4]:
        step = model.step(token, state)
        states.append(step.hidden)
        state = step.state
    unused = without_influence(model, model.output(torch.cat(states)))
    assert {name for name in unused if not is_of_source(name) and not shifts_all_scores(name)} == set()


def is_of_source(name: str) -> bool:
    """Whether a parameter acts before the first step: it reads the source, or projects it to keys and values."""
    parts = name.split(".")
    if parts[0].startswith(("encoder", "src_", "bridge")):
        return True
    if "cross_attention" in parts:
        return {"key_value", "key_norm"} & set(parts) != set()
    return parts[0] in ("attention", "attention_layer", "decoder") and "key" in parts  # of annotations


def shifts_all_scores(name: str) -> bool:
    """Whether a parameter adds the same to all scores of a query, which a softmax ignores: the bias of keys."""
    return name.endswith(("key.bias", "key_norm.bias"))
