"""R-Drop, unlikelihood and minimum risk against plain forms."""

import math
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives import chunked as chunks
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.objectives.interface import Parts
from mtkit.training.objectives.minimum_risk import Candidates, MinimumRiskConfig, expected_risk
from mtkit.training.objectives.r_drop import RDropConfig
from mtkit.training.objectives.unlikelihood import UnlikelihoodConfig
from tests.unit.training.test_decoder_input import MODELS, PIECES, make, make_batch
from tests.unit.training.toy_training import ToyGeneration


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """So that these few positions are several chunks, the last one not full."""
    monkeypatch.setattr(chunks, "CHUNK", 3)


class Twice:
    """Two passes that differ as those with dropout do, but repeatably."""

    def __init__(self):
        self.calls = 0

    def __call__(self, model, batch):
        self.calls += 1
        return TeacherForcing()(model, batch) * (1 + 0.2 * (self.calls % 2))

    def set_update(self, update):
        pass


def parts(decoder_input, smoothing=0.1):
    return Parts(decoder_input, smoothing, PIECES, ToyGeneration())


def assert_same_gradients(model, found, expected):
    leaves = list(model.parameters())
    assert_close(found, expected)
    found, expected = (torch.autograd.grad(loss, leaves, allow_unused=True) for loss in (found, expected))
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other)


def test_r_drop_is_the_paper_in_torchs_functions():
    model, batch = make(MODELS["transformer"]), make_batch()
    losses = RDropConfig(weight=3.0).build(parts(Twice()))(model, batch)
    twice, target = Twice(), batch.labels[batch.scored]
    p, q = (model.output(twice(model, batch)).log_softmax(-1) for _ in range(2))
    ce = sum(F.cross_entropy(x, target, label_smoothing=0.1, reduction="sum") for x in (p, q))
    divergence = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    assert_same_gradients(model, losses.sum, ce / 2 + 3.0 / 4 * divergence)
    assert_close(losses.extra["kl"], (3.0 / 4 * divergence).detach())
    assert losses.tokens == target.numel()


def test_r_drop_without_dropout_is_cross_entropy():
    model, batch = make(MODELS["lstm"]), make_batch()
    found = RDropConfig().build(parts(TeacherForcing()))(model, batch)
    assert_same_gradients(model, found.sum, CrossEntropy(TeacherForcing(), 0.1)(model, batch).sum)


@pytest.mark.parametrize("left", [0, 2])
def test_unlikelihood_is_the_paper_in_loops(left):
    model, batch = make(MODELS["transformer"]), make_batch(left=left)
    batch.labels[1, left + 3] = batch.labels[1, left]  # a piece comes again, which is no fault where it is true
    losses = UnlikelihoodConfig(weight=2.0).build(parts(TeacherForcing(), 0.0))(model, batch)
    log_prob = model.output(model.hidden(batch.source, batch.target)).log_softmax(-1)
    total = 0.0
    for b, row in enumerate(batch.scored.tolist()):
        earlier = set()
        for t, is_scored in enumerate(row):
            if not is_scored:
                continue
            true = int(batch.labels[b, t])
            total = total - log_prob[b, t, true]
            for piece in earlier - {true}:
                total = total - 2.0 * torch.log(1 - log_prob[b, t, piece].exp())
            earlier.add(true)
    assert_same_gradients(model, losses.sum, total)


def test_risk_is_the_expectation_over_all_candidates():
    """Against a loop, and its gradient against differences."""
    torch.manual_seed(0)
    sentence, reward = torch.tensor([0, 0, 1, 1, 1]), torch.rand(5).double()
    log_prob = (torch.randn(5).double() - 40).requires_grad_()
    candidates = Candidates([], sentence, reward)

    def risk(log_prob):
        return expected_risk(log_prob, candidates, 2, sharpness=0.7)

    expected = 0.0
    for number in range(2):
        own = [i for i in range(5) if int(sentence[i]) == number]
        weights = [math.exp(0.7 * log_prob[i].item()) for i in own]
        expected += sum(w / sum(weights) * (1 - float(reward[i])) for w, i in zip(weights, own, strict=True))
    assert risk(log_prob).item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(risk, (log_prob,))


class Listed(ToyGeneration):
    """Every translation of up to two of two pieces: then the candidates are all there are."""

    hyps: ClassVar = [[], [5], [6], [5, 5], [5, 6], [6, 5], [6, 6]]

    def sample(self, model, source, *, count, temperature):
        assert not model.training
        return [self.hyps for _ in range(source.ids.size(0))]


def test_minimum_risk_is_enumeration():
    model, batch = make(MODELS["transformer"]), make_batch()
    config = MinimumRiskConfig(sharpness=1.0, cross_entropy=0.0, with_reference=False)
    objective = config.build(Parts(TeacherForcing(), 0.0, PIECES, Listed()))
    losses = objective(model, batch)
    total = 0.0
    for b in range(3):
        ref, own = batch.labels[b][batch.scored[b]].tolist()[:-1], torch.tensor([b])
        log_probs, rewards = [], Listed().reward("bleu", Listed.hyps, ref)
        for hyp in Listed.hyps:
            state, log_prob = model.start(batch.source.select(own)), 0.0
            for token, following in zip([PIECES.bos, *hyp], [*hyp, PIECES.eos], strict=True):
                step = model.step(torch.tensor([token]), state)
                logits, state = step.logits(), step.state
                log_prob = log_prob + logits.log_softmax(-1)[0, following]
            log_probs.append(log_prob)
        share = torch.stack(log_probs).softmax(0)
        total = total + (share * (1 - torch.tensor(rewards))).sum()
    assert model.training
    assert_same_gradients(model, losses.sum, total)


def test_minimum_risk_keeps_the_reference_and_adds_cross_entropy():
    model, batch = make(MODELS["lstm"]), make_batch()
    plain = MinimumRiskConfig(cross_entropy=0.0).build(Parts(TeacherForcing(), 0.1, PIECES, Listed()))
    both = MinimumRiskConfig(cross_entropy=0.5).build(Parts(TeacherForcing(), 0.1, PIECES, Listed()))
    candidates = plain.candidates(model, batch)
    refs = [row[scored].tolist()[:-1] for row, scored in zip(batch.labels, batch.scored, strict=True)]
    assert all(ref in candidates.pieces for ref in refs)
    cross_entropy = CrossEntropy(TeacherForcing(), 0.1)(model, batch).sum
    assert_same_gradients(model, both(model, batch).sum, plain(model, batch).sum + 0.5 * cross_entropy)


def test_minimum_risk_leaves_a_model_in_training_also_when_memory_runs_out():
    class Large(ToyGeneration):
        def sample(self, model, source, *, count, temperature):
            raise torch.OutOfMemoryError("no memory")

    model, objective = make(MODELS["lstm"]), MinimumRiskConfig().build(Parts(TeacherForcing(), 0.1, PIECES, Large()))
    with pytest.raises(torch.OutOfMemoryError):
        objective(model, make_batch())
    assert model.training


def test_objectives_tell_their_decoder_input_the_update():
    heard = []

    class Listening(Twice):
        def set_update(self, update):
            heard.append(update)

    for config in (RDropConfig(), UnlikelihoodConfig(), MinimumRiskConfig()):
        config.build(parts(Listening())).set_update(7)
    assert heard == [7, 7, 7]
