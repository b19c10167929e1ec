"""What finds the translations of a batch: our own search over our own models, or another program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch

from mtkit.hardware import find_device, keep_memory
from mtkit.models.interface import TranslationModel
from mtkit.search.config import SearchConfig
from mtkit.search.ensemble import Ensemble
from mtkit.search.interface import Hypothesis, Request, Stepper, Symbols
from mtkit.translate.compute_type import NAMES, ComputeType, prepare, resolve_compute_type

Find = Callable[[Request], list[list[Hypothesis]]]  # the n best of each sentence


class Engine(Protocol):
    """How a Translator sees what translates; the source of a request is a `Source` on `device`."""

    @property
    def compute_type(self) -> str:
        """The numbers that it computes with."""

    @property
    def device(self) -> torch.device:
        """Where it wants its requests."""

    def finder(self, search: SearchConfig, symbols: Symbols, *, details: bool) -> Find:
        """The search that a configuration describes; `details`: with log-probabilities and attention in any case.

        Raises:
            UsageError: the engine cannot search in this way.
        """


class OwnEngine:
    """Models of ours, one or an ensemble over the same vocabularies; none is changed.

    Attributes:
        models: as they are used: on the device, of the compute type.
        compute_type: what `auto` came to.
        device: where they are.
        stepper: what search sees.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        *,
        compute_type: ComputeType = "auto",
        device: str = "cpu",
        hypotheses: int | None = None,
    ) -> None:
        """Make copies of the models where they are not as wanted; `hypotheses` as `prepare`.

        Raises:
            UsageError: this machine has no such device or compute type.
        """
        self.device = find_device(device)
        keep_memory()
        dtype = resolve_compute_type(compute_type, self.device)
        self.compute_type = NAMES[dtype]
        self.models = [prepare(model, dtype, self.device, hypotheses=hypotheses) for model in models]
        self.stepper: Stepper = self.models[0] if len(self.models) == 1 else Ensemble(self.models)

    def finder(self, search: SearchConfig, symbols: Symbols, *, details: bool) -> Find:
        """See Engine."""
        return partial(search.build(symbols, with_log_probs=details, with_attention=details), self.stepper)
