"""Properties that all objectives share."""

from mtkit.config import construct
from mtkit.training.objectives.config import CrossEntropyConfig, MinimumRiskConfig, RDropConfig, UnlikelihoodConfig
from mtkit.training.objectives.interface import ObjectiveInputs
from tests.toy.decoders import VOCAB_IDS, AlternatingInput
from tests.toy.training import ToyTranslationSampler


def test_objectives_pass_the_update_on_to_their_decoder_input():
    updates = []

    class Recorder(AlternatingInput):
        def set_update(self, update):
            updates.append(update)

    inputs = ObjectiveInputs(Recorder(), 0.1, VOCAB_IDS, ToyTranslationSampler())
    for config in (CrossEntropyConfig(), RDropConfig(), UnlikelihoodConfig(), MinimumRiskConfig()):
        construct(config, inputs).set_update(7)
    assert updates == [7, 7, 7, 7]
