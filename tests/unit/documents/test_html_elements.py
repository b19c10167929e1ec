"""Elements of HTML that are not translated: where they begin and end, as browsers read a page."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from mtkit.documents.formats.html import Html
from tests.toy.sampling import seeds
from tests.unit.documents.generated import same, translate

SEEDS = seeds(20, 220)
JQUERY = r"""window.jQuery || document.write('<script src="jquery.js"><\/script>')"""
# words in lower case are translated, those in capitals are not
PAGES = {
    "tag in a script": f"<p>a man</p>\n<script>{JQUERY}</script>\n<p>two dogs</p>",
    "comment in a script": "<script>x = '<!--'</script><p>a man</p><SCRIPT>y = '-->'</SCRIPT ><p>dogs</p>",
    "script in a comment in a script": "<script><!-- x('<script>Y</script>') --> Z</script><p>a man</p>",
    "style": "<style>p::after { content: '<style> <p>' } /* <!-- */</style><p>a man</p>",
    "textarea": "<textarea>A <!-- <textarea> <b></textarea><p>a man</p>",
    "title": "<title>the <b> of a <!-- page</title><p>a man</p>",
    "title without an end": "<title>the page<p>a <b>man</b>",
    "scripts without an end": "<p>a man<script>x('<p>'); </scripts> <p>NO",
    "li": "<ul>\n<li>a man\n<li translate=no>ACME\n<li>two dogs\n</ul>\n<p>a woman",
    "last li": "<ul><li>a man<li translate='no'>ACME <b>LTD</b></ul><p>a woman",
    "li with a list": "<ol><li translate=no>ACME<ul><li>ACME<li>LTD</ul>ACME<li>dogs</ol>",
    "dt, dd": "<dl><dt translate=no>ACME<dd>a man<dt>dogs<dd translate=no>ACME</dl>a woman",
    "p": "<div><p translate=no>ACME<p>a man<p translate=no>ACME <i>LTD<h2>dogs</h2><p translate=no>ACME</div>two",
    "cells": "<table><tr><td translate=no>ACME<td>a man<th translate=no>ACME<tr><td>dogs</table>a woman",
    "rows": "<table><tr translate=no><td>ACME<td><table><tr><td>LTD</table>ACME<tr><td>dogs</table>a woman",
    "parts of a table": "<table><caption translate=no>ACME<thead translate=no><tr><td>ACME<tbody><tr><td>dogs"
    "<tfoot translate=no><tr><td>ACME</table>a woman",
    "options": "<select><option translate=no>ACME<option>a man<optgroup translate=no><option>ACME<optgroup label=x>"
    "<option>dogs<option translate=no>ACME</select>a woman",
    "ruby": "<p><ruby>a<rp translate=no>ACME<rt>man<rt translate=no>ACME</ruby>sees</p>",
    "parent of a block": "<section><div class=notranslate>ACME</section><p>a man",
    "other end tags": "<div translate=no>ACME</span>ACME</p>ACME</li></div>a man",
    "other phrases": "<p>a <b>man <i translate=no>ACME</b> LTD</i> sees",
    "block in a phrase": "<span translate=no><div>ACME</span>a man",
    "code without an end": "<p>a man <code>X<p>two dogs</p>",
    "slash": "<p>a man<span class=notranslate /> sees<br translate=no>dogs</p>",
    "address": "<p>a <a href=http://a.b/>man</a> sees<code href=x/>NO</code></p>",
    "head": "<html><head translate=no><title>ACME</title><body>a man",
    "office": '<?xml:namespace prefix="o" /><p translate=no>ACME<o:p></o:p>LTD</p>a man',
    "empty comments": "<p>a man<!--><p>dogs<!---><p>two<!-- NO --!><p>cats",
    "php": "<?php if (1 > 0) { 'A MAN'; } ?><p>a man",
    "no tag": "<p>a man 1 <2 sees</p><p>dogs <br",
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_elements_end_where_browsers_end_them(page: str, tmp_path: Path) -> None:
    source, output = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text(page, newline="")
    translate(source, output, same)
    assert output.read_text() == page
    text = " ".join(unit.source.text for unit in Html().units(page))
    words = {word for word in ("man", "dogs", "woman", "two", "sees", "page", "cats") if word in page}
    assert {word for word in words if word in text} == words
    assert not [word for word in text.split() if word.isupper()]


@pytest.mark.parametrize(
    "attributes",
    [
        "translate=no",
        "TRANSLATE=NO",
        "translate = 'no'",
        'translate\n=\n"no"',
        "hidden translate=no id=x",
        "class=notranslate",
        "class = 'a notranslate b'",
        'Class="a\nnotranslate"',
        "title='x>y'class=notranslate",
        "class=&#110;otranslate",
        'data-a=" title=" translate=no',
    ],
)
def test_attributes_that_exclude(attributes: str) -> None:
    page = f"<p>a man <span {attributes}>ACME</span> sees</p>"
    assert [unit.source.text for unit in Html().units(page)] == ["a man sees"]


@pytest.mark.parametrize(
    "attributes",
    [
        "translate=yes",
        "translate",
        "class=notranslated",
        "data-translate=no",
        'title="say translate=no"',
        """title=' class="notranslate" '""",
        "translate=yes translate=no",
        "id=translate=no",
        "class= title=notranslate",
    ],
)
def test_attributes_that_do_not_exclude(attributes: str) -> None:
    page = f"<p>a man <span {attributes}>and dogs</span></p>"
    assert [unit.source.text for unit in Html().units(page)] == ["a man and dogs"]


@pytest.mark.whole
@pytest.mark.parametrize("part", ["<a ", '<a b="', "<!", "<title>", "<p><button><b>", "</x>", "<b><code>x</code>"])
def test_time_is_linear(part: str) -> None:
    start = time.perf_counter()
    Html().units(f"<x><table>{part * 20_000}")
    assert time.perf_counter() - start < 10  # some of them took minutes in quadratic time


@pytest.mark.parametrize("seed", SEEDS)
def test_words_beside_tags_do_not_touch_afterwards(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    tags = [
        f"{rng.choice(['<', '</'])}{name}>" for name in rng.choices(["b", "a", "button", "other", "span", "i"], k=9)
    ]
    page = "<p>" + "".join(f"{rng.choice(['dog', 'the man', ''])}{rng.choice(['', ' '])}{tag} man" for tag in tags)
    (tmp_path / "a.html").write_text(page)
    translate(tmp_path / "a.html", tmp_path / "b.html")
    before, after = (re.sub("<[^>]*>", "", each) for each in (page, (tmp_path / "b.html").read_text()))
    assert after.split() == before.upper().split()
