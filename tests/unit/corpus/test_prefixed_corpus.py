"""Corpora with a source prefix: stored ids, cleaning, sampled segmentations, and noise."""

from __future__ import annotations

from threading import Event

import pytest

from mtkit.corpus.binarise import binarise
from mtkit.corpus.config import CleaningConfig
from mtkit.corpus.noise import DenoisingCorpus, NoisedBatch
from mtkit.corpus.order.loader import SubwordSegmenter, eval_batches
from mtkit.corpus.order.order import DataOrder
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import Store
from mtkit.errors import DataError

PREFIX, TGT_PREFIX = (7, 8), (9,)


@pytest.fixture
def store(tmp_path, tokenizers, write) -> Store:
    lines = [f"one two {'three ' * (n % 4)}four" for n in range(9)]
    src, tgt = write(tmp_path / "src", lines), write(tmp_path / "tgt", [line.upper() for line in lines])
    binarise(src, tgt, tmp_path / "store", tokenizers, None, prefixes=(PREFIX, TGT_PREFIX))
    return Store(tmp_path / "store")


def test_each_side_begins_with_its_prefix(store, tokenizers):
    for n in range(len(store)):
        assert store.ids("src")[n].tolist() == [*PREFIX, *tokenizers.src.encode([store.text("src", n)])[0]]
        assert store.ids("tgt")[n].tolist() == [*TGT_PREFIX, *tokenizers.tgt.encode([store.text("tgt", n)])[0]]
    assert [store.manifest.prefix_of(side) for side in ("src", "tgt")] == [PREFIX, TGT_PREFIX]
    assert store.stats("src").max_length == store.stats("tgt").max_length + len(PREFIX) - len(TGT_PREFIX)
    for batch in eval_batches(store, batch_tokens=99):
        assert batch.labels[:, : len(TGT_PREFIX)].tolist() == [list(TGT_PREFIX)] * len(batch.labels)
        assert batch.source.ids[:, : len(PREFIX)].tolist() == [list(PREFIX)] * len(batch.source.ids)


def test_sampled_segmentations_have_them_too(store, tokenizers):
    segmented = SubwordSegmenter([store], tokenizers, 0.5, 1)(DataOrder((len(store),), 1, None).window(0), Event())
    assert all(tuple(row[: len(PREFIX)]) == PREFIX for row in segmented.src)
    assert all(tuple(row[: len(TGT_PREFIX)]) == TGT_PREFIX for row in segmented.tgt)


def test_noise_leaves_the_prefixes_alone(store, tokenizers):
    def reverse(rows: Ragged, rng) -> NoisedBatch:
        return NoisedBatch(Ragged.of([row[::-1].tolist() for row in rows]), rows)

    for batch in eval_batches(DenoisingCorpus(store, reverse), batch_tokens=1):
        sample = int(batch.sample_ids[0])
        text = store.ids("src")[sample][len(PREFIX) :].tolist()
        eos = tokenizers.src.vocab.eos
        assert batch.source.ids[0].tolist() == [*PREFIX, *text[::-1], eos]
        assert batch.labels[0].tolist() == [*TGT_PREFIX, *text, eos]


def test_the_prefix_counts_for_the_maximum_length_alone(tmp_path, tokenizers, write):
    path = write(tmp_path / "text", ["one", "one two", ""])
    report = binarise(
        path, path, tmp_path / "store", tokenizers, CleaningConfig(max_length=3, max_ratio=1), prefixes=(PREFIX, ())
    )
    assert report.dropped == {"empty": 1, "too_long": 1, "ratio": 0, "filters": 0}


def test_a_prefix_longer_than_sentences_may_be_is_refused(tmp_path, tokenizers, write):
    path = write(tmp_path / "text", ["one"])
    with pytest.raises(DataError, match="the prefix of this corpus has 2 tokens, which leaves no room"):
        binarise(path, path, tmp_path / "store", tokenizers, CleaningConfig(max_length=2), prefixes=(PREFIX, ()))
    assert not (tmp_path / "store").exists()
