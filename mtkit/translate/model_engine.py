"""Engine of the reference implementation: models and searches in torch, and forced decoding."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Source, Target, collate_source, real_and_pos
from mtkit.corpus.order.ragged import Ragged
from mtkit.hardware import limit_onednn_cache, parse_device, tell_torch_num_threads, tune_malloc
from mtkit.inference.prepare import NAMES, prepare_for_inference, resolve_compute_type
from mtkit.inference.support import ComputeType
from mtkit.model_folder.folder import LoadedModel
from mtkit.models.interface import TranslationModel
from mtkit.search.beam import BeamSearch
from mtkit.search.beam_state import ExtensionSelector
from mtkit.search.config import SearchConfig
from mtkit.search.constraints import Constraint, ExcludedTexts, ForcedPrefix, IncludedPhrases, TokenBytes
from mtkit.search.ensemble import Ensemble, LanguageModelTerm, ShallowFusion
from mtkit.search.fast_topk import log_normaliser
from mtkit.search.hypothesis import Hypothesis, ScoredToken, SentenceRequest, SpecialIds
from mtkit.search.interface import SearchRequest, Stepper
from mtkit.translate.engine import SearchFn, TokenPair

PAD = 0  # any id: padding is marked in `real`


class ModelEngine:
    """One model, or an ensemble over the same vocabularies. The models that are passed in are not changed.

    Attributes:
        models: the models prepared for inference, on the device and with the compute type.
        name: see Engine.
        compute_type: see Engine.
        device: of the models.
        stepper: the model or ensemble as search calls it.
        observe: given the selector of a beam search, returns the one that takes its place; None: nothing does.
    """

    observe: Callable[[ExtensionSelector], ExtensionSelector] | None = None

    def __init__(
        self,
        models: Sequence[TranslationModel],
        *,
        compute_type: ComputeType = "auto",
        device: str = "cpu",
        rewrite: bool = True,
        name: str = "the model",
        language_model: tuple[LoadedModel, float] | None = None,
    ) -> None:
        """Prepare the models for inference.

        Args:
            models: copied where necessary.
            compute_type: see `resolve_compute_type`.
            device: see `parse_device`.
            rewrite: see `prepare_for_inference`.
            name: of the models, for error messages.
            language_model: of shallow fusion, over the target vocabulary, and the weight of its log-probability.

        Raises:
            UsageError: this machine lacks the device or the compute type.
        """
        self.name = name
        limit_onednn_cache()
        tell_torch_num_threads()
        self.device = parse_device(device)
        tune_malloc()
        dtype = resolve_compute_type(compute_type, self.device)
        self.compute_type = NAMES[dtype]
        prepare = partial(prepare_for_inference, dtype=dtype, device=self.device, rewrite=rewrite)
        self.models = [prepare(model) for model in models]
        self.stepper: Stepper = self.models[0] if len(self.models) == 1 else Ensemble(self.models)
        self._process = os.getpid()
        self._terms: tuple[Constraint, ...] = ()
        if language_model is not None:
            loaded, weight = language_model
            vocab = loaded.tokenizers.tgt.vocab  # all that the engine keeps of what was loaded: the weights are copied
            self._terms = (LanguageModelTerm(weight),)
            self.stepper = ShallowFusion(
                self.stepper,
                prepare(loaded.model),
                lambda count: collate_source([[]] * count, vocab).to(self.device),
            )

    @property
    def can_fork(self) -> bool:
        """See Engine."""
        return self.device.type == "cpu"

    def make_search(
        self, config: SearchConfig, special_ids: SpecialIds, token_bytes: Sequence[bytes], *, with_scores: bool
    ) -> SearchFn:
        """See Engine."""
        run = config.build(special_ids, with_log_probs=with_scores, with_attention=with_scores)
        bytes_of = TokenBytes(token_bytes)

        def search(requests: Sequence[SentenceRequest]) -> list[list[Hypothesis]]:
            self._after_fork()
            request = self._request(requests, special_ids, bytes_of)
            if self.observe is not None and isinstance(run, BeamSearch):
                request = replace(request, selector=self.observe(request.selector or run.selector))
            lists = run(self.stepper, request)
            return [
                [h if h.attention is None else replace(h, attention=h.attention.float().cpu().numpy()) for h in n_best]
                for n_best in lists
            ]

        return search

    def score(self, pairs: Sequence[TokenPair], special_ids: SpecialIds) -> list[list[ScoredToken]]:
        """See Engine."""
        self._after_fork()
        targets = Ragged.of([target for _, target in pairs])
        ids, labels = targets.padded(pad=PAD, before=special_ids.bos), targets.padded(pad=PAD, after=special_ids.eos)
        real, pos = real_and_pos(targets.lengths + 1, ids.shape)
        batch = Batch(
            source=_source([source for source, _ in pairs]),
            target=Target(ids=torch.from_numpy(ids), real=real, pos=pos),
            labels=torch.from_numpy(labels),
            loss_mask=real,
            sample_ids=torch.arange(len(pairs)),
        )
        return score_tokens(self.models, batch)

    def _request(
        self, sentences: Sequence[SentenceRequest], special_ids: SpecialIds, token_bytes: TokenBytes
    ) -> SearchRequest:
        """The sentences as one batch of tensors."""

        def tensor(values: Sequence[int]) -> Tensor:
            return torch.tensor(values, device=self.device)

        source = _source([each.source for each in sentences]).to(self.device)
        request = SearchRequest(
            source=source,
            max_length=tensor([each.max_length for each in sentences]),
            min_length=tensor([each.min_length for each in sentences]),
            sentence_ids=tensor([each.sentence_id for each in sentences]),
            real=source.real,
            constraints=self._terms,
        )
        if not any(each.is_constrained for each in sentences):
            return request
        included = IncludedPhrases(
            [each.include for each in sentences], [each.max_length for each in sentences], special_ids
        )
        # The prefix comes after the exclusions, and the phrases after both: a later constraint has precedence.
        constraints: tuple[Constraint, ...] = (
            ExcludedTexts([each.exclude for each in sentences], token_bytes),
            ForcedPrefix([each.prefix for each in sentences], free=sentences[0].free_prefix),
            included,
        )
        return replace(
            request,
            constraints=(*self._terms, *constraints),
            selector=included if any(each.include for each in sentences) else None,
        )

    def _after_fork(self) -> None:
        """Compute on one thread in a copy of the process that loaded the models, which lacks torch's other threads.

        With more the copy would wait for them for ever.
        """
        if os.getpid() != self._process:
            self._process = os.getpid()
            torch.set_num_threads(1)


def _source(rows: Sequence[Sequence[int]]) -> Source:
    """Sources as one batch, padded on the right."""
    ragged = Ragged.of(rows)
    ids = ragged.padded(pad=PAD)
    real, pos = real_and_pos(ragged.lengths, ids.shape)
    return Source(ids=torch.from_numpy(ids), real=real, pos=pos)


CHUNK_POSITIONS = 512  # target positions whose logits are in memory at a time


@torch.inference_mode()
def score_tokens(models: Sequence[TranslationModel], batch: Batch) -> list[list[ScoredToken]]:
    """Scores of the labels of each sentence of a batch, the end of sentence included."""
    batch = batch.to(next(models[0].parameters()).device)
    hidden = [model.decode_states(batch.source, batch.target)[batch.loss_mask] for model in models]  # each [N, D]
    labels = batch.labels[batch.loss_mask]  # [N]
    chunks = []
    for start in range(0, labels.numel(), CHUNK_POSITIONS):
        chunk = slice(start, start + CHUNK_POSITIONS)
        logits = [model.output(states[chunk]) for model, states in zip(models, hidden, strict=True)]  # each [n, V]
        values = logits[0]
        normaliser: Tensor | float = 0.0
        if len(logits) > 1:  # the mean of the models' distributions
            values = torch.stack([each.float().log_softmax(-1) for each in logits]).logsumexp(0) - math.log(len(logits))
        else:
            normaliser = log_normaliser(values)  # [n]
        label = values.gather(1, labels[chunk].unsqueeze(1)).squeeze(1).float()
        chunks.append((label - normaliser, values.amax(1).float() - normaliser))
    fields = (torch.cat(each).tolist() for each in zip(*chunks, strict=True))
    scores = (ScoredToken(*each) for each in zip(*fields, strict=True))
    return [list(itertools.islice(scores, count)) for count in batch.loss_mask.sum(1).tolist()]
