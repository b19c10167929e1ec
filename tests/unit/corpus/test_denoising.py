"""Text to be restored, on its way through loader and batches."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch

from mtkit.corpus.binarise import binarise
from mtkit.corpus.noise.mlm import MaskNoiseConfig
from mtkit.corpus.noise.noise import Denoising, NoisePieces
from mtkit.corpus.noise.span_corruption import SpanNoiseConfig
from mtkit.corpus.order.loader import Loader, Mixture, Position, eval_batches
from mtkit.corpus.store import Store

PIECES = NoisePieces(
    mask=900,
    spans=np.arange(901, 933),
    text=np.arange(4, 900),
    ends_sentence=np.zeros(1000, dtype=bool),
    begins_word=np.ones(1000, dtype=bool),
)
SPANS, MASKS = SpanNoiseConfig().build(PIECES), MaskNoiseConfig().build(PIECES)
SETTINGS = {"seed": 5, "batch_tokens": 120, "micro_batches": 3}


@pytest.fixture
def text(tmp_path, tokenizers, write):
    """A store of which both sides are one text."""
    path = write(tmp_path / "mono", [" ".join(f"w{n}-{k}" for k in range(1 + n % 25)) for n in range(100)])
    binarise(path, path, tmp_path / "mono-store", tokenizers, None)
    return Store(tmp_path / "mono-store")


def take(loader, count, start=Position()):  # noqa: B008
    stream = loader.updates(start)
    updates = list(islice(stream, count))
    stream.close()
    return updates


def tensors(update):
    return [t for b in update.batches for t in (b.source.ids, b.target.ids, b.labels, b.scored, b.samples)]


@pytest.mark.parametrize("noise", [SPANS, MASKS])
@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_resuming_anywhere_gives_the_same_noise(text, tokenizers, noise, sampling):
    def loader():
        return Loader([Denoising(text, noise)], tokenizers, sampling=sampling, **SETTINGS)

    whole = take(loader(), 12)
    for place in range(0, 11, 4):
        (found,) = take(loader(), 1, whole[place].position)
        assert all(torch.equal(a, b) for a, b in zip(tensors(whole[place + 1]), tensors(found), strict=True))


def test_noise_differs_from_epoch_to_epoch(text, tokenizers):
    seen = [{}, {}]
    for update in Loader([Denoising(text, MASKS)], tokenizers, **SETTINGS).updates():
        epoch = update.position.window - (update.position.update == 0)
        for batch in update.batches:
            rows = zip(batch.samples.tolist(), batch.source.ids, batch.source.real, strict=True)
            seen[epoch] |= {sample: ids[real].tolist() for sample, ids, real in rows}
        if update.position == Position(2, 0):
            break
    assert seen[0].keys() == seen[1].keys() == set(range(100))
    assert sum(seen[0][sample] != seen[1][sample] for sample in seen[0]) > 70


def test_masked_text_scores_the_chosen_places_and_stands_beside_its_labels(text, tokenizers):
    for update in take(Loader([Denoising(text, MASKS)], tokenizers, **SETTINGS), 6):
        for batch in update.batches:
            assert batch.source.ids.shape == batch.labels.shape
            lengths = batch.source.real.sum(1) - 1  # without eos
            wanted = [max(1, round(0.15 * int(length))) for length in lengths]
            assert batch.scored.sum(1).tolist() == wanted
            assert not (batch.scored & ((batch.labels == 3) | ~batch.source.real)).any()
            assert torch.equal(batch.source.ids[~batch.scored], batch.labels[~batch.scored])


def test_pairs_and_text_can_be_mixed(text, make_store, tokenizers):
    mixture = Mixture((make_store(60), Denoising(text, SPANS)), (1.0, 1.0))
    kinds = Counter()
    for update in take(Loader(mixture, tokenizers, **SETTINGS), 20):
        for batch in update.batches:
            is_text = batch.samples >= 60
            assert torch.equal(batch.labels[:, 0] == 901, is_text)  # its target begins with the first sentinel
            kinds.update(is_text.tolist())
    assert min(kinds.values()) > 0.4 * kinds.total()
    both = Loader([make_store(60, seed=1), Denoising(text, MASKS)], tokenizers, **SETTINGS)
    with pytest.raises(ValueError, match="masked text and other text cannot be mixed"):
        take(both, 1)


@pytest.mark.parametrize("noise", [SPANS, MASKS])
def test_validation_is_the_same_every_time(text, noise):
    first, second = (list(eval_batches(Denoising(text, noise), batch_tokens=200)) for _ in range(2))
    assert sorted(s for batch in first for s in batch.samples.tolist()) == list(range(100))
    assert all(torch.equal(a.source.ids, b.source.ids) for a, b in zip(first, second, strict=True))
    assert all((batch.source.ids >= 900).any() for batch in first)
    assert all(batch.labels.shape[0] * max(batch.labels.shape[1], batch.source.ids.shape[1]) <= 200 for batch in first)
