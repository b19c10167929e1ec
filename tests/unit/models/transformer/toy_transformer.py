"""A small batch for tests of Transformers."""

from __future__ import annotations

import torch

from mtkit.corpus.order.batch import Source, Target

V, B, S, T = 23, 3, 7, 5


def source(ends=(7, 4, 5)):
    """Sentences of these lengths, padded on the right."""
    pos = torch.arange(S).expand(len(ends), -1)
    ids = torch.randint(V, (len(ends), S), generator=torch.Generator().manual_seed(1))
    return Source(ids, pos < torch.tensor(ends).unsqueeze(1), pos)


def target():
    """Targets [B, T] without padding."""
    pos = torch.arange(T).expand(B, -1)
    return Target(torch.randint(V, (B, T), generator=torch.Generator().manual_seed(2)), pos >= 0, pos)
