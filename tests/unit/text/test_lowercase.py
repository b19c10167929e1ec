"""Lower case of a tokenizer: all text that a model reads, in training and translation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mtkit.text.config import TokenizerConfig
from mtkit.text.normalise import TextForm
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from tests.toy.sampling import sampled

TEXT = ["Der alte Mann sieht den Hund NICHT.", "Ein Hund, ein Dackel, läuft über die STRASSE.", "Ölfässer für ÄRZTE"]
EVERY = [chr(code) for code in range(sys.maxunicode + 1)]


@pytest.mark.parametrize("unicode", ["identity", "nfc", "nfkc"])
def test_the_form_of_every_character_is_final(unicode: str) -> None:
    form = TextForm(unicode, lowercase=True)  # type: ignore[arg-type]
    for start in range(0, len(EVERY), 4096):  # characters apart, so that none joins with its neighbour
        once = form.normalise("\n".join(EVERY[start : start + 4096]))
        assert form.normalise(once) == once
        assert once == once.lower()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> TokenizerPair:
    folder = tmp_path_factory.mktemp("lowercase")
    text = folder / "text"
    text.write_text("".join(f"{line}\n" for line in TEXT * 4), encoding="utf-8")
    train_pair([text], [text], folder, TokenizerConfig(vocab_size=135, lowercase=True))
    return TokenizerPair.load(folder)


def _cases(count: int) -> list[str]:
    """Lines in many mixtures of capitals."""
    return [
        "".join(c.upper() if (number >> (i % 8)) & 1 else c for i, c in enumerate(TEXT[number % len(TEXT)]))
        for number in range(count)
    ]


@pytest.mark.parametrize(
    "line", [*_cases(sampled(20)), *(pytest.param(each, marks=pytest.mark.whole) for each in _cases(200)[20:])]
)
def test_capitals_change_nothing_that_is_read(pair: TokenizerPair, line: str) -> None:
    assert pair.encode("src", [line]) == pair.encode("src", [line.lower()])
    assert pair.encode_texts([line], [line]) == pair.encode_texts([line.lower()], [line.lower()])
    assert pair.tgt.text_bytes(line) == pair.tgt.text_bytes(line.lower())
    assert pair.tgt.sample(line, seed=1, alpha=0.3) == pair.tgt.sample(line.lower(), seed=1, alpha=0.3)
    decoded = pair.decode(pair.encode("tgt", [line]), [line])
    assert decoded == [line.lower()]


def test_the_vocabulary_has_no_capitals_and_its_hash_differs(pair: TokenizerPair, tmp_path: Path) -> None:
    tokens = "".join(pair.src.ids_to_tokens(range(102, pair.src.vocab.size)))
    assert tokens == tokens.lower()
    cased = TokenizerPair(pair.src, pair.tgt, TokenizerConfig(vocab_size=135))
    assert cased.hash() != pair.hash()


def test_copies_need_capitals() -> None:
    with pytest.raises(ValueError, match="copy_tokens: lowercase would write copies"):
        TokenizerConfig(copy_tokens=True, lowercase=True)
