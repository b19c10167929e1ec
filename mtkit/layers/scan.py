"""Linear recurrences over all steps at once."""

from __future__ import annotations

import torch
from torch import Tensor


def linear_recurrence(decay: Tensor, x: Tensor) -> Tensor:
    """c_t = decay_t · c_{t-1} + x_t from c_0 = 0, for all t in log2(T) passes.

    Pairs (decay, x) compose associatively, so that each pass joins what ends 1, 2, 4, ... steps before (Hillis & Steele
    1986; Martin & Cundy 2018, https://arxiv.org/abs/1709.04057). Products of decays in [0, 1] cannot overflow.

    Args:
        decay: [B, T, D], in [0, 1].
        x: [B, T, D].

    Returns:
        [B, T, D].
    """
    length, reach = x.size(1), 1
    while reach < length:
        before_x, before_decay = x[:, :-reach], decay[:, :-reach]
        x = torch.cat([x[:, :reach], x[:, reach:] + decay[:, reach:] * before_x], 1)
        decay = torch.cat([decay[:, :reach], decay[:, reach:] * before_decay], 1)
        reach *= 2
    return x
