"""A language added to a model of many languages, beside a model that had it from the start with as many pairs.

    python tools/benchmarks/added_language.py MULTI30K -o OUT [--seeds 3] [--updates 2000] [--pairs 2000]

MULTI30K has the files of `mtkit fetch multi30k`. The model translates between English and German, and English and
French (10,000 pairs of each direction); Czech is added from `--pairs` pairs, with German as its relative, with pieces
of its own and with all directions for replay. BLEU of all directions on test_2016_flickr: before, after, of the mixture
of --keep-general 0.5, and of a model that was trained with Czech from the start. Settings were chosen before the test
sets were read. Finished runs are kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
from pathlib import Path

RECIPE = """\
name: languages
corpus:
  root: {root}
  src_lang: en
  tgt_lang: de
  language_tokens: true
  sampling_temperature: 5
  train:
    - {{src: train.en.gz, tgt: train.de.gz, limit: 10000}}
    - {{src: train.en.gz, tgt: train.fr.gz, tgt_lang: fr, limit: 10000}}
    - {{src: train.de.gz, tgt: train.en.gz, src_lang: de, tgt_lang: en, limit: 10000}}
    - {{src: train.fr.gz, tgt: train.en.gz, src_lang: fr, tgt_lang: en, limit: 10000}}{more}
  valid: {{src: val.en.gz, tgt: val.de.gz}}
  test:
{tests}
tokenizer: {{model_type: bpe, vocab_size: 4000}}
model: {{kind: transformer, d_model: 128, d_ff: 256, num_heads: 4, encoder_layers: 3, decoder_layers: 3}}
training:
  max_updates: {updates}
  batch_tokens: 2048
  seed: {seed}
  validate_every: {updates}
search: {{beam_size: 4}}
"""
DIRECTIONS = {"en-de": ("en", "de"), "en-fr": ("en", "fr"), "de-en": ("de", "en"), "fr-en": ("fr", "en")}
TEST = "test_2016_flickr"
ADDED = {"en-cs": ("en", "cs")}


def main() -> None:
    """Train what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=2000)
    options = parser.parse_args()
    scores = [run_seed(options, seed) for seed in range(1, options.seeds + 1)]
    print("| direction | before | after adding | mixture | from the start |\n|---|---:|---:|---:|---:|")
    for name in DIRECTIONS | ADDED:
        cells = []
        for kind in ("before", "after", "mixture", "start"):
            values = [each[kind][name] for each in scores]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2f}{spread}")
        print(f"| {name} | {' | '.join(cells)} |")


def run_seed(options: argparse.Namespace, seed: int) -> dict[str, dict[str, float]]:
    """BLEU by model and direction, of one seed."""
    output, pairs = options.output / f"seed-{seed}", options.pairs
    output.mkdir(parents=True, exist_ok=True)
    more = f"\n    - {{src: train.en.gz, tgt: train.cs.gz, tgt_lang: cs, limit: {pairs}}}"
    base = train(options, output / "base", seed, "", DIRECTIONS)
    start = train(options, output / "start", seed, more, DIRECTIONS | ADDED)
    texts = own_text(options.corpus, output, pairs)
    words = ["finetune", base, *texts["own"], "-o", output / "added", "--tgt-lang", "cs", "--add-language", "cs=de"]
    words += ["--extend-tokenizer", "500", "--keep-general", "0.5"]
    for langs in DIRECTIONS.values():
        words += ["--general", *(output / f"general.{lang}" for lang in langs)]
    words += ["--valid", *texts["valid"], "--test", *texts["test"], f"training.seed={seed}"]
    run(words)
    scores = {"start": report(start)}
    folders = {"before": output / "added" / "extended", "after": output / "added"}
    folders["mixture"] = folders["after"] / "mixture"
    for kind, folder in folders.items():
        scores[kind] = {name: bleu(folder, options.corpus, *langs) for name, langs in (DIRECTIONS | ADDED).items()}
    return scores


def train(options: argparse.Namespace, folder: Path, seed: int, more: str, tests: dict[str, tuple[str, str]]) -> Path:
    """Train a model of these directions, unless it is there."""
    lines = [
        f"    {name}: {{src: {TEST}.{src}.gz, tgt: {TEST}.{tgt}.gz, src_lang: {src}, tgt_lang: {tgt}}}"
        for name, (src, tgt) in tests.items()
    ]
    values = {"root": options.corpus.resolve(), "updates": options.updates, "seed": seed, "more": more}
    recipe = folder.with_suffix(".yaml")
    recipe.write_text(RECIPE.format(tests="\n".join(lines), **values))
    run(["run", recipe, "--run-dir", folder])
    return folder


def own_text(corpus: Path, output: Path, pairs: int) -> dict[str, list[Path]]:
    """Files of the pairs of the new language, of general text, and the corpus' own valid and test of the new one."""
    files: dict[str, list[Path]] = {
        "valid": [corpus / "val.en.gz", corpus / "val.cs.gz"],
        "test": [corpus / f"{TEST}.en.gz", corpus / f"{TEST}.cs.gz"],
    }
    for name, langs, count in (("own", ("en", "cs"), pairs), ("general", ("en", "de", "fr"), 10_000)):
        files[name] = [output / f"{name}.{lang}" for lang in langs]
        for path in files[name]:
            lines = gzip.decompress((corpus / f"train{path.suffix}.gz").read_bytes()).decode().splitlines()
            step = len(lines) / count
            path.write_text("".join(f"{lines[int(number * step)]}\n" for number in range(count)), encoding="utf-8")
    return files


def run(words: list[object]) -> str:
    """Run a command of mtkit; its output."""
    result = subprocess.run(
        [sys.executable, "-m", "mtkit", *map(str, words)], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    return result.stdout


def report(folder: Path) -> dict[str, float]:
    """BLEU by test set of a finished run."""
    tests = json.loads((folder / "report.json").read_text())["test"]
    return {name: scores["bleu"] for name, scores in tests.items()}


def bleu(model: Path, corpus: Path, src: str, tgt: str) -> float:
    """BLEU of a direction of a model."""
    sides = [corpus / f"{TEST}.{lang}.gz" for lang in (src, tgt)]
    hyps = model.with_name(f"{model.name}.{src}-{tgt}.txt")
    run(["translate", model, sides[0], "-o", hyps, "--src-lang", src, "--tgt-lang", tgt])
    words = ["evaluate", hyps, "--ref", sides[1], "--lang", tgt, "--format", "json", "--no-intervals"]
    (scores,) = json.loads(run(words)).values()
    return float(scores["bleu"])


if __name__ == "__main__":
    main()
