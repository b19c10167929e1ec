"""Random searches, with values of every key."""

from __future__ import annotations

import random
from typing import Any

from mtkit.search.config import (
    BeamConfig,
    DiverseBeamConfig,
    LengthLimit,
    MaxLength,
    MinimumBayesRiskConfig,
    SamplingConfig,
    SearchConfig,
)
from mtkit.search.length_penalty import GNMT, Average, WordReward

VALUES: dict[str, list[Any]] = {
    "beam_size": [1, 2, 4, 6],
    "n_best": [1, 2],
    "length_penalty": [0.0, 0.2, 1.0, 1.5, GNMT(), WordReward(), Average(alpha=0.5)],
    "max_length": [MaxLength(), MaxLength(factor=0.0, offset=30), MaxLength(factor=0.0, offset=40, max=20)],
    "min_length": [LengthLimit(), LengthLimit(offset=3), LengthLimit(factor=0.5)],
    "patience": [1.0, 2.5, 1e6],
    "early_stopping": [True, False],
    "coverage_penalty": [0.0, 0.4],
    "no_repeat_ngram": [0, 3],
    "repetition_penalty": [1.0, 1.3],
    "allow_unknown": [False, True],
    "split_long_lines": [True, False],
    "retry_loops": [True, False],
    "method": [
        BeamConfig(),
        BeamConfig(),
        SamplingConfig(num_samples=2),
        SamplingConfig(top_k=5, top_p=0.5, num_samples=2),
        SamplingConfig(temperature=0.7, num_samples=3),
        DiverseBeamConfig(groups=2),
    ],
    "rerank": [None, MinimumBayesRiskConfig()],
}


def random_search(seed: int) -> SearchConfig:
    rng = random.Random(seed)
    while True:
        try:
            return SearchConfig(**{key: rng.choice(values) for key, values in VALUES.items()})
        except ValueError:  # more translations than hypotheses
            continue
