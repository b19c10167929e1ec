"""Synthetic parallel text: text in one language and its translations by a model or another program.

Back-translation (Sennrich et al. 2016, https://arxiv.org/abs/1511.06709) translates text of the target language, so
that a system learns to produce human sentences from those of a machine. Forward translation translates text of the
source language; where that is the text of the training, it is sequence-level knowledge distillation (Kim & Rush 2016,
https://arxiv.org/abs/1606.07947).

```
source.txt, target.txt   the pairs that are kept
rejected.jsonl           the others: line, reason, both texts
synthetic.json           what all depend on, counts, and hashes of the three files
parts/                   translations that are not finished, which the same call continues, and those of shards
```
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mtkit.corpus.config import SOURCE, TARGET, TrainBacktranslated
from mtkit.corpus.split import MIN_CHARACTERS, normalised
from mtkit.display import count_of
from mtkit.errors import DataError, UsageError
from mtkit.io.files import changed_files, hash_file, require_regular_file, translate_write_errors, write_atomically
from mtkit.io.lock import RunLock, make_once
from mtkit.io.records import Json, is_record, read_record, write_record
from mtkit.io.shards import Shard, find_shards, merge_shards
from mtkit.model_folder.folder import find_model, read_metadata
from mtkit.pipeline.languages import language_mistake
from mtkit.pipeline.prepare_corpus import check_inputs
from mtkit.recipe.sections import Recipe
from mtkit.text.lines import count_lines, read_lines
from mtkit.text.source_prefix import SourcePrefix
from mtkit.training.distributed import num_processes
from mtkit.translate.lines import Line, text_of
from mtkit.translate.load import TranslatorSpec
from mtkit.translate.output import Format, as_text, translate_to_file
from mtkit.translate.teachers import Teacher
from mtkit.translate.translation import FLAGS, Translation, TranslationOptions
from mtkit.translate.workers import Cluster, auto_num_workers

RECORD, REJECTED, PARTS = "synthetic.json", "rejected.jsonl", "parts"
TRANSLATIONS, BACK = "translations.jsonl", "back"  # in PARTS: records of lines; the translations, translated back
FILES = (SOURCE, TARGET, REJECTED)
REJECTED_FLAGS = ("repetition", "limit", "short")  # of FLAGS: the translation is wrong, not only in a detail
EMPTY, COPIED, ROUND_TRIP = "without a translation", "the same as the text", "far from the text when translated back"
HELD_OUT = "in valid or test"
DROPPED = BLANKED = 0.1  # probabilities of a word; these and the distance are those of Edunov et al. 2018, sec. 3
DISTANCE = 3  # places by which a word moves, at most
BLANK = "⁇"  # what sentencepiece decodes an unknown token to
_REMEDY = "delete its folder, and the same command makes it again"
AnyTeacher = TranslatorSpec | Teacher
OF_THE_MACHINE = ("mtkit", "compute_type")  # settings without much effect; text of another machine stays as it is


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
        held_out: target files of valid and test, whose lines are left out when the pairs are made.
        num_workers: processes of a model; None: chosen by the length of the text.
        cluster: translates instead of this machine.
        reports: each receives every translation.
    """

    text: Path
    folder: Path
    teacher: AnyTeacher
    is_target: bool = True
    noise_seed: int | None = None
    round_trip: AnyTeacher | None = None
    keep: float = 0.9
    held_out: Sequence[Path] = ()
    num_workers: int | None = None
    cluster: Cluster | None = None
    reports: Sequence[Callable[[Translation], None]] = ()

    @property
    def inputs(self) -> Json:
        """Hashes and settings that the files depend on, as plain values."""
        back = {} if self.round_trip is None else {"round_trip": _settings(self.round_trip), "keep": self.keep}
        inputs = {
            "text": hash_file(self.text),
            "teacher": _settings(self.teacher),
            "is_target": self.is_target,
            "noise_seed": self.noise_seed,
            **back,
        }
        return dict(json.loads(json.dumps(inputs)))  # lists for tuples, as in the record

    def is_current(self) -> bool:
        """Return whether the files are there, were made from these inputs, and are unchanged."""
        record = self.folder / RECORD
        known = read_record(record, remedy=_REMEDY) if record.exists() else {}
        return known.get("inputs") == self.inputs and not changed_files(self.folder, known["files"])

    def make(self) -> str:
        """Make the files; return a sentence about them.

        After an interruption it continues with the first line that was not translated.

        Raises:
            UsageError: the folder has files of these names that are not from here; otherwise as `translate_to_file`.
            DataError, MissingInputError, ReadWriteError, BusyError: as `translate_to_file`; or no pair is left.
        """
        parts, inputs = self.folder / PARTS, self.inputs
        self._begin(inputs)
        with RunLock(self.folder):
            if not (parts / TRANSLATIONS).is_file() and find_shards(parts / TRANSLATIONS):
                merge_shards(parts / TRANSLATIONS)
            self._translate(self.teacher, read_lines(self.text), parts / TRANSLATIONS, _as_record)
            counts = self._write(parts)
            files = {name: hash_file(self.folder / name) for name in FILES}
            write_record(self.folder / RECORD, {"inputs": inputs, "counts": counts, "files": files})
            shutil.rmtree(parts, ignore_errors=True)
        rejected = [f"{count:,} {reason}" for reason, count in sorted(counts["rejected"].items())]
        more = f"; rejected: {', '.join(rejected)} ({REJECTED})" if rejected else ""
        return f"{count_of(counts['kept'], 'pair')} in {self.folder}{more}"

    def make_shard(self, shard: Shard) -> str:
        """Translate part of the lines, unless that is done, for `make`; return a sentence. Errors as `make`."""
        inputs = self.inputs
        self._begin(inputs)
        start, end = shard.bounds(count_lines(self.text))

        def translate(files: Sequence[Path]) -> None:
            lines = islice(read_lines(self.text), start, end)
            self._translate(self.teacher, lines, files[0], _as_record, first_line=start + 1)

        shard.make([self.folder / PARTS / TRANSLATIONS], inputs, translate)
        done = f"shard {shard.index} of {shard.count}, {count_of(end - start, 'line')}, is complete"
        return f"{done}; when all are, the same command without --shard makes the pairs"

    def _begin(self, inputs: Json) -> None:
        """Make the folder of translations; those of other inputs in it are deleted."""
        parts = self.folder / PARTS
        begun = parts / "inputs.json"
        existing = [path for path in (self.folder / name for name in FILES) if path.exists()]
        if existing and not (is_record(self.folder / RECORD) or is_record(begun)):
            raise UsageError(f"{existing[0]}: exists, and is not synthetic text of mtkit; name another folder for it")

        def begin() -> None:
            with translate_write_errors(parts):
                shutil.rmtree(parts, ignore_errors=True)
                parts.mkdir()
            write_record(begun, inputs)

        make_once(parts, lambda: is_record(begun) and read_record(begun, remedy=_REMEDY) == inputs, begin)

    def _translate(
        self, teacher: AnyTeacher, lines: Iterable[str], output: Path, form: Format, first_line: int = 1
    ) -> None:
        """Translate lines into a file of `parts`, unless it is done; continue what was begun with the same inputs."""
        if output.is_file():
            return
        num_workers, flush_every = 1, None
        if isinstance(teacher, Teacher):
            flush_every = teacher.flush_every
        else:
            num_workers = self.num_workers or auto_num_workers(self.text, teacher.device, threads=teacher.threads)
        translate_to_file(
            teacher.load,
            lines,
            [(output, form)],
            header={},
            resume=True,
            first_line=first_line,
            reports=self.reports if teacher is self.teacher else (),
            num_workers=num_workers,
            flush_every=flush_every,
            cluster=self.cluster,
        )

    def _write(self, parts: Path) -> Json:
        """Filter the pairs, add noise, and write the files; return the counts."""
        similarities = [] if self.round_trip is None else self._similarities(self.round_trip, parts)
        least = sorted(similarities, reverse=True)[: max(1, round(self.keep * len(similarities)))][-1:] or [0.0]
        similarity = iter(similarities)
        long_lines = (line for path in self.held_out for line in read_lines(path) if len(line) >= MIN_CHARACTERS)
        held_out = set(map(normalised, long_lines))
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
            files = (src, tgt) if self.is_target else (tgt, src)
            for record in _records(parts):
                if record["reason"] is None and next(similarity, 0.0) < least[0]:
                    record["reason"] = ROUND_TRIP
                if normalised(record["text"]) in held_out:
                    record["reason"] = HELD_OUT
                if record["reason"] is not None:
                    rejected.write(f"{json.dumps(record, ensure_ascii=False)}\n")
                    reasons[record["reason"]] += 1
                    continue
                made = record["translation"]
                files[0].write(f"{made if rng is None else with_noise(made, rng)}\n")
                files[1].write(f"{record['text']}\n")
                kept += 1
            if not kept:
                counted = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
                raise DataError(f"{self.text}: no line has a usable translation: {counted or 'all lines are blank'}")
        return {"kept": kept, "rejected": dict(reasons)}

    def _similarities(self, teacher: AnyTeacher, parts: Path) -> list[float]:
        """The chrF of each text that is not rejected and its translation there and back."""
        from sacrebleu.metrics.chrf import CHRF

        def column(key: str) -> Iterator[str]:
            return (record[key] for record in _records(parts) if record["reason"] is None)

        self._translate(teacher, column("translation"), parts / BACK, as_text)
        metric = CHRF()
        pairs = zip(read_lines(parts / BACK), column("text"), strict=True)
        return [metric.sentence_score(back, [text]).score for back, text in pairs]


