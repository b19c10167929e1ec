"""The steps of a beam search: which hypotheses stayed, ended or were dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from mtkit.display import Table
from mtkit.search.beam_state import Extensions, ExtensionSelector, LiveHypotheses

MAX_STEPS = 100  # of a table
MAX_WIDTH = 10  # hypotheses of a step in a table
MAX_TEXT = 24  # characters of a hypothesis's end
MAX_ENDED = 2  # other results of a search in a summary


@dataclass(frozen=True)
class Partial:
    """A hypothesis with its log-probability after constraints, nats."""

    tokens: Sequence[int]
    text: str
    log_prob: float


@dataclass(frozen=True)
class BeamStep:
    """A step of the search of one sentence; all hypotheses best first.

    Attributes:
        kept: hypotheses that stay in the beam, or in the beams of all diverse groups.
        ended: hypotheses whose end is among the best, without the end.
        dropped: the best of the others, at most one for each of `kept`.
    """

    kept: Sequence[Partial]
    ended: Sequence[Partial]
    dropped: Sequence[Partial]


class RecordedSelector(ExtensionSelector):
    """Another selector of a beam search of one sentence, with the steps of the search.

    The search ranks more candidates, if it takes them from the whole beam, so that it can be seen what it drops.
    """

    def __init__(self, selector: ExtensionSelector, text_of: Callable[[Sequence[int]], str]) -> None:
        self.selector, self._text_of = selector, text_of
        self.groups, self.per_beam = selector.groups, selector.per_beam
        self.steps: list[BeamStep] = []

    def num_candidates(self, width: int) -> int:
        """See ExtensionSelector."""
        return self.selector.num_candidates(width) + (width if self.per_beam else 0)

    def required_ids(self, live: LiveHypotheses) -> Tensor | None:
        """See ExtensionSelector."""
        return self.selector.required_ids(live)

    def choose(self, candidates: Extensions, live: LiveHypotheses, width: int) -> Tensor:
        """See ExtensionSelector."""
        chosen = self.selector.choose(candidates, live, width)  # [N, W']
        kept, ended, dropped = list[Partial](), list[Partial](), list[Partial]()
        for beam in range(live.num_beams):
            if int(live.beam[beam]) >= self.groups:
                continue  # of another segment
            tokens = live.tokens[beam * live.width :].tolist()
            parts = (field[beam].tolist() for field in (candidates.log_prob, candidates.token, candidates.parent))
            partials = [
                self._partial([*tokens[parent], token], log_prob)
                for log_prob, token, parent in zip(*parts, strict=True)
            ]
            stays = set(chosen[beam].tolist())
            kept += [partials[index] for index in stays]
            dropped += [partial for index, partial in enumerate(partials) if index not in stays]
            best, ends = candidates.log_prob[beam, chosen[beam]], candidates.end_log_prob[beam]  # [W'], [W]
            is_ended = (best > ends[:, None]).sum(1) + (ends > ends[:, None]).sum(1) < width  # as BeamSearch decides
            ended += [self._partial(tokens[row], float(ends[row])) for row in is_ended.nonzero().flatten().tolist()]
        count = len(kept)
        lists = [
            sorted((each for each in of if each.log_prob > float("-inf")), key=lambda each: -each.log_prob)
            for of in (kept, ended, dropped)
        ]
        self.steps.append(BeamStep(lists[0], lists[1], lists[2][:count]))
        return chosen

    def _partial(self, tokens: Sequence[int], log_prob: float) -> Partial:
        return Partial(tokens, self._text_of(tokens), log_prob)


def beam_table(steps: Sequence[BeamStep]) -> Table:
    """The steps, with the last characters of each hypothesis and its log-probability."""

    def shown(hypotheses: Sequence[Partial]) -> Iterator[str]:
        for each in hypotheses[:MAX_WIDTH]:
            text = each.text if len(each.text) <= MAX_TEXT else f"…{each.text[1 - MAX_TEXT :]}"
            yield f"{text} {each.log_prob:.2f}"

    width = min(MAX_WIDTH, max((len(step.kept) for step in steps), default=0))
    headings = ["step", *map(str, range(1, width + 1)), "ended", "dropped"]
    rows = []
    for number, step in enumerate(steps[:MAX_STEPS], start=1):
        kept = [*shown(step.kept)]
        ended, dropped = (" · ".join(shown(each)) for each in (step.ended, step.dropped))
        rows.append([str(number), *kept, *[""] * (width - len(kept)), ended, dropped])
    return Table(headings, rows, text=headings[1:], title="The beam, with log-probabilities in nats")


def beam_summary(steps: Sequence[BeamStep], path: Sequence[int]) -> Iterator[str]:
    """Lines on a search: how close its result, with the tokens `path`, came to be dropped, and what else has ended."""
    ranks = [
        (rank, number, len(step.kept))
        for number, step in enumerate(steps, start=1)
        for rank, each in enumerate(step.kept, start=1)
        if each.tokens == path[:number]
    ]
    if ranks:
        rank, number, width = max(ranks, key=lambda each: each[0])
        yield f"beam         the translation was at worst hypothesis {rank} of {width}, at step {number}"
    ended = {tuple(each.tokens): each for step in steps for each in step.ended if each.tokens != path}
    for each in sorted(ended.values(), key=lambda each: -each.log_prob)[:MAX_ENDED]:
        yield f"  also ended {each.text} ({each.log_prob:.2f} nats)"
