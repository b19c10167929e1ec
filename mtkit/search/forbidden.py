"""Phrases that a translation must not contain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.search.constraint import Prefixes


class ForbiddenPhrases:
    """Forbids the piece that would complete a phrase; `phrases[b]` are those of sentence b, each at least one piece."""

    def __init__(self, phrases: Sequence[Sequence[Sequence[int]]]) -> None:
        """Raises ValueError if a phrase is empty."""
        found = [(b, list(phrase)) for b, all_of_it in enumerate(phrases) for phrase in all_of_it]
        if any(not phrase for _, phrase in found):
            raise ValueError("a forbidden phrase of no pieces would forbid everything")
        self._by_length: dict[int, tuple[Tensor, Tensor]] = {}
        for length in sorted({len(phrase) for _, phrase in found}):
            those = [(b, phrase) for b, phrase in found if len(phrase) == length]
            self._by_length[length] = (
                torch.tensor([b for b, _ in those]),  # [P]
                torch.tensor([phrase for _, phrase in those]),  # [P, length]
            )

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        tokens, result = prefixes.tokens, log_prob.clone()
        for length, (sentence, phrase) in self._by_length.items():
            if tokens.size(1) < length - 1:
                continue
            recent = tokens[:, tokens.size(1) - length + 1 :]  # [rows, length - 1]
            phrase = phrase.to(tokens.device)
            here = prefixes.sentence.unsqueeze(1) == sentence.to(tokens.device)  # [rows, P]
            begun = (recent.unsqueeze(1) == phrase[:, :-1]).all(2)  # [rows, P]
            row, which = (here & begun).nonzero(as_tuple=True)
            result[row, phrase[which, -1]] = float("-inf")
        return result
