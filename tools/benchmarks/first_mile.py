"""`mtkit run SRC TGT` without any key beside OpenNMT-py and JoeyNMT, on real corpora, in the same processor time.

    python tools/benchmarks/first_mile.py [--corpora multi30k mafand] [--systems mtkit tuned opennmt joeynmt]
        [--minutes 5]

mtkit gets a recipe with files and languages only and `--budget`; the peers have the settings of first_mile_peers.py.
`tuned` is what a person can win by hand: each of the variants (of VARIANTS, several joined by " + ") is trained for the
same time, and the one with the highest BLEU on the validation set, the chosen defaults among them, translates the test
set. Trainings of mtkit that WORK has already are not repeated.
Each training process may use the same processor seconds of one thread, start and validation included, since wall-clock
time says little on a shared machine. Checkpoints are chosen on the validation set, test sets are translated with a beam
of 5, and sacreBLEU scores all translations. Valid and test are those of the corpus, thinned evenly to `--held-out`
lines. Corpora are read from the folder MTKIT_CORPORA (default ../shared/corpora). Rows are printed and added to
WORK/rows.jsonl.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import model_t
import sacrebleu
from first_mile_peers import Trained, limited, train_joeynmt, train_opennmt
from joeynmt import JoeyNMT
from opennmt import OpenNMT

from mtkit.pipeline.choices import choose_for_run
from mtkit.recipe.defaults.facts import parse_budget
from mtkit.recipe.recipe import read_recipe

SYSTEMS = ("mtkit", "tuned", "opennmt", "joeynmt")
AS_CHOSEN = "as chosen"
PLUS = " + "  # joins the names of variants
VARIANTS = {  # {half ...}, {twice ...}, {quarter ...}: of the chosen value
    AS_CHOSEN: (),
    "twice the vocabulary": ("tokenizer.vocab_size={twice_vocabulary}",),
    "half the vocabulary": ("tokenizer.vocab_size={half_vocabulary}",),
    "a quarter of the vocabulary": ("tokenizer.vocab_size={quarter_vocabulary}",),
    "1+1 layers": ("model.encoder_layers=1", "model.decoder_layers=1"),
    "2+2 layers": ("model.encoder_layers=2", "model.decoder_layers=2"),
    "4+4 layers": ("model.encoder_layers=4", "model.decoder_layers=4"),
    "width 256": ("model.d_model=256", "model.encoder_layers=2", "model.decoder_layers=1"),
    "no dropout": ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0"),
    "dropout 0.1, none inside": ("model.dropout=0.1", "model.attention_dropout=0", "model.activation_dropout=0"),
    "dropout 0.1": ("model.dropout=0.1",),
    "no label smoothing": ("training.label_smoothing=0",),
    "half the learning rate": ("training.optimiser.learning_rate={half_rate}",),
    "no guided alignment": ("training.objective={{kind: cross_entropy}}",),
    "guided alignment 0.3": ("training.objective={{kind: guided_alignment, weight: 0.3}}",),
    "guided alignment 1": ("training.objective={{kind: guided_alignment, weight: 1}}",),
    "guided alignment 3": ("training.objective={{kind: guided_alignment, weight: 3}}",),
    "twice the learning rate": ("training.optimiser.learning_rate={twice_rate}",),
}
RECIPE = """\
name: {name}
corpus:
  src_lang: {src}
  tgt_lang: {tgt}
  train: [{{src: train.{src}, tgt: train.{tgt}}}]
  valid: {{src: valid.{src}, tgt: valid.{tgt}}}
