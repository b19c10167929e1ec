"""Languages of the page: equal keys and placeholders, keys that are used, and the choice by what a browser prefers."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mtkit.serve.fronts.front import routes
from mtkit.serve.fronts.page import FILES, FOLDER, LANGUAGES, Page, interface_language, preferred_languages
from mtkit.translate.translation import FLAGS

INDEX = (FOLDER / "index.html").read_text()
SCRIPTS = {name: path.read_text() for name, path in FILES.items() if path.suffix == ".js"}


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_each_language_has_all_texts_with_their_places(code: str) -> None:
    texts, english = LANGUAGES[code], LANGUAGES["en"]
    assert [*texts] == sorted(english)
    assert {key for key, text in texts.items() if not text.strip()} == set()
    assert {key: placeholders(text) for key, text in texts.items()} == {
        key: placeholders(text) for key, text in english.items()
    }
    equal = {key for key, text in texts.items() if code != "en" and text == english[key]}
    assert len(equal) < 10, equal


def test_texts_that_the_server_fills_in_have_no_placeholders() -> None:
    filled = {key: LANGUAGES["en"].get(key, "") for key in re.findall(r"\{\{(\w+)\}\}", INDEX)}
    assert {key for key, text in filled.items() if placeholders(text)} == set()


def test_each_text_is_used_and_each_used_text_exists() -> None:
    scripts = "\n".join(SCRIPTS.values())
    flags = re.search(r"FLAGS = \[(.*?)\]", scripts)
    assert flags is not None
    named = set(re.findall(r'"(\w+)"', flags[1]))
    assert named <= {*FLAGS}
    used = {
        *re.findall(r"\{\{(\w+)\}\}", INDEX),
        *re.findall(r'\bt\("(\w+)"', scripts),
        *(f"flag_{each}" for each in named),
    }
    assert used - {"language", "languages", "version"} == {*LANGUAGES["en"]}


def test_files_of_the_page_name_no_other_server() -> None:
    for name, path in {**FILES, "index.html": FOLDER / "index.html"}.items():
        found = re.findall(r"\bhttps?://\S+", path.read_text())
        assert [each for each in found if not each.startswith("http://www.w3.org/2000/svg")] == [], name


def test_the_page_has_no_inline_script_or_style() -> None:
    assert re.findall(r"<script(?![^>]*\bsrc=)|\bon\w+=|\bstyle=|<style", INDEX) == []


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("sw, fr;q=0.5, en;q=0.1", "fr"),
        ("en;q=0.2, es;q=0.7", "es"),
        ("de;q=0, fr", "fr"),
        ("FR_ca", "fr"),
        ("*", "en"),
        ("de;q=x, es", "es"),
        (";;;,,,q=1", "en"),
        ("../../etc/passwd", "en"),
        ("xx-" * 500, "en"),
    ],
)
def test_language_of_a_browser(header: str, expected: str) -> None:
    assert interface_language(preferred_languages(header)) == expected


def test_a_chosen_language_comes_before_that_of_the_browser() -> None:
    clients = SimpleNamespace(needs_key=False)
    app = Starlette(routes=routes([Page(SimpleNamespace(), clients)]))  # type: ignore[arg-type]
    client = TestClient(app)
    german = client.get("/", headers={"Accept-Language": "de"})
    assert '<html lang="de"' in german.text
    assert german.headers["content-language"] == "de"
    assert "{{" not in german.text
    french = client.get("/", headers={"Accept-Language": "de", "Cookie": "mtkit_language=fr"})
    assert '<html lang="fr"' in french.text
    odd = client.get("/", headers={"Accept-Language": "de", "Cookie": 'mtkit_language="><script>'})
    assert '<html lang="de"' in odd.text
    assert client.get("/page/de.json").json() == LANGUAGES["de"]
    assert {name: client.get(f"/page/{name}").status_code for name in FILES} == dict.fromkeys(FILES, 200)
