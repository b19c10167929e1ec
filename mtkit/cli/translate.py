"""`mtkit translate`: raw text in, raw text out, line for line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator


class ComputeType(StrEnum):
    """The kinds of numbers to compute with."""

    auto = "auto"
    float32 = "float32"
    bf16 = "bf16"
    int8 = "int8"


def translate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, or a run folder.")],
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="Text; - is stdin.")] = Path("-"),
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Write to a file, not to stdout.")] = None,
    beam_size: Annotated[int | None, typer.Option("--beam-size", min=1, help="1 is greedy.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="search.KEY=VALUE", help="Another value for the search.")
    ] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--ensemble", metavar="MODEL", help="A further model; may be repeated.")
    ] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line: scores, pieces, alignment.")] = False,
    batch_tokens: Annotated[int | None, typer.Option("--batch-tokens", min=1, help="Size of a batch.")] = None,
    compute_type: Annotated[ComputeType, typer.Option("--compute-type", help="Numbers.")] = ComputeType.auto,
    device: Annotated[str | None, typer.Option("--device", metavar="D", help="cpu, cuda, cuda:1, ...")] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads of a worker.")] = None,
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
