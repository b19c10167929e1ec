"""The tokenizer of BLEU: by an explicit choice, the language, or the script of the references."""

from __future__ import annotations

import io

import pytest
import sentencepiece
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers import tokenizer_spm

from mtkit.errors import DataError, MissingExtraError, MissingInputError
from mtkit.evaluation import tokenizer_choice
from mtkit.evaluation.score import score
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
    monkeypatch.setattr(
        tokenizer_choice,
        "is_tokenizer_installed",
        lambda name: request.param if "mecab" in name else name != "flores200",
    )
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
    monkeypatch.setattr(tokenizer_choice, "is_tokenizer_installed", lambda name: name in ("13a", "zh"))
    assert choose_tokenizer([], lang).name == expected
    assert choose_tokenizer(["latin text"], lang).name == expected


def test_a_language_that_the_references_do_not_look_like_is_the_reason() -> None:
    note = "BLEU uses sacreBLEU's tokenizer zh, since the language is zh, although the references do not look Chinese"
    assert choose_tokenizer(["Der Hund läuft."], "zh").note == note
    same = choose_tokenizer([TEXTS["Chinese"]], "zh").note
    assert same == "BLEU uses sacreBLEU's tokenizer zh, since the references are Chinese"


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


@pytest.fixture
def sacrebleu_folder(tmp_path, monkeypatch):
    """An empty folder for the files of sacreBLEU."""
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(tokenizer_spm, "download_file", lambda *_: pytest.fail("a download"))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def test_flores200_is_used_if_its_file_is_there(sacrebleu_folder) -> None:
    refs, hyps = [TEXTS["Thai"], TEXTS["Thai"] * 2], [TEXTS["Thai"][:-2], TEXTS["Thai"] * 2]
    assert choose_tokenizer(refs, None).name == "char"
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(refs * 9), model_writer=model, vocab_size=20, hard_vocab_limit=False, minloglevel=2
    )
    (sacrebleu_folder / "flores200sacrebleuspm").write_bytes(model.getvalue())
    choice = choose_tokenizer(refs, "th")
    assert choice.name == "flores200"
    assert choice.note == "BLEU uses sacreBLEU's tokenizer flores200, since the references are Thai"
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [[" ".join(processor.encode(line, out_type=str)) for line in text] for text in (hyps, refs)]
    ours = score(hyps, [refs], ["bleu"]).bleu
    assert ours is not None
    assert ours.value == pytest.approx(BLEU(tokenize="none").corpus_score(pieces[0], [pieces[1]]).score, abs=1e-9)
    assert "tok:flores200|" in ours.signature


def test_flores200_is_not_downloaded(sacrebleu_folder) -> None:
    with pytest.raises(MissingInputError, match=r"flores200sacrebleuspm: not found; .* needs it: curl .*tinyurl"):
        choose_tokenizer([], "de", "flores200")
    (sacrebleu_folder / "flores200sacrebleuspm").write_bytes(b"<html>")
    with pytest.raises(DataError, match="flores200sacrebleuspm: not a sentencepiece model, or a damaged one; download"):
        choose_tokenizer([], "th")


@pytest.mark.parametrize(("long", "short"), [("jpn", "ja"), ("zho", "zh"), ("kor", "ko"), ("tha", "th")])
def test_codes_of_three_letters(long, short) -> None:
    assert choose_tokenizer([], long) == choose_tokenizer([], short)
    assert choose_tokenizer([], long).script is not None
