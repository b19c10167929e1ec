"""`mtkit bench`: how fast a model translates, how well, and in how much memory."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import ComputeType, Model


class Peer(StrEnum):
    """Engines to measure beside ours."""

    ctranslate2 = "ctranslate2"


def bench(
    model: Model,
    file: Annotated[Path, typer.Argument(metavar="INPUT", help="Source text.")],
    ref: Annotated[Path | None, typer.Option("--ref", metavar="FILE", help="Its translation, for BLEU.")] = None,
    compute_types: Annotated[
        list[ComputeType] | None, typer.Option("--compute-type", help="Numbers; may be repeated.")
    ] = None,
    beam_sizes: Annotated[
        list[int] | None, typer.Option("--beam-size", min=1, help="May be repeated; 1 and 5 unless given.")
    ] = None,
    batch_tokens: Annotated[
        list[int] | None, typer.Option("--batch-tokens", min=1, help="Size of a batch; may be repeated.")
    ] = None,
    workers: Annotated[list[int] | None, typer.Option("--workers", min=1, help="May be repeated.")] = None,
    threads: Annotated[int, typer.Option("--threads", min=0, help="Of all workers; 0: one a processor.")] = 0,
    shortlist: Annotated[bool, typer.Option("--shortlist", help="Measure with a shortlist too.")] = False,
    peer: Annotated[Peer | None, typer.Option("--peer", help="Measure this engine too, with the same model.")] = None,
    lines: Annotated[int, typer.Option("--lines", min=1, help="At most so many of the text.")] = 1000,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Translate so often; the fastest counts.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here too.")
    ] = None,
) -> None:
    """Measure speed, latency, memory and BLEU for every combination of the settings given."""
    import sys

    from mtkit.bench.grid import Grid
    from mtkit.bench.measure import bench as measure
    from mtkit.bench.measure import read_input
    from mtkit.bench.table import bench_table, refusals
    from mtkit.cli.output import check_json
    from mtkit.cli.printing import print_lines, print_table
    from mtkit.export.ctranslate2 import export_ctranslate2
    from mtkit.io.files import write_json

    check_json(json_file, [file, ref], "bench")
    src, refs = read_input(file, ref, lines)
    grid = Grid(
        compute_types=[each.value for each in compute_types or [ComputeType.auto]],
        beam_sizes=beam_sizes or [1, 5],
        batch_tokens=batch_tokens or [None],
        workers=workers or [1],
        shortlist=[False, True] if shortlist else [False],
        peer=None if peer is None else "ctranslate2",
        threads=threads,
    )
    rows = []
    for figures in measure(model, src, grid, export=export_ctranslate2, ref=refs, repeat=repeat):
        rows.append(figures)
        sys.stderr.write(f"measured {len(rows)} of {len(list(grid.settings()))} settings\n")
    print_table(bench_table(rows))
    print_lines(refusals(rows))
    if json_file is not None:
        write_json(json_file, [row.as_dict() for row in rows])
