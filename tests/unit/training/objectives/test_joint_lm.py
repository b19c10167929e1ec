"""The joint objective of source and target."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.config import JointLMConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy, JointLM
from tests.toy.training import objective_inputs

V, B, S, T = 11, 2, 5, 4
SHAPE = {"d_model": 8, "d_ff": 8, "num_heads": 2, "dropout": 0.0, "decoder_layers": 1}


def joint_lm(smoothing, source_weight):
    return JointLM(JointLMConfig(source_weight=source_weight), objective_inputs(TeacherForcing(), smoothing))


def batch():
    pos, tgt_pos = torch.arange(S).expand(B, -1), torch.arange(T).expand(B, -1)
    source = Source(torch.randint(V, (B, S)), pos < torch.tensor([[5], [3]]), pos)
    target = Target(torch.randint(V, (B, T)), tgt_pos < torch.tensor([[2], [4]]), tgt_pos)
    return Batch(source, target, torch.randint(V, (B, T)), target.real, torch.arange(B))


def test_joint_lm_is_the_cross_entropy_of_both_sides():
    model = DecoderOnlyConfig(**SHAPE, source_visibility="causal").build(V, V).double()
    data = batch()
    losses = joint_lm(0.1, 0.25)(model, data)
    plain = CrossEntropy(TeacherForcing(), 0.1)(model, data)
    states, _ = model.forward_both(data.source, data.target)
    source_loss = 0.0
    for b, length in enumerate((5, 3)):
        for s in range(length - 1):
            logits = model.output(states[b, s])
            source_loss += F.cross_entropy(logits, data.source.ids[b, s + 1], label_smoothing=0.1)
    assert torch.allclose(losses.sum, plain.sum + 0.25 * source_loss)
    assert torch.allclose(losses.extra["source_loss"], source_loss)
    assert losses.tokens == 6


def test_gradients_reach_the_whole_model():
    model = DecoderOnlyConfig(**SHAPE, source_visibility="causal").build(V, V)
    joint_lm(0.0, 1.0)(model, batch()).sum.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_other_models_are_rejected():
    with pytest.raises(ValueError, match="needs a decoder-only model, this is a Transformer"):
        joint_lm(0.0, 1.0)(TransformerConfig(**SHAPE).build(V, V), batch())