def _settings(teacher: AnyTeacher) -> Json:
    return {key: value for key, value in teacher.settings().items() if key not in OF_THE_MACHINE}


def _as_record(translation: Translation, source: Line) -> str | None:
    """A line as JSON with its translation and the reason to reject it, which may be None; None for a blank line."""
    text = text_of(source)
    if not text.strip():
        return None
    reason = rejection(translation, text)
    record = {"line": translation.line, "reason": reason, "text": text, "translation": translation.hyp}
    return json.dumps(record, ensure_ascii=False)


def _records(parts: Path) -> Iterator[Json]:
    return map(json.loads, read_lines(parts / TRANSLATIONS))


def rejection(translation: Translation, text: str) -> str | None:
    """The reason to leave a translation of a text out of a training text; None if there is none."""
    if not translation.hyp.strip():
        return EMPTY
    flag = next((flag for flag in REJECTED_FLAGS if flag in translation.flags), None)
    if flag is not None:
        return FLAGS[flag]
    is_same = translation.hyp.split() == text.split()
    return COPIED if is_same and any(map(str.isalpha, text)) else None


def with_noise(text: str, rng: random.Random) -> str:
    """A sentence with words dropped, blanked and moved; Edunov et al. 2018, sec. 3, https://arxiv.org/abs/1808.09381 .

    At least one word stays.
    """
    words = text.split()
    left = [word for word in words if rng.random() >= DROPPED] or words[:1]
    left = [BLANK if rng.random() < BLANKED else word for word in left]
    places = [number + rng.uniform(0, DISTANCE) for number in range(len(left))]
    return " ".join(left[number] for number in sorted(range(len(left)), key=places.__getitem__))


