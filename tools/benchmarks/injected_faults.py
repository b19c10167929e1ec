"""Recall of `mtkit check`: faults injected into random passages of corpora, one at a time, and false alarms without.

    nice -n 10 python tools/benchmarks/injected_faults.py CORPORA --count 100 --json results.json

CORPORA is a folder with the corpora of `PAIRS`. Each injection takes a passage of 1,000 to 4,000 lines. A fault counts
as detected if a finding of its kind has a place within its lines; the distance is that of the first line. Passages
without a fault count as alarms if they have any error, or a warning about what is injected.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mtkit.corpus.lenient_reading import ParallelInput
from mtkit.corpus.near_match import HeldOutText
from mtkit.corpus.text_check import CheckReport, TextCheck
from mtkit.text.lines import read_lines

PAIRS = [
    ("multi30k/train", "multi30k/val", "en", "de"),
    ("multi30k/train", "multi30k/val", "en", "fr"),
    ("tatoeba-de-en/train", "tatoeba-de-en/valid", "de", "en"),
    ("tatoeba-fr-en/train", "tatoeba-fr-en/valid", "en", "fr"),
    ("manpages-en-de/train", "manpages-en-de/valid", "en", "de"),
    ("pydocs-en-ja/train", "pydocs-en-ja/valid", "en", "ja"),
    ("small-enja/train", "small-enja/valid", "en", "ja"),
    ("mafand-en-swa/train", "mafand-en-swa/valid", "en", "swa"),
]
OTHER_LANGUAGES = ["multi30k/train.cs", "multi30k/train.fr", "tatoeba-de-en/train.de", "iwslt15-en-vi/valid.vi"]
OTHER_LANGUAGES += ["mafand-en-swa/train.swa", "ntrex/test.tur", "ntrex/test.spa", "ntrex/test.rus", "ntrex/test.hin"]
Lines = list[str]


@dataclass
class Injection:
    """A text with a fault: encoded lines of both sides, and the lines [start, end) of the fault, from 0."""

    src: list[bytes]
    tgt: list[bytes]
    start: int
    end: int


def encoded(lines: Lines) -> list[bytes]:
    return [line.encode() for line in lines]


def middle(rng: random.Random, lines: Lines) -> int:
    return rng.randint(len(lines) // 20, len(lines) - len(lines) // 20)


def dropped_line(rng: random.Random, src: Lines, tgt: Lines, **_: list[Lines]) -> Injection:
    """One line of one side is missing; in half of the cases another one at the end makes the numbers equal."""
    at = middle(rng, src)
    sides = [list(src), list(tgt)]
    side = rng.choice(sides)
    del side[at]
    if rng.random() < 0.5:
        side.append(side[0])
    return Injection(*map(encoded, sides), at, len(src))


def swapped_block(rng: random.Random, src: Lines, tgt: Lines, **_: list[Lines]) -> Injection:
    """Two blocks of one side of 15 to 100 lines are exchanged."""
    size = rng.randint(15, 100)
    first = rng.randint(10, len(src) - 3 * size)
    second = rng.randint(first + size, len(src) - size)
    sides = [list(src), list(tgt)]
    side = rng.choice(sides)
    side[first : first + size], side[second : second + size] = side[second : second + size], side[first : first + size]
    return Injection(*map(encoded, sides), first, first + size)


def doubled_file(rng: random.Random, src: Lines, tgt: Lines, **_: list[Lines]) -> Injection:
    """The text comes twice."""
    return Injection(encoded(src * 2), encoded(tgt * 2), len(src), 2 * len(src))


def latin_1(rng: random.Random, src: Lines, tgt: Lines, **_: list[Lines]) -> Injection:
    """One line has a byte of Latin-1."""
    at, sides = middle(rng, src) - 1, [encoded(src), encoded(tgt)]
    side = rng.choice(sides)
    side[at] += rng.choice("äöüßéèñç").encode("latin-1")
    return Injection(sides[0], sides[1], at, at + 1)


def next_line(rng: random.Random, src: Lines, tgt: Lines, **_: list[Lines]) -> Injection:
    """One line has the character NEL, U+0085."""
    at, sides = middle(rng, src) - 1, [list(src), list(tgt)]
    side = rng.choice(sides)
    place = rng.randint(0, len(side[at]))
    side[at] = f"{side[at][:place]}\x85{side[at][place:]}"
    return Injection(*map(encoded, sides), at, at + 1)


def other_language(rng: random.Random, src: Lines, tgt: Lines, *, others: list[Lines], **_: list[Lines]) -> Injection:
    """A block of 20 to 100 lines of one side is in another language."""
    other = rng.choice(others)
    size = rng.randint(20, 100)
    at, start = rng.randint(10, len(src) - size), rng.randint(0, len(other) - size)
    sides = [list(src), list(tgt)]
    rng.choice(sides)[at : at + size] = other[start : start + size]
    return Injection(*map(encoded, sides), at, at + size)


def test_lines(rng: random.Random, src: Lines, tgt: Lines, *, held_out: list[Lines], **_: list[Lines]) -> Injection:
    """One pair of the test set is in the text."""
    at = middle(rng, src)
    long = [pair for pair in zip(*held_out, strict=True) if min(map(len, pair)) >= 10]
    sides = [list(src), list(tgt)]
    for side, line in zip(sides, rng.choice(long), strict=True):
        side.insert(at, line)
    return Injection(*map(encoded, sides), at, at + 1)


FAULTS: dict[str, tuple[Callable[..., Injection], tuple[str, ...]]] = {
    "dropped line": (dropped_line, ("shift",)),
    "swapped block": (swapped_block, ("moved", "shift", "unrelated")),
    "doubled file": (doubled_file, ("doubled",)),
    "Latin-1 bytes": (latin_1, ("not_utf8",)),
    "NEL in a line": (next_line, ("line_break",)),
    "block of another language": (other_language, ("language", "script")),
    "test line in train": (test_lines, ("leak",)),
}
WATCHED = {kind for _, kinds in FAULTS.values() for kind in kinds} - {"leak"}


def spans(report: CheckReport, kinds: tuple[str, ...]) -> list[tuple[int, int]]:
    """The first and last lines, from 0, of the places of some kinds of findings."""
    found = []
    for finding in report.findings:
        for place in finding.places if finding.kind in kinds else ():
            first, _, last = place.rpartition(":")[2].partition("-")
            found.append((int(first) - 1, int(last or first) - 1))
    return found


def check(folder: Path, injection: Injection, held_out: list[Lines]) -> CheckReport:
    paths = folder / "src", folder / "tgt"
    for path, lines in zip(paths, (injection.src, injection.tgt), strict=True):
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return TextCheck(ParallelInput.of_files(*paths), HeldOutText(zip(*held_out, strict=True)))()


def main() -> None:
    """Measure and print a row for each kind of fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", choices=[*FAULTS, "none"], help="only these")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    others = [list(read_lines(options.corpora / f"{stem}.gz")) for stem in OTHER_LANGUAGES]
    texts = [
        [[list(read_lines(options.corpora / f"{stem}.{lang}.gz")) for lang in langs] for stem in (train, valid)]
        for train, valid, *langs in PAIRS
    ]
    rows = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for name, (inject, kinds) in [*FAULTS.items(), ("none", (None, ()))]:  # type: ignore[list-item]
            if name not in (options.fault or [*FAULTS, "none"]):
                continue
            rng = random.Random(f"{name} {options.seed}")
            detected, distances, missed = 0, [], []
            for number in range(options.count):
                index = number % len(texts)
                (src, tgt), held_out = texts[index]
                size = rng.randint(1000, 4000)
                at = rng.randint(0, len(src) - size)
                passage = src[at : at + size], tgt[at : at + size]
                place = f"{PAIRS[index][0]} {PAIRS[index][2]}-{PAIRS[index][3]} {at} {size}"
                if inject is None:
                    clean = Injection(*map(encoded, passage), 0, 0)
                    report = check(Path(folder), clean, held_out)
                    alarms = [f for f in report.findings if f.kind in WATCHED and f.level != "note"]
                    if alarms:
                        missed.append(f"{place}: {'; '.join(f'{f.kind} {f.places[0]} {f.count}' for f in alarms)}")
                    detected += bool(alarms)
                    continue
                stems = zip(others, OTHER_LANGUAGES, strict=True)
                far = [each for each, stem in stems if not stem.endswith(PAIRS[index][2:])]
                injection = inject(rng, *passage, others=far, held_out=held_out)
                found = spans(check(Path(folder), injection, held_out), kinds)
                near = [first for first, last in found if last >= injection.start - 20 and first < injection.end + 20]
                if near:
                    detected += 1
                    distances.append(min(abs(first - injection.start) for first in near))
                else:
                    missed.append(f"{place}: {injection.start}-{injection.end}, found {found[:5]}")
            median = statistics.median(distances) if distances else None
            rows.append({"fault": name, "count": options.count, "detected": detected, "median_distance": median})
            print(f"{name:28} {detected:4} of {options.count}  median distance {median}", flush=True)
            for line in missed[:10]:
                print(f"    {line}", flush=True)
    print(f"{time.monotonic() - start:.0f} s")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