"""


@dataclass(frozen=True)
class Variant:
    """A training with some keys of VARIANTS.

    Attributes:
        name: a key of VARIANTS.
        valid: BLEU of the validation set.
        trained: translations of the test set.
    """

    name: str
    valid: float
    trained: Trained


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus with published splits.

    Attributes:
        folder: in MTKIT_CORPORA.
        src: language of the source side, the suffix of its files.
        tgt: the same of the target side.
        train: name of the training files, without the language.
        valid: the same of the validation files.
        test: the same of the test files.
        tokenize: sacreBLEU's tokenizer; `none` for text that is tokenised already.
    """

    folder: str
    src: str
    tgt: str
    train: str = "train"
    valid: str = "valid"
    test: str = "test"
    tokenize: str = "13a"

    def unpack(self, folder: Path, held_out: int) -> dict[str, Path]:
        """Write `train.LANG`, `valid.LANG` and `test.LANG`; return them by `train.src`, `train.tgt` and so on.

        At most `held_out` lines of valid and test are taken, evenly spaced.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for part, name in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            for side, lang in (("src", self.src), ("tgt", self.tgt)):
                files[f"{part}.{side}"] = path = folder / f"{part}.{lang}"
                packed = model_t.CORPORA / self.folder / f"{name}.{lang}.gz"
                lines = gzip.decompress(packed.read_bytes()).decode().split("\n")[:-1]
                if part != "train" and (count := len(lines)) > held_out:
                    lines = [lines[i * count // held_out] for i in range(held_out)]
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return files


MULTI30K = {"folder": "multi30k", "valid": "val", "test": "test_2016_flickr"}
CORPORA = {
    "multi30k": Corpus(src="en", tgt="de", **MULTI30K),
    "iwslt14": Corpus("iwslt14-de-en", "de", "en", train="train-sample4600", tokenize="none"),
    "mafand": Corpus("mafand-en-swa", "en", "swa"),
    "small-enja": Corpus("small-enja", "en", "ja", tokenize="none"),
    "manpages": Corpus("manpages-en-de", "en", "de"),
    "pydocs": Corpus("pydocs-en-ja", "en", "ja", tokenize="char"),  # ja-mecab where MeCab is installed
    "tatoeba": Corpus("tatoeba-de-en", "de", "en"),
    "multi30k-de-en": Corpus(src="de", tgt="en", **MULTI30K),
    "multi30k-en-fr": Corpus(src="en", tgt="fr", **MULTI30K),
    "multi30k-en-cs": Corpus(src="en", tgt="cs", **MULTI30K),
}


def main() -> None:
    """Train, translate, score and print a row for each corpus and system."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("build/first-mile").absolute())
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--variants", nargs="+", type=parse_variant, default=list(VARIANTS), help="of `tuned`")
    parser.add_argument("--minutes", type=float, default=8, help="processor time of each training")
    parser.add_argument("--held-out", type=int, default=1000, help="lines of valid and test, at most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| corpus | system | BLEU | chrF | minutes | updates | seed |\n|---|---|---|---|---|---|---|")
    for name in options.corpora:
        for system in options.systems:
            texts = CORPORA[name].unpack(options.work / name, options.held_out)
            print_row(options, name, system, train(options, name, system, texts))


def train(options: argparse.Namespace, name: str, system: str, texts: dict[str, Path]) -> Trained:
    """Train one system for the processor time of the options and translate the test set."""
    corpus, folder, seed = CORPORA[name], options.work / name, options.seed
    seconds = round(60 * options.minutes)
    if system in ("opennmt", "joeynmt"):
        shutil.rmtree(folder / system, ignore_errors=True)
        (folder / system).mkdir()
    if system == "opennmt":
        opennmt = OpenNMT.install(options.work / "opennmt-venv", folder / system, 1)
        return train_opennmt(opennmt, texts, seconds=seconds, seed=seed)
    if system == "joeynmt":
        joeynmt = JoeyNMT.install(options.work / "joeynmt-venv", folder / system, 1)
        return train_joeynmt(joeynmt, texts, (corpus.src, corpus.tgt), seconds=seconds, seed=seed)
    names = options.variants if system == "tuned" else [AS_CHOSEN]
    return best_of(corpus, texts, folder, names, minutes=options.minutes, seed=seed)


