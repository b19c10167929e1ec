"""What must come through: shares of spans that a model puts in place, flags or loses, and the BLEU that it costs.

    python tools/benchmarks/fidelity.py measure MODEL [--src FILE --ref FILE | --held-out] [--lines 2000]
    python tools/benchmarks/fidelity.py made SRC TGT [--lines 2000] [--share 1.0] [--seed 1] -o PREFIX
    python tools/benchmarks/fidelity.py quickstart RUN -o FOLDER [--updates 400]
    python tools/benchmarks/fidelity.py glossary MODEL --src FILE --ref FILE [--terms 8]

`measure` translates each line with and without restoring and prints a row for each. A span is in place if the
translation has it, or elsewhere if, in a made set, it is not behind the same word as in the reference. Of the others
those are flagged whose line has the flag `missing` or `numbers`; the rest is silent. Without files it measures on a
made set from the embedded valid set, which the rules of placing were made with; `--held-out` on one from the embedded
test set, with other spans. `made` writes a made set: lines of two parallel files, each with one span of a
random kind and text, behind a word that both sides have or before the final stop. `quickstart` fine-tunes the model of
a finished run of quickstart for a few minutes on a made set from its training text, with and without copy tokens, and
measures both, and BLEU on the embedded valid set, which has no spans. `glossary` gives terms that no text has (made
words) as translations of frequent nouns of the source, and compares with references that have them.
"""

from __future__ import annotations

import argparse
import random
import re
import string
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mtkit
from mtkit.evaluation.score import score
from mtkit.text.lines import read_lines
from mtkit.text.spans import find_spans, missing_spans
from mtkit.translate.glossary import Glossary
from mtkit.translate.load import load_translator
from mtkit.translate.translation import Translation

DATA = Path(__file__).parents[2] / "data"
KINDS = ("URL", "address", "number", "date", "placeholder", "code", "path", "emoji")
FLAGS = {"missing", "numbers"}
OUTCOMES = ("in place", "elsewhere", "flagged", "silent")
_WORD = re.compile(r"[^\W\d_]{3,}")


