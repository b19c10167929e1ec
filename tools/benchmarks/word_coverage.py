"""Dropped and invented words in translations from which a program deletes words, or into which it inserts words.

    python tools/benchmarks/word_coverage.py MODEL SRC [--ref REF] [--rounds N]

A third of the translations of SRC by MODEL stay as they are, from a third one or two words are deleted, and one or two
words of other translations are inserted into a third. Precision and recall are those of the words that the flags
`dropped` and `invented` name. A source word counts as dropped if all words that the model aligned with it were deleted;
one that lost some of them, or had none in a line with a deletion, is left out. What the model itself dropped or
invented counts as a false alarm, unless --ref keeps only the lines whose translation equals the reference.

--rounds: processor seconds of translation with and without the flags, in turn, on one thread.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from mtkit.corpus.coverage import Doubt, Doubts
from mtkit.text.lines import read_lines
from mtkit.translate.alignment import words_of
from mtkit.translate.load import load_translator
from mtkit.translate.translation import Translation, TranslationOptions
from mtkit.translate.translator import Translator

SIDES = ("dropped", "invented")


class Harmed:
    """A translation with its source, the words of each that are labelled 1 (without a partner) or 0, by index."""

    def __init__(self, source: str, translation: Translation, pool: Sequence[str], rng: random.Random) -> None:
        self.src, words = source.split(), translation.hyp.split()
        kind, count = rng.choice(["unchanged", "delete", "insert"]), rng.choice([1, 2])
        num_gone = min(count, len(words) - 2) if kind == "delete" else 0
        gone = set(rng.sample(range(len(words)), max(0, num_gone)))
        self.tgt = [word for place, word in enumerate(words) if place not in gone]
        is_new = [False] * len(self.tgt)
        for _ in range(count if kind == "insert" else 0):
            place = rng.randrange(len(self.tgt) + 1)
            self.tgt.insert(place, rng.choice(pool))
            is_new.insert(place, True)
        links: dict[int, set[int]] = {}
        for src, tgt in translation.alignment:
            links.setdefault(src, set()).add(tgt)
        self.labels: list[dict[int, bool]] = [{}, dict(enumerate(is_new))]
        for place in range(len(self.src)):
            linked = links.get(place, set())
            if linked and linked <= gone:
                self.labels[0][place] = True
            elif not linked & gone and (linked or not gone):
                self.labels[0][place] = False


def found_words(translator: Translator, lines: Sequence[Harmed]) -> Iterator[tuple[Harmed, list[set[int]]]]:
    """The words of both sides that the flags name."""
    pair, coverage = translator.tokenizers, translator.coverage
    assert coverage is not None, "the model has no coverage"
    texts = [" ".join(each.src) for each in lines], [" ".join(each.tgt) for each in lines]
    src, tgt = pair.encode("src", texts[0]), pair.encode("tgt", texts[1])
    found: list[Doubts] = coverage.doubts(src, tgt)
    for number, doubts in enumerate(found):
        spelled = pair.spell("src", src[number], texts[0][number]), pair.spell("tgt", tgt[number], texts[1][number])
        yield lines[number], [_words(of_side, tokens) for of_side, tokens in zip(doubts, spelled, strict=True)]


def _words(doubts: Sequence[Doubt], tokens: Sequence[str]) -> set[int]:
    words = words_of(tokens)
    return {words[doubt.token] for doubt in doubts}


def measure_cost(translator: Translator, lines: Sequence[str], rounds: int) -> None:
    """Print the ratio of processor seconds with and without flags."""
    coverage, ratios = translator.coverage, []
    for number in range(rounds + 1):
        seconds = []
        for each in (None, coverage):
            translator.coverage = each
            start = time.process_time()
            translator.translate_lines(lines)
            seconds.append(time.process_time() - start)
        if number:  # the first warms up
            ratios.append(seconds[1] / seconds[0])
    print(f"cost: {statistics.median(ratios):.3f} times without flags ({min(ratios):.3f} to {max(ratios):.3f})")


def main() -> None:
    """Translate, harm, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("src", type=Path)
    parser.add_argument("--ref", type=Path)
    parser.add_argument("--rounds", type=int, default=0)
    args = parser.parse_args()
    lines = list(read_lines(args.src))
    refs = None if args.ref is None else list(read_lines(args.ref))
    translator = load_translator(args.model, threads=1, options=TranslationOptions(with_scores=True))  # and alignments
    translations = [
        (line, each)
        for number, (line, each) in enumerate(zip(lines, translator.translate(lines), strict=True))
        if each.hyp.strip() and "split" not in each.flags and (refs is None or each.hyp == refs[number])
    ]
    pool, rng = [word for _, each in translations for word in each.hyp.split()], random.Random(1)
    harmed = [Harmed(line, each, pool, rng) for line, each in translations]
    counts: Counter[tuple[str, bool, bool]] = Counter()
    for line, found in found_words(translator, harmed):
        for side, labels, named in zip(SIDES, line.labels, found, strict=True):
            counts.update((side, label, word in named) for word, label in labels.items())
    print(f"{len(harmed):,} of {len(lines):,} lines")
    for side in SIDES:
        right, wrong, missed = (counts[side, *each] for each in ((True, True), (False, True), (True, False)))
        precision, recall = right / max(1, right + wrong), right / max(1, right + missed)
        print(f"{side}: {right + missed:,} words; precision {precision:.0%}, recall {recall:.0%}")
    flagged = Counter(flag for _, each in translations for flag in each.flags)
    print(f"unchanged translations flagged: {', '.join(f'{side} {flagged[side]:,}' for side in SIDES)}")
    if args.rounds:
        measure_cost(translator, lines, args.rounds)


if __name__ == "__main__":
    main()