def train_variant(
    corpus: Corpus, texts: dict[str, Path], folder: Path, name: str, *, minutes: float, seed: int
) -> Variant:
    """Train with the chosen defaults, except for the keys of a variant, and translate valid and test.

    A variant with the same time and seed that the folder has already is not trained again.
    """
    folder = folder / f"{name}, {minutes:g} minutes, seed {seed}"
    result, run, recipe = folder / "result.json", folder / "run", texts["train.src"].parent / "recipe.yaml"
    if not result.exists():
        folder.mkdir(exist_ok=True)
        recipe.write_text(RECIPE.format(name=corpus.folder, src=corpus.src, tgt=corpus.tgt))
        keys = keys_of(name, recipe, minutes)
        clock = Path(__file__).with_name("processor_clock.py")
        arguments = ["train", recipe, f"training.seed={seed}", *keys, "--budget", f"{minutes:g}m", "--run-dir", run]
        seconds = limited([sys.executable, clock, *arguments, "--fresh"], folder / "train.log")
        events = [json.loads(line) for line in (run / "log.jsonl").read_text().rstrip("\n").split("\n")]
        best = min((event for event in events if event["event"] == "validation"), key=lambda event: event["nll"])
        for part in ("valid", "test"):
            translate(run, texts[f"{part}.src"], folder / f"{part}.hyp")
        result.write_text(json.dumps({"seconds": seconds, "updates": best["update"]}))
    trained = json.loads(result.read_text())
    refs = read_lines(texts["valid.tgt"])
    valid = sacrebleu.corpus_bleu(read_lines(folder / "valid.hyp"), [refs], tokenize=corpus.tokenize).score
    hyps = read_lines(folder / "test.hyp")
    return Variant(name, valid, Trained(hyps, trained["seconds"], trained["updates"]))


def keys_of(variant: str, recipe: Path, minutes: float) -> list[str]:
    """Return the keys of a variant, with fractions of the values that the rules choose for the recipe in that time."""
    chosen = choose_for_run(read_recipe(str(recipe)), parse_budget(f"{minutes:g}m"), run_dir=recipe.with_name("no-run"))
    vocab_size, rate = chosen.tokenizer.vocab_size, chosen.training.optimiser.learning_rate
    fractions = {"half_vocabulary": vocab_size // 2, "quarter_vocabulary": vocab_size // 4}
    fractions |= {"twice_vocabulary": vocab_size * 2, "half_rate": rate / 2, "twice_rate": rate * 2}
    return [key.format_map(fractions) for part in variant.split(PLUS) for key in VARIANTS[part]]


def parse_variant(text: str) -> str:
    """Check the name of a variant, or of several that are joined by PLUS."""
    if unknown := set(text.split(PLUS)) - VARIANTS.keys():
        raise argparse.ArgumentTypeError(f"{unknown.pop()}: none of {', '.join(VARIANTS)}")
    return text


def best_of(
    corpus: Corpus, texts: dict[str, Path], folder: Path, names: Sequence[str], *, minutes: float, seed: int
) -> Trained:
    """Train variants and return the one with the highest BLEU on the validation set; all are printed."""
    variants = []
    for name in names:
        variants.append(train_variant(corpus, texts, folder, name, minutes=minutes, seed=seed))
        print(f"{folder.name} valid: {name}: {variants[-1].valid:.1f}", file=sys.stderr, flush=True)
    return max(variants, key=lambda variant: variant.valid).trained


def translate(run: Path, source: Path, output: Path) -> list[str]:
    """Translate a file with a beam of 5 and return the lines."""
    arguments = ["translate", run, source, "-o", output, "--beam-size", 5]
    limited([sys.executable, "-m", "mtkit", *arguments], output.with_suffix(".log"))
    return read_lines(output)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file that ends with a newline."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def print_row(options: argparse.Namespace, name: str, system: str, trained: Trained) -> None:
    """Print the scores and add them to WORK/rows.jsonl."""
    corpus = CORPORA[name]
    refs = read_lines(options.work / name / f"test.{corpus.tgt}")
    bleu = sacrebleu.corpus_bleu(trained.hyps, [refs], tokenize=corpus.tokenize).score
    chrf = sacrebleu.corpus_chrf(trained.hyps, [refs]).score
    minutes = trained.seconds / 60
    print(f"| {name} | {system} | {bleu:.1f} | {chrf:.1f} | {minutes:.1f} | {trained.updates:,} | {options.seed} |")
    sys.stdout.flush()
    row = {"corpus": name, "system": system, "bleu": bleu, "chrf": chrf, "minutes": minutes}
    with (options.work / "rows.jsonl").open("a") as file:
        file.write(json.dumps({**row, "updates": trained.updates, "seed": options.seed}) + "\n")


if __name__ == "__main__":
    main()
