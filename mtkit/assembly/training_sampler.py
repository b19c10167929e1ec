"""Sampling and scoring of translations during training, for objectives such as minimum risk."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.corpus.order.batch import Source
from mtkit.models.interface import TranslationModel
from mtkit.recipe.sections import Recipe
from mtkit.search.config import LengthLimit, SamplingConfig
from mtkit.search.interface import SearchRequest
from mtkit.search.length_penalty import Average
from mtkit.search.run import SearchParts
from mtkit.text.tokenizer import Tokenizer
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.key_types import RewardName
from mtkit.translate.engines.interface import special_ids


def target_vocab_ids(tokenizer: Tokenizer) -> TargetVocabIds:
    """Return the ids of the target vocabulary that training needs.

    The tokens of text are the longest run of ids between special ones, which stand before them, or in models of other
    programs and in padded vocabularies also after them.
    """
    vocab = tokenizer.vocab
    not_text = sorted({vocab.pad, vocab.unk, vocab.bos, vocab.eos, *tokenizer.special_ids, vocab.size})
    before, end = max(itertools.pairwise((-1, *not_text)), key=lambda ends: ends[1] - ends[0])
    return TargetVocabIds(
        size=vocab.size,
        first_text_id=before + 1,
        end_text_id=end,
        pad=vocab.pad,
        unk=vocab.unk,
        bos=vocab.bos,
        eos=vocab.eos,
    )


@dataclass(frozen=True)
class TrainingSampler:
    """TranslationSampler that samples with `SinglePathSearch` and scores text with sacreBLEU.

    Attributes:
        limit: maximum length of a translation.
    """

    tokenizer: Tokenizer
    limit: LengthLimit

    @classmethod
    def from_recipe(cls, recipe: Recipe, tokenizer: Tokenizer) -> TrainingSampler:
        """Build the sampler with the length limit of the recipe's search and of its model."""
        return cls(tokenizer, recipe.search.limited_to(recipe.model.max_target_length()).max_length)

    def sample(
        self, model: TranslationModel, source: Source, *, count: int, temperature: float
    ) -> list[list[list[int]]]:
        """Sample `count` translations of each sentence; reproducible from torch's generator. See TranslationSampler."""
        seed = int(torch.randint(1 << 62, ()))
        parts = SearchParts(special_ids=special_ids(self.tokenizer), length_penalty=Average(alpha=0.0), n_best=count)
        search = SamplingConfig(temperature=temperature, num_samples=count, seed=seed).build(parts)
        max_lengths = torch.tensor([self.limit.of(length) for length in source.real.sum(1).tolist()])
        nbest = search(model, SearchRequest.of(source, max_lengths.to(source.ids.device)))
        return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in nbest]

    def reward(self, name: RewardName, hyps: Sequence[Sequence[int]], ref: Sequence[int]) -> list[float]:
        """Return the sentence BLEU with add-one smoothing (Lin & Och 2004), or chrF2, of the decoded text, 0 to 1."""
        metric = BLEU(smooth_method="add-k", effective_order=True) if name == "bleu" else CHRF()
        *texts, reference = self.tokenizer.decode([*hyps, ref])
        return [metric.sentence_score(text, [reference]).score / 100 for text in texts]
