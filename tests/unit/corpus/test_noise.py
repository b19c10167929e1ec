"""Noise on monolingual text: its rates, and that it depends on the sentence and its turn alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.noise.bart import BartNoiseConfig
from mtkit.corpus.noise.mlm import MaskNoiseConfig
from mtkit.corpus.noise.noise import NoisePieces
from mtkit.corpus.noise.row_rng import Draws
from mtkit.corpus.noise.span_corruption import SpanNoiseConfig
from mtkit.corpus.order.ragged import Ragged
from mtkit.text.tokenizer import Tokenizer, TokenizerConfig
from mtkit.text.train_tokenizer import train_tokenizer

MASK, FIRST_SPAN, FIRST_TEXT, STOP, SIZE = 4, 5, 37, 38, 200
PIECES = NoisePieces(
    mask=MASK,
    spans=np.arange(FIRST_SPAN, FIRST_TEXT),
    text=np.arange(FIRST_TEXT, SIZE),
    ends_sentence=np.arange(SIZE) == STOP,
    begins_word=np.arange(SIZE) > STOP,
)
KINDS = {
    "masks": MaskNoiseConfig(),
    "spans": SpanNoiseConfig(),
    "many spans": SpanNoiseConfig(density=0.6, mean_span=1.0),
    "bart": BartNoiseConfig(),
    "bart, all at once": BartNoiseConfig(infill=0.5, mean_span=0.5, mask=0.2, delete=0.2),
}
LENGTHS = st.lists(st.integers(0, 90), min_size=1, max_size=12)


def rows_of(lengths, seed=0):
    """Sentences of these lengths from pieces of text."""
    chance = np.random.default_rng(seed)
    return Ragged.of([chance.integers(STOP + 1, SIZE, length).tolist() for length in lengths])


def draws_of(count, seed=3, turn=0):
    return Draws.of(seed, np.arange(count), np.full(count, turn))


def lists(rows):
    return [rows[number].tolist() for number in range(len(rows))]


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=LENGTHS)
def test_a_sentence_is_disturbed_alike_in_any_company_and_grows_no_longer(kind, lengths):
    noise, rows, draws = KINDS[kind].build(PIECES), rows_of(lengths), draws_of(len(lengths))
    whole = noise(rows, draws)
    assert len(whole.src) == len(whole.tgt) == len(lengths)
    for number, length in enumerate(lengths):
        alone = noise(rows.take(np.array([number])), Draws(draws.keys[[number]]))
        assert lists(alone.src) == [lists(whole.src)[number]]
        assert lists(alone.tgt) == [lists(whole.tgt)[number]]
        assert max(len(lists(alone.src)[0]), len(lists(alone.tgt)[0])) <= (max(length, 3) if length else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_turn_decide(kind):
    noise, rows = KINDS[kind].build(PIECES), rows_of([40] * 8)
    first, same, other, later = (
        lists(noise(rows, draws_of(8, seed, turn)).src) for seed, turn in ((3, 0), (3, 0), (4, 0), (3, 1))
    )
    assert first == same
    assert all(a != b for a, b in zip(first, other, strict=True))
    assert all(a != b for a, b in zip(first, later, strict=True))


@given(lengths=LENGTHS)
def test_masks_are_asked_for_and_nothing_else_has_changed(lengths):
    rows = rows_of(lengths)
    found = MaskNoiseConfig().build(PIECES)(rows, draws_of(len(lengths)))
    chosen = lists(found.scored)
    assert [sum(row) for row in chosen] == [min(length, max(1, round(0.15 * length))) for length in lengths]
    changed = found.src.flat != rows.flat
    assert not (changed & ~found.scored.flat).any()
    assert lists(found.tgt) == lists(rows)


def test_eight_of_ten_are_masked_one_is_another_and_one_stays():
    rows = rows_of([40] * 5000)
    found = MaskNoiseConfig().build(PIECES)(rows, draws_of(5000))
    chosen = found.scored.flat.astype(bool)
    now, was = found.src.flat[chosen], rows.flat[chosen]
    count = len(now)
    assert count == 5000 * 6
    masked, stays = (now == MASK).mean(), (now == was).mean()
    # 30,000 throws: the standard deviation of 0.8 is 0.0023, of 0.1 it is 0.0017; five of them
    assert masked == pytest.approx(0.8, abs=0.012)
    assert stays == pytest.approx(0.1 + 0.1 / len(PIECES.text), abs=0.009)
    others = now[(now != MASK) & (now != was)]
    assert others.min() >= FIRST_TEXT
    spread = np.bincount(others - FIRST_TEXT, minlength=len(PIECES.text)) / len(others)
    assert spread.max() < 3 / len(PIECES.text)  # 18 throws a piece on average
    places = chosen.reshape(5000, 40).mean(0)
    assert abs(places - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / 5000)


def test_spans_have_the_rate_and_the_mean_length_of_the_paper():
    found = SpanNoiseConfig().build(PIECES)(rows_of([100] * 400), draws_of(400))
    for src, tgt in zip(lists(found.src), lists(found.tgt), strict=True):
        sentinels = [piece for piece in src if piece < FIRST_TEXT]
        assert sentinels == list(range(FIRST_SPAN, FIRST_SPAN + 5))  # 15 of 100 pieces in 15 / 3 spans
        assert len(src) == 100 - 15 + 5
        assert [piece for piece in tgt if piece < FIRST_TEXT] == [*sentinels, FIRST_SPAN + 5]
        assert len(tgt) == 15 + 6


def test_every_cut_into_spans_is_equally_likely():
    parts = Draws.of(1, np.arange(30_000), np.zeros(30_000, dtype=np.int64)).parts(
        np.full(30_000, 5), np.full(30_000, 3), 0
    )
    cuts, counts = np.unique(parts.reshape(-1, 3), axis=0, return_counts=True)
    assert sorted(map(tuple, cuts.tolist())) == [(1, 1, 3), (1, 2, 2), (1, 3, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1)]
    assert abs(counts - 5000).max() < 5 * np.sqrt(5000 * 5 / 6)


@given(lengths=LENGTHS)
def test_infilling_leaves_the_rest_in_its_order(lengths):
    rows = rows_of(lengths)
    found = BartNoiseConfig(permute_sentences=False).build(PIECES)(rows, draws_of(len(lengths)))
    for before, after in zip(lists(rows), lists(found.src), strict=True):
        stay = [piece for piece in after if piece != MASK]
        assert len(stay) == len(before) - round(0.3 * len(before))
        rest = iter(before)
        assert all(piece in rest for piece in stay)
    assert lists(found.tgt) == lists(rows)


def test_gaps_have_poisson_lengths():
    """Of 300 pieces 90 vanish in some 30 gaps: the last one, cut to fit, hardly counts."""
    count = 300
    rows = Ragged.of([list(range(1000, 1300))] * count)
    found = BartNoiseConfig(permute_sentences=False).build(PIECES)(rows, draws_of(count))
    gaps = np.array([row.count(MASK) for row in lists(found.src)])
    # renewals of Poisson(3) until 90: 90/3 + (variance/mean² - 1)/2 + 1 = 30 + 0.67 on average, the last cut
    assert gaps.mean() == pytest.approx(30.67, abs=5 * np.sqrt(90 * 3 / 27 / count))
    alone = []  # gaps with text on both sides, whose width can be seen
    for row in lists(found.src):
        alone += [
            after - before - 1
            for before, gap, after in zip(row, row[1:], row[2:], strict=False)
            if gap == MASK and MASK not in (before, after)
        ]
    assert np.mean(alone) == pytest.approx(3.0, abs=5 * np.sqrt(3 / len(alone)) + 0.1)
    assert np.mean(np.array(alone) == 0) == pytest.approx(np.exp(-3), abs=0.015)


def test_masking_and_deletion_have_their_rates():
    rows = rows_of([100] * 400)
    found = BartNoiseConfig(infill=0.0, mask=0.2, delete=0.3, permute_sentences=False).build(PIECES)(
        rows, draws_of(400)
    )
    assert len(found.src.flat) == pytest.approx(0.7 * 40_000, abs=5 * np.sqrt(40_000 * 0.21))
    assert (found.src.flat == MASK).mean() == pytest.approx(0.2, abs=5 * np.sqrt(0.16 / 28_000))


def test_sentences_change_places_and_stay_whole():
    sentence = {"a": [50, 51, STOP], "b": [60, STOP], "c": [70, 71, 72]}
    line = [piece for name in "abc" for piece in sentence[name]]
    found = BartNoiseConfig(infill=0.0).build(PIECES)(Ragged.of([line] * 600), draws_of(600))
    orders = {tuple(row) for row in lists(found.src)}
    wanted = {
        tuple(p for name in order for p in sentence[name]) for order in ("abc", "acb", "bac", "bca", "cab", "cba")
    }
    assert orders == wanted
    one = Ragged.of([[50, STOP, FIRST_TEXT, 51]] * 20)  # after the stop no word begins: one sentence
    assert lists(BartNoiseConfig(infill=0.0).build(PIECES)(one, draws_of(20)).src) == lists(one)


def test_pieces_of_a_tokenizer(tmp_path):
    text = tmp_path / "text"
    text.write_text('He said: "Stop." Then he went. Why? No.\n' * 9)
    train_tokenizer([text], tmp_path / "spm", TokenizerConfig(vocab_size=140))
    tokenizer = Tokenizer.load(tmp_path / "spm.model")
    pieces = NoisePieces.of(tokenizer)
    assert tokenizer.pieces([pieces.mask, pieces.spans[0], pieces.spans[31]]) == ["<mask>", "<span0>", "<span31>"]
    names = tokenizer.pieces(pieces.text.tolist())
    assert not any(name.startswith("<") for name in names)
    ids = tokenizer.encode(["He went. Then he said: No"])[0]
    ends = [
        n for n, (here, then) in enumerate(pairwise(ids)) if pieces.ends_sentence[here] and pieces.begins_word[then]
    ]
    assert len(ends) == 1
    assert tokenizer.decode([ids[: ends[0] + 1]]) == ["He went."]


@pytest.mark.parametrize(
    ("config", "keys"),
    [(MaskNoiseConfig, {"masked": 0.8, "random": 0.3}), (BartNoiseConfig, {"infill": 0.0, "permute_sentences": False})],
)
def test_shares_that_make_no_sense_are_refused(config, keys):
    with pytest.raises(ValueError, match=r"more than 1 together|nothing is disturbed"):
        config(**keys)
