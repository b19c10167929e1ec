"""Models of other programs: the same tokens as sentencepiece itself and as another implementation of BPE."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sentencepiece
from tokenizers import Tokenizer as ReferenceTokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Split
from tokenizers.trainers import BpeTrainer

from mtkit.errors import DataError, MissingInputError
from mtkit.text.config import TokenizerConfig, TokenizerFiles
from mtkit.text.subword.import_tokenizer import import_pair, import_tokenizer, planned_vocab_sizes
from mtkit.text.subword.listed_vocabulary import BpeCodes, with_characters
from mtkit.text.subword.protobuf import PieceType, piece_field, read_fields
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.token_lines import UnknownCounts, decode_lines_of_ids, decode_lines_of_tokens, encode_lines
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.text.vocab import SPECIAL_TOKENS

TEXT = [
    "the quick brown fox jumps over the lazy dog",
    "a quicker fox overjumps lazier dogs , 3 of 4 ( or 5 ) !",
    "lower lowest newer newest wider widest",
    "Äpfel, Öl und übrige Grüße",
] * 20
ODD = ["", " ", "  a  b ", "lowest\tnewest", "語 over 語彙", "a\r", "<unk> <s> </s> x<sep>", "@@ a@@ b", "⁇", "Grüße!"]


def foreign_model(**settings) -> bytes:
    model = io.BytesIO()
    settings = {"vocab_size": 90, "model_type": "bpe", "minloglevel": 2, **settings}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=model, **settings)
    return model.getvalue()


def codes() -> tuple[bytes, ReferenceTokenizer]:
    """Merges in subword-nmt's format, and the implementation of another library."""
    reference = ReferenceTokenizer(BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
    reference.pre_tokenizer = Split(" ", "removed")
    reference.train_from_iterator(TEXT, BpeTrainer(vocab_size=150, special_tokens=["<unk>"], end_of_word_suffix="</w>"))
    merges = json.loads(reference.to_str())["model"]["merges"]
    content = ("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)).encode()
    return with_characters(content, "".join(TEXT)), reference


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
@pytest.mark.parametrize("settings", [{}, {"bos_id": -1}, {"pad_id": 3}, {"user_defined_symbols": ["<x>", "<pad>"]}])
def test_foreign_sentencepiece_model_keeps_its_ids(tmp_path, kind, settings) -> None:
    size = {"bpe": 90, "unigram": 54, "char": 42, "word": 20}[kind]
    (tmp_path / "x.model").write_bytes(foreign_model(model_type=kind, vocab_size=size, **settings))
    original = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "x.model"))
    found = import_tokenizer(tmp_path / "x.model")
    tokenizer = found.tokenizer
    assert found.model_type == kind
    assert tokenizer.encode([*TEXT, *ODD]) == original.encode([*TEXT, *ODD])
    known = original.encode(TEXT)
    assert tokenizer.decode(known) == [text.replace(" \u2047 ", "\u2047") for text in original.decode(known)]
    assert len({tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}) == len(SPECIAL_TOKENS)
    vocab = tokenizer.vocab
    assert len({vocab.pad, vocab.unk, vocab.bos, vocab.eos}) == 4
    assert {vocab.pad, vocab.bos, vocab.eos} <= set(tokenizer.special_ids)
    if "pad_id" in settings:
        assert vocab.pad == 3
    assert "special tokens added" in found.notes[0]
    assert "decoding gives normalised text" in found.notes[1]


def test_own_model_is_used_byte_for_byte(tmp_path) -> None:
    (tmp_path / "text").write_text("\n".join(TEXT))
    train_tokenizer([tmp_path / "text"], tmp_path / "spm", TokenizerConfig(vocab_size=200))
    found = import_tokenizer(tmp_path / "spm.model")
    assert found.notes == ()
    assert found.tokenizer.hash() == Tokenizer.load(tmp_path / "spm.model").hash()
    assert found.tokenizer.encode(["a\tb"]) == Tokenizer.load(tmp_path / "spm.model").encode(["a\tb"])


def test_a_special_token_that_text_can_produce_is_refused(tmp_path) -> None:
    (tmp_path / "x.model").write_bytes(foreign_model(user_defined_symbols=["<mask>"]))
    with pytest.raises(DataError, match=r"x\.model: <mask> is an ordinary token of this model, and mtkit reserves it"):
        import_tokenizer(tmp_path / "x.model")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "(the file is empty)"),
        (b"\x00\x01", "(no text: another kind of file, or a damaged model)"),
        (b"#version: 0.2\na b\nabc\n", "line 3: 'abc' is not a merge"),
        (b"#version: 0.3\na b\n", "version '0.3'"),
        ("#version: 0.2\nĠ t\n".encode(), "byte-level BPE as in GPT-2"),
        (b"\xff\xfe", "(no text: another kind of file, or a damaged model)"),
    ],
)
def test_other_files_are_refused_with_the_remedy(tmp_path, content, reason) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError, match=r"x: neither a sentencepiece model nor BPE codes .*mtkit train-bpe$") as caught:
        import_tokenizer(tmp_path / "x")
    assert reason in str(caught.value)
    with pytest.raises(MissingInputError):
        import_tokenizer(tmp_path / "y")


