"""`mtkit translate`: translate raw text, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import (
    BatchTokens,
    ComputeType,
    ComputeTypeOption,
    Device,
    EngineChoice,
    Ensemble,
    Model,
    NoRewrite,
    Prefix,
    Settings,
    Tag,
    Threads,
    Workers,
    parse_prefix,
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
        bool, typer.Option("--resume", help="With -o: resume FILE.part, of the same text, model and options.")
    ] = False,
    tag: Tag = None,
    prefix: Prefix = None,
    batch_tokens: BatchTokens = None,
    engine: Annotated[
        EngineChoice,
        typer.Option(
            "--engine",
            help="CTranslate2 is faster for single lines and in int8; the model is exported once, beside itself. "
            "auto: CTranslate2 where it can serve the request.",
        ),
    ] = EngineChoice.torch,
    compute_type: ComputeTypeOption = ComputeType.auto,
    no_rewrite: NoRewrite = False,
    device: Device = None,
    threads: Threads = None,
    workers: Workers = None,
) -> None:
    """Translate text, line by line.

    Writes one line for each line, in order. At a terminal it prompts for lines. A line longer than any training
    source is translated in parts. One of more than 65,536 characters also reports its progress on stderr.
    """
    import sys
    from functools import partial

    from mtkit.build.translator import load_translator, translation_settings, unwritten_n_best
    from mtkit.cli.input import is_interactive, read_input_lines
    from mtkit.cli.printing import print_translation_progress
    from mtkit.export.engine import TranslationRequest, serving_models
    from mtkit.translate.translate_to_file import OutputFile, translate_to_file
    from mtkit.translate.translator import TranslationOptions
    from mtkit.translate.workers import auto_num_workers

    _check_output(output, [file, constraints], resume=resume)
    overrides = [*(settings or []), *([f"search.beam_size={beam_size}"] if beam_size is not None else [])]
    if not jsonl and (note := unwritten_n_best(model, overrides)) is not None:
        sys.stderr.write(f"{note}\n")
    flush_every = 1 if is_interactive(file) else flush_every
    options = TranslationOptions(
        batch_tokens=batch_tokens,
        flush_every=flush_every,
        with_scores=jsonl,
        report_progress=print_translation_progress,
        source_prefix=parse_prefix(tag, prefix),
        rewrite=not no_rewrite,
    )
    own_features = {"--shortlist": shortlist, "--constraints": constraints is not None, "--no-rewrite": no_rewrite}
    request = TranslationRequest(
        models=[model, *(ensemble or [])],
        search_overrides=overrides,
        device=device,
        own_features=[name for name, is_used in own_features.items() if is_used],
    )
    models, engine_note = serving_models(engine.value, request)
    if engine_note is not None:
        sys.stderr.write(f"{engine_note}\n")
    load = partial(
        load_translator,
        models,
        search_overrides=overrides,
        compute_type=compute_type.value,
        device=device,
        threads=threads,
        options=options,
        shortlist=shortlist,
    )
    output_file = None
    if output is not None:
        header = translation_settings(
            models,
            search_overrides=overrides,
            compute_type=compute_type.value,
            device=device,
            options=options,
            shortlist=shortlist,
        )
        output_file = OutputFile(output, resume=resume, header=header)
    translate_to_file(
        load,
        read_input_lines(file),
        output_file,
        constraints=constraints,
        as_json=jsonl,
        num_workers=workers or auto_num_workers(file, device, threads=threads, flush_every=flush_every),
        flush_every=flush_every,
    )


def _check_output(output: Path | None, inputs: Sequence[Path | None], *, resume: bool) -> None:
    """Refuse to resume without a file, and to write unfinished lines over an input.

    Raises:
        UsageError: either is requested.
    """
    from mtkit.errors import UsageError
    from mtkit.io.part_file import part_paths

    if output is None:
        if resume:
            raise UsageError("translate: --resume continues FILE.part and needs -o FILE")
        return
    for path in inputs:
        if path is not None and path.resolve() in part_paths(output):
            raise UsageError(f"translate: {path} is where unfinished lines of -o {output} are kept; name another FILE")
