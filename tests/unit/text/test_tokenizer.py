import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.errors import DataError, MissingInputError
from mtkit.io.records import write_record
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair, train_tokenizer
from mtkit.text.vocab import MASK, SEPARATOR, SPECIAL_TOKENS, sentinel_token, spare_token, tag_token

TEXT = [
    "the quick brown fox jumps over the lazy dog",
    "a quicker fox overjumps lazier dogs , 3 of 4 ( or 5 ) !",
    "\tTabs\tand  double  spaces ",
    "<sep> written out, <s> and </s> and <unk>",
    "ein Block \u2585 in der Zeile\0",
    "Äpfel, Öl und übrige Grüße",
] * 30
KINDS = ["bpe", "unigram", "char", "word"]
ODD = [
    "", " ", "  ", "   ", " a", "a ", "  a  b  ", "\t", "a\tb", "a\rb", "a\n", "a\0b", "a\u00a0b",
    "\u2003", "\u3000a", "\u200b", "\ufeffa", "😀", " 😀", "😀 a", "👩‍👩‍👧", "e\u0301", "\x85",
    "\u2028", "<sep>", "<unk>", "<s>", "</s>", "<pad>", "<0x41>", "<tag0> <span1>", "a ⁇ b",
    "\ufffd", "\x7f", "\x01", "\u2585", "\U0010fff0\U0010fff1\U0010fff2", "\u2047", "\ud7ff\ue000",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


def learn(folder: Path, lines, **settings) -> Tokenizer:
    text = folder / "text"
    text.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    config = TokenizerConfig(normaliser="none", **settings)
    train_tokenizer([text], folder / "spm", config)
    return Tokenizer.load(folder / "spm.model", form=config.form)


@pytest.fixture(scope="module")
def with_bytes(folder):
    sizes = {kind: largest(folder, kind, byte_fallback=True) for kind in ("char", "word")}
    sizes |= {"bpe": 500, "unigram": 420}
    return {kind: learn(folder, TEXT, model_type=kind, vocab_size=sizes[kind], byte_fallback=True) for kind in KINDS}


def largest(folder, kind, **settings):
    with pytest.raises(DataError) as caught:
        learn(folder, TEXT, model_type=kind, vocab_size=50_000, **settings)
    return int(str(caught.value).rpartition(" ")[2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ODD)
def test_odd_lines_round_trip(with_bytes, kind, line):
    tokenizer = with_bytes[kind]
    assert tokenizer.decode(tokenizer.encode([line])) == [line]


any_line = st.text(
    st.one_of(
        st.sampled_from(" \t\u00a0\u2003\u3000\u2028\x85\x1c\r\0abcthe<>sep\u2585\U0010fff1😀\u0301⁇"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\u2581"),
    ),
    max_size=30,
)


@settings(max_examples=150)
@given(lines=st.lists(any_line, max_size=5))
def test_every_line_round_trips_with_byte_fallback(with_bytes, lines):
    for tokenizer in with_bytes.values():
        assert tokenizer.decode(tokenizer.encode(lines)) == lines


@settings(max_examples=100)
@given(line=any_line)
def test_concatenated_token_bytes_are_the_text_bytes(with_bytes, line):
    for tokenizer in with_bytes.values():
        surfaces = tokenizer.token_bytes()
        joined = b"".join(surfaces[token] for token in tokenizer.encode([line])[0])
        assert joined.removeprefix("\u2581".encode()) == tokenizer.text_bytes(line)
    assert {surfaces[token] for token in tokenizer.special_ids} == {b""}


@settings(max_examples=100)
@given(line=st.text(st.sampled_from(sorted(set("".join(TEXT)))), max_size=40))
def test_known_characters_round_trip_without_byte_fallback(without_bytes, line):
    assert without_bytes.decode(without_bytes.encode([line])) == [line]
    assert without_bytes.decode([without_bytes.sample(line, seed=3, alpha=0.3)]) == [line]


@pytest.fixture(scope="module")
def without_bytes(folder):
    return learn(folder, TEXT, vocab_size=220)


def test_unknown_characters_decode_to_the_unk_surface(without_bytes):
    ids = without_bytes.encode(["a 語 b"])
    assert without_bytes.vocab.unk in ids[0]
    assert without_bytes.decode(ids) == ["a \u2047 b"]


def test_space_mark_and_lone_surrogates_are_replaced(without_bytes):
    assert without_bytes.decode(without_bytes.encode(["a\u2581b", "\u2581"])) == [
        "a_b".replace("_", "\u2047"),
        "\u2047",
    ]
    assert without_bytes.normalise("a\u2581b\ud800") == "a_b\ufffd"


@settings(max_examples=50)
@given(ids=st.lists(st.integers(0, 219), max_size=20))
def test_decoding_never_fails_and_drops_special_tokens(without_bytes, ids):
    special = set(without_bytes.special_ids)
    text_ids = [token for token in ids if token not in special]
    assert without_bytes.decode([ids]) == without_bytes.decode([text_ids])


@settings(max_examples=100)
@given(data=st.data())
def test_decoding_bytes_never_fails(with_bytes, data):
    for tokenizer in with_bytes.values():
        ids = data.draw(st.lists(st.integers(0, tokenizer.vocab.size - 1), max_size=12))
        (text,) = tokenizer.decode([ids])
        assert "\u2581" not in text
        text.encode()


def test_special_tokens_are_reserved_and_unreachable(without_bytes):
    vocab = without_bytes.vocab
    assert (vocab.pad, vocab.unk, vocab.bos, vocab.eos, vocab.size) == (0, 1, 2, 3, 220)
    named = [without_bytes.token_to_id(token) for token in SPECIAL_TOKENS]
    assert len(set(named)) == len(SPECIAL_TOKENS) == 98
    assert without_bytes.special_ids == sorted([vocab.pad, vocab.bos, vocab.eos, *named])
    text = " ".join(["<s>", "</s>", "<pad>", *SPECIAL_TOKENS])
    for ids in (without_bytes.encode([text])[0], without_bytes.sample(text, seed=1, alpha=0.1)):
        assert not set(ids) & set(without_bytes.special_ids)
    assert {SEPARATOR, MASK, tag_token(31), sentinel_token(0), spare_token(31)} <= set(SPECIAL_TOKENS)
    with pytest.raises(KeyError):
        without_bytes.token_to_id("<nothing>")


def test_threads_and_batches_change_nothing(without_bytes):
    alone = [without_bytes.encode([line])[0] for line in TEXT]
    assert without_bytes.encode(TEXT) == without_bytes.encode(TEXT, threads=2) == alone
    assert without_bytes.encode([]) == without_bytes.decode([]) == []
    assert without_bytes.decode([[]]) == [""]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sample_is_a_function_of_line_and_seed(with_bytes, kind):
    tokenizer = with_bytes[kind]
    line = TEXT[1]
    expected = {seed: tokenizer.sample(line, seed=seed, alpha=0.2) for seed in range(40)}
    assert len({tuple(ids) for ids in expected.values()}) > 10
    wrong = []

    def draw():
        for seed, ids in expected.items():
            tokenizer.encode([line])
            if tokenizer.sample(line, seed=seed, alpha=0.2) != ids:
                wrong.append(seed)

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for seed in (2**32 - 1, 2**64 - 1):
        assert tokenizer.sample(line, seed=seed, alpha=0.2) == tokenizer.sample(line, seed=seed, alpha=0.2)


def test_normalisation_applies_in_training_and_encoding(folder):
    tokenizer = learn(folder, TEXT, vocab_size=220, normalisation="nfc")
    decomposed = "A\u0308pfel"
    assert tokenizer.encode([decomposed]) == tokenizer.encode(["Äpfel"])
    assert tokenizer.normalise(decomposed) == "Äpfel"


def test_subword_regularization_needs_bpe_or_unigram():
    with pytest.raises(ValueError, match=r"^subword_regularization: a char model"):
        TokenizerConfig(model_type="char", subword_regularization=0.1)


@pytest.mark.parametrize("shared", [True, False])
def test_pair_round_trips_through_disk(tmp_path, shared):
    (tmp_path / "a").write_text("\n".join(TEXT))
    (tmp_path / "b").write_text("\n".join(TEXT).upper())
    folder, copy = tmp_path / "tokenizer", tmp_path / "copy"
    folder.mkdir()
    copy.mkdir()
    config = TokenizerConfig(vocab_size=210, shared=shared)
    reports = train_pair([tmp_path / "a"], [tmp_path / "b"], folder, config)
    assert len(reports) == (1 if shared else 2)
    pair = TokenizerPair.load(folder)
    pair.save(copy)
    assert pair.config == config
    assert pair.shared is shared
    assert (pair.src.hash() == pair.tgt.hash()) is shared
    assert TokenizerPair.load(copy).hash() == pair.hash()


def test_damaged_files_are_named(tmp_path, without_bytes):
    with pytest.raises(MissingInputError, match=r"tokenizer\.json"):
        TokenizerPair.load(tmp_path)
    (tmp_path / "spm.model").write_bytes(b"not a model")
    with pytest.raises(DataError, match=r"spm\.model: not a sentencepiece model"):
        Tokenizer.load(tmp_path / "spm.model")
    TokenizerPair(without_bytes, without_bytes, TokenizerConfig()).save(tmp_path)
    content = (tmp_path / "tokenizer.json").read_text()
    write_record(tmp_path / "tokenizer.json", {"format": 3, "config": {}})
    with pytest.raises(DataError, match="has format 3; this mtkit reads format 2"):
        TokenizerPair.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text(content[:-9])
    with pytest.raises(DataError, match=r"tokenizer\.json: damaged"):
        TokenizerPair.load(tmp_path)
