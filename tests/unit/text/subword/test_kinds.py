"""Byte-level BPE, WordPiece, minimum frequencies and padding: exact round trips, and the same tokens as references."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.import_tokenizer import import_pair, import_tokenizer, planned_vocab_sizes
from mtkit.text.subword.listed_vocabulary import WordPiece
from mtkit.text.subword.mapped_vocabulary import pad_vocabulary
from mtkit.text.subword.tokenizer import ByteLevel, Tokenizer
from mtkit.text.train_tokenizer import train_tokenizer

TEXT = [
    "the quick brown fox jumps over the lazy dog",
    "a quicker fox overjumps lazier dogs , 3 of 4 ( or 5 ) !",
    "  # ## double  spaces <sep> <byte_level> \tb\0 a_b ",
    "Äpfel, Öl und übrige Grüße 今天天气很好",
] * 20
LINES = st.text(st.characters(exclude_characters="\n\u2581", exclude_categories=["Cs"]), max_size=30)
KNOWN = st.text(sorted({c for line in TEXT for c in line}), max_size=30)
SPECIAL = 102  # pad, unk, bos, eos and the reserved tokens


def learn(folder: Path, lines=TEXT, **settings) -> Tokenizer:
    (folder / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    train_tokenizer([folder / "text"], folder / "x", TokenizerConfig(normaliser="none", **settings))
    return Tokenizer.load(folder / "x.model")


@pytest.fixture(scope="module")
def byte_bpe(tmp_path_factory) -> Tokenizer:
    return learn(tmp_path_factory.mktemp("bytes"), model_type="byte_bpe", vocab_size=450)


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory) -> Tokenizer:
    return learn(tmp_path_factory.mktemp("wordpiece"), model_type="wordpiece", vocab_size=240)


@given(line=LINES)
def test_byte_level_gives_every_line_back(byte_bpe, line) -> None:
    (ids,) = byte_bpe.encode([line])
    assert byte_bpe.vocab.unk not in ids
    assert not set(ids) & set(byte_bpe.special_ids)
    assert byte_bpe.decode([ids]) == [line]
    assert byte_bpe.decode_tokens(byte_bpe.encode_as_tokens([line])) == [line]
    assert byte_bpe.decode([byte_bpe.sample(line, seed=1, alpha=0.3)]) == [line]
    assert byte_bpe.tokens_to_ids(byte_bpe.ids_to_tokens(ids)) == ids
    surfaces = byte_bpe.token_bytes()
    joined = b"".join(surfaces[token] for token in ids)
    assert joined.removeprefix("\u2581".encode()) == line.replace(" ", "\u2581").encode()


@given(ids=st.lists(st.integers(0, 449), max_size=20))
def test_any_bytes_are_decoded(byte_bpe, ids) -> None:
    (text,) = byte_bpe.decode([ids])
    surfaces = byte_bpe.token_bytes()
    assert len(text.encode(errors="replace")) <= 3 * sum(len(surfaces[token]) for token in ids)


@settings(max_examples=50)
@given(line=LINES)
def test_byte_level_segments_as_hugging_face(byte_bpe, line) -> None:
    pieces = {name: token for token, name in enumerate(byte_bpe.ids_to_tokens(range(450)))}
    order = {name: rank for rank, name in enumerate(list(pieces)[SPECIAL + 1 :])}
    cuts = [(name[:i], name[i:]) for name in order for i in range(1, len(name))]
    merges = [(left, right) for left, right in cuts if left in order and right in order]
    reference = tokenizers.Tokenizer(tokenizers.models.BPE(pieces, merges))
    escaped = "\u2581" + ByteLevel().escape(line).replace(" ", "\u2581") if line else ""
    assert byte_bpe.encode([line])[0] == reference.encode(escaped, add_special_tokens=False).ids


def test_byte_level_has_all_bytes_even_if_the_text_has_not(tmp_path) -> None:
    model = learn(tmp_path, ["abc abd"] * 9, model_type="byte_bpe", vocab_size=360)
    assert model.decode(model.encode(["\x7f 😀 Ω\t"])) == ["\x7f 😀 Ω\t"]
    with pytest.raises(DataError, match=r"101 is too small: .* the 256 bytes .* at least 359; raise"):
        learn(tmp_path, ["abc abd"] * 9, model_type="byte_bpe", vocab_size=101)


@given(line=KNOWN)
def test_wordpiece_gives_known_text_back(wordpiece, line) -> None:
    (ids,) = wordpiece.encode([line])
    assert wordpiece.vocab.unk not in ids
    assert wordpiece.decode([ids]) == [line]
    assert wordpiece.decode([wordpiece.sample(line, seed=1, alpha=0.4)]) == [line]
    surfaces = wordpiece.token_bytes()
    joined = b"".join(surfaces[token] for token in ids)
    assert joined.removeprefix("\u2581".encode()) == wordpiece.text_bytes(line)


@given(line=LINES)
def test_tokens_of_wordpiece_give_every_line_back(wordpiece, line) -> None:
    assert wordpiece.decode_tokens(wordpiece.encode_as_tokens([line])) == [line]


@given(line=st.one_of(KNOWN, LINES))
def test_wordpiece_segments_as_hugging_face(wordpiece, line) -> None:
    vocabulary = {name: token for token, name in enumerate(wordpiece.ids_to_tokens(range(wordpiece.vocab.size)))}
    model = tokenizers.models.WordPiece(vocabulary, unk_token="<unk>", max_input_chars_per_word=10_000)
    words = [f"\u2581{word}" for word in line.split(" ")] if line else []
    assert wordpiece.encode([line])[0] == [token.id for word in words for token in model.tokenize(word)]


def test_wordpiece_of_a_known_vocabulary() -> None:
    model = WordPiece(WordPiece.header + "\n▁\n▁un\n##aff\n##able\n##a\n##f\n▁unaff\n".encode())
    assert model.encode(["unaffable  unafx"], out_type=str) == [["▁unaff", "##able", "▁", "▁unafx"]]
    assert model.encode(["unafx"]) == [[model.vocab.unk]]
    for content in (WordPiece.header, WordPiece.header + b"\n", b"#wordpiece 2\nx\n", WordPiece.header + b"\n\xff\n"):
        with pytest.raises(RuntimeError, match="not"):
            WordPiece(content)


def test_a_model_of_each_kind_is_recognised_and_the_same_in_every_training(tmp_path, byte_bpe, wordpiece) -> None:
    for kind, tokenizer, size in (("byte_bpe", byte_bpe, 450), ("wordpiece", wordpiece, 240)):
        assert learn(tmp_path, model_type=kind, vocab_size=size).hash() == tokenizer.hash()
        imported = import_tokenizer(tmp_path / "x.model")
        assert (imported.model_type, imported.notes) == (kind, ())
        assert imported.tokenizer.vocab.size == size
        assert imported.tokenizer.unsupported() is None
    (tmp_path / "x.model").write_bytes(WordPiece.header + b"\n")
    with pytest.raises(DataError, match=r"x\.model: not a sentencepiece model, or a damaged one"):
        import_tokenizer(tmp_path / "x.model")


@settings(max_examples=25)
@given(words=st.lists(st.sampled_from(["a", "b", "ab", "ö", "dog"]), min_size=4, max_size=60), count=st.integers(2, 5))
@pytest.mark.parametrize("kind", ["word", "char"])
def test_vocabulary_of_a_minimum_frequency(tmp_path_factory, kind, words, count) -> None:
    lines = [" ".join(words[i : i + 5]) for i in range(0, len(words), 5)]
    counts = Counter(word for line in lines for word in line.split(" "))
    units = {f"▁{word}": n for word, n in counts.items()}
    if kind == "char":
        units = Counter("".join(f"▁{line.replace(' ', '▁')}" for line in lines))
    frequent = {unit for unit, n in units.items() if n >= count}
    folder = tmp_path_factory.mktemp("x")
    if not frequent:
        with pytest.raises(DataError, match=rf"min_frequency: no {kind} .* lower it to at most {max(units.values())}$"):
            learn(folder, lines, model_type=kind, vocab_size=200, min_frequency=count)
        return
    model = learn(folder, lines, model_type=kind, vocab_size=200, min_frequency=count)
    assert set(model.ids_to_tokens(range(SPECIAL, model.vocab.size))) == frequent


def test_vocab_size_still_limits_a_minimum_frequency(tmp_path) -> None:
    assert learn(tmp_path, model_type="word", vocab_size=110, min_frequency=2).vocab.size == 110


@pytest.mark.parametrize("multiple", [1, 2, 7, 64, 512])
@pytest.mark.parametrize("kind", ["bpe", "byte_bpe", "wordpiece", "word", "codes"])
def test_padding_adds_tokens_that_no_text_produces(tmp_path, kind, multiple) -> None:
    if kind == "codes":
        (tmp_path / "x.model").write_bytes(b"#version: 0.2\nt h\nth e</w>\n#unused: x\n")
        plain = import_tokenizer(tmp_path / "x.model").tokenizer
    else:
        sizes = {"bpe": 200, "byte_bpe": 401, "wordpiece": 200, "word": 110}
        plain = learn(tmp_path, model_type=kind, vocab_size=sizes[kind])
    config = TokenizerConfig(model=tmp_path / "x.model", pad_to_multiple_of=multiple)
    pair, _ = import_pair(config)
    padded = pair.src
    assert padded.vocab.size % multiple == 0
    assert plain.vocab.size <= padded.vocab.size < plain.vocab.size + multiple
    assert planned_vocab_sizes(config) == (padded.vocab.size, padded.vocab.size)
    assert pad_vocabulary(padded.model, multiple) == padded.model
    assert padded.ids_to_tokens(range(plain.vocab.size)) == plain.ids_to_tokens(range(plain.vocab.size))
    unused = set(range(plain.vocab.size, padded.vocab.size))
    assert unused <= set(padded.special_ids)
    lines = [*TEXT, "<unused0> <unused1>"]
    assert padded.encode(lines) == plain.encode(lines)
    assert padded.decode([[*sorted(unused), *plain.encode(TEXT[:1])[0]]]) == plain.decode(plain.encode(TEXT[:1]))
    assert padded.unsupported() is None


def test_padding_in_training(tmp_path) -> None:
    assert learn(tmp_path, model_type="word", vocab_size=109, pad_to_multiple_of=8).vocab.size == 112
    lines = ["<unused0> <unused0>"] * 30
    model = learn(tmp_path, lines, model_type="wordpiece", vocab_size=118, pad_to_multiple_of=8)
    assert len(set(model.ids_to_tokens(range(model.vocab.size)))) == 120


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "bpe", "min_frequency": 2}, "min_frequency: a bpe vocabulary is limited by vocab_size alone"),
        ({"model_type": "byte_bpe", "byte_fallback": True}, "byte_fallback: a byte_bpe model has tokens for all bytes"),
        ({"model_type": "wordpiece", "byte_fallback": True}, "byte_fallback: a wordpiece model has no tokens for"),
    ],
)
def test_contradictory_settings(settings, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        TokenizerConfig(normaliser="none", **settings)
