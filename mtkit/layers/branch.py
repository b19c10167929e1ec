"""What stands beside the residual stream: the part of a layer whose result is added to it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Branch(nn.Module, ABC):
    """Attention, feed-forward, or what takes their place; a norm may ask for its weights to begin otherwise."""

    @abstractmethod
    def value_weights(self) -> list[Tensor]:
        """The matrices [d_out, d_in] that values go through, as views of the parameters.

        What only decides where to look (queries, keys, gates, routers) is not among them.
        """
