"""Encodings of documents: stated, declared, guessed, and kept by the translation."""

from __future__ import annotations

import codecs
import random
from pathlib import Path

import pytest

from mtkit.documents.format import format_of
from mtkit.documents.pairs import read_pairs
from mtkit.documents.reading import CHUNK, guess_encoding
from mtkit.documents.translate import translate_document
from mtkit.errors import DataError, UsageError
from tests.toy.sampling import seeds
from tests.unit.documents.generated import Line, Writer, same, translate, upper
from tests.unit.documents.test_second_readers import CHECKS

SEEDS = seeds(20, 200)
STATED = ["cp1252", "iso-8859-15", "cp437", "mac_roman", "gb18030", "utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"]
SENTENCES = {
    "de": "Die Bäume blühen schön. Über den Flüssen fliegen Vögel. Er heißt Jürgen und müßte größer sein.",
    "fr": "L'été dernier, le garçon a mangé une pêche à la fenêtre. Où êtes-vous allés ? Ça me plaît très bien.",
    "es": "El niño comió una manzana mañana. ¿Dónde está la habitación? El señor también llegó en español.",
    "pl": "Mężczyzna siedzi na ławce i patrzy na łabędzie. Dziewczyna śpiewa pieśń. Źle się czuję, chcę iść spać.",
    "cs": "Žena šije šaty u okna. Muž čte noviny a pije čaj. Příliš žluťoučký kůň skáče přes řeku, ještě štěká pes.",
    "hu": "A kislány őszibarackot eszik a kertben. Az öreg bácsi újságot olvas. Hűvös szél fúj a mezőn.",
    "ru": "Старый человек видит собаку у дома. Девочка читает книгу. Завтра будет снег и ветер.",
    "uk": "Старий чоловік бачить собаку біля хати. Дівчина читає цікаву книжку. Її брат їсть яблуко.",
    "el": "Ο γέρος βλέπει το σκύλο δίπλα στο σπίτι. Η κοπέλα διαβάζει ένα βιβλίο.",
    "tr": "Yaşlı adam köpeği görüyor. Kız ağacın altında kitap okuyor. Çocuk şarkı söylüyor, ığdır çok güzel.",
    "he": "האיש הזקן רואה את הכלב ליד הבית. הילדה קוראת ספר.",
    "ar": "الرجل العجوز يرى الكلب قرب البيت. الفتاة تقرأ كتابا جميلا تحت الشجرة.",
    "lt": "Senas žmogus mato šunį prie namo. Mergaitė skaito knygą. Šiandien gražus oras, ąžuolas žydi.",
    "th": "ชายชราเห็นสุนัขใกล้บ้าน เด็กหญิงอ่านหนังสือ",
    "ja": "おじいさんは家の近くで犬を見ました。女の子は本を読んでいます。今日は天気がいいですね。",
    "zh": "老人在房子附近看见一只狗。女孩正在看书。今天天气很好，我们去公园散步。老人看見一隻狗。女孩正在看書。",
    "ko": "노인은 집 근처에서 개를 봅니다. 소녀는 책을 읽고 있습니다. 오늘은 날씨가 좋습니다.",
    "vi": "Tôi ăn cơm Âu. Đông đang ăn cá. Tôi đi chơi.",
}
ONE = ["cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874", "cp949", "cp1258"]
OLD = {
    **{lang: ["cp1252"] for lang in ("de", "fr", "es")},
    **{lang: ["cp1250", "iso-8859-2"] for lang in ("pl", "cs", "hu")},
    "ru": ["cp1251", "koi8-r", "cp866", "iso-8859-5"],
    "uk": ["cp1251", "koi8-u"],
    "ja": ["cp932", "euc-jp"],
    "zh": ["gb18030", "big5"],
    **{lang: [encoding] for lang, encoding in zip(("el", "tr", "he", "ar", "lt", "th", "ko", "vi"), ONE, strict=True)},
}


def encodable(text: str, encoding: str) -> str:
    """The text in capitals or small letters that the encoding has."""
    kept = {char for char in {*text} if is_in(char, encoding) and is_in(char.upper(), encoding)}
    return "".join(char if char in kept else "x" for char in text)


