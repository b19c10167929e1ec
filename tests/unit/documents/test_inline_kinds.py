"""What inside a sentence is text, a tag around text, or a piece that stays; and what begins another text."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mtkit.documents.format import format_of
from mtkit.documents.translate import translate_document
from mtkit.errors import UsageError
from tests.toy.sampling import sampled, seeds
from tests.unit.documents.generated import Line, translate, upper

HTML = {
    # unknown elements and buttons: in a sentence, and alone
    "a <x-y>b</x-y> c": ["a b c"],
    "a <button>b</button>": ["a b"],
    "<x-y>a</x-y> <x-y>b</x-y>": ["a", "b"],
    "<x-y><z-z>a</z-z><z-z>b</z-z></x-y>": ["a", "b"],
    "<x-y>a <z-z>b</z-z></x-y>": ["a b"],
    "<button>a</button><button>b</button>": ["a", "b"],
    "<x-y/>a <b>b</b>": ["a b"],
    "a<br>b": ["a", "b"],
    "a <meta itemprop=x> b": ["a b"],
    # footnote marks, exponents and other small text
    "a b<sup>1</sup>.": ["a b."],
    'a b.<sup class=r><a href="#c">[1]</a></sup> c': ["a b. c"],
    "a 5 m<sup>2</sup> b": ["a 5 m b"],
    "H<sub>2</sub>O": ["H2O"],
    "the 1<sup>st</sup> a": ["the 1st a"],
    # code beside code
    "a <kbd>C</kbd>+<kbd>D</kbd> b": ["a b"],
    "a <code>c d</code>, <code>e</code> b": ["a b"],
    "a <span translate=no>c d</span> b": ["a b"],
}
MARKDOWN = {
    "a <b>b</b> c": ["a b c"],
    "a <code>c d</code> <kbd>e</kbd> b": ["a b"],
    "a <span translate=no>c *d*</span> b": ["a b"],
    "a `c`, `d` b": ["a b"],
    "a $x_1$ b": ["a b"],
    "a $$x = 1$$ b": ["a b"],
    "a $5 and $6 b": ["a $5 and $6 b"],
    "a US$5 to US$6 b": ["a US$5 to US$6 b"],
    "a $5 for US$ b": ["a $5 for US$ b"],
    "a \\$x\\$ b": ["a $x$ b"],
    "see [the dog] now": ["see the dog now"],
    "see [the dog][] now": ["see the dog now"],
    "see [the dog][1] now": ["see the dog now"],
    "see [no reference] now": ["see no reference now"],
    "a [^1] b": ["a b"],
}


def texts(path: Path, content: str) -> tuple[list[str], str]:
    """The texts that a model would get, and the document in capitals."""
    read: list[str] = []

    def translator(lines: Iterable[str]) -> Iterator[Line]:
        yield from upper(each for line in lines for each in [read.append(line) or line])

    path.write_text(content)
    output = path.with_stem("out")
    translate(path, output, translator)
    return read, output.read_text()


@pytest.mark.parametrize(("written", "expected"), HTML.items())
def test_texts_of_html(written: str, expected: list[str], tmp_path: Path) -> None:
    assert texts(tmp_path / "a.html", f"<p>{written}</p>")[0] == expected


@pytest.mark.parametrize(("written", "expected"), MARKDOWN.items())
def test_texts_of_markdown(written: str, expected: list[str], tmp_path: Path) -> None:
    assert texts(tmp_path / "a.md", f"{written}\n\n[the dog]: x\n\n[1]: y\n")[0] == expected


def test_a_link_whose_text_is_its_label_keeps_the_label(tmp_path: Path) -> None:
    content = "see [the dog] and [The  Dog][] and [`x`] now\n\n[the dog]: x\n\n[`x`]: y\n"
    assert texts(tmp_path / "a.md", content)[1] == (
        "SEE [THE DOG][the dog] AND [THE  DOG][The Dog] AND [`x`] NOW\n\n[the dog]: x\n\n[`x`]: y\n"
    )


@pytest.mark.parametrize("seed", range(sampled(200, least=20)))
def test_a_translation_that_begins_like_a_block_is_a_paragraph(seed: int, tmp_path: Path) -> None:
    from markdown_it import MarkdownIt

    rng = random.Random(seed)
    beginnings = [str(rng.randrange(10 ** rng.randint(1, 9))) + rng.choice(".)"), "-", "+", "#", "##", ">", "=", "* *"]
    text = f"{rng.choice(beginnings)}{rng.choice([' ', ' a ', ''])}b"
    (tmp_path / "a.md").write_text("the dog\n")
    translate(tmp_path / "a.md", tmp_path / "b.md", lambda lines: (Line(text) for _ in lines))
    tokens = MarkdownIt("commonmark").parse((tmp_path / "b.md").read_text())
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert "".join(child.content for child in tokens[1].children or ()) == text


def test_code_that_comes_before_a_word_has_a_space(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("the `x`, dog\n")
    translate(tmp_path / "a.md", tmp_path / "b.md", lambda lines: (Line("a b", ((0, 0), (2, 1))) for _ in lines))
    assert (tmp_path / "b.md").read_text() == "a `x` b\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<p>a <img alt="the dog"> b', '<p>A <img alt="THE DOG"> B'),
        ("<p title='it&#39;s \"a\"'>b", "<p title='IT&#39;S &quot;A&quot;'>B"),
        ("<p title=dog class=dog>b", '<p title="DOG" class=dog>B'),
        ('<code title="the dog">b</code> c', '<code title="the dog">b</code> C'),
        ('<input placeholder="dog" value="dog"><a href="dog" aria-label="dog">b</a>', None),
        ('<p alt="12">b', '<p alt="12">B'),
    ],
)
def test_attributes_are_translated_by_an_option(before: str, after: str | None, tmp_path: Path) -> None:
    after = after or '<input placeholder="DOG" value="dog"><a href="dog" aria-label="DOG">B</a>'
    (tmp_path / "a.html").write_text(before)
    form = format_of(tmp_path / "a.html", src_lang="en", tgt_lang="de", attributes=True)
    report = translate_document(tmp_path / "a.html", tmp_path / "b.html", form, upper)
    assert ((tmp_path / "b.html").read_text(), report.left) == (after, {})


def test_attributes_of_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.json: --attributes is of \.epub, \.htm, \.html, \.markdown, \.md"):
        format_of(tmp_path / "a.json", src_lang="en", tgt_lang="de", attributes=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('see [a](x "the dog\'s") b', 'SEE [A](x "THE DOG\'S") B'),
        ("![the *old* dog](x.png 'a\"b')", "![THE *OLD* DOG](x.png 'A\"B')"),
        ("[a `b`](<x y> (the dog))", "[A `b`](<x y> (THE DOG))"),
        ('[a]\n\n[a]: http://x.org/a "the dog"\n[b]: x\n', '[A][a]\n\n[a]: http://x.org/a "THE DOG"\n[b]: x\n'),
        ('a <b title="dog">b</b> <img alt="dog">', 'A <b title="DOG">B</b> <img alt="DOG">'),
        ('<p title="dog">\n\nb\n\n</p>', '<p title="DOG">\n\nB\n\n</p>'),
        ('> a\n> [b](x "dog | c")\n', '> A [B](x "DOG \\| C")\n'),
        ('| a |\n|---|\n| ![dog](x "a \\| b") |\n', '| A |\n|---|\n| ![DOG](x "A \\| B") |\n'),
        ('`[a](x "dog")` b', '`[a](x "dog")` B'),
        ('[a](x "12")', '[A](x "12")'),
    ],
)
def test_attributes_of_markdown(before: str, after: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(before)
    form = format_of(tmp_path / "a.md", src_lang="en", tgt_lang="de", attributes=True)
    translate_document(tmp_path / "a.md", tmp_path / "b.md", form, upper)
    assert (tmp_path / "b.md").read_text() == after


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_titles_and_texts_of_images_by_another_reader(seed: int, tmp_path: Path) -> None:
    from markdown_it import MarkdownIt

    rng = random.Random(seed)
    words = ["dog", "a", "(b)", "don't", '"c"', "&amp;", "d|e", "3", "`f", "*"]

    def text(signs: str) -> str:
        chosen = " ".join(rng.choices(words, k=rng.randint(1, 4)))
        return re.sub(rf"(?<!\\)[{re.escape(signs)}]", r"\\\g<0>", chosen)

    def title() -> str:
        opening, closing = rng.choice(['""', "''", "()"])
        written = text(opening.strip("(") or "*")
        return rng.choice(["", f" {opening}{written.replace('(', '&#40;').replace(')', '&#41;')}{closing}"])

    kinds = [
        lambda: f"[x]({rng.choice(['u', '<u v>'])}{title()})",
        lambda: f"![{text('*`()')}](u{title()})",
        lambda: "y z",
    ]
    blocks = [" ".join(rng.choice(kinds)() for _ in range(rng.randint(1, 4))) for _ in range(rng.randint(1, 4))]
    definition = f"[r]: u{title()}\n\n[x][r]"
    (tmp_path / "a.md").write_text("\n\n".join([*blocks, definition]) + "\n")
    form = format_of(tmp_path / "a.md", src_lang="en", tgt_lang="de", attributes=True)
    translate_document(tmp_path / "a.md", tmp_path / "b.md", form, upper)

    def links(name: str) -> list[tuple[object, str, str]]:
        tokens = MarkdownIt("commonmark").parse((tmp_path / name).read_text())
        inline = [child for token in tokens for child in token.children or () if child.type in ("link_open", "image")]
        alts = ["".join(part.content for part in child.children or ()) for child in inline]
        urls = [child.attrs.get("href", child.attrs.get("src")) for child in inline]
        titles = [str(child.attrs.get("title", "")) for child in inline]
        return list(zip(urls, titles, alts, strict=True))

    assert links("b.md") == [(url, title.upper(), alt.upper()) for url, title, alt in links("a.md")]
