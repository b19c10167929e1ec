"""Languages of file names and of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.text.language import (
    MACROLANGUAGES,
    THREE_LETTERS,
    TWO_LETTERS,
    are_similar,
    language_of_text,
    rank_languages,
    split_name,
)


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
        ("my-text.txt", None, "my-text"),
    ],
)
def test_names(name: str, code: str | None, stem: str) -> None:
    assert split_name(Path(name)) == (stem, code)


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


@pytest.mark.whole
@pytest.mark.parametrize(
    "text",
    [
        "Der Hund schläft.",
        "the dog",
        "Le chat dort sous la table.",
        "今日は天気がいいです。",
        "Собака спит.",
        "الكلب نائم",
    ],
)
def test_probabilities_are_the_squares_of_the_classifier_normalised(text: str) -> None:
    langid = pytest.importorskip("py3langid.langid")
    classifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    squares: dict[str, float] = {}
    for code, probability in classifier.rank(text):
        name = MACROLANGUAGES.get(code, code)
        squares[name] = squares.get(name, 0.0) + probability**2 * (1 if len(name) == 2 else 0.05)
    ranked = rank_languages(text)
    assert ranked == sorted(ranked, key=lambda each: -each[1])
    assert {code for code, _ in ranked} == set(squares) - {"zxx"}
    for code, probability in ranked:
        assert probability == pytest.approx(squares[code] / sum(squares.values()), rel=1e-6)


def test_a_macrolanguage_is_the_answer_unless_its_language_is_separate() -> None:
    pytest.importorskip("py3langid")
    text = "呢個係廣東話嘅句子,佢哋今日唔喺度。"
    assert rank_languages(text)[0][0] == "zh"
    assert rank_languages(text, separate=["yue", "en"])[0][0] == "yue"
    assert set(MACROLANGUAGES.values()) <= TWO_LETTERS


@pytest.mark.parametrize("text", ["42", "12:30", "", " ", "-", "?!"])
def test_nothing_to_know_a_language_by(text: str) -> None:
    assert rank_languages(text) == []
