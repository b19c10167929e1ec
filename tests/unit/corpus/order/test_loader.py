import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest
import torch

from mtkit.corpus.binarise import binarise
from mtkit.corpus.config import CleaningConfig
from mtkit.corpus.order import loader as loader_module
from mtkit.corpus.order.loader import DataPosition, Loader, eval_batches
from mtkit.corpus.order.order import DataOrder
from mtkit.corpus.store import Store
from mtkit.errors import DataError, RecipeError
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair


def tensors(batch):
    return [batch.source.ids, batch.target.ids, batch.labels, batch.loss_mask, batch.sample_ids]


def counts(update):
    return update.next_position, update.src_tokens, update.tgt_tokens, update.padded_tokens


def assert_same(one, other):
    assert counts(one) == counts(other)
    for a, b in zip(one.batches, other.batches, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


def take(loader, count, start=DataPosition()):  # noqa: B008
    stream = loader.updates(start)
    updates = list(islice(stream, count))
    stream.close()
    return updates


def windows(loader, count):
    """All updates of the first windows."""
    updates = []
    for update in loader.updates():
        updates.append(update)
        if update.next_position == DataPosition(count, 0):
            return updates
    raise AssertionError


@pytest.fixture
def load(make_store, tokenizers):
    store = make_store(150)
    settings = {"seed": 5, "batch_tokens": 120, "micro_batches": 3}
    return lambda **changes: Loader([store], tokenizers, **(settings | changes))


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_every_sample_occurs_once_an_epoch_with_its_text(load, tokenizers, sampling):
    loader = load(subword_regularization=sampling)
    updates = windows(loader, 2)
    seen = Counter(sample for update in updates for batch in update.batches for sample in batch.sample_ids.tolist())
    assert seen == dict.fromkeys(range(150), 2)
    store = loader.stores[0]
    batch = updates[0].batches[0]
    if not sampling:
        for row, sample in enumerate(batch.sample_ids.tolist()):
            assert batch.source.ids[row][batch.source.real[row]].tolist() == [*store.ids("src")[sample], 3]
            assert batch.labels[row][batch.loss_mask[row]].tolist() == [*store.ids("tgt")[sample], 3]


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_counts_match_the_batches_and_the_budget_holds(load, sampling):
    for update in windows(load(subword_regularization=sampling), 1):
        sides = [(batch.source.real, batch.target.real) for batch in update.batches]
        assert update.src_tokens == sum(int(src.sum()) for src, _ in sides)
        assert update.tgt_tokens == sum(int(batch.loss_mask.sum()) for batch in update.batches)
        assert update.padded_tokens == sum(src.numel() + tgt.numel() for src, tgt in sides)
        assert update.sentences == sum(batch.num_sentences for batch in update.batches)
        assert 0 < update.src_tokens + update.tgt_tokens <= update.padded_tokens
        assert all(src.size(0) * max(src.size(1), tgt.size(1)) <= 120 for src, tgt in sides)


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_resuming_anywhere_gives_the_same_updates(load, sampling):
    whole = windows(load(subword_regularization=sampling), 3)
    for start in range(0, len(whole) - 2, 3):
        tail = take(load(subword_regularization=sampling), 2, whole[start].next_position)
        assert len(tail) == 2
        for expected, resumed in zip(whole[start + 1 : start + 3], tail, strict=True):
            assert_same(expected, resumed)


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_variants_are_those_of_a_share_and_the_same_after_resuming(make_store, tokenizers, sampling):
    store = make_store(150)
    tokenizers.config = replace(tokenizers.config, robustness=0.5)
    load = partial(Loader, [store], tokenizers, seed=5, batch_tokens=120, subword_regularization=sampling)
    whole = windows(load(), 2)
    for start in range(0, len(whole) - 2, 7):
        tail = take(load(), 2, whole[start].next_position)
        for expected, resumed in zip(whole[start + 1 : start + 3], tail, strict=True):
            assert_same(expected, resumed)
    if sampling:
        return
    title = [" ".join(word.capitalize() for word in store.text("src", sample).split()) for sample in range(150)]
    variants = [[*ids, 3] for ids in tokenizers.src.encode(title)]  # the only variant that these texts have
    epochs = [Counter(), Counter()]
    for update in whole:
        epoch = update.next_position.window - (update.next_position.update == 0)
        for batch in update.batches:
            for row, sample in enumerate(batch.sample_ids.tolist()):
                ids = batch.source.ids[row][batch.source.real[row]].tolist()
                assert ids in ([*store.ids("src")[sample], 3], variants[sample])
                assert batch.labels[row][batch.loss_mask[row]].tolist() == [*store.ids("tgt")[sample], 3]
                epochs[epoch][sample] += ids == variants[sample]
    assert all(50 < sum(each.values()) < 100 for each in epochs)
    assert epochs[0] != epochs[1]


def test_the_end_of_a_window_is_the_start_of_the_next(load):
    count = len(windows(load(), 1))
    assert_same(take(load(), 1, DataPosition(0, count))[0], take(load(), 1, DataPosition(1, 0))[0])
    with pytest.raises(ValueError, match=f"window 0 has {count} updates, there is no update {count + 1}"):
        take(load(), 1, DataPosition(0, count + 1))


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks_split_the_micro_batches_of_the_same_updates(load, world_size):
    alone = windows(load(), 2)
    ranks = [windows(load(rank=rank, world_size=world_size), 2) for rank in range(world_size)]
    for expected, parts in zip(alone, zip(*ranks, strict=True), strict=True):
        assert len({counts(part) for part in parts}) == 1
        assert len({len(part.batches) for part in parts}) == 1
        batches = [part.batches[number] for number in range(len(parts[0].batches)) for part in parts]
        busy = [batch for batch in batches if batch.num_sentences]
        assert all(batch.labels.shape == (0, 1) for batch in batches[len(busy) :])
        for a, b in zip(expected.batches, busy, strict=True):
            assert torch.equal(a.labels, b.labels)
            assert torch.equal(a.sample_ids, b.sample_ids)


def test_segmentations_differ_between_epochs_but_not_between_runs(load):
    def segmentations(loader):
        epochs = [{}, {}]
        for update in windows(loader, 2):
            epoch = update.next_position.window - (update.next_position.update == 0)
            for batch in update.batches:
                epochs[epoch] |= dict(zip(batch.sample_ids.tolist(), batch.source.real.sum(1).tolist(), strict=True))
        return epochs

    first, second = segmentations(load(subword_regularization=0.5))
    assert [first, second] == segmentations(load(subword_regularization=0.5))
    assert sum(first[sample] != second[sample] for sample in first) > 75


def test_sampled_segmentations_never_exceed_the_longest_sentence(load):
    loader = load(subword_regularization=0.999)
    max_length = loader.stores[0].stats("tgt").max_length
    assert max(batch.labels.size(1) for update in windows(loader, 1) for batch in update.batches) <= max_length + 1


def test_sample_ids_count_through_all_corpora(make_store, tokenizers):
    stores = [make_store(30, seed=1), make_store(50, seed=2)]
    updates = windows(Loader(stores, tokenizers, seed=1, batch_tokens=100), 1)
    texts = {}
    for batch in (batch for update in updates for batch in update.batches):
        for row, sample in enumerate(batch.sample_ids.tolist()):
            texts[sample] = batch.source.ids[row][batch.source.real[row]].tolist()
    assert sorted(texts) == list(range(80))
    assert texts[29] == [*stores[0].ids("src")[29], 3]
    assert texts[30] == [*stores[1].ids("src")[0], 3]


def test_a_mixture_samples_by_weight(make_store, tokenizers):
    corpora = make_store(30, seed=1), make_store(50, seed=2)
    updates = windows(Loader(corpora, tokenizers, weights=(3.0, 1.0), seed=1, batch_tokens=100), 1)
    samples = [sample for update in updates for batch in update.batches for sample in batch.sample_ids.tolist()]
    assert sum(sample < 30 for sample in samples) == 60
    assert len(samples) == 80


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_closing_ends_the_threads(load, sampling):
    stream = load(subword_regularization=sampling).updates()
    next(stream)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def test_an_error_in_the_background_thread_is_raised(load, tokenizers, monkeypatch):
    def fail(*_, **__):
        raise DataError("broken")

    monkeypatch.setattr(tokenizers.tgt, "sample", fail)
    with pytest.raises(DataError, match="broken"):
        take(load(subword_regularization=0.1), 1)


def test_a_sentence_beyond_the_budget_is_rejected_at_construction(load, tmp_path):
    with pytest.raises(RecipeError, match=r"batch_tokens: 20 is less than the 22 tokens of .*0\.(src|tgt):\d+; raise"):
        load(batch_tokens=20)


def test_another_tokenizer_is_rejected(make_store, tokenizers):
    store = make_store(3)
    tokenizers.name = "other"
    with pytest.raises(DataError, match="was built with another tokenizer"):
        Loader([store], tokenizers, seed=1, batch_tokens=100)


def test_eval_batches_hold_every_sample_once_longest_first(make_store):
    store = make_store(60)
    batches = list(eval_batches(store, batch_tokens=20))
    assert sorted(sample for batch in batches for sample in batch.sample_ids.tolist()) == list(range(60))
    again = eval_batches(store, batch_tokens=20)
    widths = [max(batch.source.ids.size(1), batch.labels.size(1)) for batch in batches]
    assert widths == sorted(widths, reverse=True)
    assert all(
        batch.num_sentences == 1 or batch.num_sentences * width <= 20
        for batch, width in zip(batches, widths, strict=True)
    )
    assert all(torch.equal(a.sample_ids, b.sample_ids) for a, b in zip(batches, again, strict=True))


def test_padding_efficiency_on_real_text(corpora, tmp_path):
    files = {side: corpora / f"multi30k/train.{side}.gz" for side in ("en", "de")}
    train_pair([files["en"]], [files["de"]], tmp_path, TokenizerConfig())
    tokenizers = TokenizerPair.load(tmp_path)
    report = binarise(files["en"], files["de"], tmp_path / "store", tokenizers, CleaningConfig())
    assert (report.lines, report.kept) == (29_000, 29_000)
    loader = Loader([Store(tmp_path / "store")], tokenizers, seed=1, batch_tokens=4096)
    updates = windows(loader, 1)
    tokens = sum(update.src_tokens + update.tgt_tokens for update in updates)
    assert tokens / sum(update.padded_tokens for update in updates) >= 0.95


@pytest.mark.whole
@pytest.mark.parametrize("sampling", [0.0, 0.3])
@pytest.mark.parametrize("world_size", [1, 2])
def test_updates_of_epochs_are_counted_before_training(load, sampling, world_size):
    loader = load(subword_regularization=sampling, world_size=world_size)
    for epochs in (1, 2, 3):
        assert loader.count_updates(epochs) == len(windows(loader, epochs))
    assert loader.count_updates(0.5) == round(loader.count_updates(1) / 2)
    assert loader.count_updates(1e-6) == 1


def test_an_epoch_of_corpora_with_weights_has_as_many_samples_as_all():
    order = DataOrder((35_000, 35_001), seed=1, weights=(1.0, 1.0))
    assert order.windows_per_epoch * len(order.window(0)) == 70_001
    assert DataOrder((35_000, 35_001), seed=1).windows_per_epoch == 2
    assert DataOrder((30, 40), seed=1, weights=(1.0, 2.0)).windows_per_epoch == 1


def test_updates_of_many_windows_are_extrapolated(load, monkeypatch):
    loader = load()
    exact = loader.count_updates(30)
    monkeypatch.setattr(loader_module, "_MAX_COUNTED", 4)
    assert loader.count_updates(30) == pytest.approx(exact, rel=0.05)
