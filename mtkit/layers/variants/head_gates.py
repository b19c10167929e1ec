"""Gates on attention heads that training closes: pruning with an L0 penalty."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mtkit.layers.layer_call import AuxLoss, current_aux_losses
from mtkit.layers.projections import Projection

TEMPERATURE = 2 / 3  # beta; Louizos et al. 2018, sec. 4
LOW, HIGH = -0.1, 1.1  # gamma and zeta, the interval before clamping; Louizos et al. 2018, sec. 4
INITIAL_LOG_ALPHA = 2.0  # open with probability 0.97


class GatedProjection(Projection):
    """Output projection of attention with a gate g_h on the output of each head: W_O concat(g_h · head_h) + b.

    Voita et al. 2019, sec. 5. https://arxiv.org/abs/1905.09418 The gates have the hard concrete distribution of Louizos
    et al. 2018, eq. 10 to 12, https://arxiv.org/abs/1712.01312 : in training each forward pass draws one g_h in [0, 1]
    for each head; evaluation uses their estimator, eq. 13. The penalty is lambda times the expected number of open
    gates, an auxiliary loss (see layer_call.py). A gate of exactly 0 in evaluation removes its head: `mtkit compress
    --to heads`.

    Args:
        of: the projection, whose weights are used.
        num_heads: H.
        penalty: lambda, nats per token for each open head.
        rate: log alpha is this times `gate_weight`.
    """

    def __init__(self, of: nn.Linear, num_heads: int, *, penalty: float, rate: float) -> None:
        super().__init__(of.in_features, of.out_features, bias=of.bias is not None, device="meta")
        self.weight, self.bias = of.weight, of.bias
        self.penalty, self.rate = penalty, rate
        self.gate_weight = nn.Parameter(torch.full((num_heads,), INITIAL_LOG_ALPHA / rate))

    @property
    def log_alpha(self) -> Tensor:
        """[H], float32; a larger number is a gate that is open more often."""
        return self.rate * self.gate_weight.float()

    def expected_open(self) -> Tensor:
        """Probability [H] that a gate is not 0. Louizos et al. 2018, eq. 12."""
        return torch.sigmoid(self.log_alpha - TEMPERATURE * math.log(-LOW / HIGH))

    def gates(self) -> Tensor:
        """Gates [H]: a sample in training, the estimator in evaluation."""
        if self.training:
            uniform = torch.empty_like(self.log_alpha).uniform_(1e-6, 1 - 1e-6)
            s = torch.sigmoid((uniform.logit() + self.log_alpha) / TEMPERATURE)
        else:
            s = torch.sigmoid(self.log_alpha)
        return (s * (HIGH - LOW) + LOW).clamp(0, 1)  # the interval is wider, which makes 0 and 1 themselves probable

    def forward(self, input: Tensor) -> Tensor:
        """Outputs of the heads [..., H·V] -> [..., D]."""
        aux_losses = current_aux_losses(self)
        if aux_losses is not None:
            expected = self.expected_open()
            metrics = {"open_heads": expected.detach().mean()}
            aux_losses.by_layer[self].append(AuxLoss(1, self.penalty * expected.sum(), metrics))
        gates = self.gates().to(input.dtype).unsqueeze(-1)  # [H, 1]
        gated = input.view(*input.shape[:-1], gates.size(0), -1) * gates  # [..., H, V]
        return super().forward(gated.flatten(-2))


def is_gate(name: str) -> bool:
    """Return whether a weight with this name is that of gates, which a model without them does not have."""
    return name.endswith(".out.gate_weight")
