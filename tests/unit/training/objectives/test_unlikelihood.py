import pytest
import torch

from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.config import UnlikelihoodConfig
from mtkit.training.objectives.cross_entropy import Unlikelihood
from tests.toy.decoders import MODELS, assert_same_gradients, make_batch, make_model
from tests.toy.training import objective_inputs


@pytest.mark.parametrize("left", [0, 2])
def test_unlikelihood_equals_the_paper_in_loops(left):
    model, batch = make_model(MODELS["transformer"]), make_batch(left=left)
    batch.labels[1, left + 3] = batch.labels[1, left]  # a repeated token is not penalised where it is true
    losses = Unlikelihood(UnlikelihoodConfig(weight=2.0), objective_inputs(TeacherForcing(), 0.0))(model, batch)
    log_prob = model.output(model.decode_states(batch.source, batch.target)).log_softmax(-1)
    total = 0.0
    for b, row in enumerate(batch.loss_mask.tolist()):
        earlier = set()
        for t, in_loss in enumerate(row):
            if not in_loss:
                continue
            true = int(batch.labels[b, t])
            total = total - log_prob[b, t, true]
            for token in earlier - {true}:
                total = total - 2.0 * torch.log(1 - log_prob[b, t, token].exp())
            earlier.add(true)
    assert_same_gradients(model, losses.sum, total)
