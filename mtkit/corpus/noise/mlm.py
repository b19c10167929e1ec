"""Hidden pieces, to be guessed from what stands around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mtkit.corpus.noise.noise import Noised, NoisePieces
from mtkit.corpus.noise.row_rng import Draws
from mtkit.corpus.order.ragged import Ragged

_CHOSEN, _FATE, _OTHER = range(3)  # streams of draws


Share = Annotated[float, Field(ge=0, le=1)]


class MaskNoise:
    """Of the chosen pieces most are masked, some become random ones, the rest stay. All chosen ones are asked for.

    Devlin et al. 2019, sec. 3.1 and appendix A.1, https://arxiv.org/abs/1810.04805 (80, 10 and 10%). round(rate · n)
    of n pieces are chosen, at least one, every choice equally likely; random pieces are uniform over those of text.
    """

    def __init__(self, pieces: NoisePieces, *, rate: float, masked: float, random: float) -> None:
        self.pieces = pieces
        self.rate = rate
        self.masked = masked
        self.random = random

    def __call__(self, rows: Ragged, draws: Draws) -> Noised:
        """See Noise; both sides have the same lengths."""
        lengths, text = rows.lengths, self.pieces.text
        counts = np.minimum(np.maximum(np.rint(lengths * self.rate), 1), lengths).astype(np.int64)  # [R]
        chosen = draws.some(lengths, counts, _CHOSEN)  # [T], as all below
        fate = draws.units(lengths, _FATE)
        others = text[(draws.units(lengths, _OTHER) * len(text)).astype(np.int64)]
        ids = np.where(chosen & (fate < self.masked + self.random), others, rows.flat)
        ids[chosen & (fate < self.masked)] = self.pieces.mask
        return Noised(Ragged(ids, rows.offsets), rows, Ragged(chosen, rows.offsets))


@dataclass(frozen=True, kw_only=True)
class MaskNoiseConfig:
    """Hide pieces (see MaskNoise); for training.objective.kind masked_language_model."""

    kind: Literal["masks"] = "masks"
    rate: Annotated[float, Field(gt=0, le=1)] = 0.15  # of the pieces are asked for
    masked: Share = 0.8  # of these are hidden
    random: Share = 0.1  # of these are others; the rest stays, as nothing is hidden in translation

    def __post_init__(self) -> None:
        if self.masked + self.random > 1:
            raise ValueError(f"random: {self.random} and masked {self.masked} are more than 1 together; lower one")

    def build(self, pieces: NoisePieces) -> MaskNoise:
        """The noise."""
        return MaskNoise(pieces, rate=self.rate, masked=self.masked, random=self.random)
