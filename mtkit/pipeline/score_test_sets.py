"""The stages after training: translate the test sets, score them, draw pictures, say what came out."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from mtkit.build.translator import load_translator
from mtkit.evaluation.score import Scores, evaluate
from mtkit.io.files import hash_file, write_text
from mtkit.model_folder.folder import CARD, WEIGHTS, read_description
from mtkit.pipeline.model_card import model_card
from mtkit.pipeline.records import Json
from mtkit.pipeline.run_folder import Run
from mtkit.recipe.recipe import plain
from mtkit.text.lines import read_lines
from mtkit.training.checkpoints.tensor_file import read_tensors
from mtkit.translate.translator import Translator

SAMPLES = 6


HOW = {"beam_size", "compute_type", "seconds"}  # a test set was translated, in report.json


class Tests:
    """The test sets of a run with a finished model; the model is loaded only if something has to be translated."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.weights = hash_file(run.folder.model / WEIGHTS)
        self._translator: Translator | None = None

    @property
    def translator(self) -> Translator:
        """Translates with the recipe's search, which may have changed since the model was written."""
        if self._translator is None:
            self._translator = load_translator(self.run.folder.model, search=self.run.recipe.search)
        return self._translator

    def translate(self, name: str, before: Json) -> Json:
        """Translate a test set into `hyps/NAME.txt`, if this has not been done; gives how.

        Args:
            name: of the test set.
            before: what report.json said of it.
        """
        run = self.run
        source, target = run.recipe.corpus.test[name].src, run.folder.hyps(name)
        key = self._key(source)
        stamps = run.folder.read_stamps().get("test", {})
        done = stamps.get(name) == [key, hash_file(target)] if target.is_file() else False
        if done and before.keys() >= HOW:
            run.keep(f"translate {name}")
            return {key: before[key] for key in sorted(HOW)}
        lines = list(read_lines(source))
        translator = self.translator
        began = time.perf_counter()
        hyps = translator.translate_lines(lines)
        seconds = time.perf_counter() - began
        target.parent.mkdir(exist_ok=True)
        write_text(target, "".join(f"{hyp}\n" for hyp in hyps))
        run.update_json(run.folder.stamps, {"test": {**stamps, name: [key, hash_file(target)]}})
        run.say(f"translate {name}", f"{len(lines):,} lines in {seconds:.1f} s, {len(lines) / seconds:.0f} lines/s")
        beam_size = run.recipe.search.beam_size
        return {"beam_size": beam_size, "compute_type": translator.compute_type, "seconds": round(seconds, 2)}

    def _key(self, source: Path) -> str:
        text = json.dumps([self.weights, self.run.hash(source), plain(self.run.recipe.search)])
        return hashlib.sha256(text.encode()).hexdigest()


def evaluate_tests(run: Run) -> dict[str, Scores]:
    """Translate and score all test sets; write report.json, and the scores into the model card.

    Raises:
        DataError: unequal numbers of lines, bytes that are not UTF-8.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    report = run.folder.read_report()
    tests = Tests(run)
    corpus = run.recipe.corpus
    found: dict[str, Scores] = {}
    entries: Json = {}
    for name, files in corpus.test.items():
        how = tests.translate(name, report.get("test", {}).get(name, {}))
        hyps, refs = list(read_lines(run.folder.hyps(name))), list(read_lines(files.tgt))
        found[name] = evaluate(hyps, refs, run.recipe.evaluation, tgt_lang=corpus.tgt_lang)
        entries[name] = {**found[name].as_dict(), **how}
    report = {"test": entries, **{key: value for key, value in report.items() if key != "test"}}
    run.update_json(run.folder.report, report)
    _write_card(run, report)
    return found


def _write_card(run: Run, report: Json) -> None:
    parameters = sum(tensor.numel() for tensor in read_tensors(run.folder.model / WEIGHTS).values())
    card = model_card(read_description(run.folder.model), report, parameters=parameters)
    write_text(run.folder.model / CARD, card)


def summary_lines(run: Run, scores: dict[str, Scores]) -> list[str]:
    """What a person wants to see at the end: scores, their signatures, translations, and where everything lies."""
    lines: list[str] = []
    for name, found in scores.items():
        numbers = "  ".join(f"{_LABELS[metric]} {score.value:.1f}" for metric, score in found.by_name().items())
        lines.append(f"{name}: {numbers}")
    signatures = {s.signature: metric for found in scores.values() for metric, s in found.by_name().items()}
    lines += [f"  {_LABELS[metric]}: {signature}" for signature, metric in signatures.items()]
    if scores:
        lines += ["", *_samples(run, next(iter(scores)))]
    return [*lines, "", *_places(run, list(scores))]


_LABELS = {"bleu": "BLEU", "bleu_moses_lc": "BLEU (lower-cased Moses tokens)", "chrf": "chrF2", "ter": "TER"}


def _samples(run: Run, test: str) -> list[str]:
    """Some sentences, evenly spread over a test set."""
    files = run.recipe.corpus.test[test]
    texts = [list(read_lines(path)) for path in (files.src, run.folder.hyps(test), files.tgt)]
    count = len(texts[0])
    places = sorted({round((number + 0.5) * count / SAMPLES - 0.5) for number in range(SAMPLES)}) if count else []
    lines = []
    for place in places:
        src, hyp, ref = (text[place] for text in texts)
        lines += [f"  src {src}", f"  hyp {hyp}", f"  ref {ref}", ""]
    return lines[:-1]


def _places(run: Run, tests: Sequence[str]) -> list[str]:
    folder = run.folder
    lines = [f"everything is in {_shown(folder.path)}", f"  model         {_shown(folder.model)}"]
    lines += [f"  translations  {_shown(folder.hyps(test))}" for test in tests]
    lines += [f"  scores        {_shown(folder.report)}"] if folder.report.is_file() else []
    pictures = sorted(folder.path.glob("*.png"))
    lines += [f"  picture       {_shown(picture)}" for picture in pictures]
    return [*lines, f"translate with: mtkit translate {shlex.quote(_shown(folder.path))} FILE"]


def _shown(path: Path) -> str:
    """Relative to the current directory if it is inside."""
    here = Path(os.getcwd())
    return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else str(path)
