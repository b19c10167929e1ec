"""Word vectors: nearest words against gensim and loops, training on a text of known structure, refusals."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from mtkit.analysis.nearest_words import WordVectors
from mtkit.analysis.train_word_vectors import TokenisedText, VectorOptions, train_word_vectors
from mtkit.cli import entry
from mtkit.errors import DataError, MissingExtraError, UsageError
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.text.word_vectors import read_token_vectors

GROUPS = tuple([f"{kind}{n}" for n in range(12)] for kind in ("noun", "verb", "adjective"))


def write_vectors(path: Path, count: int = 40, dim: int = 6) -> dict[str, list[float]]:
    rng = random.Random(3)
    vectors = {f"w{n}": [round(rng.gauss(0, 1), 4) for _ in range(dim)] for n in range(count)}
    lines = [f"{count} {dim}", *(f"{word} {' '.join(map(str, vector))}" for word, vector in vectors.items())]
    path.write_text("\n".join(lines) + "\n")
    return vectors


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Sentences ADJECTIVE NOUN VERB, whose words of a kind are interchangeable."""
    rng = random.Random(0)
    path = tmp_path / "text"
    lines = [" ".join(rng.choice(GROUPS[kind]) for kind in (2, 0, 1)) for _ in range(4000)]
    path.write_text("\n".join([*lines, "hapax"]) + "\n")
    return path


def test_nearest_words_and_analogies_equal_loops(tmp_path: Path) -> None:
    vectors = write_vectors(tmp_path / "v")
    units = {word: [x / math.hypot(*v) for x in v] for word, v in vectors.items()}

    def ranked(target: list[float], excluded: set[str]) -> list[tuple[str, float]]:
        cosines = {w: sum(map(float.__mul__, u, target)) / math.hypot(*target) for w, u in units.items()}
        return sorted(((w, c) for w, c in cosines.items() if w not in excluded), key=lambda pair: -pair[1])

    read = WordVectors.read(tmp_path / "v")
    found = read.nearest("w5", 7)
    assert [n.word for n in found] == [word for word, _ in ranked(units["w5"], {"w5"})][:7]
    a, b, c = (units[word] for word in ("w1", "w2", "w3"))
    expected = ranked([y - x + z for x, y, z in zip(a, b, c, strict=True)], {"w1", "w2", "w3"})[:4]
    found = read.analogy("w1", "w2", "w3", 4)
    assert [n.word for n in found] == [word for word, _ in expected]
    assert [n.similarity for n in found] == pytest.approx([cosine for _, cosine in expected], abs=1e-5)


def test_nearest_words_equal_those_of_gensim(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    write_vectors(tmp_path / "v")
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "v"))
    ours = WordVectors.read(tmp_path / "v")
    for word in ("w0", "w17"):
        assert [n.word for n in ours.nearest(word, 5)] == [name for name, _ in theirs.most_similar(word, topn=5)]
    expected = theirs.most_similar(positive=["w2", "w3"], negative=["w1"], topn=5)
    assert [n.word for n in ours.analogy("w1", "w2", "w3", 5)] == [name for name, _ in expected]


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_interchangeable_words_become_neighbours(text: Path, tmp_path: Path, architecture) -> None:
    pytest.importorskip("gensim")
    options = VectorOptions(architecture=architecture, dim=12, min_count=2, subsample=0)
    assert train_word_vectors(TokenisedText([text]), tmp_path / "a", options) == 36
    vectors = WordVectors.read(tmp_path / "a")
    for group in GROUPS:
        for word in group:
            assert {n.word for n in vectors.nearest(word, 4)} < set(group)
    train_word_vectors(TokenisedText([text]), tmp_path / "b", options)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_vectors_of_tokens_match_the_vocabulary(text: Path, tmp_path: Path, capsys) -> None:
    pytest.importorskip("gensim")
    train_tokenizer([text], tmp_path / "spm", TokenizerConfig(model_type="bpe", vocab_size=130))
    words = ["train-vectors", str(text), "-o", str(tmp_path / "v"), "--tokenizer", str(tmp_path / "spm.model")]
    assert entry.execute([*words, "--dim", "8", "--min-count", "2", "--epochs", "1"]) == 0
    assert "vectors of 8 numbers" in capsys.readouterr().out
    tokenizer = Tokenizer.load(tmp_path / "spm.model")
    vectors = read_token_vectors(tmp_path / "v", tokenizer, 8)
    (ids,) = tokenizer.encode(["adjective3 noun7 verb1"])
    assert set(ids) <= set(vectors.ids.tolist())
    assert np.isfinite(vectors.values).all()


