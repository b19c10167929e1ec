"""The interface of filters, and blocks of sentence pairs that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.filters.config import FilterConfigBase
from mtkit.corpus.near_match import HeldOutText
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.sentence_alignment import TokenSide, hash_tokens

MAX_COMPARED = 20_000  # characters of a line that filters compare


class Fault(NamedTuple):
    """A fault of a pair: its row in the block, the side that has it (0: source), and what is to be said about it."""

    row: int
    side: int = 0
    detail: str = ""


class PairBlock:
    """Sentence pairs of a text.

    Args:
        numbers: [N] of the pairs in the text, from 0.
        pairs: source and target lines.
        odd: what the reader recorded of them: kind of odd characters, side, row.
    """

    def __init__(
        self,
        numbers: NDArray[np.int64],
        pairs: Sequence[tuple[str | None, str | None]],
        odd: Sequence[tuple[str, int, int]] = (),
    ) -> None:
        self.src, self.tgt = self.sides = [str(src) for src, _ in pairs], [str(tgt) for _, tgt in pairs]
        self.numbers, self.odd = numbers, odd

    def __len__(self) -> int:
        return len(self.src)

    def without(self, rows: AbstractSet[int]) -> PairBlock:
        """The pairs except for some rows; without what the reader recorded."""
        if not rows:
            return self
        kept = [row for row in range(len(self)) if row not in rows]
        return PairBlock(self.numbers[kept], [(self.src[row], self.tgt[row]) for row in kept])

    @cached_property
    def characters(self) -> NDArray[np.int64]:
        """[N, 2] the lengths of both sides."""
        return np.array([list(map(len, side)) for side in self.sides], dtype=np.int64).T.reshape(-1, 2)

    @cached_property
    def tokens(self) -> tuple[Ragged, Ragged]:
        """Hashes of the first words and signs of each line, see `hash_tokens`."""
        return hash_tokens(self.src), hash_tokens(self.tgt)

    @property
    def token_sides(self) -> tuple[TokenSide, TokenSide]:
        """Tokens and lengths of both sides, as the lexicon reads them."""
        logs = np.log1p(self.characters.astype(np.float32))
        return TokenSide(self.tokens[0], logs[:, 0]), TokenSide(self.tokens[1], logs[:, 1])


def _no_models(model: Path, src: Sequence[str], tgt: Sequence[str]) -> list[float]:
    raise ValueError(f"{model}: no function scores pairs by models")


class Context(NamedTuple):
    """Facts about a text that its filters learn from, besides its lines.

    Attributes:
        langs: stated languages.
        held_out: lines of valid and test.
        cross_entropies: of targets given their sources by a model, nats a token.
    """

    langs: tuple[str | None, str | None] = (None, None)
    held_out: HeldOutText | None = None
    cross_entropies: Callable[[Path, Sequence[str], Sequence[str]], list[float]] = _no_models


class Filter:
    """Detector of one kind of fault. It sees a sample, then all blocks in the order of the text, then the end.

    Attributes:
        is_late: whether faults show at the end, see `find_late`; blocks are remembered until then.
    """

    is_late: ClassVar[bool] = False

    def __init__(self, config: FilterConfigBase) -> None:
        """Take the keys of the filter; most have none but those of all filters."""

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take what is usual from at most 20,000 pairs that are spread over the text."""

    def find(self, block: PairBlock) -> Iterable[Fault]:
        """The faults in the next block; by default, those that single pairs show."""
        for row, pair in enumerate(zip(block.src, block.tgt, strict=True)):
            if (side := self.faulty_side(*pair)) is not None:
                yield Fault(row, side)

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The side of a pair that has the fault, 0 where it is both; None: the pair is good."""
        raise NotImplementedError

    def find_late(self, is_kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Numbers of pairs with a fault that shows in the whole text alone.

        Args:
            is_kept: [N] pairs that other filters do not remove.
        """
        return np.empty(0, dtype=np.int64)
