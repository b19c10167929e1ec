"""Distillation against the formulas in torch's functions, and its limits."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mtkit.config import construct
from mtkit.training import chunked_loss
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives import distillation as distillation_module
from mtkit.training.objectives.config import DistillationConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.distillation import Distillation, chunked_divergence
from mtkit.training.objectives.interface import ObjectiveInputs
from tests.toy.decoders import MODELS, assert_same_gradients, make_batch, make_model


def perturbed(model):
    """A teacher unlike the student."""
    teacher = copy.deepcopy(model)
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return teacher


def distillation(teacher, **weights) -> Distillation:
    """The objective as the configuration builds it, with teacher forcing."""
    inputs = ObjectiveInputs(TeacherForcing(), 0.1, vocab_ids=None, translation_sampler=None, teacher=teacher)
    return construct(DistillationConfig(teacher=Path("unused"), **weights), inputs)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_three_terms_in_torchs_functions(temperature):
    model, batch = make_model(MODELS["transformer"]).eval(), make_batch()
    teacher = perturbed(model)
    losses = distillation(teacher, temperature=temperature, soft=0.5, hard=0.3, cosine=0.2)(model, batch)
    states, taught = (each.decode_states(batch.source, batch.target)[batch.loss_mask] for each in (model, teacher))
    target, taught = batch.labels[batch.loss_mask], taught.detach()
    hard = F.cross_entropy(model.output(states), target, label_smoothing=0.1, reduction="sum")
    p, q = (m.output(h).div(temperature).softmax(-1) for m, h in ((teacher, taught), (model, states)))
    soft = temperature**2 * (p.detach() * (p.detach().log() - q.log())).sum()
    cosine = F.cosine_embedding_loss(states, taught, torch.ones(len(states)).to(states), reduction="sum")
    assert_close(losses.extra["soft"], (0.5 * soft).detach())
    assert_close(losses.extra["cosine"], (0.2 * cosine).detach())
    assert_same_gradients(model, losses.sum, 0.3 * hard + 0.5 * soft + 0.2 * cosine)
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_hard_alone_is_cross_entropy():
    model, batch = make_model(MODELS["rnn"]).eval(), make_batch()
    losses = distillation(perturbed(model), soft=0, hard=1, cosine=0)(model, batch)
    assert_same_gradients(model, losses.sum, CrossEntropy(TeacherForcing(), 0.1)(model, batch).sum)


def test_a_student_that_is_its_teacher_has_nothing_to_learn_from_it():
    model, batch = make_model(MODELS["transformer"]).eval(), make_batch()
    losses = distillation(copy.deepcopy(model))(model, batch)
    assert_close(losses.extra["soft"], torch.tensor(0.0), atol=1e-5, rtol=0, check_dtype=False)
    assert_close(losses.extra["cosine"], torch.tensor(0.0), atol=1e-5, rtol=0, check_dtype=False)


def test_weights_of_0_are_refused(tmp_path):
    with pytest.raises(ValueError, match="soft, hard and cosine are 0"):
        DistillationConfig(teacher=tmp_path, soft=0, hard=0, cosine=0)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("chunk", "block"), [(512, 1 << 17), (5, 1), (4, 40)])
def test_divergence_in_chunks_equals_torch(monkeypatch, chunk, block, with_bias):
    monkeypatch.setattr(distillation_module, "CHUNK_SIZE", chunk)
    monkeypatch.setattr(chunked_loss, "BLOCK_SIZE", block)
    generator = torch.Generator().manual_seed(1)
    hidden, weight, bias, taught, taught_weight, taught_bias = (
        torch.randn(size, generator=generator, dtype=torch.float64)
        for size in ((13, 6), (19, 6), (19,), (13, 4), (19, 4), (19,))
    )
    if not with_bias:
        bias, taught_bias = None, None
    wanted = [each.requires_grad_() for each in (hidden, weight, bias) if each is not None]
    ours = chunked_divergence(hidden, weight, bias, taught, taught_weight, taught_bias, temperature=2.5)
    q, p = (
        F.linear(*each).div(2.5).log_softmax(-1)
        for each in ((hidden, weight, bias), (taught, taught_weight, taught_bias))
    )
    theirs = 2.5**2 * F.kl_div(q, p, log_target=True, reduction="sum")
    assert_close(ours, theirs, rtol=1e-12, atol=0)
    for a, b in zip(*(torch.autograd.grad(3 * loss, wanted) for loss in (ours, theirs)), strict=True):
        assert_close(a, b, rtol=1e-9, atol=1e-12)
    with torch.no_grad():
        assert_close(
            chunked_divergence(hidden, weight, bias, taught, taught_weight, taught_bias, temperature=2.5), ours.detach()
        )


def test_divergence_in_bf16_is_near_float64():
    generator = torch.Generator().manual_seed(1)
    hidden, taught = (torch.randn(600, 32, generator=generator).bfloat16().float() for _ in range(2))
    weight, taught_weight = (0.2 * torch.randn(300, 32, generator=generator).bfloat16().float() for _ in range(2))
    gradients = []
    for dtype, autocast in ((torch.float64, False), (torch.float32, True)):
        leaf = hidden.to(dtype).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = chunked_divergence(
                leaf, weight.to(dtype), None, taught.to(dtype), taught_weight.to(dtype), None, temperature=2.0
            )
        (gradient,) = torch.autograd.grad(loss, leaf)
        assert gradient.dtype == dtype
        gradients.append((loss.detach().double(), gradient.double()))
    (exact, wanted), (rough, found) = gradients
    assert abs(rough - exact) < 1e-2 * exact
    assert (found - wanted).norm() < 1e-2 * wanted.norm()
