"""Back-translation: a system of few pairs, alone and with text of the target language that a reverse system translates.

    python tools/benchmarks/back_translation.py SRC TGT MONO VALID_SRC VALID_TGT TEST_SRC TEST_TGT --langs en de -o OUT
        [--pairs 5000] [--mono 24000] [--seeds 3] [--parallel 1]

Of SRC and TGT the first `--pairs` lines are used, of MONO the last `--mono` ones. For each seed three systems are
trained with the defaults for their text: the reverse one, the one of the pairs, and the one with both, whose made
sources have a tag (Caswell et al. 2019, https://arxiv.org/abs/1906.06442). Prints BLEU and chrF of valid and test and
the differences. No setting was chosen by the test set. Finished runs are kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from mtkit.text.lines import count_lines, read_lines

RECIPE = """\
name: {name}
corpus:
  src_lang: {src}
  tgt_lang: {tgt}
  train:
    - {{src: pairs.{src}, tgt: pairs.{tgt}}}{more}
  valid: {{src: valid.{src}, tgt: valid.{tgt}}}
  test:
    valid: {{src: valid.{src}, tgt: valid.{tgt}}}
    test: {{src: test.{src}, tgt: test.{tgt}}}
training: {{seed: {seed}}}
"""


def main() -> None:
    """Train what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("src", "tgt", "mono", "valid_src", "valid_tgt", "test_src", "test_tgt"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--langs", nargs=2, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--mono", type=int, default=24000, dest="mono_lines")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parallel", type=int, default=1)
    options = parser.parse_args()
    src, tgt = options.langs
    folder = options.output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name, paths in (
        ("pairs", (options.src, options.tgt)),
        ("valid", (options.valid_src, options.valid_tgt)),
        ("test", (options.test_src, options.test_tgt)),
    ):
        for lang, path in zip(options.langs, paths, strict=True):
            write(folder / f"{name}.{lang}", islice(read_lines(path), options.pairs if name == "pairs" else None))
    first = count_lines(options.mono) - options.mono_lines
    write(folder / "mono", islice(read_lines(options.mono), first, None))
    with ThreadPoolExecutor(options.parallel) as pool:
        rows = list(pool.map(lambda seed: systems(folder, src, tgt, seed), range(1, options.seeds + 1)))
    print("| seed | set | pairs alone: BLEU, chrF | with back-translation | difference |\n|---|---|---|---|---|")
    for name in ("valid", "test"):
        gains = []
        for seed, (alone, both) in enumerate(rows, 1):
            one, other = ((report["test"][name]["bleu"], report["test"][name]["chrf"]) for report in (alone, both))
            gains.append(other[0] - one[0])
            print(
                f"| {seed} | {name} | {one[0]:.1f}, {one[1]:.1f} | {other[0]:.1f}, {other[1]:.1f} | {gains[-1]:+.1f} |"
            )
        spread = f" ± {statistics.stdev(gains):.1f}" if len(gains) > 1 else ""
        print(f"| mean | {name} | | | {statistics.mean(gains):+.1f}{spread} |")


def write(path: Path, lines: object) -> None:
    """Write lines to a file, unless it is there."""
    if not path.exists():
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")  # type: ignore[attr-defined]


def systems(folder: Path, src: str, tgt: str, seed: int) -> list[dict[str, dict[str, dict[str, float]]]]:
    """Train the systems of a seed; return the reports of the one of the pairs and of the one with both."""
    reverse = folder / f"reverse-{seed}"
    mono = f"\n    - {{mono: mono, backtranslate: {reverse}, tag: BT, output: made-{seed}}}"
    for name, langs, more in (("reverse", (tgt, src), ""), ("alone", (src, tgt), ""), ("both", (src, tgt), mono)):
        recipe = folder / f"{name}-{seed}.yaml"
        recipe.write_text(RECIPE.format(name=name, src=langs[0], tgt=langs[1], more=more, seed=seed))
        run = folder / f"{name}-{seed}"
        with (folder / f"{run.name}.log").open("w") as log:
            command = [sys.executable, "-m", "mtkit", "run", str(recipe), "--run-dir", str(run)]
            subprocess.run(command, check=True, stdout=log, stderr=log)
    reports = [(folder / f"{name}-{seed}" / "report.json") for name in ("alone", "both")]
    return [json.loads(path.read_text()) for path in reports]


if __name__ == "__main__":
    main()
