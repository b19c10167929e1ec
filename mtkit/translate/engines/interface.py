"""Engines: what translates a batch, a search over a model or an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch

from mtkit.corpus.order.collate import collate_source
from mtkit.hardware import limit_onednn_cache, parse_device, tune_malloc
from mtkit.inference.prepare import NAMES, ComputeType, prepare_for_inference, resolve_compute_type
from mtkit.models.interface import TranslationModel
from mtkit.search.config import SearchConfig
from mtkit.search.ensemble import Ensemble
from mtkit.search.interface import SearchFn, SpecialIds, Stepper
from mtkit.search.shallow_fusion import LanguageModelTerm, ShallowFusion
from mtkit.text.vocab import Vocab


class Engine(Protocol):
    """Interface of an engine; the source of a request is a `Source` on `device`."""

    @property
    def name(self) -> str:
        """The model or models, for error messages."""

    @property
    def compute_type(self) -> str:
        """The number format of the computation, with `auto` resolved."""

    @property
    def device(self) -> torch.device:
        """The device of the requests."""

    @property
    def can_fork(self) -> bool:
        """True if the engine works in a copy of its process, which has no threads and no GPU."""

    def make_search(self, search: SearchConfig, special_ids: SpecialIds, *, with_scores: bool) -> SearchFn:
        """The search that a configuration describes.

        Args:
            search: the configuration.
            special_ids: ids with a meaning.
            with_scores: compute log-probabilities and attention also where the search can do without.

        Raises:
            UsageError: the engine does not support this search.
        """


@dataclass(frozen=True)
class FusedLanguageModel:
    """The language model of shallow fusion.

    Attributes:
        model: over the target vocabulary of the translation models.
        vocab: that vocabulary.
        weight: of its log-probability.
    """

    model: TranslationModel
    vocab: Vocab
    weight: float


class ModelEngine:
    """One mtkit model, or an ensemble over the same vocabularies. The models that are passed in are not changed.

    Attributes:
        models: the models prepared for inference, on the device and with the compute type.
        name: see Engine.
        compute_type: see Engine.
        device: the device of models and requests.
        stepper: the model or ensemble as search calls it.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        *,
        compute_type: ComputeType = "auto",
        device: str = "cpu",
        beam_size: int | None = None,
        rewrite: bool = True,
        name: str = "the model",
        language_model: FusedLanguageModel | None = None,
    ) -> None:
        """Prepare the models for inference.

        Args:
            models: copied where necessary.
            compute_type: see `resolve_compute_type`.
            device: see `parse_device`.
            beam_size: hypotheses of a sentence that search will follow; None: unknown.
            rewrite: see `prepare_for_inference`.
            name: of the models, for error messages.
            language_model: of shallow fusion; None: there is none.

        Raises:
            UsageError: this machine lacks the device or the compute type.
        """
        self.name = name
        limit_onednn_cache()
        self.device = parse_device(device)
        tune_malloc()
        dtype = resolve_compute_type(compute_type, self.device)
        self.compute_type = NAMES[dtype]
        prepare = partial(prepare_for_inference, dtype=dtype, device=self.device, rewrite=rewrite)
        self.models = [prepare(model) for model in models]
        self.stepper: Stepper = self.models[0] if len(self.models) == 1 else Ensemble(self.models)
        self.term: LanguageModelTerm | None = None
        if language_model is not None:
            vocab = language_model.vocab
            self.term = LanguageModelTerm(language_model.weight)
            self.stepper = ShallowFusion(
                self.stepper,
                prepare(language_model.model),
                lambda count: collate_source([[]] * count, vocab).to(self.device),
            )

    @property
    def can_fork(self) -> bool:
        """See Engine."""
        return self.device.type == "cpu"

    def make_search(self, search: SearchConfig, special_ids: SpecialIds, *, with_scores: bool) -> SearchFn:
        """See Engine."""
        run = search.build(special_ids, with_log_probs=with_scores, with_attention=with_scores)
        if self.term is None:
            return partial(run, self.stepper)
        term = self.term
        return lambda request: run(self.stepper, replace(request, constraints=(term, *request.constraints)))
