"""`mtkit translate`: translate raw text, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import (
    BatchTokens,
    ComputeType,
    ComputeTypeOption,
    Device,
    Ensemble,
    Model,
    NoRewrite,
    Settings,
    Threads,
    Workers,
)


def translate(
    model: Model,
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="Source text; - is stdin.")] = Path("-"),
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Write to FILE instead of stdout.")] = None,
    beam_size: Annotated[int | None, typer.Option("--beam-size", min=1, help="Beam size; 1 is greedy search.")] = None,
    settings: Settings = None,
    ensemble: Ensemble = None,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Restrict the output vocabulary to likely tokens (faster).")
    ] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Write a JSON object per line: scores, tokens, alignment.")
    ] = False,
    constraints: Annotated[
        Path | None,
        typer.Option(
            "--constraints", metavar="FILE", help="JSON lines with prefix, include and exclude of each source line."
        ),
    ] = None,
    flush_every: Annotated[
        int | None, typer.Option("--flush-every", min=1, metavar="N", help="Write translations after every N lines.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="With -o: resume after the lines already in FILE.part.")
    ] = False,
    batch_tokens: BatchTokens = None,
    compute_type: ComputeTypeOption = ComputeType.auto,
    no_rewrite: NoRewrite = False,
    device: Device = None,
    threads: Threads = None,
    workers: Workers = None,
) -> None:
    """Translate text, line by line.

    Writes one line for each line, in order. At a terminal it prompts for lines.
    """
    from functools import partial

    from mtkit.build.translator import load_translator
    from mtkit.cli.input import is_interactive, read_input_lines
    from mtkit.errors import UsageError
    from mtkit.translate.translate_to_file import translate_to_file
    from mtkit.translate.translator import TranslationOptions
    from mtkit.translate.workers import auto_num_workers

    if resume and output is None:
        raise UsageError("translate: --resume continues FILE.part and needs -o FILE")
    flush_every = 1 if is_interactive(file) else flush_every
    load = partial(
        load_translator,
        [model, *(ensemble or [])],
        search_overrides=[*(settings or []), *([f"search.beam_size={beam_size}"] if beam_size is not None else [])],
        compute_type=compute_type.value,
        device=device,
        threads=threads,
        options=TranslationOptions(
            batch_tokens=batch_tokens, flush_every=flush_every, with_scores=jsonl, rewrite=not no_rewrite
        ),
        shortlist=shortlist,
    )
    translate_to_file(
        load,
        read_input_lines(file),
        output,
        constraints=constraints,
        resume=resume,
        as_json=jsonl,
        num_workers=workers or auto_num_workers(file, device, threads=threads, flush_every=flush_every),
        flush_every=flush_every,
    )
