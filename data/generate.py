"""Write the embedded corpus: parallel English and German sentences of our own grammar.

    python3 data/generate.py [FOLDER]

writes train, valid and test (.en and .de) into FOLDER, by default the one this file lies in. The bytes are always the
same: chance is seeded, and nothing depends on the order of a set. Standard library only, Python 3.11 or newer.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from grammar.draw import Draw
from grammar.patterns import draw_pair

SEED = "mtkit 1"
DRAWN = 16_200              # distinct pairs, before rare words are left out
HELD_OUT = 500              # pairs each in valid and test
LONGEST = 22                # words of either side
COMMON = 4                  # a word form is in train at least so often, or its sentences are left out
HELD_OUT_COMMON = 8         # a held-out sentence has only words drawn at least so often

Pair = tuple[str, str]


def tokens(text: str) -> list[str]:
    """Words without the marks around them; a capital at the start of a sentence counts as it is."""
    return [word.strip(",.?!") for word in text.split(" ")]


def distinct_pairs(count: int) -> list[Pair]:
    """Draw until `count` pairs are there that share neither side."""
    pairs: list[Pair] = []
    seen: set[str] = set()
    number = 0
    while len(pairs) < count:
        english, german = draw_pair(Draw(f"{SEED}/{number}"))
        number += 1
        fits = max(len(tokens(english)), len(tokens(german))) <= LONGEST
        if fits and english not in seen and german not in seen:
            pairs.append((english, german))
            seen.update((english, german))
    return pairs


def frequencies(pairs: Iterable[Pair]) -> tuple[Counter[str], Counter[str]]:
    """How often each word form occurs, by side."""
    english: Counter[str] = Counter()
    german: Counter[str] = Counter()
    for source, target in pairs:
        english.update(tokens(source))
        german.update(tokens(target))
    return english, german


def rarest(pair: Pair, counts: tuple[Counter[str], Counter[str]]) -> int:
    """The frequency of the rarest word of a pair."""
    return min(min(count[word] for word in tokens(text)) for text, count in zip(pair, counts, strict=True))


def without_rare_words(pairs: Sequence[Pair], least: int) -> list[Pair]:
    """Leave out sentences with rare words until no word is rare."""
    while True:
        counts = frequencies(pairs)
        kept = [pair for pair in pairs if rarest(pair, counts) >= least]
        if len(kept) == len(pairs):
            return kept
        pairs = kept


def split(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Hold out pairs at even distances among those of common words."""
    counts = frequencies(pairs)
    eligible = [number for number, pair in enumerate(pairs) if rarest(pair, counts) >= HELD_OUT_COMMON]
    stride = len(eligible) // (2 * HELD_OUT)
    held_out = eligible[::stride][:2 * HELD_OUT]
    chosen = set(held_out)
    return {
        "train": [pair for number, pair in enumerate(pairs) if number not in chosen],
        "valid": [pairs[number] for number in held_out[0::2]],
        "test": [pairs[number] for number in held_out[1::2]],
    }


def main(folder: Path) -> None:
    """Write the six files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in split(without_rare_words(distinct_pairs(DRAWN), COMMON)).items():
        for side, language in enumerate(("en", "de")):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"{name}.{language}").write_bytes(text.encode("utf-8"))
        print(f"{name}: {len(pairs)} pairs", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
