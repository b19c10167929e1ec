"""Benchmark of translation: speed, latency, memory and BLEU over a grid of settings, optionally of two engines."""

from __future__ import annotations

import itertools
import multiprocessing
import os
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
from typing import TypeVar

import numpy as np
import torch

from mtkit.assembly.translator import load_exported, load_translator
from mtkit.bench.grid import BenchGrid, BenchResult, BenchSetting, EngineName
from mtkit.corpus.binarise import check_line_counts
from mtkit.errors import ComputeError, DataError, MissingInputError, UsageError
from mtkit.evaluation.score import score
from mtkit.hardware import memory_of, peak_memory
from mtkit.model_folder.config_file import verified
from mtkit.model_folder.exported import is_exported, read_exported_model
from mtkit.model_folder.folder import ModelMetadata, find_model, read_metadata, read_tokenizers
from mtkit.signals import blocked_in_workers, kill_workers
from mtkit.text.lines import read_lines
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engines.ctranslate2 import BATCH_TOKENS, Threads
from mtkit.translate.translation import Translation
from mtkit.translate.translator import TranslationOptions, Translator
from mtkit.translate.workers import WorkerPool

T = TypeVar("T")
NUM_WARMUP_LINES = 32  # lines translated before time is taken
NUM_LATENCY_LINES = 50  # lines translated one by one to measure latency
MEBIBYTE = 1 << 20

Export = Callable[[Path, Path], object]  # (model folder, output folder)


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
    export: Export | None = None,
    ref: Sequence[str] | None = None,
    repeat: int = 1,
    prefix: SourcePrefix = NO_PREFIX,
) -> Iterator[BenchResult]:
    """Measure every setting of the grid, each in its own process.

    Args:
        model: a model folder or a finished run.
        lines: source text.
        grid: the settings.
        export: writes the model for the grid's peer.
        ref: references for BLEU, one for each line.
        repeat: number of translations of the text; the fastest counts.
        prefix: what the model reads before each line.

    Raises:
        UsageError: the model lacks the tag, needs one, or the prefix is as long as its longest training source.
        MtkitError: loading or exporting failed. A setting that an engine does not support is no error but a result.
        ComputeError: a process was killed, probably for lack of memory.
    """
    metadata, tokenizers = _description(model)
    prefix.check_tag(tokenizers, requires_tag=metadata.requires_tag)
    prefix.ids(tokenizers, max_source_length=metadata.max_source_length)
    with tempfile.TemporaryDirectory() as temporary:
        folders: dict[EngineName, Path] = {"mtkit": model, "ctranslate2": Path(temporary) / "exported"}
        if grid.peer is not None:
            if export is None:
                raise ValueError(f"peer {grid.peer} needs an export function")
            export(model, folders["ctranslate2"])
        for setting in grid.settings():
            work = partial(_measure, setting, folders[setting.engine], lines, repeat=repeat, prefix=prefix)
            result, hyps = _in_subprocess(work, setting)
            bleu = None
            if ref is not None and hyps:
                bleu = score(hyps, [ref], ["bleu"], tgt_lang=metadata.tgt_lang).bleu
            yield result if bleu is None else replace(result, bleu=bleu.value)


def _description(model: Path) -> tuple[ModelMetadata, TokenizerPair]:
    """Metadata and tokenizers of a model folder, a finished run or an exported model."""
    if is_exported(model):
        exported = read_exported_model(model)
        return exported.metadata, exported.tokenizers
    folder = find_model(model)
    with verified(folder):
        metadata = read_metadata(folder)
        return metadata, read_tokenizers(folder, metadata)


def _in_subprocess(
    work: Callable[[], tuple[BenchResult, list[str]]], setting: BenchSetting
) -> tuple[BenchResult, list[str]]:
    """Call `work` in a new process, so that its peak memory is that of one setting."""
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return _result(pool, work)
    except BrokenProcessPool as error:
        raise ComputeError(f"the process that measured {setting} was killed; is there enough memory?") from error


def _result(pool: ProcessPoolExecutor, work: Callable[[], T]) -> T:
    """Result of `work` in a process of the pool, which is killed when this process is interrupted."""
    try:
        with blocked_in_workers():
            future = pool.submit(work)
        return future.result()
    except KeyboardInterrupt:
        kill_workers()
        raise


def _measure(
    setting: BenchSetting, folder: Path, lines: Sequence[str], *, repeat: int, prefix: SourcePrefix
) -> tuple[BenchResult, list[str]]:
    """Measure one setting in this process; returns the result and the translations."""
    try:
        with _make_translate(setting, folder, prefix) as (translate, compute_type):
            list(translate(lines[:NUM_WARMUP_LINES]))
            seconds, translations = float("inf"), []
            for _ in range(repeat):
                start = time.perf_counter()
                translations = list(translate(lines))
                seconds = min(seconds, time.perf_counter() - start)
            latencies = _latencies(translate, lines)
            memory = _memory(setting)
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


def _latencies(translate: Callable[..., Iterator[Translation]], lines: Sequence[str]) -> list[float]:
    """Seconds for each of the first lines, translated one at a time."""
    latencies = []
    for line in itertools.islice((line for line in lines if line.strip()), NUM_LATENCY_LINES):
        start = time.perf_counter()
        list(translate([line]))
        latencies.append(time.perf_counter() - start)
    return latencies


@contextmanager
def _make_translate(
    setting: BenchSetting, folder: Path, prefix: SourcePrefix
) -> Iterator[tuple[Callable[..., Iterator[Translation]], str]]:
    """Translation function of a setting, and its compute type."""
    make = partial(_load, setting, folder, prefix)
    if setting.engine == "ctranslate2" or setting.workers == 1:
        translator = make()
        yield translator.translate, translator.compute_type
        return
    with WorkerPool(make, setting.workers) as pool:
        yield pool.translate, pool.compute_type or make().compute_type


def _load(setting: BenchSetting, folder: Path, prefix: SourcePrefix) -> Translator:
    overrides = [f"search.beam_size={setting.beam_size}"]
    options = TranslationOptions(batch_tokens=setting.batch_tokens, rewrite=setting.rewrite, source_prefix=prefix)
    if setting.engine == "mtkit":
        return load_translator(
            [folder],
            search_overrides=overrides,
            compute_type=setting.compute_type,
            threads=setting.threads_per_worker,
            options=options,
            shortlist=setting.shortlist,
        )
    # CTranslate2 counts source tokens only; mtkit also counts the hypotheses
    tokens = BATCH_TOKENS
    if setting.batch_tokens:
        tokens = max(1, setting.batch_tokens // (1 + setting.beam_size))
    threads = Threads(inter_threads=setting.workers, intra_threads=setting.threads_per_worker, batch_tokens=tokens)
    one_batch = replace(options, batch_tokens=sys.maxsize)  # CTranslate2 sorts and splits by itself
    return load_exported(
        folder, search_overrides=overrides, compute_type=setting.compute_type, threads=threads, options=one_batch
    )


def _memory(setting: BenchSetting) -> int:
    """Bytes of this process and its workers, which keep what they have used; elsewhere than on Linux the peak."""
    if sys.platform == "linux":
        return memory_of([os.getpid(), *(child.pid for child in multiprocessing.active_children() if child.pid)])
    return peak_memory(torch.device("cpu")) * (setting.workers + 1 if setting.workers > 1 else 1)
