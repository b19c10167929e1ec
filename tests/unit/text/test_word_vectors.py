"""Word vectors found for pieces: which word serves which piece, and every way in which a file can be wrong."""

import gzip
from dataclasses import dataclass, field

import numpy as np
import pytest

from mtkit.errors import DataError
from mtkit.text.vocab import Vocab
from mtkit.text.word_vectors import read_piece_vectors

PIECES = ["<pad>", "<unk>", "<s>", "</s>", "▁Haus", "▁haus", "haus", "ung", ".", "3", "▁Der", "▁", "▁nie"]


@dataclass
class Pieces:
    """A tokenizer, as far as it is looked at."""

    vocab: Vocab = field(default_factory=lambda: Vocab(size=len(PIECES), pad=0, unk=1, bos=2, eos=3))

    def pieces(self, ids):
        return [PIECES[piece] for piece in ids]

    def control_ids(self):
        return [0, 2, 3]


def written(folder, text):
    path = folder / "vectors.vec"
    path.write_text(text, encoding="utf-8")
    return path


def found_in(path, dim=2):
    found = read_piece_vectors(path, Pieces(), dim)
    assert found.values.dtype == np.float32
    named = {PIECES[piece]: value.tolist() for piece, value in zip(found.ids, found.values, strict=True)}
    return named, found


WORDS = "der 1 1\n. 2 2\nhaus 3 3\n3 4 4\nHaus 5 5\nung 6 6\nHaus 7 7\nund\u00a0so 8 8\n"


@pytest.mark.parametrize("header", ["", "8 2\n"])
def test_words_serve_the_pieces_that_begin_them(tmp_path, header):
    named, found = found_in(written(tmp_path, header + WORDS))
    expected = {"▁Haus": 5.0, "▁haus": 3.0, ".": 2.0, "3": 4.0, "▁Der": 1.0}  # the inner "haus" and "ung" have none
    assert named == {piece: [value, value] for piece, value in expected.items()}
    assert (found.pieces, found.words) == (9, 8)


def test_a_file_of_pieces_is_matched_piece_by_piece(tmp_path):
    named, _ = found_in(written(tmp_path, "haus 1 0\n▁haus 2 0\nung 3 0\nder 4 0\n"))
    assert named == {"haus": [1, 0], "▁haus": [2, 0], "ung": [3, 0]}


def test_compressed_and_with_spaces_at_line_ends(tmp_path):
    path = tmp_path / "vectors.vec.gz"
    path.write_bytes(gzip.compress(b"1 2\nhaus 0.5 -1e-2 \n"))
    named, _ = found_in(path)
    assert named == {"▁haus": pytest.approx([0.5, -0.01]), "▁Haus": pytest.approx([0.5, -0.01])}


def test_entries_with_spaces_in_them_are_no_words(tmp_path):
    named, _ = found_in(written(tmp_path, "haus 1 1\n. . . 2 2\n"))
    assert named == {"▁haus": [1, 1], "▁Haus": [1, 1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "9 3\nhaus 1 1 1\n",
            ":1: its vectors have 3 numbers, the embeddings of this model 2; make the model's as wide",
        ),
        ("und 1 1 1 1\n", ":1: its vectors have 4 numbers, the embeddings of this model 2"),
        ("", ":1: not a file of word vectors"),
        ("und 1 1\nhaus 1\n", ":2: 1 numbers follow the word, where the file has 2; is it damaged?"),
        ("und 1 1\nhaus 1 2 3\n", ":2: 3 numbers follow the word, where the file has 2"),
        ("2 2\nund 1 1\nhaus 1 x\n", ":3: not a vector of numbers: could not convert"),
        ("haus 1 nan\n", ":1: a number of this vector is not finite"),
        ("und 1 1\nso 1 1\n", ": none of its 2 words is a piece of the vocabulary; is it of another language?"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_piece_vectors(path, Pieces(), 2)
    assert str(caught.value).startswith(f"{path}{message}")
