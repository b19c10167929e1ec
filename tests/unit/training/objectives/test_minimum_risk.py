"""Minimum risk against a loop over all translations."""

import math
from typing import ClassVar

import pytest
import torch

from mtkit.config import construct
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.config import MinimumRiskConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.interface import ObjectiveInputs
from mtkit.training.objectives.minimum_risk import SampledCandidates, expected_risk
from tests.toy.decoders import MODELS, VOCAB_IDS, assert_same_gradients, make_batch, make_model
from tests.toy.training import ToyTranslationSampler


class AllTranslations(ToyTranslationSampler):
    """Every translation with up to two of two tokens, so that the candidates are complete."""

    hyps: ClassVar = [[], [5], [6], [5, 5], [5, 6], [6, 5], [6, 6]]

    def sample(self, model, source, *, count, temperature):
        assert not model.training
        return [self.hyps for _ in range(source.ids.size(0))]


def build(config, *, smoothing=0.1, sampler=None):
    return construct(config, ObjectiveInputs(TeacherForcing(), smoothing, VOCAB_IDS, sampler or AllTranslations()))


def test_expected_risk_is_the_expectation_over_all_candidates():
    """Against a loop, and its gradient against finite differences."""
    torch.manual_seed(0)
    sentence, reward = torch.tensor([0, 0, 1, 1, 1]), torch.rand(5).double()
    log_prob = (torch.randn(5).double() - 40).requires_grad_()
    candidates = SampledCandidates([], sentence, reward)

    def risk(log_prob):
        return expected_risk(log_prob, candidates, 2, sharpness=0.7)

    expected = 0.0
    for number in range(2):
        own = [i for i in range(5) if int(sentence[i]) == number]
        weights = [math.exp(0.7 * log_prob[i].item()) for i in own]
        expected += sum(w / sum(weights) * (1 - float(reward[i])) for w, i in zip(weights, own, strict=True))
    assert risk(log_prob).item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(risk, (log_prob,))


def test_minimum_risk_equals_enumeration():
    model, batch = make_model(MODELS["transformer"]), make_batch()
    config = MinimumRiskConfig(sharpness=1.0, cross_entropy=0.0, include_reference=False)
    losses = build(config, smoothing=0.0)(model, batch)
    total = 0.0
    for b in range(3):
        ref, own = batch.labels[b][batch.loss_mask[b]].tolist()[:-1], torch.tensor([b])
        log_probs, rewards = [], AllTranslations().reward("bleu", AllTranslations.hyps, ref)
        for hyp in AllTranslations.hyps:
            state, log_prob = model.start(batch.source.select(own)), 0.0
            for token, following in zip([VOCAB_IDS.bos, *hyp], [*hyp, VOCAB_IDS.eos], strict=True):
                step = model.step(torch.tensor([token]), state)
                logits, state = step.logits(), step.state
                log_prob = log_prob + logits.log_softmax(-1)[0, following]
            log_probs.append(log_prob)
        share = torch.stack(log_probs).softmax(0)
        total = total + (share * (1 - torch.tensor(rewards))).sum()
    assert model.training
    assert_same_gradients(model, losses.sum, total)


def test_the_reference_is_a_candidate_and_cross_entropy_is_added():
    model, batch = make_model(MODELS["rnn"]), make_batch()
    risk_only, both = (build(MinimumRiskConfig(cross_entropy=weight)) for weight in (0.0, 0.5))
    candidates = risk_only.candidates(model, batch)
    refs = [row[mask].tolist()[:-1] for row, mask in zip(batch.labels, batch.loss_mask, strict=True)]
    assert all(ref in candidates.tokens for ref in refs)
    cross_entropy = CrossEntropy(TeacherForcing(), 0.1)(model, batch).sum
    assert_same_gradients(model, both(model, batch).sum, risk_only(model, batch).sum + 0.5 * cross_entropy)


def test_the_model_returns_to_training_mode_after_an_out_of_memory_error():
    class TooLarge(ToyTranslationSampler):
        def sample(self, model, source, *, count, temperature):
            raise torch.OutOfMemoryError("no memory")

    model, objective = make_model(MODELS["rnn"]), build(MinimumRiskConfig(), sampler=TooLarge())
    with pytest.raises(torch.OutOfMemoryError):
        objective(model, make_batch())
    assert model.training
