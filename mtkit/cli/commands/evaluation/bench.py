"""`mtkit bench`: speed, latency, memory and BLEU of translation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.cli.options import (
    MAX_THREADS,
    Format,
    JsonFile,
    Model,
    ModelSrcLang,
    ModelTgtLang,
    NoRewrite,
    Prefix,
    Tag,
    forbid_overwriting_input,
    parse_prefix,
)


class ComputeTypes(StrEnum):
    """Compute types, of which several may be given; typer takes no list of a Literal."""

    auto = "auto"
    float32 = "float32"
    bf16 = "bf16"
    int8 = "int8"


Peer = Literal["ctranslate2"]  # engines to compare with


def bench(
    model: Model,
    file: Annotated[Path, typer.Argument(metavar="INPUT", help="Source text.")],
    ref: Annotated[Path | None, typer.Option("--ref", metavar="FILE", help="Reference translation, for BLEU.")] = None,
    compute_types: Annotated[
        list[ComputeTypes] | None, typer.Option("--compute-type", help="Compute precision (repeatable).")
    ] = None,
    beam_sizes: Annotated[
        list[int] | None, typer.Option("--beam-size", min=1, help="Beam size (repeatable; default: 1 and 5).")
    ] = None,
    batch_tokens: Annotated[
        list[int] | None, typer.Option("--batch-tokens", min=1, help="Batch size in tokens (repeatable).")
    ] = None,
    workers: Annotated[
        list[int] | None,
        typer.Option("--workers", min=1, max=MAX_THREADS, help="Number of worker processes (repeatable)."),
    ] = None,
    threads: Annotated[
        int,
        typer.Option("--threads", min=0, max=MAX_THREADS, help="CPU threads of all workers together; 0: one per core."),
    ] = 0,
    no_rewrite: NoRewrite = False,
    peer: Annotated[Peer | None, typer.Option("--peer", help="Also measure this engine with the same model.")] = None,
    lines: Annotated[int, typer.Option("--lines", min=1, help="Translate at most this many lines.")] = 1000,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Number of repetitions; the fastest one counts.")] = 1,
    suite: Annotated[
        bool,
        typer.Option(
            "--suite",
            help="Measure all compute types, greedy and beam 5, one thread and all cores, beside CTranslate2 if it is "
            "installed, and the training of a run.",
        ),
    ] = False,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    json_file: JsonFile = None,
    form: Format = None,
) -> None:
    """Measure translation speed, memory and BLEU.

    Every combination of the given settings is measured, each in a process of its own. --suite measures all that a
    comparison needs in one run.
    """
    from dataclasses import replace

    from mtkit.bench.grid import (
        BenchGrid,
        bench_table,
        suite_grids,
        suite_notes,
        suite_tables,
        unsupported_settings,
    )
    from mtkit.bench.machine import inspect_machine
    from mtkit.bench.measure import bench as measure
    from mtkit.bench.measure import read_input
    from mtkit.cli.printing import is_terminal, print_notes, print_results
    from mtkit.errors import UsageError
    from mtkit.pipeline.estimate import training_rates
    from mtkit.recipe.recipe import load_recipe

    forbid_overwriting_input("bench", json_file, [file, ref])
    src, refs = read_input(file, ref, lines)
    given = {
        "--compute-type": compute_types,
        "--beam-size": beam_sizes,
        "--batch-tokens": batch_tokens,
        "--workers": workers,
        "--threads": threads,
        "--peer": peer,
    }
    if suite and (names := [name for name, value in given.items() if value]):
        raise UsageError(f"bench: --suite decides {' and '.join(names)}; omit one or the other")
    grid = BenchGrid(
        compute_types=[each.value for each in compute_types or [ComputeTypes.auto]],
        beam_sizes=beam_sizes or [1, 5],
        batch_tokens=batch_tokens or [None],
        workers=workers or [1],
        peer=peer,
        threads=threads,
        rewrite=not no_rewrite,
    )
    machine = inspect_machine(measure=False)
    grids = [replace(each, rewrite=not no_rewrite) for each in suite_grids(machine.cores)] if suite else [grid]
    num_settings = sum(len(list(each.settings())) for each in grids)
    if is_terminal():
        print_notes([f"settings to measure: {num_settings} ..."])  # before what takes seconds
    results = []
    before = parse_prefix(tag, prefix, src_lang, tgt_lang)
    for each in grids:
        for result in measure(model, src, each, ref=refs, repeat=repeat, prefix=before):
            results.append(result)
            print_notes([f"measured {len(results)} of {num_settings}"])
    tables, notes = [bench_table(results)], unsupported_settings(results)
    if suite:
        recipe = model / "recipe.yaml"  # of a run
        rates = training_rates(load_recipe(str(recipe), allow_commands=True)) if recipe.is_file() else None
        tables, notes = list(suite_tables(results, rates)), [*suite_notes(machine), *notes]
    content = [result.as_dict() for result in results]
    print_results(tables, form, notes=notes, content=content, json_file=json_file)
