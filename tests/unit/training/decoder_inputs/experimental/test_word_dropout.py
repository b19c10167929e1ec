import torch

from mtkit.config import construct
from mtkit.training.decoder_inputs.config import WordDropoutConfig
from mtkit.training.decoder_inputs.interface import TargetTokens
from tests.toy.decoders import VOCAB_IDS, ReadRecorder, make_batch


def test_dropped_tokens_are_unk():
    model, batch = ReadRecorder(), make_batch()
    construct(WordDropoutConfig(rate=1.0), VOCAB_IDS)(model, batch)
    tokens = TargetTokens.of(batch.target)
    assert (tokens.gather(model.read) == VOCAB_IDS.unk).all()
    assert (model.read[:, 0] == batch.target.ids[:, 0]).all()
    construct(WordDropoutConfig(rate=1.0), VOCAB_IDS)(model.eval(), batch)
    assert torch.equal(model.read, batch.target.ids)
