"""Word alignments, and places of source words in a translation, against alignments made by hand.

    python tools/benchmarks/alignment.py MODEL

tools/benchmarks/alignments has 60 sentence pairs of the embedded valid set with links made by hand: 0-0, source word
and target word; 0?0 where the link is only possible. The model, of the quickstart recipe or alike, reads the reference.
The program prints the alignment error rate of `word_links` for several values of its two constants. For all stretches
of one to three source words whose sure links are one stretch of target words, it prints how many a pair of tags around
them finds exactly (`place_marks`), and how many `target_range` does for several values of its two constants.
`mtkit explain MODEL --src en --ref de --alignments links` prints the alignment error rates of heads.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from mtkit.analysis.word_alignment import AlignmentErrors, read_alignments
from mtkit.search.hypothesis import Hypothesis
from mtkit.text.lines import read_lines
from mtkit.text.marked import Mark, Marked, place_marks
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate import alignment
from mtkit.translate.load import load_translator
from mtkit.translate.segments import Segment

DATA = Path(__file__).parent / "alignments"
SHARES = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
UNLINKED = (0.1, 0.2, 0.3, 1.1)
GAPS = (0, 1, 2, 9)
PUNCTUATION = ".,?"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    translator = load_translator(parser.parse_args().model, device="cpu", threads=1)
    src, ref, links = (list(read_lines(DATA / name)) for name in ("en", "de", "links"))
    segments = [segment(i, *pair, translator.tokenizers) for i, pair in enumerate(zip(src, ref, strict=True), start=1)]
    spelled = [s.spell(translator.tokenizers) for s in segments]
    attentions = translator._attend(segments)
    blocks = [
        (attention[: len(of_tgt), : len(of_src)], of_src, of_tgt)
        for attention, (of_src, of_tgt) in zip(attentions, spelled, strict=True)
    ]
    sizes = [(len(each_src.split()), len(each_ref.split())) for each_src, each_ref in zip(src, ref, strict=True)]
    gold = read_alignments(DATA / "links", sizes)
    print("| MIN_OF_BEST |", " | ".join(f"AER, MIN_UNLINKED {least}" for least in UNLINKED), "|")
    print("|---" * (1 + len(UNLINKED)) + "|")
    chosen = alignment.MIN_OF_BEST, alignment.MIN_UNLINKED
    for alignment.MIN_OF_BEST in SHARES:
        rates = []
        for alignment.MIN_UNLINKED in UNLINKED:
            errors = AlignmentErrors()
            for (attention, *tokens), reference in zip(blocks, gold, strict=True):
                errors.add(alignment.word_links([(0, 0, attention)], *tokens), reference)
            rates.append(errors.error_rate)
        print(f"| {alignment.MIN_OF_BEST} |", " | ".join(f"{rate:.3f}" for rate in rates), "|")
    alignment.MIN_OF_BEST, alignment.MIN_UNLINKED = chosen
    exact = [
        place_tags(src_text, ref_text, of_src, alignment.word_links([(0, 0, attention)], *tokens)) == of_ref
        for (attention, *tokens), src_text, ref_text, of_links in zip(blocks, src, ref, links, strict=True)
        for of_src, of_ref in stretches(src_text, ref_text, of_links)
    ]
    print(f"\n{len(exact)} stretches, exact by a pair of tags: {sum(exact)}")
    aligned = [
        alignment.Aligned.of(s.text, of_src, s.hypotheses[0].text, of_tgt, attention)
        for s, (attention, of_src, of_tgt) in zip(segments, blocks, strict=True)
    ]
    rows = zip(aligned, src, ref, links, strict=True)
    cases = [(a, *case) for a, *row in rows if a is not None for case in stretches(*row)]
    for name, several in (("MIN_SHARE", False), ("MIN_SHARE_OF_WORDS", True)):
        here = [case for case in cases if (" " in case[0].src[slice(*case[1])]) == several]
        print(f"\n{len(here)} stretches, of them exact:\n")
        print(f"| {name} |", " | ".join(f"MAX_GAP {gap}" for gap in GAPS), "|")
        print("|---" * (1 + len(GAPS)) + "|")
        for share in SHARES:
            setattr(alignment, name, share)
            exact = []
            for alignment.MAX_GAP in GAPS:
                exact.append(sum(a.target_range(*of_src) == of_ref for a, of_src, of_ref in here))
            print(f"| {share} |", " | ".join(map(str, exact)), "|")


def place_tags(src: str, ref: str, stretch: tuple[int, int], links: set[tuple[int, int]]) -> tuple[int, int]:
    """Characters of the reference between tags that were around a stretch of the source."""
    start, end = stretch
    placed, _ = place_marks(Marked(src, (Mark(start, "open", "1"), Mark(end, "close", "1"))), ref, sorted(links))
    return placed.marks[0].offset, placed.marks[1].offset


def segment(line: int, src: str, ref: str, tokenizers: TokenizerPair) -> Segment:
    """A segment whose translation is the reference."""
    ids, tokens = tokenizers.encode("src", [src])[0], tokenizers.encode("tgt", [ref])[0]
    hypothesis = Hypothesis(tokens=tokens, log_prob=0.0, score=0.0, token_log_probs=[], text=ref)
    return Segment(line, line, "", src, ids, hypotheses=[hypothesis])


def stretches(src: str, ref: str, links: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Characters of one to three source words, and those of the target words that alone are linked to them."""
    sure = {tuple(map(int, link.split("-"))) for link in links.split() if "-" in link}
    of_src, of_ref = words(src), words(ref)
    for size in (1, 2, 3):
        for first in range(len(of_src) - size + 1):
            here = range(first, first + size)
            there = {t for s, t in sure if s in here}
            is_whole = all(any(s == word for s, _ in sure) for word in here)
            is_alone = all(s in here for s, t in sure if t in there)
            if is_whole and is_alone and max(there) - min(there) + 1 == len(there):
                yield (of_src[first][0], of_src[here[-1]][1]), (of_ref[min(there)][0], of_ref[max(there)][1])


def words(text: str) -> list[tuple[int, int]]:
    """Characters of each word, without punctuation behind it."""
    found = re.finditer(r"\S+", text)
    return [(match.start(), match.start() + len(match[0].rstrip(PUNCTUATION))) for match in found]


if __name__ == "__main__":
    main()
