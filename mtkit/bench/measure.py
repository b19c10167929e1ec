"""Benchmark of translation: speed, latency, memory and BLEU over a grid of settings, optionally of two engines."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from mtkit.bench.grid import BenchGrid, BenchResult, BenchSetting
from mtkit.errors import ComputeError, DataError, MissingInputError, UsageError
from mtkit.evaluation.score import bleu_of
from mtkit.export.ctranslate2 import BATCH_TOKENS, CTranslate2Runner, export_ctranslate2
from mtkit.hardware import memory_of, peak_memory
from mtkit.model_folder.folder import read_stored_model
from mtkit.signals import blocked_in_workers, kill_workers
from mtkit.text.lines import check_line_counts, read_lines
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix
from mtkit.translate.load import load_translator, read_translation_model, search_config
from mtkit.translate.reference_text import prefix_ids
from mtkit.translate.translation import Translation
from mtkit.translate.translator import TranslationOptions, Translator
from mtkit.translate.workers import WorkerPool

NUM_WARMUP_LINES = 32  # lines translated before time is taken
NUM_LATENCY_LINES = 50  # lines translated one by one to measure latency
MEBIBYTE = 1 << 20

Translate = Callable[[Sequence[str]], Iterable[Translation]]


def read_input(src: Path, ref: Path | None, max_lines: int) -> tuple[list[str], list[str] | None]:
    """Read the first `max_lines` lines of a source text and of its reference translation.

    Raises:
        DataError: the files have different numbers of lines, or no lines.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    if ref is not None:
        check_line_counts(src, ref)
    lines, refs = (None if path is None else list(itertools.islice(read_lines(path), max_lines)) for path in (src, ref))
    if not lines:
        raise DataError(f"{src}: has no lines; nothing to translate")
    return lines, refs


def bench(
    model: Path,
    lines: Sequence[str],
    grid: BenchGrid,
    *,
    ref: Sequence[str] | None = None,
    repeat: int = 1,
    prefix: SourcePrefix = NO_PREFIX,
) -> Iterator[BenchResult]:
    """Measure every setting of the grid, each in its own process.

    Args:
        model: a model folder or a finished run.
        lines: source text.
        grid: the settings.
        ref: references for BLEU, one for each line.
        repeat: number of translations of the text; the fastest counts.
        prefix: what the model reads before each line.

    Raises:
        UsageError: no translation model, or it lacks the tag, or needs one, or the prefix is as long as its longest
            training source.
        MtkitError: loading or exporting failed. A setting that an engine does not support is no error but a result.
        ComputeError: a process was killed, probably for lack of memory.
    """
    stored = read_translation_model(model)
    metadata = stored.metadata
    metadata.direction(prefix), prefix_ids(stored, prefix)  # their errors
    with tempfile.TemporaryDirectory() as temporary:
        exported = Path(temporary) / "exported"
        if grid.peer is not None:
            export_ctranslate2(model, exported)
        for setting in grid.settings():
            work = partial(_measure, setting, (model, exported), lines, repeat=repeat, prefix=prefix)
            result, hyps = _in_subprocess(work, setting)
            if ref is not None and hyps:
                result = replace(result, bleu=bleu_of(hyps, ref, tgt_lang=metadata.tgt_lang))
            yield result


