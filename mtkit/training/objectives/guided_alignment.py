"""Guided alignment: one head of the decoder learns to look at the words that the next word is a translation of."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.batch import Batch
from mtkit.models.interface import Losses, TranslationModel
from mtkit.models.transformer.model import Transformer
from mtkit.training.chunked_loss import label_smoothed_loss
from mtkit.training.objectives.config import GuidedAlignmentConfig
from mtkit.training.objectives.interface import ObjectiveInputs, TrainingObjective

MIN_WEIGHT = 1e-6  # of attention, so that its logarithm is finite


class GuidedAlignment(TrainingObjective):
    """Cross-entropy plus that of one attention head, given word alignments by the lexicon of the training corpora.

    Target word t of a sentence is aligned with its source tokens s in proportion to t(t | s) of IBM Model 1, the
    posterior of Brown et al. 1993, eq. (7); a word that the lexicon gives no source token has no alignment. The weights
    a(t, s) of one head, `model.alignment_head` or the first of its layer, add -weight · sum over s of p(s | t) · log
    a(t, s): Chen et al. 2016, eq. (4), https://arxiv.org/abs/1607.01628 , with a single head as in Garg et al. 2019,
    sec. 4.2, https://arxiv.org/abs/1909.02074 ; the others of its layer stay free.

    Weights below MIN_WEIGHT have no gradient: a model to start from whose heads are so sharp stays as it is.

    A decoder learns late where to look, and hardly anything of the source reaches its output before. The lexicon, which
    is learned in seconds, shows it from the first update.
    Without a lexicon nothing is aligned.
    """

    def __init__(self, config: GuidedAlignmentConfig, inputs: ObjectiveInputs) -> None:
        self.smoothing = inputs.smoothing
        self.weight = config.weight
        self._table = LexiconTable(inputs.lexicon)

    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """The loss summed over the positions of `loss_mask`; its weighted second term is logged as `alignment`.

        Raises:
            TypeError: the model has no attention of all steps; recipes are checked for it.
        """
        if not isinstance(model, Transformer):
            raise TypeError(f"guided alignment: {type(model).__name__} has no attention of all steps")
        hidden, attention = model.decode_with_attention(batch.source, batch.target)  # [B, T, D], [B, H, T, S]
        target = batch.labels[batch.loss_mask]  # [N]
        words = label_smoothed_loss(
            hidden[batch.loss_mask], model.output.weight, model.output.bias, target, smoothing=self.smoothing
        )
        if attention is None:  # LayerDrop
            return Losses(words, target.numel(), {"alignment": words.detach() * 0})
        # p(s | t) of the source tokens of each label [B, T, S]; zeros for labels that are not scored or aligned
        probability = self._table(batch.source.ids, batch.labels)
        probability = probability * batch.source.real.unsqueeze(1) * batch.loss_mask.unsqueeze(2)
        total = probability.sum(-1, keepdim=True)
        alignments = torch.where(total > 0, probability / total, 0)
        log_weights = attention[:, model.alignment_heads][:, 0].float().clamp(min=MIN_WEIGHT).log()  # [B, T, S]
        alignment = -self.weight * (alignments * log_weights).sum()
        return Losses(words + alignment, target.numel(), {"alignment": alignment.detach()})


class LexiconTable:
    """t(target | source) of the pairs that a lexicon stores, for many pairs at once; 0 for all others.

    Args:
        lexicon: None for an empty one.
    """

    def __init__(self, lexicon: Lexicon | None) -> None:
        self._keys = torch.tensor([-1])  # source · V_tgt + target, ascending; the first is that of no pair
        self._probabilities = torch.tensor([0.0])
        self._vocab = 1 if lexicon is None else len(lexicon.frequent)
        if lexicon is not None:
            sources = np.repeat(np.arange(len(lexicon.targets.lengths)), lexicon.targets.lengths)
            keys, order = torch.from_numpy(sources * self._vocab + lexicon.targets.flat).sort()
            probabilities = torch.from_numpy(lexicon.probabilities.astype(np.float32))
            self._keys = torch.cat([self._keys, keys])
            self._probabilities = torch.cat([self._probabilities, probabilities[order]])

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """Probabilities [B, T, S] of each target [B, T] given each source token [B, S]."""
        self._keys, self._probabilities = self._keys.to(source.device), self._probabilities.to(source.device)
        keys = source.unsqueeze(1) * self._vocab + target.unsqueeze(2)  # [B, T, S]
        place = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        return torch.where(self._keys[place] == keys, self._probabilities[place], 0.0)