def prefix_between(model: Path, source: str, target: str) -> SourcePrefix:
    """The prefix by which a model translates from one language to another; empty unless it has many languages.

    Raises:
        UsageError: it translates in another direction.
        MissingInputError, DataError: as `find_model` and `read_metadata`.
    """
    metadata = read_metadata(find_model(model))
    prefix = SourcePrefix(src_lang=source, tgt_lang=target) if metadata.languages else SourcePrefix()
    direction = metadata.direction(prefix)
    if direction != (source, target):
        raise UsageError(
            f"{model}: translates from {direction[0]} to {direction[1]}, and {source} to {target} is needed here; give "
            "a model of that direction"
        )
    return prefix


def make_synthetic_texts(recipe: Recipe, notify: Callable[[str], None] = lambda sentence: None) -> None:
    """Make the texts of a recipe that a model makes, unless they are there and unchanged.

    Args:
        notify: receives a sentence before and after the work on a text.

    Raises:
        UsageError: as `prefix_between`; or there are several processes, which would all make them.
        MissingInputError, DataError, ReadWriteError, BusyError: as `SyntheticText.make` and `check_inputs`.
    """
    corpus = recipe.corpus
    for number, files in enumerate(corpus.train):
        if not isinstance(files, TrainBacktranslated):
            continue
        require_regular_file(files.mono)
        src_lang, tgt_lang = corpus.languages_of(files)
        prefix = prefix_between(files.backtranslate, tgt_lang, src_lang)
        options = TranslationOptions(source_prefix=prefix)
        sampling = [f"search.method={{kind: sampling, temperature: {files.sample}}}", "search.n_best=1"]
        overrides = [] if files.sample is None else sampling
        text = SyntheticText(
            text=files.mono,
            folder=files.folder,
            teacher=TranslatorSpec(models=[files.backtranslate], search_overrides=overrides, options=options),
            noise_seed=1 if files.noise else None,
            held_out=[each.tgt for each in (*corpus.valid_sets, *corpus.test.values())],
        )
        if text.is_current():
            continue
        place = f"corpus.train.{number}"
        if num_processes() > 1:
            raise UsageError(f"{place}: its sources are not made yet; first run mtkit preprocess in one process")
        check_inputs(recipe)  # of hours of translation
        if mistake := language_mistake(files.mono, tgt_lang):
            notify(f"{place}: {mistake}; check the file")
        notify(f"{place}: {files.mono} is translated by {files.backtranslate} ...")
        notify(f"{place}: {text.make()}")
