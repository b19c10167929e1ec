"""`mtkit translate`: raw text in, raw text out, line for line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import (
    BatchTokens,
    ComputeType,
    ComputeTypeOption,
    Device,
    Ensemble,
    Model,
    Settings,
    Threads,
    Workers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.translate.constraints import Line


def translate(
    model: Model,
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="Text; - is stdin.")] = Path("-"),
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Write to a file, not to stdout.")] = None,
    beam_size: Annotated[int | None, typer.Option("--beam-size", min=1, help="1 is greedy.")] = None,
    settings: Settings = None,
    ensemble: Ensemble = None,
    shortlist: Annotated[bool, typer.Option("--shortlist", help="Only pieces likely for the batch; faster.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line: scores, pieces, alignment.")] = False,
    constraints: Annotated[
        Path | None,
        typer.Option("--constraints", metavar="FILE", help="JSON for each line, with prefix, include, exclude."),
    ] = None,
    flush_every: Annotated[
        int | None, typer.Option("--flush-every", min=1, metavar="N", help="Lines read before translations appear.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="With -o: go on behind the lines of FILE.part.")] = False,
    batch_tokens: BatchTokens = None,
    compute_type: ComputeTypeOption = ComputeType.auto,
    device: Device = None,
    threads: Threads = None,
    workers: Workers = None,
) -> None:
    """Translate text; one line out for each line in, in order. On a terminal it asks for lines."""
    from functools import partial

    from mtkit.build.translator import load_translator
    from mtkit.cli.input import is_person, lines_of, without_first
    from mtkit.cli.output import lines_done
    from mtkit.cli.output import output as open_output
    from mtkit.errors import UsageError
    from mtkit.translate.constraints import with_constraints
    from mtkit.translate.translator import TranslationOptions
    from mtkit.translate.workers import translating, workers_for

    if resume and output is None:
        raise UsageError("translate: --resume goes on with FILE.part and needs -o FILE")
    flush_every = 1 if is_person(file) else flush_every
    make = partial(
        load_translator,
        [model, *(ensemble or [])],
        search_overrides=[*(settings or []), *([f"search.beam_size={beam_size}"] if beam_size is not None else [])],
        compute_type=compute_type.value,
        device=device,
        threads=threads,
        options=TranslationOptions(batch_tokens=batch_tokens, flush_every=flush_every, details=jsonl),
        shortlist=shortlist,
    )
    if workers is None:
        workers = workers_for(file, device) if threads is None and flush_every is None else 1
    done = lines_done(output) if resume and output is not None else 0
    lines: Iterator[Line] = iter(lines_of(file))
    if constraints is not None:
        lines = with_constraints(lines_of(file), constraints)
    if output is not None:
        lines = without_first(lines, done, output)
    with (
        translating(make, workers, flush_every=flush_every) as translate_lines,
        open_output(output, resume=resume) as stream,
    ):
        for translation in translate_lines(lines, first=done + 1):
            stream.write((translation.json() if jsonl else translation.hyp) + "\n")
            if output is None:
                stream.flush()
