"""`mtkit score`: how probable a model finds given translations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import BatchTokens, ComputeType, ComputeTypeOption, Device, Ensemble, Model, Threads


def score(
    model: Model,
    src: Annotated[Path, typer.Option("--src", metavar="FILE", help="Source text.")],
    ref: Annotated[Path | None, typer.Option("--ref", metavar="FILE", help="Its translation, line for line.")] = None,
    hyps: Annotated[
        Path | None, typer.Option("--hyps", metavar="FILE", help="Or lines of translate --jsonl; scores their pieces.")
    ] = None,
    ensemble: Ensemble = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line, with the score of each piece.")] = False,
    batch_tokens: BatchTokens = None,
    compute_type: ComputeTypeOption = ComputeType.auto,
    device: Device = None,
    threads: Threads = None,
) -> None:
    """Print the log-probability of each given translation, in nats, the end of sentence included; one line each."""
    from mtkit.build.translator import load_scorer
    from mtkit.cli.printing import print_lines
    from mtkit.errors import UsageError
    from mtkit.translate.score import read_pairs

    if (ref is None) == (hyps is None):
        raise UsageError("score: takes either --ref FILE or --hyps FILE")
    pairs = read_pairs(src, ref=ref, hyps=hyps)
    score_pairs = load_scorer(
        [model, *(ensemble or [])],
        compute_type=compute_type.value,
        device=device,
        threads=threads,
        batch_tokens=batch_tokens,
    )
    print_lines(found.json() if jsonl else f"{found.log_prob:.6f}" for found in score_pairs(pairs))
