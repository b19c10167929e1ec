"""How fast a model translates, how well, and in how much memory: over a grid of settings, beside another engine."""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from mtkit.bench.grid import EngineName, Figures, Grid, Setting
from mtkit.build.translator import load_exported, load_translator
from mtkit.corpus.binarise import check_partners
from mtkit.errors import DataError, MissingInputError, TrainingError, UsageError
from mtkit.evaluation.score import score
from mtkit.model_folder.exported import is_exported, read_belongings
from mtkit.model_folder.folder import find_model, read_description
from mtkit.text.lines import read_lines
from mtkit.translate.engines.ctranslate2 import Threads
from mtkit.translate.translation import Translation
from mtkit.translate.translator import TranslationOptions, Translator
from mtkit.translate.workers import translating

WARM_UP = 32  # lines translated before the clock starts
SINGLE = 50  # lines translated one by one for the latency
MEBIBYTE = 1 << 20
PEER_TOKENS = 1_024  # of a batch of CTranslate2, whose best were of 32 to 64 captions

Export = Callable[[Path, Path], object]  # (model, folder to write) for the other engine


def read_input(src: Path, ref: Path | None, most: int) -> tuple[list[str], list[str] | None]:
    """At most so many lines of a source text and of its translation.

    Raises:
        DataError: unequal numbers of lines, or none.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    if ref is not None:
        check_partners(src, ref)
    lines, refs = (None if path is None else list(itertools.islice(read_lines(path), most)) for path in (src, ref))
    if not lines:
        raise DataError(f"{src}: has no lines; there is nothing to translate")
    return lines, refs


def bench(
    model: Path,
    lines: Sequence[str],
    grid: Grid,
    *,
    export: Export | None = None,
    ref: Sequence[str] | None = None,
    repeat: int = 1,
) -> Iterator[Figures]:
    """Measure every setting of the grid, each in a process of its own.

    Args:
        model: a model folder or a finished run.
        lines: what is translated.
        grid: the settings.
        export: makes the model of the grid's peer.
        ref: references, as many as lines, for BLEU.
        repeat: how often the text is translated; the fastest counts.

    Raises:
        MtkitError: as loading and exporting; what a single setting is refused for is in its figures.
        TrainingError: a process ended, for lack of memory.
    """
    lang = _target_language(model)
    with tempfile.TemporaryDirectory() as temporary:
        folders: dict[EngineName, Path] = {"mtkit": model, "ctranslate2": Path(temporary) / "exported"}
        if grid.peer is not None:
            if export is None:
                raise ValueError(f"{grid.peer} without a function that exports to it")
            export(model, folders["ctranslate2"])
        for setting in grid.settings():
            work = partial(_measure, setting, folders[setting.engine], lines, repeat=repeat)
            figures, hyps = _apart(work, setting)
            found = score(hyps, [ref], ["bleu"], tgt_lang=lang).bleu if ref is not None and hyps else None
            yield figures if found is None else replace(figures, bleu=found.value)


def _target_language(model: Path) -> str:
    """Of a model folder, a finished run or an exported model; BLEU cuts its words as the language needs."""
    description = read_belongings(model).description if is_exported(model) else read_description(find_model(model))
    return description.tgt_lang


def _apart(work: Callable[[], tuple[Figures, list[str]]], setting: Setting) -> tuple[Figures, list[str]]:
    """Do it in a new process, whose memory is then that of the setting alone."""
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(work).result()
    except BrokenProcessPool as error:
        raise TrainingError(f"the process that measured {setting} ended; was there enough memory?") from error


def _measure(setting: Setting, folder: Path, lines: Sequence[str], *, repeat: int) -> tuple[Figures, list[str]]:
    """Runs in the process of a setting."""
    try:
        with _translating(setting, folder) as (translate, computed_with):
            list(translate(lines[:WARM_UP]))
            seconds, translations = float("inf"), []
            for _ in range(repeat):
                began = time.perf_counter()
                translations = list(translate(lines))
                seconds = min(seconds, time.perf_counter() - began)
            latencies = _latencies(translate, lines)
    except (UsageError, MissingInputError) as error:
        return Figures(setting=setting, refused=str(error)), []
    tokens = sum(len(each.pieces) + 1 for each in translations if each.hyp)
    p50, p95 = np.percentile(latencies, [50, 95]).tolist() if latencies else (0.0, 0.0)
    figures = Figures(
        setting=setting,
        computed_with=computed_with,
        seconds=seconds,
        sentences_per_second=len(lines) / seconds,
        tokens_per_second=tokens / seconds,
        latency_p50=1000 * p50,
        latency_p95=1000 * p95,
        memory=_peak(setting) / MEBIBYTE,
    )
    return figures, [each.hyp for each in translations]


def _latencies(translate: Callable[..., Iterator[Translation]], lines: Sequence[str]) -> list[float]:
    """Seconds for each of some lines alone."""
    found = []
    for line in itertools.islice((line for line in lines if line.strip()), SINGLE):
        began = time.perf_counter()
        list(translate([line]))
        found.append(time.perf_counter() - began)
    return found


@contextmanager
def _translating(setting: Setting, folder: Path) -> Iterator[tuple[Callable[..., Iterator[Translation]], str]]:
    """What translates lines in a setting, and the numbers that it computes with."""
    make = partial(_load, setting, folder)
    if setting.engine == "ctranslate2" or setting.workers == 1:
        translator = make()
        yield translator.translate, translator.compute_type
        return
    computed_with = make().compute_type  # also refuses here what the workers would refuse
    with translating(make, setting.workers) as translate:
        yield translate, computed_with


def _load(setting: Setting, folder: Path) -> Translator:
    overrides = [f"search.beam_size={setting.beam_size}"]
    options = TranslationOptions(batch_tokens=setting.batch_tokens)
    if setting.engine == "mtkit":
        return load_translator(
            [folder],
            search_overrides=overrides,
            compute_type=setting.compute_type,
            threads=setting.threads_each,
            options=options,
            shortlist=setting.shortlist,
        )
    tokens = max(1, setting.batch_tokens // (1 + setting.beam_size)) if setting.batch_tokens else PEER_TOKENS
    threads = Threads(workers=setting.workers, each=setting.threads_each, batch_tokens=tokens)
    all_at_once = replace(options, batch_tokens=sys.maxsize)  # it sorts and cuts by itself
    return load_exported(
        folder, search_overrides=overrides, compute_type=setting.compute_type, threads=threads, options=all_at_once
    )


def _peak(setting: Setting) -> float:
    """Bytes of this process and of its workers."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss if setting.workers > 1 else 0
    return float(unit * (own + setting.workers * worker))
