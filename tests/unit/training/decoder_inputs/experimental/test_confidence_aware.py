import pytest
import torch

from mtkit.training.decoder_inputs.config import ConfidenceAwareConfig
from mtkit.training.decoder_inputs.interface import TargetTokens
from mtkit.training.decoder_inputs.noise import ConfidenceAware
from tests.toy.decoders import MODELS, VOCAB, VOCAB_IDS, make_batch, make_model


def confidence_aware(golden, random):
    return ConfidenceAware(ConfidenceAwareConfig(golden=golden, random=random), VOCAB_IDS)


def test_confidence_determines_the_input_tokens():
    model, batch = make_model(MODELS["transformer"]), make_batch()
    tokens = TargetTokens.of(batch.target)
    probability = model.output(model.decode_states(batch.source, batch.target)).softmax(-1).detach()  # [B, T, V]
    before = probability[tokens.sentence, tokens.previous_column]  # [M, V]
    truth = tokens.gather(batch.target.ids)
    confidence = before.gather(1, truth.unsqueeze(1)).squeeze(1)
    golden = float(confidence.sort().values[2])
    read = tokens.gather(confidence_aware(golden, 1.0).target(model, batch).ids)
    assert torch.equal(read, torch.where(confidence.float() > golden, before.argmax(1), truth))
    assert torch.equal(confidence_aware(1.0, 1.0).target(model, batch).ids, batch.target.ids)
    random = tokens.gather(confidence_aware(0.0, 0.0).target(model, batch).ids)
    assert ((random >= VOCAB_IDS.first_text_id) & (random < VOCAB)).all()
    with pytest.raises(ValueError, match=r"random: 0\.8 is below golden, 0\.9"):
        ConfidenceAwareConfig(golden=0.9, random=0.8)
