"""Free-running loss, against a loop over sentences and tokens."""

from __future__ import annotations

import torch

from mtkit.corpus.order.batch import Batch, collate, collate_source
from mtkit.models.transformer.config import TransformerConfig
from mtkit.study.runs import FreeRunning
from mtkit.text.vocab import Vocab
from mtkit.training.objectives.cross_entropy import CrossEntropy

VOCAB = Vocab(size=12, pad=0, unk=1, bos=2, eos=3)
SRC = [[5, 6, 7], [8, 9], [4, 4, 10, 11, 5]]
TGT = [[6, 5], [9, 8, 7, 4], [11]]


def test_the_loss_is_that_of_a_decoder_that_reads_its_own_tokens() -> None:
    torch.manual_seed(3)
    config = TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)
    model = config.build(VOCAB.size, VOCAB.size).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)  # far from uniform
    batch: Batch = collate(SRC, TGT, [0, 1, 2], VOCAB, VOCAB)
    with torch.no_grad():
        losses = model(batch, CrossEntropy(FreeRunning(), 0.0))
        expected = sum(_by_hand(model, src, tgt) for src, tgt in zip(SRC, TGT, strict=True))
        forced = model(batch, CrossEntropy(_Forced(), 0.0))
    assert losses.tokens == sum(len(tgt) + 1 for tgt in TGT)
    torch.testing.assert_close(float(losses.sum), expected)
    assert abs(float(losses.sum) - float(forced.sum)) > 0.01


class _Forced:
    def __call__(self, model, batch):
        return model.decode_states(batch.source, batch.target)[batch.loss_mask]

    def set_update(self, update):
        pass


def _by_hand(model: torch.nn.Module, src: list[int], tgt: list[int]) -> float:
    state = model.start(collate_source([src], VOCAB))
    token, total = torch.tensor([VOCAB.bos]), 0.0
    for piece in [*tgt, VOCAB.eos]:
        step = model.step(token, state)
        logits, state = step.logits(), step.state
        total -= float(logits[0].log_softmax(-1)[piece])
        token = logits.argmax(-1)
    return total
