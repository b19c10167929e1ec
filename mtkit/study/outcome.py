"""What came of one run: the figures that its folder tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mtkit.evaluation.repetition import repetition_rate
from mtkit.io.files import reading
from mtkit.study.by_length import bleu_by_length
from mtkit.study.config import StudyConfig
from mtkit.study.free_running import free_running_loss
from mtkit.study.runs import StudyRun
from mtkit.text.lines import read_lines
from mtkit.training.monitoring.log import parse_line


class State(StrEnum):
    """How far a run has come."""

    finished = "finished"
    failed = "failed"
    unfinished = "unfinished"


@dataclass(frozen=True)
class Outcome:
    """One run.

    Attributes:
        reason: why it failed; empty otherwise.
        parameters: of its model; None if training never began.
        figures: by name, see `FIGURES` in results.py; none unless it is finished.
        hyps: its translations of the test set.
    """

    run: StudyRun
    state: State
    reason: str
    parameters: int | None
    figures: Mapping[str, float]
    hyps: list[str]


def outcome(run: StudyRun, config: StudyConfig) -> Outcome:
    """Read what a run has left.

    Raises:
        DataError: a file is damaged.
        MissingInputError: the test set, or a file of the run, is no longer there.
    """
    events = _events(run)
    parameters = next((event["parameters"] for event in reversed(events) if event["event"] == "begin"), None)
    if not run.is_finished():
        reason = run.failure()
        state = State.unfinished if reason is None else State.failed
        return Outcome(run, state, reason or "", parameters, {}, [])
    hyps = list(read_lines(run.folder.hyps(run.test)))
    report = run.folder.read_report()
    figures = _figures(report["train"], report["test"][run.test], events, lines=len(hyps))
    figures |= _further(run, config, hyps)
    return Outcome(run, State.finished, "", parameters, figures, hyps)


def _figures(train: Any, test: Any, events: list[dict[str, Any]], *, lines: int) -> dict[str, float]:
    figures = {"bleu": test["bleu"], "tokens_per_second": train["tokens_per_second"], "updates": train["updates"]}
    losses = {event["update"]: event["nll"] for event in events if event["event"] == "validation"}
    loss = losses.get(train["best_update"], next(reversed(losses.values()), None))
    if loss is not None:
        figures["loss"] = loss
    if test.get("seconds"):
        figures["lines_per_second"] = lines / test["seconds"]
    return figures


def _further(run: StudyRun, config: StudyConfig, hyps: list[str]) -> dict[str, float]:
    """What this study asks for besides."""
    found: dict[str, float] = {}
    if config.by_length:
        files = run.recipe.corpus.test[run.test]
        srcs, refs = list(read_lines(files.src)), list(read_lines(files.tgt))
        tokenize = run.recipe.evaluation.segmentation(run.recipe.corpus.tgt_lang)
        groups = bleu_by_length(srcs, hyps, refs, config.by_length, tokenize=tokenize)
        found |= {f"bleu {name}": value for name, value in groups.items()}
    if config.exposure_bias:
        found["repetition"] = repetition_rate(hyps)
        if run.recipe.corpus.valid is not None:
            found["free_running_loss"] = free_running_loss(run.folder)
    return found


def _events(run: StudyRun) -> list[dict[str, Any]]:
    """Of its log; none if there is no log."""
    if not run.folder.log.is_file():
        return []
    with reading(run.folder.log):
        lines = run.folder.log.read_bytes().split(b"\n")
    return [event for line in lines if (event := parse_line(line)) is not None]
