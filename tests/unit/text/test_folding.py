"""Typographic characters of sources: which are folded, and which a model keeps."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest

from mtkit.text.config import TokenizerConfig
from mtkit.text.normalise import Folding, kept_forms
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from tests.toy.sampling import seeds

ASCII = frozenset(map(chr, range(32, 127)))


def wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("“No”, he said: ‘it’s „1“ «2»’.", '"No", he said: \'it\'s "1" "2"\'.'),
        ("１２３，４５６．７", "123,456.7"),
        ("Ｔｈｅ ｄｏｇ！", "The dog!"),
        ("1990–2000 — ﬁne… x² ①", "1990-2000 - fine... x2 1"),
        ("é ½ 日本 ★ \u00a8", "é ½ 日本 ★ \u00a8"),  # no common form, or none that the vocabulary has
    ],
)
def test_what_the_model_does_not_know_has_its_common_form(line: str, expected: str) -> None:
    for kept in (None, ""):
        folding = Folding(ASCII, kept)
        assert folding.fold(line) == expected
        assert folding.fold(expected) == expected


def test_what_it_knows_stays() -> None:
    line = "“１” – ﬁ ²"
    assert Folding(ASCII | set(line), None).fold(line) == line
    assert Folding(ASCII | set(line), "“”１").fold(line) == line
    assert Folding(ASCII | set(line), "").fold(line) == '"1" – ﬁ ²'  # in a vocabulary, and rare in the sources
    assert Folding(None, None).fold(line) == line  # bytes
    assert Folding(None, "").fold(line) == '"1" – ﬁ ²'


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["“a” “b”", '"c"'], "“”"),
        (["it's"] * 50 + ["it’s"] * 4, ""),
        (["it's"] * 40 + ["it’s"] * 4, "’"),
        (["１９年", "２０年"], "０１２９"),
        (["« non »", "ça–là ②"], "«»"),
        ([], ""),
    ],
)
def test_kept_forms_are_those_that_the_sources_have_often(lines: list[str], kept: str) -> None:
    assert kept_forms(lines) == kept


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_folding_is_idempotent_and_never_adds_unknown_characters(seed: int) -> None:
    rng = random.Random(seed)
    ranges = ((0x20, 0x7E), (0xA0, 0x17F), (0x2000, 0x206F), (0x2070, 0x218F), (0x3000, 0x30FF), (0xFF00, 0xFFEF))
    chars = [chr(rng.randint(*rng.choice(ranges))) for _ in range(60)]
    known = frozenset(rng.sample(chars, 30)) | (ASCII if seed % 2 else frozenset())
    for kept in (None, "".join(rng.sample(chars, 10))):
        folding, line = Folding(known, kept), "".join(chars)
        folded = folding.fold(line)
        assert folding.fold(folded) == folded
        assert set(folded) - known <= set(line)
        assert unicodedata.normalize("NFKC", folded).count(" ") >= folded.count(" ") == line.count(" ")


@pytest.mark.parametrize("normaliser", ["plain-1", "none"])
def test_a_trained_tokenizer_stores_its_forms(tmp_path: Path, normaliser: str) -> None:
    src, tgt = tmp_path / "train.en", tmp_path / "train.de"
    src.write_text('it\'s a "dog" , no 1 2 3 .\n' * 200 + "it’s １\n")
    tgt.write_text("„es“ ist ein Hund , nicht 1 2 3 .\n" * 200 + "ja\n")
    config = TokenizerConfig(vocab_size=128, model_type="char", normaliser=normaliser)
    train_pair([src], [tgt], tmp_path, config)
    pair = TokenizerPair.load(tmp_path)
    assert pair.forms == ("" if normaliser == "plain-1" else None)
    folded = 'it\'s "1"' if normaliser == "plain-1" else "it’s „１“"
    assert pair.prepare("src", "it’s „１“") == folded
    assert pair.encode("src", ["it’s „１“"]) == [pair.src.encode([folded])[0]]
    assert pair.prepare("tgt", "it’s „１“") == "it’s „１“"
