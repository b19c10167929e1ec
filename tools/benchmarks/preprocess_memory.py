"""Memory of `mtkit preprocess` by the size of the corpus, choices and tokenizer included.

    python tools/benchmarks/preprocess_memory.py [--pairs 1600000 4900000]

The text is Tatoeba, Multi30k and manual pages (en-de) from the folder MTKIT_CORPORA (default ../shared/corpora), over
and over, with a number behind each line so that no two rounds are equal. The memory of the process is read twice a
second: its own, and that of mapped files, which the system can take back at any time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from itertools import count, cycle, islice
from pathlib import Path

from model_t import CORPORA

from mtkit.text.lines import read_lines

FOLDERS = ("tatoeba-de-en", "multi30k", "manpages-en-de")
RECIPE = """\
name: memory
corpus: {src_lang: en, tgt_lang: de, train: [{src: train.en, tgt: train.de}]}
"""


def main() -> None:
    """Measure and print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_600_000, 4_900_000])
    options = parser.parse_args()
    print("| pairs | minutes | own memory, MiB | with mapped files, MiB |\n|---|---|---|---|")
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as name:
            for lang in ("en", "de"):
                write_text(Path(name, f"train.{lang}"), lang, pairs)
            Path(name, "recipe.yaml").write_text(RECIPE)
            start = time.perf_counter()
            own, total = peak_memory(["preprocess", f"{name}/recipe.yaml", "--run-dir", f"{name}/run"])
        print(f"| {pairs:,} | {(time.perf_counter() - start) / 60:.1f} | {own} | {total} |", flush=True)


def write_text(path: Path, lang: str, pairs: int) -> None:
    """Write the lines of all folders over and over, each with its number."""
    lines = [line for folder in FOLDERS for line in read_lines(CORPORA / folder / f"train.{lang}.gz")]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line} {number}\n" for line, number in islice(zip(cycle(lines), count()), pairs))


def peak_memory(arguments: list[str]) -> tuple[int, int]:
    """Run mtkit; return the largest memory of its own and the largest with mapped files, MiB."""
    own = total = 0
    process = subprocess.Popen([sys.executable, "-m", "mtkit", *arguments], stdout=subprocess.DEVNULL)
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        lines = [line.split() for line in status.read_text().splitlines() if line.startswith("Rss")]
        mebibytes = {key: int(kilobytes) // 1024 for key, kilobytes, _ in lines}
        own = max(own, mebibytes.get("RssAnon:", 0))
        total = max(total, sum(mebibytes.values()))
        time.sleep(0.5)
    if process.returncode:
        sys.exit(f"mtkit {' '.join(arguments)}: exit code {process.returncode}")
    return own, total


if __name__ == "__main__":
    main()
