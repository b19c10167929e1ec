"""`mtkit score`: log-probabilities of given translations."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import (
    BatchTokens,
    ComputeTypeOption,
    Device,
    Ensemble,
    JsonFile,
    Model,
    ModelSrcLang,
    ModelTgtLang,
    NoRewrite,
    Prefix,
    Tag,
    Threads,
    forbid_overwriting_input,
    forbid_repeated,
    parse_prefix,
)


def score(
    model: Model,
    src: Annotated[
        Path | None, typer.Option("--src", metavar="FILE", help="Source text; omit it with a language model.")
    ] = None,
    ref: Annotated[
        Path | None, typer.Option("--ref", metavar="FILE", help="Translation to score, line by line.")
    ] = None,
    hyps: Annotated[
        Path | None,
        typer.Option("--hyps", metavar="FILE", help="Output of translate --jsonl to score with the same tokens."),
    ] = None,
    contrastive: Annotated[
        Path | None,
        typer.Option(
            "--contrastive",
            metavar="FILE",
            help="Pairs: source, right and wrong translation, perhaps a kind, with tabs; accuracy by kind.",
        ),
    ] = None,
    ensemble: Ensemble = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Write a JSON object per line, with the score of each token.")
    ] = False,
    json: JsonFile = None,
    tag: Tag = None,
    prefix: Prefix = None,
    src_lang: ModelSrcLang = None,
    tgt_lang: ModelTgtLang = None,
    batch_tokens: BatchTokens = None,
    compute_type: ComputeTypeOption = "auto",
    no_rewrite: NoRewrite = False,
    device: Device = None,
    threads: Threads = None,
) -> None:
    """Compute the log-probability of given translations.

    One line for each translation: the sum over its tokens and the end of sentence, in nats. --json summarises all
    lines: perplexity, token accuracy, and calibration with its reliability table. A language model scores text
    without sources. With --contrastive, the share of pairs whose right translation is more probable than the wrong one.
    """
    from mtkit.cli.input import forbid_stdout_over_input, read_input_lines
    from mtkit.cli.printing import STDOUT, print_data, print_notes, print_oom_note, print_results
    from mtkit.errors import UsageError
    from mtkit.evaluation.contrastive import ContrastiveScores, texts_of
    from mtkit.evaluation.contrastive import read_pairs as read_contrasts
    from mtkit.pipeline.score_summary import ScoreSummary
    from mtkit.translate.load import load_scorer
    from mtkit.translate.score import read_pairs
    from mtkit.translate.translation import TranslationOptions

    if sum(each is not None for each in (ref, hyps, contrastive)) != 1:
        raise UsageError("score: give either --ref FILE, --hyps FILE or --contrastive FILE")
    if contrastive is not None and (src is not None or jsonl):
        raise UsageError(
            "score: --contrastive FILE has the sources, and its lines are in --json; omit --src and --jsonl"
        )
    forbid_repeated("score", [model, *(ensemble or [])])
    forbid_overwriting_input("score", json, [src, ref, hyps, contrastive])
    for path in filter(None, (src, ref, hyps, contrastive)):
        forbid_stdout_over_input(path)
    if contrastive is None:
        pairs, has_source = read_pairs(src, ref=ref, hyps=hyps), src is not None
    else:
        contrasts = read_contrasts(read_input_lines(contrastive), str(contrastive))
        pairs, has_source = texts_of(contrasts), any(each.source for each in contrasts)
    score_pairs = load_scorer(
        [model, *(ensemble or [])],
        compute_type=compute_type,
        device=device,
        threads=threads,
        rewrite=not no_rewrite,
        options=TranslationOptions(
            batch_tokens=batch_tokens,
            report_oom=print_oom_note,
            source_prefix=parse_prefix(tag, prefix, src_lang, tgt_lang),
        ),
        with_source=has_source,
    )
    if contrastive is not None:
        log_probs = [each.log_prob for each in score_pairs(pairs)]
        result = ContrastiveScores(contrasts, [*zip(log_probs[::2], log_probs[1::2], strict=True)])
        print_results([result.table()], notes=["", *result.examples()], content=result.as_dict(), json_file=json)
        return
    summary = ScoreSummary()
    scores = score_pairs(pairs) if json is None else summary.of(score_pairs(pairs))
    lines = (score.json() if jsonl else f"{score.log_prob:.6f}" for score in scores)
    if json == STDOUT:
        collections.deque(lines, maxlen=0)  # the summary is printed instead of the lines
    else:
        print_data(lines)
    if json is not None:
        print_results([], content=summary.as_dict(), json_file=json)
        print_notes([summary.line()])
