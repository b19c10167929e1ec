"""BLEU that noise costs and that `mtkit clean` wins back, on Tatoeba de-en.

    nice -n 10 python tools/benchmarks/cleaning.py CORPORA -o FOLDER --pairs 60000 --noise 1.0 --updates 1000

For each seed, small Transformers are trained with a fixed number of updates on four texts: `clean`, evenly spaced pairs
of the corpus; `cleaned`, what `mtkit clean` keeps of these; `noisy`, these and noise, shuffled; and `recovered`, what
`mtkit clean` keeps of that. Noise is a share of the pairs, of equal parts: lines that are no translations, copies of
the source, lines of other languages, repetition, half of a line, text that was decoded wrongly, and duplicates. The
tokenizer of each training is learned from its text. A training that is finished in FOLDER is not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from pathlib import Path

import mtkit
from mtkit.pipeline.clean_text import clean_files
from mtkit.text.lines import TextSubset, read_lines
from tools.benchmarks.injected_faults import OTHER_LANGUAGES

TEXTS = ("clean", "noisy", "recovered", "cleaned")
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}  # quantiles of Student's t for the mean of N values
Pair = tuple[str, str]


def fault(kind: int, rng: random.Random, pair: Pair, other: Pair, foreign: str) -> Pair:
    """A pair with one of seven faults."""
    src, tgt = pair
    part = " ".join(tgt.split()[: max(1, len(tgt.split()) // 4)])
    faulty = (
        (src, other[1]),  # no translation
        (src, src),  # copy
        (src, foreign),  # other language
        (src, " ".join([part] * 12)),  # repetition
        (f"{src} {other[0]} {other[0]}", part),  # part of a translation
        (src, f"{tgt}\ufffd{rng.choice('éüßñ').encode().decode('latin-1')}"),  # decoded wrongly
        pair,  # duplicate
    )
    return faulty[kind % len(faulty)]


def noise(rng: random.Random, pairs: list[Pair], count: int, foreign: list[str]) -> list[Pair]:
    """Pairs with faults, made of pairs of the text."""
    return [fault(kind, rng, rng.choice(pairs), rng.choice(pairs), rng.choice(foreign)) for kind in range(count)]


def write(folder: Path, pairs: list[Pair]) -> None:
    folder.mkdir(parents=True)
    for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))


def make_texts(options: argparse.Namespace) -> None:
    """The texts of TEXTS in folders of these names."""
    corpus = options.corpora / "tatoeba-de-en"
    sides = (read_lines(TextSubset(corpus / f"train.{side}.gz", options.pairs)) for side in ("de", "en"))
    pairs = list(zip(*sides, strict=True))
    rng = random.Random(options.pairs)
    stems = [each for each in OTHER_LANGUAGES if not each.endswith((".de", ".en"))]
    others = [line for each in stems for line in read_lines(options.corpora / f"{each}.gz")]
    noisy = pairs + noise(rng, pairs, round(options.noise * options.pairs), others)
    rng.shuffle(noisy)
    write(options.output / "clean", pairs)
    write(options.output / "noisy", noisy)
    held_out = [(corpus / f"{part}.de.gz", corpus / f"{part}.en.gz") for part in ("valid", "test")]
    for text, result in (("clean", "cleaned"), ("noisy", "recovered")):
        files = [options.output / text / f"train.{side}" for side in ("de", "en")]
        report = clean_files(files, ("de", "en"), held_out, options.output / result, print)
        print("\n".join(report.lines()), flush=True)


RECIPE = """
name: cleaning
defaults: fixed
corpus:
  src_lang: de
  tgt_lang: en
  train: [{{src: {text}/train.de, tgt: {text}/train.en}}]
  valid: {{src: {corpus}/valid.de.gz, tgt: {corpus}/valid.en.gz}}
  test: {{tatoeba: {{src: {corpus}/test.de.gz, tgt: {corpus}/test.en.gz}}}}
tokenizer: {{vocab_size: 4000}}
model: {{kind: transformer, d_model: 128, d_ff: 384, num_heads: 4, encoder_layers: 2, decoder_layers: 1, dropout: 0.0}}
training:
  max_updates: {updates}
  batch_tokens: {batch_tokens}
  validate_every: {updates}
  checkpoint_every: {updates}
  optimiser: {{kind: adam, learning_rate: 4e-3}}
  schedule: {{kind: warmup_stable_decay, warmup: 100, decay: 0.4}}
  ema: {{decay: 0.98}}
  seed: {seed}
  validation: {{sentences: 0}}
search: {{beam_size: 1}}
evaluation: {{metrics: [bleu, chrf]}}
"""


def train(options: argparse.Namespace, text: str, seed: int) -> dict[str, float]:
    """BLEU of the test set and loss of the validation set."""
    run = options.output / "runs" / f"{text}-{seed}"
    recipe = run.with_suffix(".yaml")
    recipe.parent.mkdir(exist_ok=True)
    keys = {"text": options.output.resolve() / text, "corpus": (options.corpora / "tatoeba-de-en").resolve()}
    recipe.write_text(RECIPE.format(**keys, seed=seed, updates=options.updates, batch_tokens=options.batch_tokens))
    report = mtkit.run(mtkit.load_recipe(str(recipe)), run_dir=run)
    log = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    losses = [each["nll"] for each in log if each["event"] == "validation"]
    return {"bleu": report.content["test"]["tatoeba"]["bleu"], "loss": losses[-1]}


def interval(values: list[float]) -> str:
    """Mean and 95% interval."""
    if len(values) < 2:
        return f"{values[0]:.2f}"
    half = T_95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.2f} ± {half:.2f}"


def main() -> None:
    """Make the texts, train, and print scores and differences within each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=60_000)
    parser.add_argument("--noise", type=float, default=1.0, help="noisy pairs for each clean one")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--texts", nargs="+", choices=TEXTS, default=TEXTS)
    options = parser.parse_args()
    if not (options.output / "recovered").exists():
        make_texts(options)
    results: dict[str, list[dict[str, float]]] = {text: [] for text in options.texts}
    for seed in options.seeds:
        for text in options.texts:
            results[text].append(train(options, text, seed))
            print(seed, text, results[text][-1], flush=True)
    for measure in ("bleu", "loss"):
        of = {text: [each[measure] for each in rows] for text, rows in results.items()}
        print(measure, *(f"{text} {interval(values)}" for text, values in of.items()))
        for one, other in (("clean", "noisy"), ("recovered", "noisy"), ("cleaned", "clean")):
            if one in of and other in of:
                print(f"  {one} - {other}: {interval([a - b for a, b in zip(of[one], of[other], strict=True)])}")
    if {"clean", "noisy", "recovered"} <= results.keys():
        triples = zip(*(results[text] for text in ("clean", "noisy", "recovered")), strict=True)
        print("won back:", interval([(c["bleu"] - a["bleu"]) / (b["bleu"] - a["bleu"]) for b, a, c in triples]))


if __name__ == "__main__":
    main()
