import threading
from collections import Counter
from itertools import islice

import pytest
import torch

from mtkit.corpus.binarise import binarise
from mtkit.corpus.cleaning import CleaningConfig
from mtkit.corpus.order.loader import Loader, Mixture, Position, eval_batches
from mtkit.corpus.store import Store
from mtkit.errors import DataError, RecipeError
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair


def tensors(batch):
    return [batch.source.ids, batch.target.ids, batch.labels, batch.scored, batch.samples]


def same(one, other):
    assert (one.position, one.tokens, one.padded_tokens) == (other.position, other.tokens, other.padded_tokens)
    for a, b in zip(one.batches, other.batches, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


def take(loader, count, start=Position()):  # noqa: B008
    stream = loader.updates(start)
    updates = list(islice(stream, count))
    stream.close()
    return updates


def windows(loader, count):
    """All updates of the first windows."""
    found = []
    for update in loader.updates():
        found.append(update)
        if update.position == Position(count, 0):
            return found
    raise AssertionError


@pytest.fixture
def load(make_store, tokenizers):
    store = make_store(150)
    settings = {"seed": 5, "batch_tokens": 120, "micro_batches": 3}
    return lambda **changes: Loader([store], tokenizers, **(settings | changes))


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_every_sample_once_an_epoch_with_its_text(load, tokenizers, sampling):
    loader = load(sampling=sampling)
    updates = windows(loader, 2)
    seen = Counter(sample for update in updates for batch in update.batches for sample in batch.samples.tolist())
    assert seen == dict.fromkeys(range(150), 2)
    store = loader.stores[0]
    batch = updates[0].batches[0]
    if not sampling:
        for row, sample in enumerate(batch.samples.tolist()):
            assert batch.source.ids[row][batch.source.real[row]].tolist() == [*store.ids("src", sample), 3]
            assert batch.labels[row][batch.scored[row]].tolist() == [*store.ids("tgt", sample), 3]


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_counts_are_those_of_the_batches_and_the_budget_holds(load, sampling):
    for update in windows(load(sampling=sampling), 1):
        sides = [(batch.source.real, batch.target.real) for batch in update.batches]
        assert update.src_tokens == sum(int(src.sum()) for src, _ in sides)
        assert update.tgt_tokens == sum(int(batch.scored.sum()) for batch in update.batches)
        assert update.padded_tokens == sum(src.numel() + tgt.numel() for src, tgt in sides)
        assert update.sentences == sum(batch.num_sentences for batch in update.batches)
        assert 0 < update.fill <= 1
        assert all(src.size(0) * max(src.size(1), tgt.size(1)) <= 120 for src, tgt in sides)


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_resuming_anywhere_gives_the_tail(load, sampling):
    whole = windows(load(sampling=sampling), 3)
    for place in range(0, len(whole) - 2, 3):
        tail = take(load(sampling=sampling), 2, whole[place].position)
        assert len(tail) == 2
        for expected, found in zip(whole[place + 1 : place + 3], tail, strict=True):
            same(expected, found)


def test_the_end_of_a_window_is_the_beginning_of_the_next(load):
    count = len(windows(load(), 1))
    same(take(load(), 1, Position(0, count))[0], take(load(), 1, Position(1, 0))[0])
    with pytest.raises(ValueError, match=f"window 0 has {count} updates, there is no update {count + 1}"):
        take(load(), 1, Position(0, count + 1))


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks_share_the_micro_batches_of_the_same_updates(load, world_size):
    alone = windows(load(), 2)
    ranks = [windows(load(rank=rank, world_size=world_size), 2) for rank in range(world_size)]
    for expected, parts in zip(alone, zip(*ranks, strict=True), strict=True):
        assert len({(part.position, part.tokens, part.padded_tokens) for part in parts}) == 1
        assert len({len(part.batches) for part in parts}) == 1
        turns = [part.batches[turn] for turn in range(len(parts[0].batches)) for part in parts]
        busy = [batch for batch in turns if batch.num_sentences]
        assert all(batch.labels.shape == (0, 1) for batch in turns[len(busy) :])
        for a, b in zip(expected.batches, busy, strict=True):
            assert torch.equal(a.labels, b.labels)
            assert torch.equal(a.samples, b.samples)


def test_sampling_differs_between_epochs_and_samples_but_not_between_runs(load):
    def segmentations(loader):
        epochs = [{}, {}]
        for update in windows(loader, 2):
            epoch = update.position.window - (update.position.update == 0)
            for batch in update.batches:
                epochs[epoch] |= dict(zip(batch.samples.tolist(), batch.source.real.sum(1).tolist(), strict=True))
        return epochs

    first, second = segmentations(load(sampling=0.5))
    assert [first, second] == segmentations(load(sampling=0.5))
    assert sum(first[sample] != second[sample] for sample in first) > 75


def test_sampling_never_outgrows_the_longest_sentence(load):
    loader = load(sampling=0.999)
    longest = loader.stores[0].summary("tgt").longest
    assert max(batch.labels.size(1) for update in windows(loader, 1) for batch in update.batches) <= longest + 1


def test_several_corpora_are_numbered_through(make_store, tokenizers):
    stores = [make_store(30, seed=1), make_store(50, seed=2)]
    updates = windows(Loader(stores, tokenizers, seed=1, batch_tokens=100), 1)
    texts = {}
    for batch in (batch for update in updates for batch in update.batches):
        for row, sample in enumerate(batch.samples.tolist()):
            texts[sample] = batch.source.ids[row][batch.source.real[row]].tolist()
    assert sorted(texts) == list(range(80))
    assert texts[29] == [*stores[0].ids("src", 29), 3]
    assert texts[30] == [*stores[1].ids("src", 0), 3]


def test_a_mixture_draws_by_weight(make_store, tokenizers):
    mixture = Mixture((make_store(30, seed=1), make_store(50, seed=2)), (3.0, 1.0))
    updates = windows(Loader(mixture, tokenizers, seed=1, batch_tokens=100), 1)
    samples = [sample for update in updates for batch in update.batches for sample in batch.samples.tolist()]
    assert sum(sample < 30 for sample in samples) == 60
    assert len(samples) == 80


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_closing_ends_the_threads(load, sampling):
    stream = load(sampling=sampling).updates()
    next(stream)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_an_error_in_the_background_reaches_the_consumer(load, tokenizers, monkeypatch):
    def fail(*_, **__):
        raise DataError("broken")

    monkeypatch.setattr(tokenizers.tgt, "sample", fail)
    with pytest.raises(DataError, match="broken"):
        take(load(sampling=0.1), 1)


def test_a_sentence_beyond_the_budget_is_named_at_once(load, tmp_path):
    with pytest.raises(RecipeError, match=r"batch_tokens: 20 is less than the 22 tokens of .*0\.(src|tgt):\d+; raise"):
        load(batch_tokens=20)


def test_another_tokenizer_is_refused(make_store, tokenizers):
    store = make_store(3)
    tokenizers.name = "other"
    with pytest.raises(DataError, match="was made with another tokenizer"):
        Loader([store], tokenizers, seed=1, batch_tokens=100)


def test_evaluation_sees_every_sample_once_longest_first(make_store):
    store = make_store(60)
    batches = list(eval_batches(store, batch_tokens=20))
    assert sorted(sample for batch in batches for sample in batch.samples.tolist()) == list(range(60))
    again = eval_batches(store, batch_tokens=20)
    widths = [max(batch.source.ids.size(1), batch.labels.size(1)) for batch in batches]
    assert widths == sorted(widths, reverse=True)
    assert all(
        batch.num_sentences == 1 or batch.num_sentences * width <= 20
        for batch, width in zip(batches, widths, strict=True)
    )
    assert all(torch.equal(a.samples, b.samples) for a, b in zip(batches, again, strict=True))


def test_fill_on_real_text(corpora, tmp_path):
    files = {side: corpora / f"multi30k/train.{side}.gz" for side in ("en", "de")}
    train_pair([files["en"]], [files["de"]], tmp_path, TokenizerConfig())
    tokenizers = TokenizerPair.load(tmp_path)
    report = binarise(files["en"], files["de"], tmp_path / "store", tokenizers, CleaningConfig())
    assert (report.lines, report.kept) == (29_000, 29_000)
    loader = Loader([Store(tmp_path / "store")], tokenizers, seed=1, batch_tokens=4096)
    updates = windows(loader, 1)
    assert sum(update.tokens for update in updates) / sum(update.padded_tokens for update in updates) >= 0.95
