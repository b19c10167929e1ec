import torch.nn.functional as F
from torch.testing import assert_close

from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.config import RDropConfig
from mtkit.training.objectives.cross_entropy import CrossEntropy, RDrop
from tests.toy.decoders import MODELS, AlternatingInput, assert_same_gradients, make_batch, make_model
from tests.toy.training import objective_inputs


def test_r_drop_equals_the_paper_in_torchs_functions():
    model, batch = make_model(MODELS["transformer"]), make_batch()
    losses = RDrop(RDropConfig(weight=3.0), objective_inputs(AlternatingInput(), 0.1))(model, batch)
    alternating, target = AlternatingInput(), batch.labels[batch.loss_mask]
    p, q = (model.output(alternating(model, batch)).log_softmax(-1) for _ in range(2))
    ce = sum(F.cross_entropy(x, target, label_smoothing=0.1, reduction="sum") for x in (p, q))
    divergence = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    assert_same_gradients(model, losses.sum, ce / 2 + 3.0 / 4 * divergence)
    assert_close(losses.extra["kl"], (3.0 / 4 * divergence).detach())
    assert losses.tokens == target.numel()


def test_r_drop_without_dropout_is_cross_entropy():
    model, batch = make_model(MODELS["rnn"]), make_batch()
    losses = RDrop(RDropConfig(weight=5.0), objective_inputs(TeacherForcing(), 0.1))(model, batch)
    assert_same_gradients(model, losses.sum, CrossEntropy(TeacherForcing(), 0.1)(model, batch).sum)
