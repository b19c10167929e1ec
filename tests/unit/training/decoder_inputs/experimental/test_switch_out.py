import math

import torch
from torch.testing import assert_close

from mtkit.config import construct
from mtkit.corpus.order.batch import Target
from mtkit.training.decoder_inputs.config import SwitchOutConfig
from mtkit.training.decoder_inputs.noise import SwitchOut
from tests.toy.decoders import VOCAB, VOCAB_IDS, ReadRecorder, make_batch


def test_number_of_replaced_tokens_has_the_distribution_of_the_paper():
    torch.manual_seed(0)
    ids = torch.zeros(4000, 4, dtype=torch.int64)
    target = Target(ids, torch.ones_like(ids, dtype=torch.bool), torch.arange(4).expand(4000, 4))
    read = SwitchOut(SwitchOutConfig(temperature=2.0), VOCAB_IDS).target(target).ids
    assert (read[:, 0] == 0).all()
    assert set(read[read > 0].tolist()) == set(range(VOCAB_IDS.first_text_id, VOCAB))
    counts = (read > 0).sum(1).bincount(minlength=4) / 4000
    expected = torch.tensor([math.exp(-n / 2.0) for n in range(4)])
    assert_close(counts, expected / expected.sum(), atol=0.03, rtol=0)
    by_position = (read > 0).double().mean(0)[1:]
    assert_close(by_position, by_position.mean().expand(3), atol=0.03, rtol=0)
    model = ReadRecorder()
    construct(SwitchOutConfig(), VOCAB_IDS)(model.eval(), make_batch())
    assert torch.equal(model.read, make_batch().target.ids)
