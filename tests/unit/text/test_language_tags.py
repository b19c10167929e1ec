"""Codes of languages as clients write them."""

from __future__ import annotations

import pytest

from mtkit.text.language_tags import is_code, language_name, match_language


@pytest.mark.parametrize(
    ("code", "available", "expected"),
    [
        ("en", ["de", "en"], "en"),
        ("EN", ["de", "en"], "en"),
        ("eng", ["de", "en"], "en"),
        ("en-GB", ["de", "en"], "en"),
        ("EN_us", ["en"], "en"),
        ("en", ["eng"], "eng"),
        ("pt", ["pt-BR"], "pt-BR"),
        ("pt-PT", ["pt-BR"], None),
        ("pt-BR", ["pt", "pt-BR"], "pt-BR"),
        ("pb", ["pt-BR"], "pt-BR"),
        ("zh-TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-CN", ["zh"], "zh"),
        ("zt", ["zh-Hans"], None),
        ("iw", ["he"], "he"),
        ("no", ["nb"], "nb"),
        ("nb", ["no"], "no"),
        ("fr", ["de"], None),
        ("", ["de"], None),
        ("../de", ["de"], None),
        ("d" * 100, ["de"], None),
    ],
)
def test_match(code: str, available: list[str], expected: str | None) -> None:
    assert match_language(code, available) == expected


def test_names() -> None:
    codes = ["de", "deu", "pt-BR", "zh-Hant", "xx"]
    assert [*map(language_name, codes)] == ["German", "German", "Portuguese (BR)", "Chinese (Hant)", "xx"]


def test_form_of_codes() -> None:
    assert [is_code(each) for each in ("de", "zh-Hant-TW", "german language", "a", "de-")] == [
        True,
        True,
        False,
        False,
        False,
    ]
