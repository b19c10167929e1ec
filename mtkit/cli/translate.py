"""`mtkit translate`: raw text in, raw text out, line for line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import BatchTokens, ComputeType, ComputeTypeOption, Device, Ensemble, Model, Settings, Threads

if TYPE_CHECKING:
    from collections.abc import Iterator


def translate(
    model: Model,
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="Text; - is stdin.")] = Path("-"),
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Write to a file, not to stdout.")] = None,
    beam_size: Annotated[int | None, typer.Option("--beam-size", min=1, help="1 is greedy.")] = None,
    settings: Settings = None,
    ensemble: Ensemble = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line: scores, pieces, alignment.")] = False,
    batch_tokens: BatchTokens = None,
    compute_type: ComputeTypeOption = ComputeType.auto,
    device: Device = None,
    threads: Threads = None,
) -> None:
    """Translate text; one line out for each line in, in order."""
    from mtkit.assemble import load_translator
    from mtkit.cli.output import output as open_output

    overrides = [*(settings or []), *([f"search.beam_size={beam_size}"] if beam_size is not None else [])]
    translator = load_translator(
        [model, *(ensemble or [])],
        search_overrides=overrides,
        compute_type=compute_type.value,
        device=device,
        threads=threads,
        batch_tokens=batch_tokens,
        details=jsonl,
    )
    with open_output(output) as stream:
        for translation in translator.translate(_lines(file)):
            stream.write((translation.json() if jsonl else translation.hyp) + "\n")


def _lines(file: Path) -> Iterator[str]:
    import sys

    from mtkit.text.lines import decode_lines, read_lines

    return decode_lines(sys.stdin.buffer, "stdin") if str(file) == "-" else read_lines(file)