def main() -> None:
    """Run one of the four programs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    programs = parser.add_subparsers(dest="program", required=True)
    one = programs.add_parser("measure")
    one.add_argument("model", type=Path)
    one.add_argument("--src", type=Path)
    one.add_argument("--ref", type=Path)
    one.add_argument("--held-out", action="store_true")
    one.add_argument("--lines", type=int, default=2000)
    one = programs.add_parser("made")
    one.add_argument("src", type=Path)
    one.add_argument("tgt", type=Path)
    one.add_argument("--lines", type=int, default=2000)
    one.add_argument("--share", type=float, default=1.0)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("-o", "--output", required=True)
    one = programs.add_parser("quickstart")
    one.add_argument("run", type=Path)
    one.add_argument("-o", "--output", type=Path, required=True)
    one.add_argument("--updates", type=int, default=400)
    one = programs.add_parser("glossary")
    one.add_argument("model", type=Path)
    one.add_argument("--src", type=Path, default=DATA / "valid.en")
    one.add_argument("--ref", type=Path, default=DATA / "valid.de")
    one.add_argument("--terms", type=int, default=8)
    options = parser.parse_args()
    if options.program == "measure":
        made = made_pairs("test", options.lines, seed=2) if options.held_out else made_pairs("valid", options.lines)
        report(options.model, made if options.src is None else read(options.src, options.ref)[: options.lines])
    elif options.program == "made":
        pairs = with_spans(read(options.src, options.tgt), options.lines, options.share, options.seed)
        write(options.output, pairs)
    elif options.program == "quickstart":
        fine_tune(options.run, options.output, options.updates)
    else:
        report_glossary(options.model, read(options.src, options.ref), options.terms)


@dataclass(frozen=True)
class Pair:
    """A line and its reference; of a made one the word before the span on both sides."""

    src: str
    ref: str
    word: str = ""


def read(src: Path, ref: Path) -> list[Pair]:
    """The pairs of two files."""
    return [Pair(*lines) for lines in zip(read_lines(src), read_lines(ref), strict=True)]


def write(prefix: str, pairs: Iterable[Pair]) -> None:
    """Write PREFIX.src and PREFIX.tgt."""
    rows = list(pairs)
    for side, lines in (("src", [pair.src for pair in rows]), ("tgt", [pair.ref for pair in rows])):
        Path(f"{prefix}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def made_pairs(name: str, lines: int, seed: int = 1) -> list[Pair]:
    """A made set from a part of the embedded corpus."""
    return with_spans(read(DATA / f"{name}.en", DATA / f"{name}.de"), lines, 1.0, seed)


def with_spans(pairs: Sequence[Pair], lines: int, share: float, seed: int) -> list[Pair]:
    """Pairs, repeated up to a number of lines, of which a share has a span."""
    rng = random.Random(seed)
    made = []
    for number in range(lines):
        pair = pairs[number % len(pairs)]
        made.append(with_span(pair, rng) if rng.random() < share else pair)
    return made


def with_span(pair: Pair, rng: random.Random) -> Pair:
    """A pair with a random span on both sides; numbers with separators have those of English and German."""
    src_span, ref_span = random_span(rng.choice(KINDS), rng)
    words = Counter(_WORD.findall(pair.src)) & Counter(_WORD.findall(pair.ref))
    once = [word for word in words if all(len(re.findall(rf"\b{word}\b", text)) == 1 for text in (pair.src, pair.ref))]
    if once:
        word = rng.choice(sorted(once))
        src, ref = (
            re.sub(rf"\b{word}\b", lambda match, span=span: f"{match[0]} {span}", text)
            for text, span in ((pair.src, src_span), (pair.ref, ref_span))
        )
        return Pair(src, ref, word)
    src, ref = (f"{text[:-1]}, {span}{text[-1]}" for text, span in ((pair.src, src_span), (pair.ref, ref_span)))
    return Pair(src, ref)


def random_span(kind: str, rng: random.Random) -> tuple[str, str]:
    """A span of a kind, and the form that it has in German."""
    name = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 8)))
    number, cents = rng.randint(10, 99999), rng.randint(10, 99)
    if kind == "number" and rng.random() < 0.5:
        english = f"{number:,}.{cents}"
        return english, english.translate(str.maketrans(".,", ",."))
    span = {
        "URL": f"https://{name}.org/{name[::-1]}-{cents}",
        "address": f"{name}@{name[:3]}.org",
        "number": str(number),
        "date": f"20{cents}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "placeholder": rng.choice(["%s", "%1$s", f"{{{name}}}", f"{{{{{name}}}}}", f"${{{name}}}", f"<{name}/>"]),
        "code": f"`{name}({cents})`",
        "path": f"/usr/{name}/{name[:2]}.cfg",
        "emoji": rng.choice("😀🎉🐶🚀❤✅"),
    }[kind]
    return span, span


def report(model: Path, pairs: Sequence[Pair]) -> None:
    """Print shares and BLEU of a model on pairs, and BLEU on the lines without spans."""
    print("| restoring | spans |", " | ".join(OUTCOMES), "| BLEU | BLEU of lines without spans |")
    print("|---" * (4 + len(OUTCOMES)) + "|")
    for restore in (False, True):
        translator = load_translator(model, device="cpu", threads=1)
        translator.options = replace(translator.options, restore=restore)
        hyps = list(translator.translate([pair.src for pair in pairs]))
        counts = Counter(each for pair, hyp in zip(pairs, hyps, strict=True) for each in outcomes(pair, hyp))
        total = max(1, counts.total())
        shares = (f"{100 * counts[each] / total:.2f}%" for each in OUTCOMES)
        without = [i for i, pair in enumerate(pairs) if not find_spans(pair.src)]
        scores = (bleu([(pairs[i].ref, hyps[i].hyp) for i in rows]) for rows in (range(len(pairs)), without))
        print("|", " | ".join(("yes" if restore else "no", str(counts.total()), *shares, *scores)), "|")
        for pair, hyp in [(p, h) for p, h in zip(pairs, hyps, strict=True) if "silent" in outcomes(p, h)][:3]:
            print(f"silent: {pair.src} -> {hyp.hyp}", file=sys.stderr)


def outcomes(pair: Pair, hyp: Translation) -> list[str]:
    """The outcome of each span of a line that its reference has too."""
    spans = find_spans(pair.src)
    lost_in_ref = missing_spans(spans, pair.ref)
    lost = missing_spans(spans, hyp.hyp)
    results = []
    for span in spans:
        if span in lost_in_ref:
            continue
        behind_word = rf"\b{pair.word}\s+(?={re.escape(hyp_form(span.text, hyp.hyp))})"
        if span in lost:
            results.append("flagged" if FLAGS & {*hyp.flags} else "silent")
        else:
            results.append("elsewhere" if pair.word and not re.search(behind_word, hyp.hyp) else "in place")
    return results


def hyp_form(span: str, hyp: str) -> str:
    """The form of a span in a translation: as it is, or with other separators."""
    return span if span in hyp else span.translate(str.maketrans(".,", ",."))


def bleu(rows: Sequence[tuple[str, str]]) -> str:
    """BLEU of pairs (reference, translation); a dash without any."""
    if not rows:
        return "–"
    result = score([hyp for _, hyp in rows], [[ref for ref, _ in rows]], ["bleu"], tokenize="13a").bleu
    return "–" if result is None else f"{result.value:.2f}"


def fine_tune(run: Path, folder: Path, updates: int) -> None:
    """Fine-tune the model of a run with and without copy tokens, and print the measurements of both."""
    folder.mkdir(parents=True, exist_ok=True)
    train = read(DATA / "train.en", DATA / "train.de")
    write(str(folder / "train"), with_spans(train, len(train), 0.3, 2))
    for copies in (True, False):
        recipe = folder / f"copies-{copies}.yaml".lower()
        recipe.write_text(
            f"""
