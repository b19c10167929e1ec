"""Denoising corpora in the loader and in validation batches."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch

from mtkit.config import construct
from mtkit.corpus.binarise import binarise
from mtkit.corpus.config import MLMMaskingConfig, SpanCorruptionConfig
from mtkit.corpus.noise import DenoisingCorpus, NoiseVocab
from mtkit.corpus.order.loader import DataPosition, Loader, eval_batches
from mtkit.corpus.store import Store

NOISE_VOCAB = NoiseVocab(
    mask=900,
    sentinels=np.arange(901, 933),
    text_ids=np.arange(4, 900),
    ends_sentence=np.zeros(1000, dtype=bool),
    starts_word=np.ones(1000, dtype=bool),
)
SPANS, MASKS = construct(SpanCorruptionConfig(), NOISE_VOCAB), construct(MLMMaskingConfig(), NOISE_VOCAB)
SETTINGS = {"seed": 5, "batch_tokens": 120, "micro_batches": 3}


@pytest.fixture
def text(tmp_path, tokenizers, write):
    """A store whose two sides are the same text."""
    path = write(tmp_path / "mono", [" ".join(f"w{n}-{k}" for k in range(1 + n % 25)) for n in range(100)])
    binarise(path, path, tmp_path / "mono-store", tokenizers, None)
    return Store(tmp_path / "mono-store")


def take(loader, count, start=DataPosition()):  # noqa: B008
    stream = loader.updates(start)
    updates = list(islice(stream, count))
    stream.close()
    return updates


def tensors(update):
    return [t for b in update.batches for t in (b.source.ids, b.target.ids, b.labels, b.loss_mask, b.sample_ids)]


@pytest.mark.parametrize("noise", [SPANS, MASKS])
@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_resuming_anywhere_gives_the_same_noise(text, tokenizers, noise, sampling):
    def loader():
        return Loader([DenoisingCorpus(text, noise)], tokenizers, subword_regularization=sampling, **SETTINGS)

    whole = take(loader(), 12)
    for start in range(0, 11, 4):
        (resumed,) = take(loader(), 1, whole[start].next_position)
        assert all(torch.equal(a, b) for a, b in zip(tensors(whole[start + 1]), tensors(resumed), strict=True))


def test_noise_differs_from_epoch_to_epoch(text, tokenizers):
    seen = [{}, {}]
    for update in Loader([DenoisingCorpus(text, MASKS)], tokenizers, **SETTINGS).updates():
        epoch = update.next_position.window - (update.next_position.update == 0)
        for batch in update.batches:
            rows = zip(batch.sample_ids.tolist(), batch.source.ids, batch.source.real, strict=True)
            seen[epoch] |= {sample: ids[real].tolist() for sample, ids, real in rows}
        if update.next_position == DataPosition(2, 0):
            break
    assert seen[0].keys() == seen[1].keys() == set(range(100))
    assert sum(seen[0][sample] != seen[1][sample] for sample in seen[0]) > 70


def test_mlm_loss_mask_selects_the_masked_tokens_and_source_aligns_with_labels(text, tokenizers):
    for update in take(Loader([DenoisingCorpus(text, MASKS)], tokenizers, **SETTINGS), 6):
        for batch in update.batches:
            assert batch.source.ids.shape == batch.labels.shape
            lengths = batch.source.real.sum(1) - 1  # without eos
            expected = [max(1, round(0.15 * int(length))) for length in lengths]
            assert batch.loss_mask.sum(1).tolist() == expected
            assert not (batch.loss_mask & ((batch.labels == 3) | ~batch.source.real)).any()
            assert torch.equal(batch.source.ids[~batch.loss_mask], batch.labels[~batch.loss_mask])


def test_pairs_and_denoising_can_be_mixed(text, make_store, tokenizers):
    corpora = make_store(60), DenoisingCorpus(text, SPANS)
    kinds = Counter()
    for update in take(Loader(corpora, tokenizers, weights=(1.0, 1.0), **SETTINGS), 20):
        for batch in update.batches:
            is_text = batch.sample_ids >= 60
            assert torch.equal(batch.labels[:, 0] == 901, is_text)  # its target begins with the first sentinel
            kinds.update(is_text.tolist())
    assert min(kinds.values()) > 0.4 * kinds.total()
    both = Loader([make_store(60, seed=1), DenoisingCorpus(text, MASKS)], tokenizers, **SETTINGS)
    with pytest.raises(ValueError, match="cannot be mixed with other training data"):
        take(both, 1)


@pytest.mark.parametrize("noise", [SPANS, MASKS])
def test_validation_is_the_same_every_time(text, noise):
    first, second = (list(eval_batches(DenoisingCorpus(text, noise), batch_tokens=200)) for _ in range(2))
    assert sorted(s for batch in first for s in batch.sample_ids.tolist()) == list(range(100))
    assert all(torch.equal(a.source.ids, b.source.ids) for a, b in zip(first, second, strict=True))
    assert all((batch.source.ids >= 900).any() for batch in first)
    assert all(batch.labels.shape[0] * max(batch.labels.shape[1], batch.source.ids.shape[1]) <= 200 for batch in first)
