"""Languages of file names and of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.text.language import THREE_LETTERS, TWO_LETTERS, are_similar, language_of_name, language_of_text, stem_of


@pytest.mark.parametrize(
    ("name", "code", "stem"),
    [
        ("train.de.gz", "de", "train"),
        ("a/b/news.2016.en", "en", "news.2016"),
        ("corpus-fr.txt", "fr", "corpus"),
        ("test_ja.txt.xz", "ja", "test"),
        ("test.swa", "sw", "test"),
        ("x.zho-CN", "zh", "x"),
        ("x.pt_BR", "pt", "x"),
        ("train.src", None, "train.src"),
        ("en", "en", "en"),
        ("text", None, "text"),
    ],
)
def test_names(name: str, code: str | None, stem: str) -> None:
    assert language_of_name(Path(name)) == code
    assert stem_of(Path(name)) == stem


def test_codes_are_well_formed() -> None:
    assert all(len(code) == 2 and code.isalpha() for code in TWO_LETTERS)
    assert {"en", "de", "sn", "zu", "hy", "lb"} <= TWO_LETTERS
    assert set(THREE_LETTERS.values()) <= TWO_LETTERS


def test_similar_languages() -> None:
    assert are_similar("no", "nb")
    assert are_similar("de", "de")
    assert not are_similar("de", "nl")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["Die Straße ist lang.", "Der Hund schläft unter dem Tisch."], "de"),
        (["これは日本語の文章です。", "犬が走っています。"], "ja"),
        (["", " "], None),
        ([], None),
    ],
)
def test_text(lines: list[str], code: str | None) -> None:
    pytest.importorskip("py3langid")
    assert language_of_text(lines) == code


def test_codes_of_any_length_name_a_language() -> None:
    assert are_similar("deu", "de")
    assert are_similar("zh-CN", "zh")
    assert not are_similar("deu", "nl")
