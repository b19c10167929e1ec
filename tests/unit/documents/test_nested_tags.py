"""Paragraphs with tags nested at random, and any word alignment: tags stay nested pairs, each around a word."""

from __future__ import annotations

import html.parser
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.toy.sampling import sampled
from tests.unit.documents.generated import Line, translate

TEXT = "the old dog sees a man in front of his house and they do not look forward to any party"
WORDS = TEXT.split()
KEPT = ("code", "kbd", "samp", "var", "span")  # a span is written with translate="no" only
VOID = ("img", "wbr")
PAIRS = ("b", "i", "em", "strong", "a", "u", "mark", "x-term", "sub", "q")
SEEDS = range(sampled(200, least=20))


class Fragment(html.parser.HTMLParser):
    """The tags of a fragment: whether pairs are nested, which have text inside, and the content of those that stay."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.kept, self.text = Counter[str](), [], ""
        self.empty: list[str] = []
        self._open: list[tuple[str, int]] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags[f"{tag} {attrs}"] += 1
        if tag not in VOID:
            self._open.append((tag, len(self.text)))

    def handle_endtag(self, tag):
        opened, start = self._open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"
        content = self.text[start:]
        if tag in KEPT:
            self.kept.append(content)
        elif not any(map(str.isalnum, content)):
            self.empty.append(tag)

    def handle_data(self, data):
        self.text += data


def shuffled(seed: int):
    """A translator that changes the order of words, makes some of them capitals, and aligns most of them right."""

    def translator(lines: Iterable[str]) -> Iterator[Line]:
        rng = random.Random(seed)
        for line in lines:
            words = line.split()
            order = [*range(len(words))]
            for _ in range(rng.randint(0, 4)):
                i = rng.randrange(len(order))
                order.insert(rng.randrange(len(order)), order.pop(i))
            links = {(s, t) for t, s in enumerate(order) if rng.random() < 0.8}
            links |= {(rng.randrange(len(order)), rng.randrange(len(order))) for _ in range(rng.randint(0, 5))}
            yield Line(" ".join(words[s].upper() if rng.random() < 0.9 else words[s] for s in order), sorted(links))

    return translator


def paragraph(rng: random.Random, tags: int, *, pair, kept) -> str:
    """Text of 8 to 16 words with this number of tags, nested at random, each pair around at least one word."""

    def part(words: list[str], tags: int, depth: int) -> str:
        if not tags or not words:
            return " ".join(words)
        start = rng.randrange(len(words))
        end = rng.randint(start + 1, len(words))
        inner = rng.randint(0, tags - 1) if depth < 4 and end - start > 1 else 0
        outer = tags - 1 - inner
        left = rng.randint(0, outer) if start else 0
        middle = pair(rng, part(words[start:end], inner, depth + 1))
        pieces = [part(words[:start], left, depth), middle, part(words[end:], outer - left, depth)]
        return " ".join(filter(None, pieces))

    words = [rng.choice(WORDS) for _ in range(rng.randint(8, 16))]
    text = part(words, tags, 0).split(" ")
    for _ in range(rng.randint(0, 2)):
        gaps = [i for i, word in enumerate(text) if word in WORDS]
        if gaps:
            i = rng.choice(gaps)
            text[i] = f"{text[i]} {kept(rng)}{rng.choice(['', ',', ''])}"
    return " ".join(text) + rng.choice([".", "", "?"])


def html_pair(rng: random.Random, content: str) -> str:
    name = rng.choice(PAIRS)
    return f"<{name}{rng.choice(['', ' class=x', ' id=5'])}>{content}</{name}>"


def html_kept(rng: random.Random) -> str:
    name = rng.choice(KEPT)
    word = rng.choice(["old_man", "Ctrl", "the dog", "x = 1"])
    first = f"<{name}{' translate=no' if name == 'span' else ''}>{word}</{name}>"
    return rng.choice([first, f"{first}+<kbd>c</kbd>", f"{first}, <code>d e</code>", "<img src=a>"])


def check(before: str, after: str) -> None:
    old, new = Fragment(before), Fragment(after)
    assert new.tags == old.tags
    assert sorted(new.kept) == sorted(old.kept)
    assert not new.empty, f"empty: {new.empty}"
    assert len(new.text.split()) >= len(old.text.split()) - 2  # no words are lost


@pytest.mark.parametrize("tags", range(1, 6))
@pytest.mark.parametrize("seed", SEEDS)
def test_tags_of_html_stay_nested_around_words(seed: int, tags: int, tmp_path: Path) -> None:
    rng = random.Random(1000 * tags + seed)
    before = f"<p>{paragraph(rng, tags, pair=html_pair, kept=html_kept)}</p>\n"
    (tmp_path / "a.html").write_text(before)
    translate(tmp_path / "a.html", tmp_path / "b.html", shuffled(seed))
    check(before, (tmp_path / "b.html").read_text())


def markdown_pair(rng: random.Random, content: str) -> str:
    form = rng.choice(["**{}**", "*{}*", "[{}](http://a.b/c)", "<b>{}</b>", "<i id=5>{}</i>", "<x-term>{}</x-term>"])
    if form == "[{}](http://a.b/c)" and "](" in content:  # no link inside a link
        form = "<u>{}</u>"
    if "*" in content and "*" in form:  # neighbouring delimiters of both kinds are read in several ways
        form = "<em>{}</em>"
    return form.format(content)


def markdown_kept(rng: random.Random) -> str:
    forms = ["`old_man`", "`the dog`", "<kbd>Ctrl</kbd>+<kbd>C</kbd>", "`a`, `b`", "<span translate=no>the dog</span>"]
    return rng.choice([*forms, "<var>the *dog*</var>", "<img src=a>"])


@pytest.mark.parametrize("tags", range(1, 6))
@pytest.mark.parametrize("seed", SEEDS)
def test_tags_of_markdown_stay_nested_around_words(seed: int, tags: int, tmp_path: Path) -> None:
    from markdown_it import MarkdownIt

    rng = random.Random(1000 * tags + seed)
    before = f"{paragraph(rng, tags, pair=markdown_pair, kept=markdown_kept)}\n"
    (tmp_path / "a.md").write_text(before)
    translate(tmp_path / "a.md", tmp_path / "b.md", shuffled(seed))
    after = (tmp_path / "b.md").read_text()
    render = MarkdownIt("commonmark").render
    assert "****" not in after, after
    check(render(before), render(after))
