"""Scheduled sampling against the algorithm of Bengio et al. 2015, sec. 2.4, as a loop over tokens of one sentence."""

import pytest
import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.training.decoder_inputs.config import ParallelSamplingConfig, ScheduledSamplingConfig
from mtkit.training.decoder_inputs.interface import SAMPLERS
from mtkit.training.decoder_inputs.scheduled_sampling import TRUTH_MASKS, ParallelSampling, ScheduledSampling
from tests.toy.decoders import MODELS, VOCAB_IDS, gradients, make_batch, make_model


def second_best(logits):
    """A deterministic choice that neither the truth nor the argmax would explain."""
    return logits.topk(2).indices[:, 1]


def by_loop(model, batch, is_true, choose):
    """States of the scored tokens; `is_true[b][i]` for token i of sentence b, `choose` for one row of logits [1, V].

    Each token is decoded from the whole prefix that was read so far, without caches or padding.
    """
    states = []
    for b in range(batch.num_sentences):
        src, tgt = batch.source.real[b], batch.target.real[b]
        source = Source(*(x[b : b + 1, src] for x in (batch.source.ids, batch.source.real, batch.source.pos)))
        truth, read, hidden = batch.target.ids[b, tgt].tolist(), [], torch.empty(0)
        for i, token in enumerate(truth):
            if i and not is_true[b][i]:
                with torch.no_grad():
                    token = int(choose(model.output(hidden[-1:])))
            read.append(token)
            pos = torch.arange(i + 1).unsqueeze(0)
            hidden = model.decode_states(source, Target(torch.tensor([read]), pos >= 0, pos))[0]
        states.append(hidden[batch.loss_mask[b, tgt]])
    return torch.cat(states)


@pytest.mark.whole
@pytest.mark.parametrize("sampler", [SAMPLERS["argmax"], second_best], ids=["argmax", "second"])
@pytest.mark.parametrize("per", TRUTH_MASKS)
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_sampled_masks_equal_the_loop_with_gradients(config, per, sampler):
    model, batch = make_model(config), make_batch(left=1)
    torch.manual_seed(5)
    sampling = ScheduledSampling(ScheduledSamplingConfig(per=per), VOCAB_IDS)
    sampling.ratio, sampling.sampler = 0.5, sampler
    states = sampling(model, batch)
    torch.manual_seed(5)
    mask = TRUTH_MASKS[per](batch.target.ids, 0.5)
    assert 0 < int(mask.sum()) < mask.numel()
    expected = by_loop(model, batch, mask.tolist(), sampler)
    assert_close(states, expected)
    assert_close(gradients(model, states), gradients(model, expected))


def test_sampled_tokens_have_the_models_distribution():
    """Frequencies of the second token that is read, over many draws, against the softmax after the first."""
    model, batch = make_model(MODELS["transformer"]), make_batch()
    source = Source(*(x[1:2] for x in (batch.source.ids, batch.source.real, batch.source.pos)))
    first = Target(torch.tensor([[2]]), torch.tensor([[True]]), torch.tensor([[0]]))
    probability = model.output(model.decode_states(source, first))[0, 0].softmax(-1)
    torch.manual_seed(0)
    draws = SAMPLERS["multinomial"](probability.log().expand(20_000, -1)).bincount(minlength=9) / 20_000
    deviation = (probability * (1 - probability) / 20_000).sqrt()
    assert ((draws - probability).abs() < 4 * deviation + 1e-9).all()


@pytest.mark.parametrize("num_passes", [1, 2, 5])
def test_parallel_sampling_equals_its_papers_loop(num_passes):
    """Duckworth et al. 2019, algorithm 1: pass k predicts every token from what pass k - 1 read, and keeps the first k.

    As many passes as tokens are step-by-step scheduled sampling.
    """
    model, batch = make_model(MODELS["transformer"]), make_batch()
    mask = torch.tensor([[1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 0]]).bool()
    sampling = ParallelSampling(ParallelSamplingConfig(num_passes=num_passes), VOCAB_IDS)
    sampling.ratio, sampling.truth_mask, sampling.sampler = 0.5, lambda ids, p: mask, second_best
    states = sampling(model, batch)
    if num_passes == 5:
        assert_close(states, by_loop(model, batch, mask.tolist(), second_best))
    expected = []
    for b in range(batch.num_sentences):
        src, tgt = batch.source.real[b], batch.target.real[b]
        source = Source(*(x[b : b + 1, src] for x in (batch.source.ids, batch.source.real, batch.source.pos)))
        truth = batch.target.ids[b, tgt].tolist()
        read, pos = list(truth), torch.arange(len(truth)).unsqueeze(0)
        for k in range(1, num_passes + 1):
            hidden = model.decode_states(source, Target(torch.tensor([read]), pos >= 0, pos))[0]
            predicted = second_best(model.output(hidden)).tolist()
            new = [predicted[i - 1] if i >= 1 and not mask[b, i] else truth[i] for i in range(len(truth))]
            read = [*read[:k], *new[k:]]
        hidden = model.decode_states(source, Target(torch.tensor([read]), pos >= 0, pos))[0]
        expected.append(hidden[batch.loss_mask[b, tgt]])
    assert_close(states, torch.cat(expected))
