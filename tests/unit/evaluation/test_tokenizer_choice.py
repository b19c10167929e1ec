"""The tokenizer of BLEU: by an explicit choice, the language, or the script of the references."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.bleu import BLEU

from mtkit.errors import MissingExtraError
from mtkit.evaluation import tokenizer_choice
from mtkit.evaluation.tokenizer_choice import choose_tokenizer, script_of

TEXTS = {
    "Chinese": "今天天气很好，我们去 Beijing 的公园散步。",
    "Japanese": "今日は天気がいいですね。東京大学へ行きます。",
    "Korean": "오늘은 날씨가 좋습니다 .",
    "Thai": "วันนี้อากาศดี",
    "Lao": "ມື້ນີ້ອາກາດດີ",
    "Khmer": "ថ្ងៃនេះអាកាសធាតុល្អ",
    "Burmese": "ယနေ့ရာသီဥတုကောင်းသည်",
    "Tibetan": "དེ་རིང་གནམ་གཤིས་བཟང་པོ་འདུག",
}


@pytest.fixture(params=[True, False], ids=["with MeCab", "without MeCab"])
def has_mecab(request, monkeypatch) -> bool:
    monkeypatch.setattr(tokenizer_choice, "is_tokenizer_installed", lambda name: request.param or "mecab" not in name)
    return request.param


@pytest.mark.parametrize(("script", "text"), TEXTS.items())
def test_scripts(script, text) -> None:
    assert script_of([text, "", "123 !"]) == script
    assert (
        script_of([text, "A sentence with a great many more letters than that one has, in Latin script. " * 3]) is None
    )


@pytest.mark.parametrize(
    "text", ["", "1 2 3", "Der Hund läuft.", "Собака бежит.", "كلب يجري", "कुत्ता दौड़ता है", "狗 is Chinese for dog."]
)
def test_texts_that_13a_suits(text) -> None:
    assert script_of([text]) is None
    assert choose_tokenizer([text], None) == choose_tokenizer([], "de")
    assert choose_tokenizer([text], None).name == "13a"
    assert choose_tokenizer([text], None).note is None


@pytest.mark.parametrize("script", TEXTS)
def test_the_best_tokenizer_that_is_installed(script, has_mecab) -> None:
    mecab = {"Japanese": ("ja-mecab", "char"), "Korean": ("ko-mecab", "13a")}
    expected = mecab[script][not has_mecab] if script in mecab else "zh" if script == "Chinese" else "char"
    choice = choose_tokenizer([TEXTS[script]], None)
    assert choice.name == expected
    assert choice.note is not None
    assert f"tokenizer {expected}, since the references are {script}" in choice.note
    assert ("pip install" in choice.note) == (script in mecab and not has_mecab)
    assert choice.is_unspaced == (script != "Korean")


@pytest.mark.parametrize(
    ("lang", "expected"),
    [
        ("de", "13a"),
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("ZH_tw", "zh"),
        ("yue", "zh"),
        ("ja", "char"),
        ("no", "13a"),
        ("th", "char"),
    ],
)
def test_languages(lang, expected, monkeypatch) -> None:
    monkeypatch.setattr(tokenizer_choice, "is_tokenizer_installed", lambda name: "mecab" not in name)
    assert choose_tokenizer([], lang).name == expected
    assert choose_tokenizer(["latin text"], lang).name == expected


@pytest.mark.parametrize("lang", [None, "de", "zh"])
@pytest.mark.parametrize("requested", ["13a", "intl", "char", "zh", "none"])
def test_an_explicit_choice_wins(lang, requested) -> None:
    assert choose_tokenizer([TEXTS["Japanese"]], lang, requested).name == requested


def test_an_explicit_choice_that_is_not_installed(monkeypatch) -> None:
    monkeypatch.setattr(tokenizer_choice.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"MeCab and ipadic: pip install 'mtkit\[ja\]'"):
        choose_tokenizer([], "de", "ja-mecab")


def test_sacrebleu_knows_every_tokenizer() -> None:
    names = set(tokenizer_choice.SacrebleuTokenizer.__args__) - {"auto"}
    assert names <= set(BLEU.TOKENIZERS)


def test_the_first_lines_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["eine Zeile", "noch eine", *["这是一个句子"] * 50]
    assert script_of(lines) == "Chinese"
    monkeypatch.setattr(tokenizer_choice, "MAX_LINES", 2)
    assert script_of(lines) is None
