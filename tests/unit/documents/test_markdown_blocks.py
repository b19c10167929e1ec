"""Blocks of Markdown: the text of each is translated in its place, and what marks it stays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import DataError
from tests.unit.documents.generated import Line, same, translate, upper

CASES = {
    "text around a block of code": ("# Log\n\n```\nten\n```\n\nA dog.\n", "# LOG\n\n```\nten\n```\n\nA DOG.\n"),
    "code of two lines": ("A `x\n  y` dog.\n\nA cat.\n", "A `x\n  y` DOG.\n\nA CAT.\n"),
    "code of two lines in a quotation": ("> A `x\n> y` dog.\n", "> A `x\n> y` DOG.\n"),
    "label of two lines": (
        "A [dog][the\nlabel]  \nruns.\n\n[the label]: /u\n",
        "A [DOG][the\nlabel]  \nRUNS.\n\n[the label]: /u\n",
    ),
    "number that looks like its marker": ("2. 2\n   dogs\n", "2. 2 DOGS\n"),
    "footnotes": ("A dog.[^1]\n\n[^1]: A man.\n[^b-2]: A cat.\n", "A DOG.[^1]\n\n[^1]: A MAN.\n[^b-2]: A CAT.\n"),
    "footnote of one word": ("[^1]: Dog\n", "[^1]: DOG\n"),
    "footnote of several lines": (
        "[^1]: A man\nis here.\n\n    Two dogs.\n\n        code\n\nA cat.\n",
        "[^1]: A MAN IS HERE.\n\n    TWO DOGS.\n\n        code\n\nA CAT.\n",
    ),
    "footnote that begins in the next line": ("[^1]:\n    A man.\n\n[^2]:\nA\n", "[^1]:\n    A MAN.\n\n[^2]:\nA\n"),
    "footnote after other blocks": (
        "> A dog.\n[^1]: A man.\n\n- A cat.\n[^2]: A cow.\n",
        "> A DOG.\n[^1]: A MAN.\n\n- A CAT.\n[^2]: A COW.\n",
    ),
    "list and table in a footnote": (
        "[^a]: - a dog\n    - a cat\n[^b]: | b | cow |\n    |---|---|\n    | `b` | b |\n",
        "[^a]: - A DOG\n    - A CAT\n[^b]: | B | COW |\n    |---|---|\n    | `b` | B |\n",
    ),
    "line break of HTML": (
        "A dog.<br>Two cats. <br /> A cow.<BR/>\nA man.\n",
        "A DOG.<br>TWO CATS. <br /> A COW.<BR/>\nA MAN.\n",
    ),
    "line break inside marks": (
        "a **dog or *a big<br>tame* cat** `x<br>y` [runs<br>far](u) away\n",
        "A **DOG OR *A BIG<br>TAME* CAT** `x<br>y` [RUNS<br>FAR](u) AWAY\n",
    ),
    "hard breaks": (
        "- a dog  \n  a cat\\\n  a cow\n\n!!! note\n    A man  \n    runs.\n",
        "- A DOG  \n  A CAT\\\n  A COW\n\n!!! note\n    A MAN  \n    RUNS.\n",
    ),
    "line break of HTML that is escaped": (r"a \<br> dog", r"A \<BR> DOG"),
    "line breaks in a table": ("| a dog<br/>a cat | b<br> |\n|--|--|\n", "| A DOG<br/>A CAT | B<br> |\n|--|--|\n"),
    "escaped pipes": (
        "| a\\|b | `c\\|d` dog |\n|--|--|\n| [\\|](u) x | y \\\\\\| z |\n",
        "| A\\|B | `c\\|d` DOG |\n|--|--|\n| [\\|](u) X | Y \\\\\\| Z |\n",
    ),
    "cell that is in the code before it": ("| `dog` | dog |\n|--|--|\n", "| `dog` | DOG |\n|--|--|\n"),
    "empty cells": ("| | dog |\n|--|--|\n|  | | x\n| dog |\n", "| | DOG |\n|--|--|\n|  | | x\n| DOG |\n"),
    "front matter in TOML": ("+++\nname = 'a dog'\n+++ \n\nA dog.\n", "+++\nname = 'a dog'\n+++ \n\nA DOG.\n"),
    "front matter in YAML": ("--- \nname: a dog\n...\nA dog.\n", "--- \nname: a dog\n...\nA DOG.\n"),
    "front matter without an end": ("+++\nA dog.\n", "\\+++ A DOG.\n"),
    "byte order mark": ("\ufeff---\nname: dog\n---\n# A dog\n", "\ufeff---\nname: dog\n---\n# A DOG\n"),
    "alert": ("> [!NOTE]\n> A dog.\n>\n> A cat.\n", "> [!NOTE]\n> A DOG.\n>\n> A CAT.\n"),
    "alert with a title": ("> [!tip]- A man\n> A dog.\n", "> [!tip]- A MAN\n> A DOG.\n"),
    "no alert": ("A dog.\n[!note](u) cats\n", "A DOG. [!NOTE](u) CATS\n"),
    "containers": (
        "A man.\n::: warning Title\nA dog.\n:::: {.x}\n- A cat.\n::::\n:::\nA cow.\n",
        "A MAN.\n::: warning Title\nA DOG.\n:::: {.x}\n- A CAT.\n::::\n:::\nA COW.\n",
    ),
    "admonitions": (
        '!!! note\n    A dog.\n\n    - A cat.\nA man.\n??? tip "Title"\n    A cow.\n\n        code\n',
        '!!! note\n    A DOG.\n\n    - A CAT.\nA MAN.\n??? tip "Title"\n    A COW.\n\n        code\n',
    ),
    "admonitions in others": (
        '- A dog.\n\n    !!! info inline end\n        A cat.\n\n        !!! tip ""\n            A cow.\n',
        '- A DOG.\n\n    !!! info inline end\n        A CAT.\n\n        !!! tip ""\n            A COW.\n',
    ),
    "admonition after a list": ("- A dog.\n???+ note\n    A cat.\n", "- A DOG.\n???+ note\n    A CAT.\n"),
    "admonition without an indented text": ("!!! note\nA dog.\n", "!!! note\nA DOG.\n"),
    "tabs": ('=== "Tab"\n\n    A dog.\n', '=== "Tab"\n\n    A DOG.\n'),
    "no admonition": (
        "A dog\n!!! runs fast !!!\n!!! to me\n??? why\n===\n",
        "A DOG !!! RUNS FAST !!! !!! TO ME ??? WHY\n===\n",
    ),
    "definitions": (
        "Dog\nHound\n: An animal\n: A friend\n  of men.\n\n    A man.\n\nCat\n\n:   Another `x`\n",
        "DOG\nHOUND\n: AN ANIMAL\n: A FRIEND OF MEN.\n\n    A MAN.\n\nCAT\n\n:   ANOTHER `x`\n",
    ),
    "definitions in a quotation": ("> Dog\n> : An `x\n>   y` animal\n", "> DOG\n> : AN `x\n>   y` ANIMAL\n"),
    "two lines before a definition that is not theirs": ("A dog\nruns\n\n: x y\n", "A DOG RUNS\n\n: X Y\n"),
    "no definition": ("A dog\n:smile: x\n:\n", "A DOG :SMILE: X :\n"),
    "escaped reference": ("A \\&lt; &amp;amp; &amp; dog\n", "A \\&LT; \\&AMP; & DOG\n"),
    "escaped markers": ("\\!!! note\n\n\\::: x\n", "\\!!! NOTE\n\n\\::: X\n"),
    "HTML in other blocks": (
        "> <div\n> id=a>\n> A <b\n> id=c>dog</b>\n> </div>\n\n- <p>A cat</p>\n",
        "> <div\n> id=a>\n> A <b\n> id=c>DOG</b>\n> </div>\n\n- <p>A CAT</p>\n",
    ),
    "many levels": ("> " * 40 + "dog\n\n" + "- " * 40 + "cat\n", "> " * 40 + "DOG\n\n" + "- " * 40 + "CAT\n"),
}


def translated(document: str, translator=upper) -> str:
    with TemporaryDirectory() as folder:
        source, output = Path(folder, "a.md"), Path(folder, "b.md")
        source.write_bytes(document.encode())
        translate(source, output, translator)
        return output.read_bytes().decode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", CASES)
def test_only_the_text_changes(name: str, line_end: str) -> None:
    document, expected = (text.replace("\n", line_end) for text in CASES[name])
    assert translated(document) == expected
    assert translated(document, same) == document


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("```\n10%\r20%\r100%\n```\n\nA man.\n\nA dog.\n", "```\n10%\r20%\r100%\n```\n\nA MAN.\n\nA DOG.\n"),
        ("A `x\ry` dog.\n\nA cat.\n", "A `x\ry` DOG.\n\nA CAT.\n"),
        ("A dog.\r\n\rA cat.\n\r\n# Man\r", "A DOG.\r\n\rA CAT.\n\r\n# MAN\r"),
    ],
)
def test_lines_of_one_document_may_end_in_several_ways(document: str, expected: str) -> None:
    assert translated(document) == expected
    assert translated(document, same) == document


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("A man is walking.<br>Two dogs\n", ["A man is walking.", "Two dogs"]),
        ("| red<br/>big *dog* |\n|--|\n", ["red", "big dog"]),
        ("Dog\nHound\n: An animal\n", ["Dog", "Hound", "An animal"]),
        ("[^1]: A man\n      walks.\n", ["A man walks."]),
    ],
)
def test_texts_that_the_translator_receives(document: str, expected: list[str]) -> None:
    received = []

    def keep(lines: Iterable[str]) -> Iterator[Line]:
        for line in lines:
            received.append(line)
            yield Line(line)

    assert translated(document, keep) == document
    assert received == expected


@pytest.mark.parametrize("marker", ["> ", "- ", ": "])
def test_too_many_levels_are_refused(marker: str) -> None:
    with pytest.raises(DataError, match=r"a\.md:3: a block in 100 others; make the document flatter"):
        translated("A dog.\n\n" + marker * 200 + "A cat.\n")


def test_a_text_that_is_not_found_in_its_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from markdown_it import MarkdownIt

    parse = MarkdownIt.parse

    def changed(self, *arguments):
        tokens = parse(self, *arguments)
        for token in tokens:
            token.content = token.content.replace("cat", "cow")
        return tokens

    monkeypatch.setattr(MarkdownIt, "parse", changed)
    with pytest.raises(DataError, match=r"a\.md:3: 'A cow\.' is not found where it is read"):
        translated("A dog.\n\nA cat.\n")


TEXTS = ["A dog", "*dog* and `note` dog", "dog  ", "dog<br>dog", "a [dog](note) [^note] dog", "dog \\| dog", "1. dog"]
STARTS = ["", "", "", "# ", "- ", "1. ", "> ", "> > ", "[^note]: ", ": ", ":   ", "- > ", "> - ", "[^note]: > "]
MARKERS = ["::: note", ":::", "> [!note]", "[!note]", "!!! note", '!!! note "note"', "> !!! note", "[^note]:", "", " "]
BLOCKS = [
    "```\nnote\n```",
    "| dog \\| dog | dog |\n|---|:-:|\n| `note` | dog<br>dog |\n",
    "> | dog |\n> |---|\n> | dog |",
    "!!! note\n    dog\n\n    - dog",
    '??? note "note"\n    dog\n    dog',
    "> !!! note\n>     dog",
    "[^note]: dog\n\n    dog\n",
    "<p class=note>dog <b>dog</b></p>\n",
    "> <p class=note>\n> dog</p>\n",
]
LINES = st.tuples(st.sampled_from(STARTS), st.sampled_from(TEXTS)).map("".join)
FRONT = st.sampled_from(["", "---\nnote\n---\n", "+++\nnote\n+++\n", "\ufeff"])


def squeezed(text: str) -> str:
    return re.sub(r"[\s>\\]", "", text)


@given(FRONT, st.lists(LINES | st.sampled_from([*MARKERS, *BLOCKS])), st.sampled_from(["\n", "\r\n", "\r"]))
def test_blocks_of_all_kinds_in_any_order(front: str, lines: list[str], line_end: str) -> None:
    document = (front + "\n".join(lines)).replace("\n", line_end)
    assert translated(document, same) == document
    result = translated(document)
    assert "dog" not in result
    assert squeezed(result.replace("DOG", "dog")).lower() == squeezed(document).lower()
    assert result.count("note") == document.count("note")


PIECES = ["a", "dog", " ", "    ", "\t", "\n", "\r", "\r\n", "\n\n", "> ", "- ", "1. ", "# ", "|", "\\", "---", "+++"]
PIECES += ["`", "```", "*", "**", "_", "[", "]", "(", ")", "[^1]:", ": ", ":::", "!!!", '"', "[!x]", "<br>", "<", ">"]
PIECES += ["<b>", "</b>", "<!--", "-->", "&amp;", "=", "===", "|--|--|\n", "\x0c", "\xa0", "\u2028", "\x85", "~~"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_what_is_not_translated_stays(document: str) -> None:
    assert translated(document, same) == document
