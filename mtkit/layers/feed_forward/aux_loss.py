"""What layers have to say beside their output: losses of their own and figures for the log.

A mixture of experts has to keep its router balanced, and that loss must reach the objective through every decoder
input and every model between. As an argument it would stand in the signature of every `hidden`, `start`, `step`,
decoder input and objective, most of which have nothing to do with it, and one that forgot to hand it on would train a
router that is not balanced. So the tape is a value with a scope instead: `TranslationModel.forward`, the one door of
training, opens it, the layers below write to it, and the door adds it to the losses, whichever objective ran inside
and however often it ran the model. No module holds anything between two calls, and nothing is written where no tape
is open (translation, the second forward of activation checkpointing).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Note(NamedTuple):
    """What one layer says of one pass."""

    tokens: int  # real tokens that went through
    loss: Tensor  # scalar with gradient, a mean over them, times its weight
    figures: Mapping[str, Tensor]  # scalars without gradient for the log, means over them


@dataclass(frozen=True)
class Spoken:
    """The sum of all layers' losses, and each figure's mean over the layers."""

    loss: Tensor
    figures: Mapping[str, Tensor]


class Tape:
    """The notes of one forward, by layer."""

    def __init__(self) -> None:
        self.notes: dict[nn.Module, list[Note]] = defaultdict(list)

    def read(self) -> Spoken | None:
        """What was written, or None if nothing was.

        A layer that was passed several times (shared layers, several passes of an objective, single steps) counts
        once, with the mean of its notes weighted by their tokens.
        """
        if not self.notes:
            return None
        losses: list[Tensor] = []
        figures: dict[str, list[Tensor]] = defaultdict(list)
        for notes in self.notes.values():
            weight = [note.tokens / sum(each.tokens for each in notes) for note in notes]
            losses.append(torch.stack([w * note.loss for w, note in zip(weight, notes, strict=True)]).sum())
            for name in notes[0].figures:
                parts = [w * note.figures[name] for w, note in zip(weight, notes, strict=True)]
                figures[name].append(torch.stack(parts).sum())
        means = {name: torch.stack(values).mean() for name, values in figures.items()}
        return Spoken(torch.stack(losses).sum(), means)


_open: ContextVar[Tape | None] = ContextVar("tape", default=None)


@contextmanager
def recording() -> Iterator[Tape]:
    """A block whose layers write to a new tape."""
    tape = Tape()
    token = _open.set(tape)
    try:
        yield tape
    finally:
        _open.reset(token)


def open_tape(layer: nn.Module) -> Tape | None:
    """The tape that `layer` should write to: there is one only while it is trained."""
    return _open.get() if layer.training and torch.is_grad_enabled() else None