def test_words_of_text_are_separated_from_punctuation(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("A well-known dog's bone, isn't it?\n\n»Ja«\n")
    expected = [["A", "well-known", "dog's", "bone", ",", "isn't", "it", "?"], [], ["»", "Ja", "«"]]
    assert list(TokenisedText([tmp_path / "t"])) == expected


@pytest.mark.parametrize("header", ["", "4 3\n"])
def test_words_of_glove_may_contain_spaces(tmp_path: Path, header: str) -> None:
    path = tmp_path / "glove"
    path.write_text(f"{header}the 1 0 0\n. . . 0.9 0.1 0\nat name@domain.com 0 1 0\n2008 0.1 0.9 0\n")
    vectors = WordVectors.read(path)
    assert vectors.words == ["the", ". . .", "at name@domain.com", "2008"]
    assert [near.word for near in vectors.nearest(". . .", 1)] == ["the"]
    assert [near.word for near in vectors.nearest("at name@domain.com", 1)] == ["2008"]
    path.write_text(f"{header}the 1 0 0\n2008 0.1 0.9 0 0\n")
    with pytest.raises(DataError, match=r"glove:\d: expected a word and 3 finite numbers, separated by spaces"):
        WordVectors.read(path)


def test_refusals(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    write_vectors(tmp_path / "v")
    with pytest.raises(UsageError, match=r"v: has no vector for 'W3'; did you mean 'w3'\?"):
        WordVectors.read(tmp_path / "v").nearest("W3", 1)
    with pytest.raises(UsageError, match="has no vector for 'x'; the text has it too rarely, or not at all"):
        WordVectors.read(tmp_path / "v").analogy("w1", "w2", "x", 1)
    contents = {"": "v: has no vectors", "a 1 2\nb 1\n": "v:2: expected a word and 2 finite", "a b": ":1: expected"}
    for content, message in contents.items():
        (tmp_path / "v").write_text(content)
        with pytest.raises(DataError, match=message):
            WordVectors.read(tmp_path / "v")
    assert entry.execute(["nearest", str(tmp_path / "v"), "a", "b", "--analogy"]) == UsageError.exit_code
    assert "--analogy takes three words, not 2" in capsys.readouterr().err
    assert entry.execute(["train-vectors", str(text), "-o", str(text)]) == UsageError.exit_code
    assert "would overwrite an input file" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(MissingExtraError, match=r"gensim: pip install 'mtkit\[vectors\]'"):
        train_word_vectors(TokenisedText([text]), tmp_path / "o", VectorOptions())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 2\na 1 0\nb 0 1\n", "ends after 2 of the 3 vectors that its first line states"),
        ("2 3\na 1 0\nb 0 1\n", ":2: expected a word and 3 finite numbers"),
        ("a 1 0\nb 0 1 1\n", ":2: expected a word and 2 finite numbers"),
    ],
)
def test_an_incomplete_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "words.vec"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        WordVectors.read(path)


def test_a_text_without_frequent_words_is_refused(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    with pytest.raises(DataError, match="no word occurs 90000 times; lower --min-count, or give more text"):
        train_word_vectors(TokenisedText([text]), tmp_path / "o", VectorOptions(min_count=90_000))
