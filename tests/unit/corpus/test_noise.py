"""Noise on monolingual text (all kinds, row_rng): rates, and reproducibility for each sentence."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config import construct
from mtkit.corpus.config import BartNoiseConfig, LanguageModelConfig, MLMMaskingConfig, SpanCorruptionConfig
from mtkit.corpus.noise import NoiseVocab
from mtkit.corpus.order.hash_rng import RowRandom
from mtkit.corpus.order.ragged import Ragged
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.train_tokenizer import train_tokenizer

MASK, FIRST_SPAN, FIRST_TEXT, STOP, SIZE = 4, 5, 37, 38, 200
NOISE_VOCAB = NoiseVocab(
    mask=MASK,
    sentinels=np.arange(FIRST_SPAN, FIRST_TEXT),
    text_ids=np.arange(FIRST_TEXT, SIZE),
    ends_sentence=np.arange(SIZE) == STOP,
    starts_word=np.arange(SIZE) > STOP,
)
KINDS = {
    "mlm": MLMMaskingConfig(),
    "span_corruption": SpanCorruptionConfig(),
    "many spans": SpanCorruptionConfig(noise_density=0.6, mean_span_length=1.0),
    "bart": BartNoiseConfig(),
    "language_model": LanguageModelConfig(),
    "bart, all kinds": BartNoiseConfig(infilling_rate=0.5, mean_span_length=0.5, masking_rate=0.2, deletion_rate=0.2),
}
LENGTHS = st.lists(st.integers(0, 90), min_size=1, max_size=12)


def rows_of(lengths, seed=0):
    """Sentences of these lengths from text tokens."""
    rng = np.random.default_rng(seed)
    return Ragged.of([rng.integers(STOP + 1, SIZE, length).tolist() for length in lengths])


def rng_for(count, seed=3, epoch=0):
    return RowRandom.of(seed, np.arange(count), np.full(count, epoch))


def lists(rows):
    return [rows[number].tolist() for number in range(len(rows))]


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=LENGTHS)
def test_noise_of_a_sentence_is_independent_of_its_batch_and_never_lengthens_it(kind, lengths):
    noise, rows, rng = construct(KINDS[kind], NOISE_VOCAB), rows_of(lengths), rng_for(len(lengths))
    whole = noise(rows, rng)
    assert len(whole.src) == len(whole.tgt) == len(lengths)
    for number, length in enumerate(lengths):
        alone = noise(rows.take(np.array([number])), RowRandom(rng.keys[[number]]))
        assert lists(alone.src) == [lists(whole.src)[number]]
        assert lists(alone.tgt) == [lists(whole.tgt)[number]]
        assert max(len(lists(alone.src)[0]), len(lists(alone.tgt)[0])) <= (max(length, 3) if length else 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "language_model"])
def test_noise_depends_on_seed_and_epoch(kind):
    noise, rows = construct(KINDS[kind], NOISE_VOCAB), rows_of([40] * 8)
    first, same, other, later = (
        lists(noise(rows, rng_for(8, seed, epoch)).src) for seed, epoch in ((3, 0), (3, 0), (4, 0), (3, 1))
    )
    assert first == same
    assert all(a != b for a, b in zip(first, other, strict=True))
    assert all(a != b for a, b in zip(first, later, strict=True))


@given(lengths=LENGTHS)
def test_mlm_loss_mask_covers_exactly_the_changed_tokens(lengths):
    rows = rows_of(lengths)
    noised = construct(MLMMaskingConfig(), NOISE_VOCAB)(rows, rng_for(len(lengths)))
    chosen = lists(noised.loss_mask)
    assert [sum(row) for row in chosen] == [min(length, max(1, round(0.15 * length))) for length in lengths]
    changed = noised.src.flat != rows.flat
    assert not (changed & ~noised.loss_mask.flat).any()
    assert lists(noised.tgt) == lists(rows)


def test_mlm_replacement_probabilities():
    rows = rows_of([40] * 5000)
    noised = construct(MLMMaskingConfig(), NOISE_VOCAB)(rows, rng_for(5000))
    chosen = noised.loss_mask.flat.astype(bool)
    now, was = noised.src.flat[chosen], rows.flat[chosen]
    count = len(now)
    assert count == 5000 * 6
    masked, stays = (now == MASK).mean(), (now == was).mean()
    # 30,000 samples: the standard deviation of 0.8 is 0.0023, of 0.1 it is 0.0017; the tolerance is five of them
    assert masked == pytest.approx(0.8, abs=0.012)
    assert stays == pytest.approx(0.1 + 0.1 / len(NOISE_VOCAB.text_ids), abs=0.009)
    others = now[(now != MASK) & (now != was)]
    assert others.min() >= FIRST_TEXT
    spread = np.bincount(others - FIRST_TEXT, minlength=len(NOISE_VOCAB.text_ids)) / len(others)
    assert spread.max() < 3 / len(NOISE_VOCAB.text_ids)  # 18 samples a token on average
    by_position = chosen.reshape(5000, 40).mean(0)
    assert abs(by_position - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / 5000)


def test_spans_have_the_rate_and_the_mean_length_of_the_paper():
    noised = construct(SpanCorruptionConfig(), NOISE_VOCAB)(rows_of([100] * 400), rng_for(400))
    for src, tgt in zip(lists(noised.src), lists(noised.tgt), strict=True):
        sentinels = [token for token in src if token < FIRST_TEXT]
        assert sentinels == list(range(FIRST_SPAN, FIRST_SPAN + 5))  # 15 of 100 tokens in 15 / 3 spans
        assert len(src) == 100 - 15 + 5
        assert [token for token in tgt if token < FIRST_TEXT] == [*sentinels, FIRST_SPAN + 5]
        assert len(tgt) == 15 + 6


def test_all_random_partitions_are_equally_likely():
    parts = RowRandom.of(1, np.arange(30_000), np.zeros(30_000, dtype=np.int64)).random_partition(
        np.full(30_000, 5), np.full(30_000, 3), 0
    )
    cuts, counts = np.unique(parts.reshape(-1, 3), axis=0, return_counts=True)
    assert sorted(map(tuple, cuts.tolist())) == [(1, 1, 3), (1, 2, 2), (1, 3, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1)]
    assert abs(counts - 5000).max() < 5 * np.sqrt(5000 * 5 / 6)


@given(lengths=LENGTHS)
def test_infilling_keeps_the_order_of_the_remaining_tokens(lengths):
    rows = rows_of(lengths)
    noised = construct(BartNoiseConfig(permute_sentences=False), NOISE_VOCAB)(rows, rng_for(len(lengths)))
    for before, after in zip(lists(rows), lists(noised.src), strict=True):
        remaining = [token for token in after if token != MASK]
        assert len(remaining) == len(before) - round(0.3 * len(before))
        rest = iter(before)
        assert all(token in rest for token in remaining)
    assert lists(noised.tgt) == lists(rows)


def test_infilled_spans_have_poisson_lengths():
    """90 of 300 tokens are removed in about 30 spans; the last one, cut to fit, hardly matters."""
    count = 300
    rows = Ragged.of([list(range(1000, 1300))] * count)
    noised = construct(BartNoiseConfig(permute_sentences=False), NOISE_VOCAB)(rows, rng_for(count))
    spans = np.array([row.count(MASK) for row in lists(noised.src)])
    # renewals of Poisson(3) until 90: 90/3 + (variance/mean² - 1)/2 + 1 = 30 + 0.67 on average, the last cut
    assert spans.mean() == pytest.approx(30.67, abs=5 * np.sqrt(90 * 3 / 27 / count))
    widths = []  # of masks with text on both sides, where the number of removed tokens is visible
    for row in lists(noised.src):
        widths += [
            after - before - 1
            for before, middle, after in zip(row, row[1:], row[2:], strict=False)
            if middle == MASK and MASK not in (before, after)
        ]
    assert np.mean(widths) == pytest.approx(3.0, abs=5 * np.sqrt(3 / len(widths)) + 0.1)
    assert np.mean(np.array(widths) == 0) == pytest.approx(np.exp(-3), abs=0.015)


def test_masking_and_deletion_have_their_rates():
    rows = rows_of([100] * 400)
    config = BartNoiseConfig(infilling_rate=0.0, masking_rate=0.2, deletion_rate=0.3, permute_sentences=False)
    noised = construct(config, NOISE_VOCAB)(rows, rng_for(400))
    assert len(noised.src.flat) == pytest.approx(0.7 * 40_000, abs=5 * np.sqrt(40_000 * 0.21))
    assert (noised.src.flat == MASK).mean() == pytest.approx(0.2, abs=5 * np.sqrt(0.16 / 28_000))


def test_sentences_are_permuted_as_a_whole():
    sentence = {"a": [50, 51, STOP], "b": [60, STOP], "c": [70, 71, 72]}
    line = [token for name in "abc" for token in sentence[name]]
    noised = construct(BartNoiseConfig(infilling_rate=0.0), NOISE_VOCAB)(Ragged.of([line] * 600), rng_for(600))
    orders = {tuple(row) for row in lists(noised.src)}
    expected = {
        tuple(p for name in order for p in sentence[name]) for order in ("abc", "acb", "bac", "bca", "cab", "cba")
    }
    assert orders == expected
    one = Ragged.of([[50, STOP, FIRST_TEXT, 51]] * 20)  # no word starts after the stop: one sentence
    assert lists(construct(BartNoiseConfig(infilling_rate=0.0), NOISE_VOCAB)(one, rng_for(20)).src) == lists(one)


def test_noise_vocab_of_a_tokenizer(tmp_path):
    text = tmp_path / "text"
    text.write_text('He said: "Stop." Then he went. Why? No.\n' * 9)
    train_tokenizer([text], tmp_path / "spm", TokenizerConfig(vocab_size=140))
    tokenizer = Tokenizer.load(tmp_path / "spm.model")
    vocab = NoiseVocab.of(tokenizer)
    special = [vocab.mask, vocab.sentinels[0], vocab.sentinels[31]]
    assert tokenizer.ids_to_tokens(special) == ["<mask>", "<span0>", "<span31>"]
    names = tokenizer.ids_to_tokens(vocab.text_ids.tolist())
    assert not any(name.startswith("<") for name in names)
    ids = tokenizer.encode(["He went. Then he said: No"])[0]
    ends = [
        n
        for n, (token, following) in enumerate(pairwise(ids))
        if vocab.ends_sentence[token] and vocab.starts_word[following]
    ]
    assert len(ends) == 1
    assert tokenizer.decode([ids[: ends[0] + 1]]) == ["He went."]


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        (MLMMaskingConfig, {"mask_replace_prob": 0.8, "random_replace_prob": 0.3}),
        (BartNoiseConfig, {"infilling_rate": 0.0, "permute_sentences": False}),
    ],
)
def test_inconsistent_rates_are_rejected(config, keys):
    with pytest.raises(ValueError, match=r"sum to more than 1|all noise is turned off"):
        config(**keys)


def test_a_language_model_reads_no_source():
    rows = rows_of([3, 0, 5])
    noised = construct(LanguageModelConfig(), NOISE_VOCAB)(rows, rng_for(3))
    assert lists(noised.src) == [[], [], []]
    assert lists(noised.tgt) == lists(rows)
    assert noised.loss_mask is None
