"""Calibration of the detection of languages: of answers with confidence 0.9, how many are right?

    python tools/benchmarks/language_detection.py FILE... [--documents FILE] [--tune]

Each FILE is in the language that its name ends with (src.eng.gz). Documents, by the lines of a file of their names or
by blocks of 20 lines, are numbered: with --tune the even ones choose SHARPNESS and RARE_WEIGHT of
mtkit/text/language.py by likelihood, and the table is always that of the odd ones. Texts are whole lines, and two and
three words at a random place of each line; without white space a word is two characters.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path

from mtkit.text import language
from mtkit.text.lines import read_lines

CONFIDENT = 0.9
LENGTHS = (0, 3, 2)  # words of a text; 0: the whole line
SHARPNESSES = (1, 1.5, 2, 2.5, 3)
RARE_WEIGHTS = (1.0, 0.3, 0.1, 0.05, 0.02)
TUNING_STRIDE = 10  # of the lines that choose the constants, for speed


def texts(lines: list[str], words: int, seed: int) -> Iterator[str]:
    """Texts of so many words, one of each line that has them."""
    rng = random.Random(seed)
    for line in lines:
        spaced = line.split() if line.count(" ") * 10 > len(line) else [line[i : i + 2] for i in range(0, len(line), 2)]
        if words == 0:
            yield line
        elif len(spaced) >= words:
            start = rng.randrange(len(spaced) - words + 1)
            yield (" " if line.count(" ") * 10 > len(line) else "").join(spaced[start : start + words])


def loss(corpora: dict[str, list[str]], sharpness: float, rare_weight: float) -> float:
    """The mean negative log-probability of the true language."""
    language.SHARPNESS, language.RARE_WEIGHT = sharpness, rare_weight
    losses = [
        -math.log(max(dict(language.rank_languages(text)).get(code, 0.0), 1e-12))
        for code, lines in corpora.items()
        for words in LENGTHS
        for text in texts(lines[::TUNING_STRIDE], words, 1)
    ]
    return sum(losses) / len(losses)


def main() -> None:
    """Print the losses of the settings and the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--tune", action="store_true")
    arguments = parser.parse_args()
    halves: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for path in arguments.files:
        lines = [*read_lines(path)]
        names = [*read_lines(arguments.documents)] if arguments.documents else [str(i // 20) for i in range(len(lines))]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        for line, name in zip(lines, names, strict=True):
            halves[numbers[name] % 2].setdefault(str(language.split_name(path)[1]), []).append(line)
    if arguments.tune:
        chosen = language.SHARPNESS, language.RARE_WEIGHT
        settings = itertools.product(SHARPNESSES, RARE_WEIGHTS)
        for result in sorted((loss(halves[0], *setting), setting) for setting in settings):
            print("loss {:.4f}: sharpness {}, rare weight {}".format(result[0], *result[1]))
        language.SHARPNESS, language.RARE_WEIGHT = chosen
    print("| language | text | right | confident | right of the confident |\n|---|---|---|---|---|")
    for words, code in itertools.product(LENGTHS, halves[1]):
        answers = [language.rank_languages(text)[:1] for text in texts(halves[1][code], words, 2)]
        right = [bool(answer) and answer[0][0] == code for answer in answers]
        confident = [
            is_right for answer, is_right in zip(answers, right, strict=True) if answer and answer[0][1] >= CONFIDENT
        ]
        shares = [sum(right) / len(right), len(confident) / len(answers), sum(confident) / max(len(confident), 1)]
        print(
            f"| {code} | {f'{words} words' if words else 'line'} | "
            + " | ".join(f"{share:.1%}" for share in shares)
            + " |"
        )


if __name__ == "__main__":
    main()
