"""Inline tags in translations: one word in bold, and paragraphs with tags nested at random.

    python tools/benchmarks/inline_tags.py
    python tools/benchmarks/inline_tags.py MODEL FILE [--words data/lexicon/nouns.txt]

Without a model, 200 paragraphs of HTML and of Markdown with one to five tags each are translated by a stand-in that
changes the order of words and aligns them with errors (tests/unit/documents/test_nested_tags.py); the program prints
how many come back with a pair that is not nested, lost, or without a word, and with other code. With a model, each line
of a file of sentences is a paragraph of HTML in which one word is bold: the program prints in how many translations
several words are bold, and in how many none. The word has at least four letters, occurs once in the line, and begins a
line of the file of words, if there is one.
"""

from __future__ import annotations

import argparse
import html
import random
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from mtkit.documents.format import format_of
from mtkit.documents.translate import translate_document
from mtkit.text.lines import read_lines
from mtkit.translate.load import load_translator
from mtkit.translate.translation import TranslationOptions
from tests.unit.documents import test_nested_tags as nested

PARAGRAPHS = 200


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--words", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.file is None:
            print(f"| tags | wrong of {PARAGRAPHS} in HTML | wrong of {PARAGRAPHS} in Markdown |\n|---|---|---|")
            for tags in range(1, 6):
                counts = [sum(is_wrong(test, seed, tags, Path(folder)) for seed in range(PARAGRAPHS)) for test in TESTS]
                print(f"| {tags} | {counts[0]} | {counts[1]} |", flush=True)
            return
        words = {line.split()[0] for line in read_lines(options.words) if line.strip()} if options.words else None
        measure(options.model, options.file, words, Path(folder))


TESTS = nested.test_tags_of_html_stay_nested_around_words, nested.test_tags_of_markdown_stay_nested_around_words


def is_wrong(test: object, seed: int, tags: int, folder: Path) -> bool:
    """Whether a paragraph fails its test."""
    try:
        test(seed, tags, folder)
    except AssertionError:
        return True
    return False


def measure(model: Path, file: Path, words: set[str] | None, folder: Path) -> None:
    """Translate sentences with a bold word, and count the words that are bold."""
    page = []
    for line in read_lines(file):
        tokens = re.findall(r"[^\W\d_]+", line)
        candidates = [word for word in tokens if tokens.count(word) == 1 and len(word) > 3]
        if candidates := [word for word in candidates if words is None or word in words]:
            word = random.Random(line).choice(candidates)
            page.append("<p>" + re.sub(rf"\b{word}\b", rf"<b>{word}</b>", html.escape(line, quote=False)) + "</p>")
    source, output = folder / "a.html", folder / "b.html"
    source.write_text('<meta charset="utf-8">\n' + "\n".join(page), encoding="utf-8")
    with_alignment = TranslationOptions(with_scores=True)
    translator = load_translator(model, options=with_alignment, device="cpu", threads=1)
    form = format_of(source, src_lang="", tgt_lang="")
    translate_document(source, output, form, translator.translate)
    bold = [len(each.split()) for each in re.findall("<b>(.*?)</b>", output.read_text(encoding="utf-8"), re.DOTALL)]
    several, none = sum(count > 1 for count in bold), sum(not count for count in bold)
    print(f"{len(page)} sentences with a bold word: several words in {several}, none in {none}")


if __name__ == "__main__":
    main()
