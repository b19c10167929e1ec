"""Word vectors matched to tokens, and every error of a vector file."""

import gzip
from dataclasses import dataclass, field

import numpy as np
import pytest

from mtkit.errors import DataError
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.import_tokenizer import import_tokenizer
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.text.vocab import Vocab
from mtkit.text.word_vectors import read_token_vectors

TOKENS = ["<pad>", "<unk>", "<s>", "</s>", "▁Haus", "▁haus", "haus", "ung", ".", "3", "▁Der", "▁", "▁nie"]


@dataclass
class TokenList:
    """The part of a tokenizer that the matcher uses."""

    vocab: Vocab = field(default_factory=lambda: Vocab(size=len(TOKENS), pad=0, unk=1, bos=2, eos=3))

    def ids_to_tokens(self, ids):
        return [TOKENS[token] for token in ids]

    @property
    def special_ids(self):
        return [0, 2, 3]

    is_codes = False

    def token_bytes(self):
        return [token.encode() for token in TOKENS]


def write(folder, text):
    path = folder / "vectors.vec"
    path.write_text(text, encoding="utf-8")
    return path


def read_named(path, dim=2):
    vectors = read_token_vectors(path, TokenList(), dim)
    assert vectors.values.dtype == np.float32
    named = {TOKENS[token]: value.tolist() for token, value in zip(vectors.ids, vectors.values, strict=True)}
    return named, vectors


WORDS = "der 1 1\n. 2 2\nhaus 3 3\n3 4 4\nHaus 5 5\nung 6 6\nHaus 7 7\nund\u00a0so 8 8\n"


@pytest.mark.parametrize("header", ["", "8 2\n"])
def test_word_vectors_match_tokens_that_start_a_word(tmp_path, header):
    named, vectors = read_named(write(tmp_path, header + WORDS))
    expected = {"▁Haus": 5.0, "▁haus": 3.0, ".": 2.0, "3": 4.0, "▁Der": 1.0}  # the inner "haus" and "ung" have none
    assert named == {token: [value, value] for token, value in expected.items()}
    assert (vectors.num_tokens, vectors.num_words) == (9, 8)


def test_subword_vectors_match_token_by_token(tmp_path):
    named, _ = read_named(write(tmp_path, "haus 1 0\n▁haus 2 0\nung 3 0\nder 4 0\n"))
    assert named == {"haus": [1, 0], "▁haus": [2, 0], "ung": [3, 0]}


def test_compressed_file_with_trailing_spaces(tmp_path):
    path = tmp_path / "vectors.vec.gz"
    path.write_bytes(gzip.compress(b"1 2\nhaus 0.5 -1e-2 \n"))
    named, _ = read_named(path)
    assert named == {"▁haus": pytest.approx([0.5, -0.01]), "▁Haus": pytest.approx([0.5, -0.01])}


def test_entries_that_contain_spaces_are_skipped(tmp_path):
    named, _ = read_named(write(tmp_path, "haus 1 1\n. . . 2 2\n"))
    assert named == {"▁haus": [1, 1], "▁Haus": [1, 1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "9 3\nhaus 1 1 1\n",
            ":1: the vectors have 3 numbers, the embeddings of this model 2; set model.d_model",
        ),
        ("und 1 1 1 1\n", ":1: the vectors have 4 numbers, the embeddings of this model 2"),
        ("", ":1: not a file of word vectors"),
        ("und 1 1\nhaus 1\n", ":2: 1 numbers follow the word instead of 2; the file may be damaged"),
        ("und 1 1\nhaus 1 2 3\n", ":2: 3 numbers follow the word instead of 2"),
        ("2 2\nund 1 1\nhaus 1 x\n", ":3: not a vector of numbers: could not convert"),
        (
            "3 2\nhaus 1 1\nund 1 1\n",
            ": ends after 2 of the 3 vectors that its first line states; the file may be incomplete: copy or download",
        ),
        ("haus 1 nan\n", ":1: the vector has a number that is not finite"),
        ("und 1 1\nso 1 1\n", ": none of its 2 words is a token of the vocabulary; check the language of the file"),
    ],
)
def test_error_names_the_line(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_token_vectors(path, TokenList(), 2)
    assert str(caught.value).startswith(f"{path}{message}")


def matched(path, tokenizer):
    vectors = read_token_vectors(path, tokenizer, 2)
    return dict(zip(tokenizer.ids_to_tokens(vectors.ids.tolist()), vectors.values.tolist(), strict=True))


def test_vectors_for_the_tokens_of_bpe_codes(tmp_path):
    (tmp_path / "codes").write_text("#version: 0.2\nH u\nHu n\nHun d</w>\nd i\ndi e</w>\n")
    tokenizer = import_tokenizer(tmp_path / "codes").tokenizer
    assert matched(write(tmp_path, "Hund 1 2\ndie 3 4\nHun 5 6\n"), tokenizer) == {"Hund": [1, 2], "die": [3, 4]}
    subwords = {"Hund": [1, 2], "Hun@@": [5, 6], "die": [3, 4]}
    assert matched(write(tmp_path, "Hund 1 2\nHun@@ 5 6\ndie 3 4\nDie 7 8\n"), tokenizer) == subwords


def test_word_vectors_for_byte_level_tokens(tmp_path):
    (tmp_path / "text").write_text("мама мыла раму\n" * 50)
    train_tokenizer([tmp_path / "text"], tmp_path / "spm", TokenizerConfig(model_type="byte_bpe", vocab_size=380))
    tokenizer = Tokenizer.load(tmp_path / "spm.model")
    ids = tokenizer.encode(["мама мыла"])[0]
    found = read_token_vectors(write(tmp_path, "мама 1 2\nмыла 3 4\n"), tokenizer, 2)
    assert sorted(ids) == found.ids.tolist()
