"""Values of a trained model that are computed from its log, or from the attention of its encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mtkit.analysis.head_statistics import HeadSums, real_queries, recorded_attention
from mtkit.assembly.reference_text import batches
from mtkit.assembly.translator import load_translator
from mtkit.errors import DataError
from mtkit.evidence.system import valid_text
from mtkit.model_folder.folder import read_model
from mtkit.study.runs import StudyRun, log_events
from mtkit.training.monitoring.meter import Stopwatch


def best_validation(run: StudyRun) -> Mapping[str, Any]:
    """Event of the validation whose weights became the model.

    Raises:
        DataError: the log has none.
    """
    best = run.folder.read_report()["train"]["best_update"]
    chosen = [event for event in _events(run, "validation") if best is None or event["update"] == best]
    if not chosen:
        raise DataError(f"{run.folder.log}: no validation at update {best}; train again with --fresh")
    return chosen[-1]


def seconds_to_bleu(run: StudyRun, goal: float) -> float:
    """Processor time until the first validation with a BLEU of `goal`, without that of the validations.

    Raises:
        DataError: no validation reached it, or the log has no time of that update.
    """
    reached = [event["update"] for event in _events(run, "validation") if (event.get("bleu") or 0.0) >= goal]
    if not reached:
        raise DataError(
            f"{run.label}: no validation has a BLEU of {goal:g}; lower goal, or set training.validation.sentences"
        )
    times = {event["update"]: float(event["processor_seconds"]) for event in _events(run, "train")}
    if reached[0] not in times:
        raise DataError(
            f"{run.label}: the log has no time of update {reached[0]}; set training.log_every to validate_every"
        )
    return times[reached[0]]


def last_times(run: StudyRun) -> Mapping[str, Any]:
    """Event of the last updates, which has the times of the whole training; empty if the log has none."""
    return next(reversed(_events(run, "train")), {})


def lines_per_second(run: StudyRun, srcs: Sequence[str]) -> float:
    """Lines that are translated in a second of processor time, with the search of the recipe.

    Raises:
        DataError: the model is damaged.
    """
    translator = load_translator(run.folder.model, search=run.recipe.search)
    translator.translate_lines(srcs[:20])  # the first batch pays for what is loaded late
    watch = Stopwatch()
    translator.translate_lines(srcs)
    return len(srcs) / watch.processor_seconds


def positional_head(run: StudyRun) -> float:
    """Percentage of the queries of the most positional head of the encoder whose largest weight is on one neighbour.

    The neighbour is the previous token or the next one, whichever the head prefers. Voita et al. 2019, sec. 5.1,
    https://aclanthology.org/P19-1580/, call a head positional from 90% on. The text is the valid set.

    Raises:
        DataError: the encoder has no attention with softmax, or the run has no valid set.
    """
    loaded = read_model(run.folder.model)
    sums: dict[str, HeadSums] = {}
    with torch.inference_mode(), recorded_attention(loaded.model) as weights:
        for batch in batches(loaded, valid_text(run)):
            loaded.model.decode_states(batch.source, batch.target)  # as in training; `start` may split the batch
            for name in filter(lambda path: path.startswith("encoder."), weights):
                sums.setdefault(name, HeadSums(is_self_attention=True)).add(weights[name], real_queries(name, batch))
    shares = [each.means().at_offset for each in sums.values()]  # [H, 3] each: previous, same, next
    if not shares:
        raise DataError(f"{run.label}: the encoder has no attention with softmax; positional_head needs one")
    return max(100 * float(share[:, [0, 2]].max()) for share in shares if share is not None)


def _events(run: StudyRun, name: str) -> list[Mapping[str, Any]]:
    return [event for event in log_events(run) if event["event"] == name]
