"""Very long lines: cut into chunks, searched a few segments at a time, and apart from the lines before them."""

from __future__ import annotations

import itertools

import pytest

from mtkit.errors import DataError
from mtkit.layers.config import LearnedConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.translate import translator as module
from mtkit.translate.lines import MAX_CHUNK, ConstrainedLine, read_windows
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.segments import cut_into_chunks, split_line
from mtkit.translate.translator import TranslationOptions, Translator
from tests.unit.translate.toy_translator import build_model, translator


@pytest.fixture
def _small_limits(monkeypatch):
    for name in ("lines", "segments", "translator"):
        monkeypatch.setattr(f"mtkit.translate.{name}.MAX_CHUNK", 40)
    monkeypatch.setattr(module, "MAX_SEGMENTS", 3)


@pytest.mark.parametrize(
    "line",
    ["", "a", "A dog. " * 50_000, "no marks here " * 20_000, "one, two, " * 20_000, "a" * 200_000, " " * 150_000],
)
def test_chunks_are_bounded_and_their_concatenation_is_the_line(line):
    chunks = list(cut_into_chunks(line))
    assert "".join(chunks) == line
    assert all(len(chunk) <= MAX_CHUNK for chunk in chunks)
    assert all(2 * len(chunk) >= MAX_CHUNK for chunk in chunks[:-1])


@pytest.mark.parametrize(("unit", "ends"), [("A dog. ", "."), ("no marks here ", "kse"), ("one, two, ", ",")])
def test_chunks_end_where_sentences_clauses_or_words_end(unit, ends):
    chunks = list(cut_into_chunks(unit * 20_000))
    assert len(chunks) > 2
    assert {chunk[-1] for chunk in chunks[:-1]} <= set(ends)
    assert all(chunk.startswith(" ") for chunk in chunks[1:])


def test_chunks_of_sentences_are_split_as_the_whole_line():
    def lengths(texts):
        return [len(text.split()) for text in texts]

    line = "A dog sees, and finds, a cat. The man? " * 5_000
    parts = [part for chunk in cut_into_chunks(line) for part in split_line(chunk, lengths, 4)]
    assert parts == split_line(line, lengths, 4)


@pytest.mark.whole
def test_the_tokenizer_never_encodes_more_than_a_chunk(tokenizers, monkeypatch):
    engine = translator(tokenizers, max_source_length=12)
    encode, longest = type(tokenizers.src).encode, []

    def recorded(self, lines, **options):
        longest.extend(map(len, lines))
        return encode(self, lines, **options)

    monkeypatch.setattr(type(tokenizers.src), "encode", recorded)
    monkeypatch.setattr(engine, "_search", lambda segments, config, end: end)
    for line in ("the dog sees . " * 10_000, "dog" * 50_000, "a" * 150_000):
        longest.clear()
        list(engine.translate([line]))
        assert 0 < max(longest) <= MAX_CHUNK


@pytest.mark.whole
@pytest.mark.usefixtures("_small_limits")
def test_groups_of_segments_change_nothing(tokenizers, monkeypatch):
    lines = ["the dog .", "", "the dog sees a cat . " * 30, "a man", " ", "red house, " * 20, "a" * 99]
    engine = translator(tokenizers, max_source_length=12)
    in_groups = list(engine.translate(lines))
    monkeypatch.setattr(module, "MAX_SEGMENTS", 10**6)
    whole = list(engine.translate(lines))
    for one, other in zip(in_groups, whole, strict=True):
        assert (one.hyp, one.tokens, one.alignment) == (other.hyp, other.tokens, other.alignment)
        assert (one.line, one.flags, one.length_ratio) == (other.line, other.flags, other.length_ratio)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
        assert (one.log_prob, one.score) == pytest.approx((other.log_prob, other.score), rel=1e-4)
    assert [t.line for t in whole] == list(range(1, len(lines) + 1))
    assert whole[2].flags[0] == "split"
    assert whole[2].tokens.count("</s>") >= 29


@pytest.mark.usefixtures("_small_limits")
def test_few_segments_are_searched_at_a_time_and_progress_is_reported(tokenizers, monkeypatch):
    progress, groups = [], []
    options = TranslationOptions(report_progress=lambda *values: progress.append(values))
    engine = translator(tokenizers, max_source_length=12, options=options)
    search = engine._search

    def recorded(group, config, end):
        groups.append(len(group))
        return search(group, config, end)

    monkeypatch.setattr(engine, "_search", recorded)
    line = "the dog sees a cat . " * 30
    assert len(list(engine.translate(["a dog", line]))) == 2
    assert max(groups) == 3
    assert [each[0] for each in progress] == [2] * len(progress)
    assert [each[1] for each in progress] == sorted({each[1] for each in progress})
    assert progress[-1] == (2, len(line), len(line))


def test_lines_before_a_very_long_one_do_not_wait_for_it():
    lines = ["a", "b", "x" * (MAX_CHUNK + 1), "c", "y" * (MAX_CHUNK + 1), "z" * (MAX_CHUNK + 1), "d"]
    windows = [len(window) for window, _ in read_windows(lines, TranslationOptions())]
    assert windows == [2, 1, 1, 1, 1, 1]

    def failing():
        yield from lines[:3]
        raise DataError("x")

    found = [(len(window), error is None) for window, error in read_windows(failing(), TranslationOptions())]
    assert found == [(2, True), (1, True), (0, False)]


def test_lines_before_a_very_long_one_are_yielded_before_it_is_translated(tokenizers, monkeypatch):
    engine = translator(tokenizers, max_source_length=12)
    split, where = [], "mtkit.translate.segments.cut_into_chunks"
    monkeypatch.setattr(where, lambda line: (split.append(len(line)), cut_into_chunks(line))[1])
    translations = engine.translate(["a dog", "the man", "dog " * MAX_CHUNK])
    assert [each.line for each in itertools.islice(translations, 2)] == [1, 2]
    assert split == []


@pytest.mark.parametrize("field", ["text", "prefix"])
def test_a_line_beyond_the_positions_of_the_model_is_named_after_those_before(tokenizers, field):
    positions = LearnedConfig(max_length=40)
    config = TransformerConfig(
        d_model=8, d_ff=8, num_heads=2, decoder_layers=1, encoder_positions=positions, decoder_positions=positions
    )
    engine = ModelEngine([build_model(config, tokenizers)], compute_type="float32")
    search = SearchConfig(beam_size=2, max_length=MaxLength(factor=1.0, offset=5), split_long_lines=False)
    long = ConstrainedLine(**{"text": "the dog", field: "the cat " * 30})
    lines = ["a dog", "the cat", long, "a", long]
    translations = Translator(engine, tokenizers, search.limited_to(40)).translate(lines)
    assert [t.line for t in itertools.islice(translations, 2)] == [1, 2]
    with pytest.raises(DataError, match=r"line 3: a sentence of \d+ tokens is longer than the 40 learned positions"):
        next(translations)


@pytest.mark.usefixtures("_small_limits")
def test_the_error_of_the_first_segments_of_a_very_long_line_is_raised(tokenizers, monkeypatch):
    progress = []
    options = TranslationOptions(report_progress=lambda *values: progress.append(values))
    engine = translator(tokenizers, max_source_length=12, options=options)
    monkeypatch.setattr(engine, "_search", lambda segments, config, end: end.move(2, DataError("line 2: too long")))
    translations = engine.translate(["", "the dog sees a cat . " * 30, "a dog"])
    assert next(translations).line == 1
    with pytest.raises(DataError, match="line 2: too long"):
        next(translations)
    assert progress == []
