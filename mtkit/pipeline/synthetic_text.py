"""Synthetic parallel text: text in one language and its translations by a model or another program.

Back-translation (Sennrich et al. 2016, https://arxiv.org/abs/1511.06709) translates text of the target language, so
that a system learns to produce human sentences from those of a machine. Forward translation translates text of the
source language; where that is the text of the training, it is sequence-level knowledge distillation (Kim & Rush 2016,
https://arxiv.org/abs/1606.07947).

```
source.txt, target.txt   the pairs that are kept
rejected.jsonl           the others: line, reason, both texts
synthetic.json           what all depend on, counts, and hashes of the three files
parts/                   translations that are not finished, which the same call continues
```
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

from mtkit.corpus.config import SOURCE, TARGET, CorpusConfig, TrainBacktranslated
from mtkit.display import count_of
from mtkit.errors import DataError, UsageError
from mtkit.io.files import (
    changed_files,
    hash_file,
    require_regular_file,
    translate_write_errors,
    write_atomically,
)
from mtkit.io.lock import RunLock
from mtkit.io.records import Json, is_record, read_record, write_record
from mtkit.model_folder.folder import find_model, read_metadata
from mtkit.text.lines import read_lines
from mtkit.text.source_prefix import SourcePrefix
from mtkit.training.distributed import num_processes
from mtkit.translate.lines import Line, text_of
from mtkit.translate.load import TranslatorSpec
from mtkit.translate.output import Destination, as_text, translate_to_file
from mtkit.translate.translation import FLAGS, Translation
from mtkit.translate.workers import LineTranslator, auto_num_workers

RECORD, REJECTED, PARTS = "synthetic.json", "rejected.jsonl", "parts"
FILES = (SOURCE, TARGET, REJECTED)
REJECTED_FLAGS = ("repetition", "limit", "short")  # of FLAGS: the translation is wrong, not only in a detail
EMPTY, COPIED, ROUND_TRIP = "without a translation", "the same as the text", "far from the text when translated back"
DROPPED = BLANKED = 0.1  # probabilities of a word; these and the distance are those of Edunov et al. 2018, sec. 3
DISTANCE = 3  # places by which a word moves, at most
BLANK = "⁇"  # what sentencepiece decodes an unknown token to
_REMEDY = "delete it, and the same command makes it again"


class SpecLike(Protocol):
    """A translator that can be loaded, such as TranslatorSpec and the classes of translate/teachers.py."""

    def load(self) -> LineTranslator:
        """The translator."""

    def settings(self) -> dict[str, Any]:
        """Settings and hashes that its translations depend on."""


@dataclass(frozen=True, kw_only=True)
class SyntheticText:
    """Text to translate, by whom, and what becomes of it.

    Attributes:
        text: file in one language, line by line; blank lines are left out.
        folder: receives the files that are listed at the top of this module.
        teacher: translates the text.
        is_target: the text is the target side, as in back-translation.
        noise_seed: drop, blank and reorder words of the translations at random (see `with_noise`); None: no noise.
        round_trip: translates the translations back; None: pairs are not filtered by that.
        keep: share of the pairs that are kept, those most similar to the text when translated back (chrF).
        flush_every: lines after which translations are kept by `parts`; None: those of a window.
        num_workers: processes that translate; None: chosen by the length of the text.
    """

    text: Path
    folder: Path
    teacher: SpecLike
    is_target: bool = True
    noise_seed: int | None = None
    round_trip: SpecLike | None = None
    keep: float = 0.9
    flush_every: int | None = None
    num_workers: int | None = None
    reports: Sequence[Callable[[Translation], None]] = ()

    @property
    def inputs(self) -> Json:
        """Hashes and settings that the files depend on, as plain values."""
        back = {} if self.round_trip is None else {"round_trip": self.round_trip.settings(), "keep": self.keep}
        inputs = {
            "text": hash_file(self.text),
            "teacher": self.teacher.settings(),
            "is_target": self.is_target,
            "noise_seed": self.noise_seed,
            **back,
        }
        return dict(json.loads(json.dumps(inputs)))  # lists for tuples, as in the record

    def is_current(self) -> bool:
        """Return whether the files are there, were made from these inputs, and are unchanged."""
        record = self.folder / RECORD
        known = read_record(record, remedy=_REMEDY) if is_record(record) else {}
        return known.get("inputs") == self.inputs and not changed_files(self.folder, known["files"])

    def make(self) -> str:
        """Make the files; return a sentence about them.

        After an interruption it continues with the first line that was not translated.

        Raises:
            UsageError, DataError, MissingInputError, ReadWriteError, BusyError: as `translate_to_file`; or no pair is
                left.
        """
        with RunLock(self.folder):
            inputs, parts = self.inputs, self.folder / PARTS
            begun = parts / "inputs.json"
            if not is_record(begun) or read_record(begun, remedy=_REMEDY) != inputs:
                with translate_write_errors(parts):
                    shutil.rmtree(parts, ignore_errors=True)
                    parts.mkdir()
                write_record(begun, inputs)
            self._translate(self.teacher, self.text, self._destinations(parts), reports=self.reports)
            counts = self._write(parts)
            files = {name: hash_file(self.folder / name) for name in FILES}
            write_record(self.folder / RECORD, {"inputs": inputs, "counts": counts, "files": files})
            shutil.rmtree(parts, ignore_errors=True)
        rejected = [f"{count:,} {reason}" for reason, count in sorted(counts["rejected"].items())]
        more = f"; rejected: {', '.join(rejected)} ({REJECTED})" if rejected else ""
        return f"{count_of(counts['kept'], 'pair')} in {self.folder}{more}"

    def _translate(
        self,
        teacher: SpecLike,
        text: Path,
        destinations: Sequence[Destination],
        *,
        reports: Sequence[Callable[[Translation], None]] = (),
    ) -> None:
        """Translate a file, unless it is done; continue what was begun."""
        if all(path is not None and path.is_file() for path, _ in destinations):
            return
        flush_every = self.flush_every if teacher is self.teacher else None
        translate_to_file(
            teacher.load,
            read_lines(text),
            destinations,
            header=teacher.settings(),
            resume=True,
            reports=reports,
            num_workers=self.num_workers or auto_num_workers(text, None, flush_every=flush_every),
            flush_every=flush_every,
        )

    def _destinations(self, parts: Path) -> list[Destination]:
        """The translations that are kept, their texts, and records of those that are not."""

        def made(translation: Translation, source: Line) -> str | None:
            return None if _is_left_out(translation, source) else translation.hyp

        def kept(translation: Translation, source: Line) -> str | None:
            return None if _is_left_out(translation, source) else text_of(source)

        def rejected(translation: Translation, source: Line) -> str | None:
            reason = rejection(translation, source)
            return None if reason is None else _rejected(translation.line, reason, text_of(source), translation.hyp)

        return [(parts / "made", made), (parts / "kept", kept), (parts / REJECTED, rejected)]

    def _write(self, parts: Path) -> Json:
        """Filter the pairs, add noise, and write the files; return the counts."""
        least = 0.0 if self.round_trip is None else self._least_similarity(self.round_trip, parts)
        rng = None if self.noise_seed is None else random.Random(self.noise_seed)
        kept, reasons = 0, Counter[str]()
        with (
            write_atomically(self.folder / SOURCE) as source,
            write_atomically(self.folder / TARGET) as target,
            write_atomically(self.folder / REJECTED) as others,
            source.open("w", encoding="utf-8", newline="\n") as src,
            target.open("w", encoding="utf-8", newline="\n") as tgt,
            others.open("w", encoding="utf-8", newline="\n") as rejected,
        ):
            for line in read_lines(parts / REJECTED):
                rejected.write(f"{line}\n")
                reasons[json.loads(line)["reason"]] += 1
            files = (src, tgt) if self.is_target else (tgt, src)
            pairs = zip(read_lines(parts / "made"), read_lines(parts / "kept"), strict=True)
            scores = repeat(0.0) if self.round_trip is None else self._similarities(parts)
            for (made, text), similarity in zip(pairs, scores, strict=False):
                if similarity < least:
                    rejected.write(f"{_rejected(None, ROUND_TRIP, text, made)}\n")
                    reasons[ROUND_TRIP] += 1
                    continue
                files[0].write(f"{made if rng is None else with_noise(made, rng)}\n")
                files[1].write(f"{text}\n")
                kept += 1
            if not kept:
                raise DataError(f"{self.text}: no line has a usable translation; {parts / REJECTED} has the reasons")
        return {"kept": kept, "rejected": dict(reasons)}

    def _least_similarity(self, teacher: SpecLike, parts: Path) -> float:
        """Translate the translations back; return the similarity to the text of the last pair of the share to keep."""
        self._translate(teacher, parts / "made", [(parts / "back", as_text)])
        scores = sorted(self._similarities(parts), reverse=True)
        return scores[max(0, round(self.keep * len(scores)) - 1)] if scores else 0.0

    @staticmethod
    def _similarities(parts: Path) -> Iterator[float]:
        """The chrF of each text and its translation there and back."""
        from sacrebleu.metrics.chrf import CHRF

        metric = CHRF()
        for back, text in zip(read_lines(parts / "back"), read_lines(parts / "kept"), strict=True):
            yield metric.sentence_score(back, [text]).score


def rejection(translation: Translation, source: Line) -> str | None:
    """The reason to leave a translation out of a training text; None if there is none."""
    text = text_of(source).strip()
    if not text:
        return None
    if not translation.hyp.strip():
        return EMPTY
    flag = next((flag for flag in REJECTED_FLAGS if flag in translation.flags), None)
    if flag is not None:
        return FLAGS[flag]
    is_same = translation.hyp.split() == text.split()
    return COPIED if is_same and any(map(str.isalpha, text)) else None


def _is_left_out(translation: Translation, source: Line) -> bool:
    return not text_of(source).strip() or rejection(translation, source) is not None


def _rejected(line: int | None, reason: str, text: str, made: str) -> str:
    number = {} if line is None else {"line": line}
    return json.dumps({**number, "reason": reason, "text": text, "translation": made}, ensure_ascii=False)


def with_noise(text: str, rng: random.Random) -> str:
    """A sentence with words dropped, blanked and moved; Edunov et al. 2018, sec. 3, https://arxiv.org/abs/1808.09381 .

    At least one word stays.
    """
    words = text.split()
    left = [word for word in words if rng.random() >= DROPPED] or words[:1]
    left = [BLANK if rng.random() < BLANKED else word for word in left]
    places = [number + rng.uniform(0, DISTANCE) for number in range(len(left))]
    return " ".join(left[number] for number in sorted(range(len(left)), key=places.__getitem__))


def require_direction(model: Path, source: str, target: str, prefix: SourcePrefix) -> None:
    """Check that a model translates in this direction.

    Raises:
        UsageError: it translates in another one.
        MissingInputError, DataError: as `find_model` and `read_metadata`.
    """
    direction = read_metadata(find_model(model)).direction(prefix)
    if direction != (source, target):
        raise UsageError(
            f"{model}: translates from {direction[0]} to {direction[1]}, and {source} to {target} is needed here; give "
            "a model of that direction"
        )


def make_synthetic_texts(corpus: CorpusConfig, notify: Callable[[str], None] = lambda sentence: None) -> None:
    """Make the texts of a recipe that a model makes, unless they are there and unchanged.

    Args:
        notify: receives a sentence before and after the work on a text.

    Raises:
        UsageError: as `require_direction`; or there are several processes, which would all make them.
        MissingInputError, DataError, ReadWriteError, BusyError: as `SyntheticText.make`.
    """
    for number, files in enumerate(corpus.train):
        if not isinstance(files, TrainBacktranslated):
            continue
        require_regular_file(files.mono)
        src_lang, tgt_lang = corpus.languages_of(files)
        require_direction(files.backtranslate, tgt_lang, src_lang, SourcePrefix())
        sampling = [] if files.sample is None else sampling_overrides(files.sample, seed=1)
        teacher = TranslatorSpec(models=[files.backtranslate], search_overrides=sampling)
        text = SyntheticText(
            text=files.mono, folder=files.folder, teacher=teacher, noise_seed=1 if files.noise else None
        )
        if text.is_current():
            continue
        place = f"corpus.train.{number}"
        if num_processes() > 1:
            raise UsageError(f"{place}: its sources are not made yet; first run mtkit preprocess in one process")
        notify(f"{place}: {files.mono} is translated by {files.backtranslate} ...")
        notify(f"{place}: {text.make()}")


def sampling_overrides(temperature: float, *, seed: int) -> list[str]:
    """Overrides for one sampled translation of each line."""
    method = {"kind": "sampling", "num_samples": 1, "seed": seed, "temperature": temperature}
    return [*(f"search.method.{key}={value}" for key, value in method.items()), "search.n_best=1"]