def _in_subprocess(
    work: Callable[[], tuple[BenchResult, list[str]]], setting: BenchSetting
) -> tuple[BenchResult, list[str]]:
    """Call `work` in a new process, so that its peak memory is that of one setting."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            with blocked_in_workers():
                future = pool.submit(work)
            return future.result()
        except KeyboardInterrupt:
            kill_workers()
            raise
        except BrokenProcessPool as error:
            raise ComputeError(f"the process that measured {setting} was killed; is there enough memory?") from error


def _measure(
    setting: BenchSetting, folders: tuple[Path, Path], lines: Sequence[str], *, repeat: int, prefix: SourcePrefix
) -> tuple[BenchResult, list[str]]:
    """Measure one setting in this process, of the folders of the model and of its export for the peer.

    Returns:
        The result and the translations.
    """
    try:
        with _make_translate(setting, folders, prefix) as (translate, compute_type):
            list(translate(lines[:NUM_WARMUP_LINES]))
            seconds, translations = float("inf"), []
            for _ in range(repeat):
                start = time.perf_counter()
                translations = list(translate(lines))
                seconds = min(seconds, time.perf_counter() - start)
            latencies = []  # seconds of lines that are translated one at a time
            for line in itertools.islice((line for line in lines if line.strip()), NUM_LATENCY_LINES):
                start = time.perf_counter()
                list(translate([line]))
                latencies.append(time.perf_counter() - start)
            if sys.platform == "linux":  # this process and its workers, which keep what they have used
                children = [child.pid for child in multiprocessing.active_children() if child.pid]
                memory = memory_of([os.getpid(), *children])
            else:
                memory = peak_memory(torch.device("cpu")) * (setting.workers + 1 if setting.workers > 1 else 1)
    except (UsageError, MissingInputError) as error:
        return BenchResult(setting=setting, error=str(error)), []
    tokens = sum(len(each.tokens) + 1 for each in translations if each.hyp)
    p50, p95 = np.percentile(latencies, [50, 95]).tolist() if latencies else (0.0, 0.0)
    result = BenchResult(
        setting=setting,
        actual_compute_type=compute_type,
        seconds=seconds,
        sentences_per_second=len(lines) / seconds,
        tokens_per_second=tokens / seconds,
        latency_p50=1000 * p50,
        latency_p95=1000 * p95,
        memory=memory / MEBIBYTE,
    )
    return result, [each.hyp for each in translations]


@contextmanager
def _make_translate(
    setting: BenchSetting, folders: tuple[Path, Path], prefix: SourcePrefix
) -> Iterator[tuple[Translate, str]]:
    """Translation function of a setting, and its compute type."""
    model, exported = folders
    if setting.engine == "ctranslate2":
        peer = _Peer(setting, model, exported, prefix)
        yield peer.translate, peer.runner.compute_type
        return
    make = partial(_load, setting, model, prefix)
    if setting.workers == 1:
        translator = make()
        yield translator.translate, translator.compute_type
        return
    with WorkerPool(make, setting.workers) as pool:
        yield pool.translate, pool.compute_type or make().compute_type


def _load(setting: BenchSetting, folder: Path, prefix: SourcePrefix) -> Translator:
    return load_translator(
        [folder],
        search_overrides=[f"search.beam_size={setting.beam_size}"],
        compute_type=setting.compute_type,
        threads=setting.threads_per_worker,
        rewrite=setting.rewrite,
        options=TranslationOptions(batch_tokens=setting.batch_tokens, source_prefix=prefix),
    )


class _Peer:
    """CTranslate2 on an exported model, from text to text. A line longer than any training source is cut."""

    def __init__(self, setting: BenchSetting, model: Path, exported: Path, prefix: SourcePrefix) -> None:
        stored = read_stored_model(model)
        metadata, self.tokenizers = stored.metadata, stored.tokenizers
        search = search_config(metadata.search, [f"search.beam_size={setting.beam_size}"])
        self.max_length = metadata.max_source_length
        self.prefix = prefix.ids(self.tokenizers, max_source_length=self.max_length)
        self.begin = prefix.tgt_ids(self.tokenizers)
        self.search = search.limited_to(metadata.model.max_target_length(), begin=self.begin)
        # CTranslate2 counts source tokens only; mtkit also counts the hypotheses
        tokens = max(1, setting.batch_tokens // (1 + setting.beam_size)) if setting.batch_tokens else BATCH_TOKENS
        self.runner = CTranslate2Runner(
            exported,
            self.tokenizers,
            compute_type=setting.compute_type,
            inter_threads=setting.workers,
            intra_threads=setting.threads_per_worker,
            batch_tokens=tokens,
        )

    def translate(self, lines: Sequence[str]) -> Iterator[Translation]:
        """Translate all lines with one call of CTranslate2, which sorts them into batches."""
        sources = self.tokenizers.encode("src", lines)
        sources = [[*self.prefix, *ids][: self.max_length] if ids else [] for ids in sources]
        targets = self.runner.translate(sources, self.search, self.begin)
        for number, (ids, hyp) in enumerate(zip(targets, self.tokenizers.tgt.decode(targets), strict=True), start=1):
            yield Translation(line=number, hyp=hyp, tokens=tuple(self.tokenizers.tgt.ids_to_tokens(ids)))
