"""Phrases that a translation must contain: a constraint that keeps the promise, and a beam in which it comes cheap."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.search.beam.state import Candidates, Live
from mtkit.search.constraints.constraint import COST, Prefixes
from mtkit.search.interface import Symbols

NONE = -1  # fills up phrases to the longest


class RequiredPhrases:
    """Every translation of sentence b contains the phrases of sentence b, each somewhere; they may overlap.

    What is missing of a hypothesis is a function of its pieces: the lengths of all phrases that it has not, less the
    part of one of them that its end has begun. The end of sentence is forbidden while something is missing, and a piece
    that brings no phrase forward while there would not be room for all of them after it. So the promise holds in any
    search, also where nothing but these pieces is left.

    As a Selection for beams it is dynamic beam allocation (Post & Vilar 2018, sec. 3, https://arxiv.org/abs/1804.06609,
    vectorised as in Hu et al. 2019): the candidates, among them all that bring a phrase forward, lie in banks by how
    much they miss, and the places go round the banks, those that miss least first.
    """

    groups = 1
    of_beam = False

    def __init__(self, phrases: Sequence[Sequence[Sequence[int]]], room: Sequence[int], symbols: Symbols) -> None:
        """Take the phrases of each sentence.

        Args:
            phrases: those of each sentence, each at least one piece.
            room: pieces that each sentence may have at most, the `max_length` of its request.
            symbols: ids with a meaning.

        Raises:
            ValueError: a phrase is empty, or there is no room for all.
        """
        self.eos = symbols.eos
        self.banned = torch.tensor(symbols.banned, dtype=torch.int64)
        self.room = torch.tensor(room)  # [B]
        unique = [list(dict.fromkeys(tuple(phrase) for phrase in all_of_it)) for all_of_it in phrases]
        count = max([1, *map(len, unique)])
        longest = max([1, *(len(phrase) for all_of_it in unique for phrase in all_of_it)])
        self.pieces = torch.full((len(unique), count, longest), NONE)  # [B, P, L]
        for sentence, all_of_it in enumerate(unique):
            if not all(all_of_it):
                raise ValueError("a required phrase of no pieces")
            if sum(map(len, all_of_it)) > room[sentence]:
                raise ValueError(f"phrases of {sum(map(len, all_of_it))} pieces in a sentence of {room[sentence]}")
            for number, phrase in enumerate(all_of_it):
                self.pieces[sentence, number, : len(phrase)] = torch.tensor(phrase)
        self.lengths = (self.pieces != NONE).sum(2)  # [B, P], 0 where there is none

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        unmet, progress = self._state(prefixes)  # [rows, P]
        missing_wholly = (unmet * self._of(self.lengths, prefixes.sentence)).sum(1)  # [rows]
        log_prob = log_prob.clone()
        log_prob[:, self.eos] = log_prob[:, self.eos].masked_fill(unmet.any(1), float("-inf"))
        room = self._of(self.room, prefixes.sentence)
        late = prefixes.tokens.size(1) + 1 + missing_wholly > room  # another piece would be too many
        log_prob[:, self.banned] = float("-inf")
        dead = (log_prob == float("-inf")).all(1)
        only = (late | dead) & unmet.any(1)  # [rows]
        forward = torch.full_like(log_prob, float("-inf"))
        piece = self._next(prefixes, unmet, progress, deepest=True)  # [rows, P]
        at = piece.clamp(min=0)
        value = log_prob.gather(1, at).clamp(min=COST).masked_fill(piece == NONE, float("-inf"))
        forward.scatter_reduce_(1, at, value, reduce="amax")
        return torch.where(only.unsqueeze(1), forward, log_prob)

    def missing(self, prefixes: Prefixes) -> Tensor:
        """How many pieces are missing of each hypothesis [rows]."""
        unmet, progress = self._state(prefixes)
        whole = (unmet * self._of(self.lengths, prefixes.sentence)).sum(1)
        return whole - (progress * unmet).amax(1)

    def count(self, width: int) -> int:
        """See Selection."""
        return width

    def wanted(self, live: Live) -> Tensor | None:
        """See Selection; whatever brings a phrase forward, [rows, P], and NONE."""
        prefixes = self._prefixes(live.tokens, live.beam, live.width)
        unmet, progress = self._state(prefixes)
        return self._next(prefixes, unmet, progress, deepest=False)

    def choose(self, candidates: Candidates, live: Live, width: int) -> Tensor:
        """See Selection."""
        total = candidates.log_prob  # [N, M]
        before = live.tokens.index_select(0, live.rows_of(candidates.parent))  # [N·M, t]
        tokens = torch.cat([before, candidates.token.reshape(-1, 1)], dim=1)
        missing = self.missing(self._prefixes(tokens, live.beam, total.size(1))).view(total.shape)  # [N, M]
        order = total.sort(dim=1, descending=True, stable=True).indices
        missing, dead = missing.gather(1, order), total.gather(1, order) == float("-inf")
        same = missing.unsqueeze(2) == missing.unsqueeze(1)  # [N, M, M]
        turn = same.tril(-1).sum(2)  # place in its bank
        largest = int(self.lengths.sum(1).max()) + 1
        key = (turn * largest + missing).masked_fill(dead, torch.iinfo(torch.int64).max)
        chosen = key.sort(dim=1, stable=True).indices[:, :width].sort(dim=1).values  # best first again
        return order.gather(1, chosen)

    def _state(self, prefixes: Prefixes) -> tuple[Tensor, Tensor]:
        """Which phrases are not there yet, and how many of its first pieces the end of the hypothesis is: [rows, P]."""
        tokens = prefixes.tokens
        pieces, lengths = self._of(self.pieces, prefixes.sentence), self._of(self.lengths, prefixes.sentence)
        unmet = lengths > 0  # [rows, P]
        progress = torch.zeros_like(lengths)
        for size in range(1, min(self.pieces.size(2), tokens.size(1)) + 1):
            begun = pieces[:, :, :size]  # [rows, P, size]
            recent = tokens[:, tokens.size(1) - size :].unsqueeze(1)  # [rows, 1, size]
            progress = torch.where((begun == recent).all(2) & (lengths >= size), size, progress)
            grams = tokens.unfold(1, size, 1).unsqueeze(1)  # [rows, 1, t - size + 1, size]
            there = (grams == begun.unsqueeze(2)).all(3).any(2) & (lengths == size)
            unmet = unmet & ~there
        return unmet, progress

    def _next(self, prefixes: Prefixes, unmet: Tensor, progress: Tensor, *, deepest: bool) -> Tensor:
        """The piece that brings each phrase forward [rows, P], or NONE; `deepest`: only of those that are furthest."""
        pieces = self._of(self.pieces, prefixes.sentence)  # [rows, P, L]
        place = progress.clamp(max=self.pieces.size(2) - 1)
        piece = pieces.gather(2, place.unsqueeze(2)).squeeze(2)  # [rows, P]
        wanted = unmet
        if deepest:
            wanted = unmet & (progress == (progress * unmet).amax(1, keepdim=True))
        return piece.masked_fill(~wanted, NONE)

    def _prefixes(self, tokens: Tensor, beam: Tensor, each: int) -> Prefixes:
        return Prefixes(tokens, beam.repeat_interleave(each))

    def _of(self, table: Tensor, sentence: Tensor) -> Tensor:
        return table.to(sentence.device)[sentence]
