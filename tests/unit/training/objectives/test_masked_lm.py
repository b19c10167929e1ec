"""Masked language modelling: its value, its gradients, and exact resumption of a training."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.config import construct
from mtkit.corpus.order.batch import Batch
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.learner import build_learner
from mtkit.training.objectives.config import MaskedLMConfig
from mtkit.training.objectives.cross_entropy import MaskedLM
from tests.toy.training import VOCAB, objective_inputs_of, toy_batch, toy_config, toy_train

SHAPE = {"d_model": 8, "d_ff": 8, "num_heads": 2, "dropout": 0.2, "encoder_layers": 1, "decoder_layers": 1}


def masked(batch: Batch) -> Batch:
    """Put about half of the source tokens into the loss."""
    chosen = batch.source.real & (torch.arange(batch.labels.size(1)) % 2 == 0)
    return Batch(batch.source, batch.target, batch.labels, chosen, batch.sample_ids)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_masked_lm_is_the_cross_entropy_of_the_chosen_tokens(smoothing):
    model = TransformerConfig(**SHAPE).build(VOCAB, VOCAB).double().eval()
    batch = masked(toy_batch(1, 3))
    losses = MaskedLM(smoothing)(model, batch)
    states, total, count = model.encode(batch.source), 0.0, 0
    for b in range(batch.labels.size(0)):
        for s in range(batch.labels.size(1)):
            if batch.loss_mask[b, s]:
                total += F.cross_entropy(model.output(states[b, s]), batch.labels[b, s], label_smoothing=smoothing)
                count += 1
    assert torch.allclose(losses.sum, total)
    assert losses.tokens == count


def test_the_decoder_gets_no_gradient():
    model = TransformerConfig(**SHAPE, tied_embeddings="all").build(VOCAB, VOCAB)
    MaskedLM(0.0)(model, masked(toy_batch(1, 3))).sum.backward()
    assert all(p.grad is None for p in model.decoder.parameters())
    assert all(p.grad is not None for p in [*model.encoder.parameters(), model.src_embedding.table.weight])


def test_other_models_and_unaligned_batches_are_rejected():
    with pytest.raises(ValueError, match="needs a Transformer with an encoder, this is a Seq2SeqRNN"):
        MaskedLM(0.0)(Seq2SeqRNNConfig(d_model=8).build(VOCAB, VOCAB), toy_batch(1, 3))
    batch = toy_batch(1, 3)
    longer = Batch(toy_batch(1, 3, length=7).source, batch.target, batch.labels, batch.loss_mask, batch.sample_ids)
    with pytest.raises(ValueError, match=r"source \[3, 7\] and labels \[3, 5\] differ"):
        MaskedLM(0.0)(TransformerConfig(**SHAPE).build(VOCAB, VOCAB), longer)


def test_resuming_is_exact(tmp_path):
    def learner(config):
        torch.manual_seed(config.seed)
        model = TransformerConfig(**SHAPE).build(VOCAB, VOCAB)
        return build_learner(model, construct(config.objective, objective_inputs_of(config)), config=config)

    config = toy_config(objective=MaskedLMConfig(), max_updates=12)
    short = toy_config(objective=MaskedLMConfig(), max_updates=12, max_hours=1e-9)
    whole = toy_train(tmp_path / "whole", config, learner=learner(config))
    for _ in range(3):
        toy_train(tmp_path / "parts", short, learner=learner(short))
    parts = toy_train(tmp_path / "parts", config, learner=learner(config))
    assert [name for name in whole.weights if not torch.equal(whole.weights[name], parts.weights[name])] == []
