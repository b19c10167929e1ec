"""The interface of LibreTranslate: its answers are those of `mtkit translate`."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import docx
import httpx
import pytest

from tests.e2e.serve.conftest import Server, running
from tests.toy.models import sentences

Translated = Callable[..., list[str]]


def test_lines_are_translated_as_by_the_command(server: Server, translated: Translated) -> None:
    lines = [*sentences(40), "", "  the dog . ", "the dog sees a cat . A man finds the house . "]
    answer = server.translate(q=lines).json()
    assert answer == {"translatedText": translated(lines, "--split-sentences")}


@pytest.mark.whole
def test_a_long_text_is_that_of_its_pieces(server: Server, translated: Translated) -> None:
    line = " ".join(f"{text.capitalize()} ." for text in sentences(120))
    assert len(line) > 2000
    (expected,) = translated([line], "--split-sentences")
    assert server.translate(q=line).json() == {"translatedText": expected}


def test_texts_without_words_are_copied_and_messages_translated_inside(server: Server, translated: Translated) -> None:
    copied = ["https://example.com/the-dog", "a@b.c", "{{name}}: %s", "12.5", "<%= name %>"]
    dog, cats, sees = translated(["dog", "cats", "sees"])
    message = "{{n, plural, one {{# {}}} other {{# {}}}}}"
    answer = server.translate(q=[*copied, message.format("dog", "cats"), "sees", "{n, plural, one {dog"]).json()
    assert answer["translatedText"] == [*copied, message.format(dog, cats), sees, "{n, plural, one {dog"]


def test_line_ends_stay(server: Server, translated: Translated) -> None:
    text = "the dog\r\na cat\n\n  \nthe man\r"
    first, second, last = translated(["the dog", "a cat", "the man"])
    expected = [first, second, "", "  ", last]
    assert server.translate(q=text).json()["translatedText"] == "{}\r\n{}\n{}\n{}\n{}\r".format(*expected)


@pytest.mark.parametrize(
    "form",
    [
        {"data": {"q": "the dog", "source": "en", "target": "de"}},
        {"files": {"q": (None, "the dog"), "source": (None, "en"), "target": (None, "de")}},
        {"params": {"q": "the dog", "source": "en", "target": "de"}},
        {
            "json": {
                "q": "the dog",
                "source": "EN-us",
                "target": "deu",
                "format": "text",
                "alternatives": 0,
                "api_key": "",
            }
        },
    ],
)
def test_forms_of_a_request(server: Server, translated: Translated, form: dict[str, object]) -> None:
    response = server.client.post("/translate", **form)  # type: ignore[arg-type]
    assert (response.status_code, response.json()) == (200, {"translatedText": translated(["the dog"])[0]})


def test_source_is_detected(server: Server) -> None:
    text = "Das ist ein ganz gewöhnlicher deutscher Satz über das Wetter und die Berge."
    answer = server.translate(q=text, source="auto", target="fr").json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["detectedLanguage"]["confidence"] > 90
    assert answer["translatedText"] == server.translate(q=text, source="de", target="fr").json()["translatedText"]
    both = server.translate(q=[text, text], source="auto", target="fr").json()
    assert both["detectedLanguage"] == [answer["detectedLanguage"]] * 2
    found = server.client.post("/detect", data={"q": text}).json()
    assert found[0] == answer["detectedLanguage"]
    assert server.client.post("/detect", json={"q": "42"}).json() == [{"confidence": 0, "language": "en"}]


def test_what_no_model_reads(server: Server) -> None:
    text = "Tämä on aivan tavallinen suomalainen lause säästä ja vuorista."
    found = server.client.post("/detect", data={"q": text}).json()[0]
    assert found["language"] == "fi"
    assert found["confidence"] > 90
    response = server.translate(q=text, source="auto", target="de")
    assert (response.status_code, response.json()["error"]) == (
        400,
        "Finnish was detected (100%), which no model reads; the source is one of en, de, fr",
    )
    for path in ("/sentences", "/translate_file"):
        files = {"file": ("a.html", f"<p>{text}</p>")} if path == "/translate_file" else None
        response = server.client.post(path, data={"q": text, "source": "auto", "target": "de"}, files=files)
        assert (response.status_code, "Finnish was detected" in response.json()["error"]) == (400, True)


@pytest.fixture(scope="module")
def one_way(models: dict[str, Path]) -> Iterator[Server]:
    """A server of one model, from English to German."""
    with running(str(models["en-de"]), "--workers", "1") as server:
        yield server


@pytest.mark.whole
@pytest.mark.parametrize("text", ["Der Hund schläft.", "Guten Morgen, wie geht es Ihnen?"])
def test_a_text_in_the_target_language_stays(one_way: Server, text: str) -> None:
    answer = one_way.translate(q=text, source="auto", target="de").json()
    assert (answer["translatedText"], answer["detectedLanguage"]["language"]) == (text, "de")
    assert answer["detectedLanguage"]["confidence"] > 90
    of_page = one_way.client.post("/sentences", json={"q": text, "source": "auto", "target": "de"}).json()
    assert ("".join(each["target"] for each in of_page["sentences"]), of_page["source"]) == (text, "de")
    of_deepl = one_way.client.post("/v2/translate", json={"text": [text], "target_lang": "DE"}).json()
    assert of_deepl["translations"] == [{"detected_source_language": "DE", "text": text}]


@pytest.mark.whole
@pytest.mark.parametrize("text", ["a man", "Tom", "42", "OK", "Danke", "the dog"])
def test_short_texts_are_in_a_language_that_a_model_reads(one_way: Server, text: str) -> None:
    fields = {"q": text, "target": "de"}
    answer = one_way.translate(**fields, source="auto").json()
    assert answer["detectedLanguage"]["language"] == "en"
    assert answer["translatedText"] == one_way.translate(**fields, source="en").json()["translatedText"]


def test_the_language_of_a_document_is_that_of_its_text(server: Server) -> None:
    text = "Das ist ein ganz gewöhnlicher deutscher Satz über das Wetter und die Berge."
    file = io.BytesIO()
    document = docx.Document()
    document.add_paragraph(text)
    document.save(file)
    path = {"/translate_file": {"source": "auto", "target": "fr"}, "/v2/document": {"target_lang": "FR"}}
    for name, fields in path.items():
        file.seek(0)
        response = server.client.post(name, data=fields, files={"file": ("a.docx", file)})
        assert response.status_code == 200, response.text
        if name == "/translate_file":
            written = server.client.get(response.json()["translatedFileUrl"]).content
            (paragraph,) = docx.Document(io.BytesIO(written)).paragraphs
            assert paragraph.text == server.translate(q=text, source="de", target="fr").json()["translatedText"]


def test_alternatives(server: Server, translated: Translated) -> None:
    lines = ["the dog sees a cat .", "a man"]
    expected = translated(lines, "--n-best", "3")
    texts = [re.fullmatch(r"\d+ \|\|\| (.*) \|\|\| \S+", line)[1] for line in expected]  # type: ignore[index]
    answer = server.translate(q=lines, alternatives=2).json()
    assert answer["translatedText"] == [texts[0], texts[3]]
    assert answer["alternatives"] == [texts[1:3], texts[4:6]]
    assert server.translate(q=lines[0], alternatives=2).json()["alternatives"] == texts[1:3]


@pytest.mark.whole
def test_a_third_language(server: Server, translated: Translated) -> None:
    lines = ["the dog sees a cat .", "a man"]
    middle = translated(lines)
    expected = translated(middle, model="de-fr")
    assert server.translate(q=lines, target="fr").json()["translatedText"] == expected


def test_the_same_language_leaves_the_text(server: Server) -> None:
    assert server.translate(q="the dog", target="en-GB").json()["translatedText"] == "the dog"


def test_a_model_by_name(server: Server, translated: Translated) -> None:
    text = "the dog sees a cat ."
    assert server.translate(q=text, model="special").json()["translatedText"] == translated([text], model="special")[0]
    response = server.translate(q=text, model="other")
    assert response.status_code == 400
    assert "other" in response.json()["error"]


def test_glossary(server: Server) -> None:
    terms = [["dog", "Hund"], ["CAT", "Katze", "Kater"]]
    answer = server.translate(q=["the dog sees", "a big cat", "a man"], glossary=terms).json()["translatedText"]
    assert "Hund" in answer[0]
    assert "Katze" in answer[1]
    assert answer[2] == server.translate(q="a man").json()["translatedText"]
    through_another = server.translate(q="the dog", target="fr", glossary=terms)
    assert (through_another.status_code, "model of its own" in through_another.text) == (400, True)


def test_html(server: Server, translated: Translated) -> None:
    text = '<p title="a dog">the <b>big</b> dog &amp; a cat</p><script>a dog</script><ul><li>a man</li></ul>'
    answer = server.translate(q=text, format="html").json()["translatedText"]
    first, second = translated(["the big dog & a cat", "a man"])
    assert re.sub("<.*?>", "|", answer) == re.sub(
        "<.*?>",
        "|",
        f"<p>{answer[answer.index('>') + 1 : answer.index('</p>')]}</p><s>a dog</s><ul><li>{second}</li></ul>",
    )
    assert re.sub("</?b>", "", answer).startswith(f'<p title="a dog">{first.replace("&", "&amp;")}</p>')


def test_languages_and_settings(server: Server) -> None:
    languages = server.client.get("/languages").json()
    assert {each["code"]: each["name"] for each in languages} == {"en": "English", "de": "German", "fr": "French"}
    assert all(sorted(each["targets"]) == ["de", "en", "fr"] for each in languages)
    settings = server.client.get("/frontend/settings").json()
    assert settings["charLimit"] == 20_000
    assert (settings["keyRequired"], settings["suggestions"]) == (False, False)
    assert settings["language"]["source"]["code"] == "en"
    assert server.client.get("/health").json() == {"status": "ok"}


def test_a_language_that_is_only_a_target_is_listed_by_its_name(models: dict[str, Path]) -> None:
    """Programs, the page of LibreTranslate among them, look the targets of a language up in the list."""
    with running(str(models["en-de"]), "--workers", "1") as server:
        listed = {each["code"]: each for each in server.client.get("/languages").json()}
        assert {code: each["name"] for code, each in listed.items()} == {"en": "English", "de": "German"}
        assert {code: sorted(each["targets"]) for code, each in listed.items()} == {"en": ["de", "en"], "de": ["de"]}
        for source, targets in ((each["code"], each["targets"]) for each in listed.values()):
            assert all(server.translate(q="a dog", source=source, target=each).status_code == 200 for each in targets)
        assert server.translate(q="ein Hund", source="de", target="en").status_code == 400


def test_metrics_count_and_have_no_text(server: Server) -> None:
    server.translate(q="the secretdog")
    text = server.client.get("/metrics").text
    assert re.search(r'^mtkit_http_requests_total{endpoint="/translate",status="200"} \d', text, re.MULTILINE)
    assert re.search(r'^mtkit_source_characters_total{source="en",target="de"} \d', text, re.MULTILINE)
    assert "secretdog" not in text
    assert "127.0.0.1" not in text


def test_no_other_site_may_use_the_answers(server: Server) -> None:
    origin = {"origin": "https://example.org"}
    response = server.client.post("/translate", data={"q": "a"}, headers=origin)
    assert not any(name.startswith("access-control") for name in response.headers)
    assert "default-src 'self'" in response.headers["content-security-policy"]
    preflight = {**origin, "access-control-request-method": "POST"}
    assert server.client.options("/translate", headers=preflight).status_code == 405


def test_the_cache_gives_the_same_answer(server: Server) -> None:
    answers = [server.translate(q="the red dog sees the big house .", alternatives=1).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert httpx.URL(server.url).host == "127.0.0.1"
