"""Translations drawn from a model in training, and what they are worth, for objectives that learn from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.corpus.order.batch import Source
from mtkit.models.interface import TranslationModel
from mtkit.recipe.recipe import Recipe
from mtkit.search.config import LengthLimit
from mtkit.search.interface import Request, Symbols
from mtkit.search.length_penalty import Average
from mtkit.search.sampling import Draw
from mtkit.search.single_path import Walk
from mtkit.text.tokenizer import Tokenizer
from mtkit.training.decoder_inputs.interface import TargetPieces
from mtkit.training.objectives.interface import RewardName


def target_pieces(tokenizer: Tokenizer) -> TargetPieces:
    """What training needs to know of the target vocabulary."""
    vocab = tokenizer.vocab
    first = max(vocab.pad, vocab.unk, vocab.bos, vocab.eos, *tokenizer.control_ids()) + 1
    return TargetPieces(size=vocab.size, first=first, pad=vocab.pad, unk=vocab.unk, bos=vocab.bos, eos=vocab.eos)


@dataclass(frozen=True)
class SampledTranslations:
    """See Generation.

    Attributes:
        tokenizer: of the target side.
        limit: on the length of a translation.
    """

    tokenizer: Tokenizer
    limit: LengthLimit

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> SampledTranslations:
        """As long as a recipe's search may translate, and its model can."""
        return cls(tokenizer, recipe.search.within(recipe.model.longest_target()).max_length)

    def sample(
        self, model: TranslationModel, source: Source, *, count: int, temperature: float
    ) -> list[list[list[int]]]:
        """See Generation; the draws follow torch's generator."""
        seed = int(torch.randint(1 << 62, ()))
        vocab = self.tokenizer.vocab
        banned = {*self.tokenizer.control_ids(), vocab.pad, vocab.bos, vocab.unk} - {vocab.eos}
        walk = Walk(
            symbols=Symbols(vocab.size, vocab.bos, vocab.eos, tuple(sorted(banned))),
            penalty=Average(alpha=0.0),
            pick=Draw(temperature=temperature, seed=seed),
            paths=count,
            n_best=count,
        )
        longest = torch.tensor([self.limit.of(length) for length in source.real.sum(1).tolist()])
        found = walk(model, Request.of(source, longest.to(source.ids.device)))
        return [[hypothesis.tokens for hypothesis in of_sentence] for of_sentence in found]

    def reward(self, name: RewardName, hyps: Sequence[Sequence[int]], ref: Sequence[int]) -> list[float]:
        """BLEU with one added to the counts of longer n-grams (Lin & Och 2004), or chrF2, of the text, 0 to 1."""
        metric = BLEU(smooth_method="add-k", effective_order=True) if name == "bleu" else CHRF()
        *texts, reference = self.tokenizer.decode([*hyps, ref])
        return [metric.sentence_score(text, [reference]).score / 100 for text in texts]