def is_in(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def stated(path: Path, output: Path, encoding: str | None, translator=upper) -> list[str]:
    """Translate with a stated encoding; return the notes."""
    notes: list[str] = []
    form = format_of(path, src_lang="en", tgt_lang="de", encoding=encoding)
    translate_document(path, output, form, translator, notes.append)
    return notes


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stated_encoding_gives_the_document_of_utf8(seed: int, tmp_path: Path) -> None:
    """The translation, decoded, is that of the same document in UTF-8, which a second reader checks."""
    rng = random.Random(seed)
    encoding, suffix = rng.choice(STATED), rng.choice(["html", "md", "srt", "vtt", "po", "csv", "json", "xlf"])
    text = encodable(Writer(seed).document(suffix).decode(), encoding)
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    source.write_bytes(text.encode())
    translate(source, output)
    expected = output.read_bytes()
    if "mac" not in encoding and "437" not in encoding:
        CHECKS[suffix](text.encode(), expected)
    source.write_bytes(text.encode(encoding))
    assert stated(source, output, encoding) == []
    assert output.read_bytes().decode(encoding) == expected.decode()
    if suffix not in ("po", "xlf"):
        stated(source, output, encoding, same)
        assert output.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_encoding_of_subtitles_and_tables_is_guessed_and_said(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    lang = [*OLD][seed % len(OLD)]
    encoding = rng.choice(OLD[lang])
    sentences = [each.strip() for each in SENTENCES[lang].replace("。", "。\n").replace(". ", ".\n").split("\n")]
    lines = [each for each in rng.choices(sentences, k=12) + sentences if each and is_in(each, encoding)]
    suffix = rng.choice(["srt", "csv"])
    if suffix == "srt":
        cues = [f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n{line}\n" for n, line in enumerate(lines, start=1)]
        text = "\n".join(cues)
    else:
        text = "".join(["id;text\n", *(f'{n};"{line}"\n' for n, line in enumerate(lines))])
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    source.write_bytes(text.encode(encoding))
    form, notes, read = format_of(source, src_lang=lang, tgt_lang="en"), [], []

    def recorded(texts):
        for each in texts:
            read.append(each)
            yield Line(each)

    translate_document(source, output, form, recorded, notes.append)
    assert output.read_bytes() == source.read_bytes()
    squeezed = "".join(lines).replace(" ", "")
    assert "".join(read).replace(" ", "") == squeezed, (lang, encoding)
    assert [note.split(" read as ")[0] for note in notes] == [f"{source}: not UTF-8, and"]
    assert "--encoding NAME" in notes[0]


def test_utf8_is_not_guessed(tmp_path: Path) -> None:
    """Also where the first character beyond ASCII is far behind, and where a chunk ends inside it."""
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    text = "id,text\n" + ("1," + "the dog " * 1000 + "\n") * 140
    assert len(text) > CHUNK
    source.write_text(text[: CHUNK - 1] + "änse – süß\n", encoding="utf-8")
    assert stated(source, output, None, same) == []
    source.write_bytes(text.encode() + "2,naïve\n".encode("cp1252"))
    assert len(stated(source, output, None, same)) == 1
    assert output.read_bytes() == source.read_bytes()


def test_languages_leave_one_encoding_or_few() -> None:
    assert guess_encoding(b"ma\xf1ana", ["es", "en"]) == "windows-1252"
    assert guess_encoding(b"sk\xe1\xe8e p\xf8es \xf8eku, \x9eena", ["ces", "en"]) == "windows-1250"
    assert guess_encoding(b"sk\xe1\xe8e p\xf8es \xf8eku, \xbeena", ["cs_CZ"]) == "iso8859-2"
    assert guess_encoding("Старый человек видит собаку".encode("koi8-r"), ["rus_Cyrl"]) == "koi8-r"


@pytest.mark.parametrize("suffix", ["vtt", "md", "json", "po", "html"])
def test_other_documents_are_refused_with_the_option(suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"a.{suffix}"
    content = {"json": '{"a": "é"}', "po": 'msgid "é"\nmsgstr ""\n', "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\né\n"}
    source.write_bytes(content.get(suffix, "<p>é</p>").encode("latin-1"))
    with pytest.raises(DataError, match=r"a byte that is not utf-8; .* or name its encoding \(--encoding, "):
        stated(source, tmp_path / "out", None)
    stated(source, tmp_path / "out", "latin-1")
    assert "É".encode("latin-1") in (tmp_path / "out").read_bytes()


def test_what_contradicts_a_stated_encoding(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_bytes(codecs.BOM_UTF8 + b"a,b\n1,x\n")
    with pytest.raises(UsageError, match="begins with the byte order mark of utf-8; omit it"):
        stated(source, tmp_path / "b.csv", "cp1252")
    assert stated(source, tmp_path / "b.csv", "utf-8") == []
    for encoding in ("nosuch", "utf-7", "rot13", "cp037", "\0", "a\nb"):
        with pytest.raises(UsageError, match="unknown; such as windows-1252"):
            stated(source, tmp_path / "c.csv", encoding)
    for suffix in ("docx", "xlsx"):
        with pytest.raises(UsageError, match="its parts declare their encoding; omit --encoding"):
            stated(tmp_path / f"a.{suffix}", tmp_path / "b", "cp1252")


def test_pairs_have_the_stated_or_guessed_encoding(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_bytes("en,pl\nthe dog,łabędź śpiewa\n".encode("cp1250"))
    notes: list[str] = []
    read = [*read_pairs(source, src_lang="en", tgt_lang="pl", report=notes.append)]
    assert read[-1][2] == "łabędź śpiewa"
    assert "windows-1250" in notes[0]
    read = [*read_pairs(source, src_lang="en", tgt_lang="pl", encoding="iso-8859-2", report=notes.append)]
    assert read[-1][2] == "łabędź śpiewa".encode("cp1250").decode("iso-8859-2")
    assert len(notes) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_of_ascii_without_a_declaration_stays_ascii(seed: int, tmp_path: Path) -> None:
    """Browsers read it as windows-1252, and others as UTF-8: both find the same text."""
    html = pytest.importorskip("lxml.html")
    page = Writer(seed).document("html").decode().encode("ascii", "xmlcharrefreplace")
    page = page.replace(b"</html>", b"<p>a&nbsp;&copy; dog</p></html>")
    source, output = tmp_path / "a.html", tmp_path / "b.html"
    source.write_bytes(page)
    translate(source, output, lambda lines: (Line(f"ü {line} ñ日–") for line in lines))
    written = output.read_bytes()
    assert written.isascii()
    texts = [
        html.document_fromstring(written, parser=html.HTMLParser(encoding=encoding)).text_content()
        for encoding in ("windows-1252", "utf-8")
    ]
    assert texts[0] == texts[1]
    assert "ñ日–" in texts[0]
    translate(source, output, same)
    assert output.read_bytes() == page