def test_codes_segment_as_another_implementation() -> None:
    content, reference = codes()
    model = BpeCodes(content)
    lines = [*TEXT, "lowestest overdog foxes", "fox  dog", "widestest"]
    expected = [[t[:-4] if t.endswith("</w>") else f"{t}@@" for t in reference.encode(line).tokens] for line in lines]
    found = [[token for token in tokens if token != "\u2581"] for tokens in model.encode(lines, out_type=str)]
    assert found == expected
    assert any(token.endswith("@@") for line in found for token in line)


def test_first_version_of_codes_has_the_end_of_word_as_a_symbol() -> None:
    model = BpeCodes(b"#version: 0.1\nl o\nlo w\ne r\ner </w>\n")
    assert model.encode(["lower low lo"], out_type=str) == [["low@@", "er", "low", "lo"]]
    assert model.vocab.unk not in model.encode(["lower low lo"])[0]


@pytest.fixture(params=["own", "codes", "foreign"])
def tokenizer(request, tmp_path: Path) -> Tokenizer:
    path = tmp_path / "spm.model"
    if request.param == "own":
        (tmp_path / "text").write_text("\n".join(TEXT))
        train_tokenizer([tmp_path / "text"], tmp_path / "spm", TokenizerConfig(vocab_size=200))
    else:
        settings = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
        path.write_bytes(codes()[0] if request.param == "codes" else foreign_model(**settings))
    return import_tokenizer(path).tokenizer


def test_tokens_round_trip_every_line(tokenizer: Tokenizer) -> None:
    lines = [*TEXT, *ODD[:7], *ODD[8:]]
    counts = UnknownCounts()
    encoded = list(encode_lines(lines, tokenizer, as_ids=False, counts=counts, block=3))
    assert len(encoded) == len(lines)
    assert list(decode_lines_of_tokens(encoded, tokenizer)) == lines
    assert counts.lines == len(lines)
    assert counts.with_unknown > 0


def test_ids_round_trip_known_text(tokenizer: Tokenizer) -> None:
    encoded = list(encode_lines(TEXT, tokenizer, as_ids=True, counts=UnknownCounts()))
    assert list(decode_lines_of_ids(encoded, tokenizer, "x")) == TEXT
    for line, message in (("1 x", "x:1: 'x' is not an id"), ("9999999", "x:1: id 9999999 is not in the vocabulary")):
        with pytest.raises(DataError, match=message):
            list(decode_lines_of_ids([line], tokenizer, "x"))


def test_token_bytes_of_codes_join_to_the_text() -> None:
    tokenizer = Tokenizer(codes()[0])
    surfaces = tokenizer.token_bytes()
    for line in [*TEXT[:4], "fox  dog ", " a"]:
        joined = b"".join(surfaces[token] for token in tokenizer.encode([line])[0])
        assert joined.removesuffix("\u2581".encode()) == tokenizer.text_bytes(line)


def test_bpe_dropout_of_codes_is_a_function_of_the_seed() -> None:
    tokenizer = Tokenizer(codes()[0])
    samples = {tuple(tokenizer.sample(TEXT[1], seed=seed, alpha=0.3)) for seed in range(20)}
    assert len(samples) > 5
    assert {tokenizer.decode([list(ids)])[0] for ids in samples} == {TEXT[1]}
    assert tokenizer.sample(TEXT[1], seed=3, alpha=0.3) == tokenizer.sample(TEXT[1], seed=3, alpha=0.3)
    assert [tokenizer.sample(TEXT[1], seed=1, alpha=0.0)] == tokenizer.encode([TEXT[1]])


def test_pair_describes_its_models_without_their_paths(tmp_path) -> None:
    (tmp_path / "a").write_bytes(codes()[0])
    (tmp_path / "b").write_bytes(foreign_model())
    config = TokenizerConfig(model=TokenizerFiles(src=tmp_path / "a", tgt=tmp_path / "b"), shared=False)
    pair, sentences = import_pair(config)
    assert len(sentences) == 2
    assert pair.config.model is None
    assert planned_vocab_sizes(config) == (pair.src.vocab.size, pair.tgt.vocab.size)
    pair.save(tmp_path)
    assert TokenizerPair.load(tmp_path).hash() == pair.hash()
    with pytest.raises(ValueError, match=r"^shared: two models"):
        TokenizerConfig(model=TokenizerFiles(src=tmp_path / "a", tgt=tmp_path / "b"))
    (tmp_path / "c").write_bytes(foreign_model(model_type="char", vocab_size=42))
    with pytest.raises(DataError, match=r"c: tokenizer\.subword_regularization: a char model"):
        import_pair(TokenizerConfig(model=tmp_path / "c", subword_regularization=0.1))


def test_wire_format_round_trips() -> None:
    model = foreign_model()
    assert b"".join(encoding for _, _, encoding in read_fields(model)) == model
    extended = model + piece_field("<new>", -1.5, PieceType.USER_DEFINED)
    processor = sentencepiece.SentencePieceProcessor(model_proto=extended)
    assert processor.piece_to_id("<new>") == 90
    assert processor.get_score(90) == -1.5
    with pytest.raises(ValueError, match="no field at byte"):
        list(read_fields(model[:-1]))