base: {DATA.parent}/recipes/quickstart.yaml
name: fidelity
corpus:
  root: {folder.resolve()}
  train: [{{src: train.src, tgt: train.tgt}}]
  valid: null
  test: {{embedded: {{src: {DATA}/valid.en, tgt: {DATA}/valid.de}}}}
tokenizer: {{copy_tokens: {str(copies).lower()}}}
training:
  init_from: {{model: {run.resolve()}}}
  max_updates: {updates}
  checkpoint_every: {updates}
  optimiser: {{kind: adam, learning_rate: 1e-3}}
  schedule: {{kind: linear, warmup: 40}}
"""
        )
        mtkit.run(mtkit.load_recipe(str(recipe)), run_dir=recipe.with_suffix(""))
        print(f"\ncopy tokens: {copies}\n")
        report(recipe.with_suffix(""), [*made_pairs("valid", 2000), *read(DATA / "valid.en", DATA / "valid.de")])


def report_glossary(model: Path, pairs: Sequence[Pair], num_terms: int) -> None:
    """Print terms in an allowed form, and BLEU with and without a glossary of made words."""
    translator = load_translator(model, device="cpu", threads=1)
    plain = [hyp.hyp for hyp in translator.translate([pair.src for pair in pairs])]
    glossary, wanted = made_glossary(pairs, plain, num_terms)
    translator.options = replace(translator.options, glossary=glossary)
    hyps = list(translator.translate([pair.src for pair in pairs]))
    terms = [form for hyp in hyps for _, form in hyp.terms]
    print(f"{sum(map(bool, terms))} of {len(terms)} terms in an allowed form")
    print(f"BLEU without glossary {bleu([(p.ref, h) for p, h in zip(pairs, plain, strict=True)])}")
    refs = [substituted(pair.ref, wanted) for pair in pairs]
    print(f"BLEU with it, references with its terms {bleu(list(zip(refs, [hyp.hyp for hyp in hyps], strict=True)))}")
    words = [len(hyp.hyp.split()) - len(text.split()) for hyp, text in zip(hyps, plain, strict=True)]
    print(f"lines with more words than without: {sum(each > 0 for each in words)}")


def made_glossary(pairs: Sequence[Pair], hyps: Sequence[str], num_terms: int) -> tuple[Glossary, dict[str, str]]:
    """Made words for source words that always go with one target word, and the made word of each target word."""
    src_lines = [{*_WORD.findall(pair.src)} for pair in pairs]
    ref_lines = [{*_WORD.findall(pair.ref)} for pair in pairs]
    rng, glossary, wanted = random.Random(3), Glossary(), {}
    counts = Counter(word for words in src_lines for word in words if word.islower())
    for word, count in counts.most_common():
        here = [i for i, words in enumerate(src_lines) if word in words]
        common = set.intersection(*(ref_lines[i] for i in here)) if count >= 3 else set()
        exact = [each for each in common if sum(each in words for words in ref_lines) == count and each[0].isupper()]
        noun = re.compile(rf"\b(?:the|an?|my|your|his|her|their|this|these) (?:\w+ )?{word}\b", re.IGNORECASE)
        is_noun = 2 * sum(noun.search(pairs[i].src) is not None for i in here) > count  # and no part of "at home"
        if is_noun and len(exact) == 1 and exact[0] not in wanted and all(exact[0] in hyps[i] for i in here):
            made = "".join(rng.choices("bdfgklmnprst", k=1) + rng.choices("aeiou", k=1)).capitalize() + "rulo"
            glossary.add(word, [made], "made")
            wanted[exact[0]] = made
        if len(wanted) == num_terms:
            break
    return glossary, wanted


def substituted(text: str, wanted: dict[str, str]) -> str:
    """A text with other words in place of some."""
    return _WORD.sub(lambda match: wanted.get(match[0], match[0]), text)


if __name__ == "__main__":
    main()
