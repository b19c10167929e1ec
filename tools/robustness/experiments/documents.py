"""Any text is translated and binarised line by line, the same for any batch size, number of workers and flush."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from tools.robustness.harness.experiment import Ending, Trial
from tools.robustness.harness.lab import SETUP_LIMIT, Lab
from tools.robustness.harness.texts import lines

COUNT = 400
DOCUMENT = 250  # lines
SEEDS = 400
TRANSLATE = ("translate", "sharp", "document", "--set", "search.max_length={factor: 0.0, offset: 6}")
WAYS = {
    "batch size": ("--batch-tokens", "64"),
    "single lines": ("--batch-tokens", "1"),
    "flush": ("--flush-every", "3"),
    "workers": ("--workers", "2"),
    "output file": ("-o", "output"),
}
FUNCTIONS = "tools.robustness.experiments.documents"


def trials(lab: Lab, seed: int, *, length: int = DOCUMENT) -> list[Trial]:
    """Documents of random lines."""
    found = []
    for number in range(SEEDS):
        way = list(WAYS)[number % len(WAYS)]
        size = length if way != "single lines" else length // 4
        found.append(Trial(f"translate: {way}", f"translate {number} {way}",
                           partial(_translate, lab, seed * SEEDS + number, way, size)))  # fmt: skip
    for kind, attempt in (("tokenizer", _tokenize), ("preprocess", _preprocess)):
        found += [Trial(kind, f"{kind} {number}", partial(attempt, lab, seed * SEEDS + number))
                  for number in range(SEEDS // 2)]  # fmt: skip
    return found


def _write(path: Path, content: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in content).encode())


def _translate(lab: Lab, seed: int, way: str, size: int) -> Ending:
    with lab.trial_folder() as folder:
        (folder / "sharp").symlink_to(lab.sharp / "run")
        content = lines(seed, size)
        _write(folder / "document", content)
        whole = lab.run(TRANSLATE, folder, limit=6 * lab.limit)
        other = lab.run((*TRANSLATE, *WAYS[way]), folder, limit=6 * lab.limit)
        if fault := whole.fault(frozenset({0})) or other.fault(frozenset({0})):
            return Ending("not translated", fault, size)
        out = (folder / "output").read_bytes() if way == "output file" else other.out
        return Ending("translated", _fault(content, whole.out, out), size)


def _fault(content: list[str], out: bytes, other: bytes) -> str | None:
    hyps, others = out.decode().split("\n"), other.decode().split("\n")
    if len(hyps) != len(content) + 1:
        return f"{len(hyps) - 1} lines for {len(content)}"
    for number, (line, hyp, second) in enumerate(zip(content, hyps, others, strict=False), 1):
        if not line.strip() and hyp:
            return f"line {number}: {line!r} is blank, its translation is {hyp!r}"
        if hyp != second:
            return f"line {number}: {line!r} becomes {hyp!r} and {second!r}"
    return None if out == other else "other numbers of lines"


def _tokenize(lab: Lab, seed: int) -> Ending:
    outcome = lab.run((str(lab.golden / "run/tokenizer/spm.model"), str(seed)), lab.text, limit=SETUP_LIMIT,
                      function=f"{FUNCTIONS}:check_tokenizer", output="../tokenizer")  # fmt: skip
    fault = None if outcome.status == 0 else outcome.err[-300:]
    return Ending("encoded and decoded", fault, DOCUMENT)


def check_tokenizer(model: str, seed: str) -> int:
    """Compare texts with those that their ids give, where the vocabulary has their characters."""
    from mtkit.text.subword.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(Path(model))
    content = lines(int(seed), DOCUMENT)
    ids = tokenizer.encode(content)
    for line, own in zip(content, ids, strict=True):
        back = tokenizer.decode([own])[0]
        expected = tokenizer.normalise(line).replace("▁", "\u2582")
        if tokenizer.vocab.unk not in own and back.strip() != expected.strip() and "▁" not in line:
            sys.stderr.write(f"{line!r} becomes {back!r}\n")
            return 1
        if tokenizer.encode([line])[0] != own:
            sys.stderr.write(f"{line!r} has other ids alone than among others\n")
            return 1
    return 0


def _preprocess(lab: Lab, seed: int) -> Ending:
    with lab.trial_folder() as folder:
        for side, offset in (("en", 0), ("de", 7919)):
            (folder / f"train.{side}").unlink()
            _write(folder / f"train.{side}", lines(seed + offset, DOCUMENT))
        recipe = (folder / "tiny.yaml").read_text().replace("root: " + str(lab.text), f"root: {folder}")
        (folder / "tiny.yaml").write_text(recipe)
        outcome = lab.run(("preprocess", "tiny.yaml", "--run-dir", "run", "tokenizer.character_coverage=0.98",
                           "tokenizer.byte_fallback=true", "tokenizer.model_type=bpe", "tokenizer.vocab_size=3000"),
                          folder, limit=6 * lab.limit)  # fmt: skip
        if outcome.status or outcome.fault():
            return Ending.of(outcome, f"refused: {outcome.message[:200]}")
        checked = lab.run(("run/corpus/train.0", "train.en", "train.de"), folder, function=f"{FUNCTIONS}:check_store")
        return Ending("kept or counted", None if checked.status == 0 else checked.err[-300:], DOCUMENT)


def check_store(store: str, *texts: str) -> int:
    """Compare the texts of a store with the lines that it was made from; the others must be counted."""
    from mtkit.corpus.store import SIDES, Store
    from mtkit.text.normalise import TextForm, plain

    corpus = Store(Path(store))
    for side, path in zip(SIDES, texts, strict=True):
        content = Path(path).read_bytes().decode().split("\n")
        for sample in range(len(corpus)):
            # a line may end with CRLF, and begin with the byte order mark of a file that was joined
            line = content[corpus.line(sample) - 1].removesuffix("\r").removeprefix("\ufeff")
            if corpus.text(side, sample) != TextForm().normalise(plain(line, keep_no_break=side == "tgt")):
                sys.stderr.write(f"{path}:{corpus.line(sample)}: {line!r} became {corpus.text(side, sample)!r}\n")
                return 1
    dropped = sum(corpus.manifest.report["dropped"].values())
    if len(corpus) + dropped != DOCUMENT:
        sys.stderr.write(f"{len(corpus)} pairs kept and {dropped} dropped of {DOCUMENT}: {corpus.manifest.report}\n")
        return 1
    return 0
