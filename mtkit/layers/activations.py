"""Activations of feed-forward layers: one row each, with the name of the same function in other programs.

Adding one is a row here; the native library computes those of its header products.h, by the name in capitals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# gelu_tanh is the approximation of GELU by tanh, in GPT-2 and T5 1.1 (Hendrycks and Gimpel 2016, sec. 2,
# https://arxiv.org/abs/1606.08415)
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


@dataclass(frozen=True)
class ActivationNames:
    """The names of an activation.

    Attributes:
        torch: of the function in torch.nn.functional, which gets `arguments`.
        ctranslate2: of the member of its `Activation`.
        huggingface: in config.json of the package transformers; the first one is written.
    """

    torch: str
    ctranslate2: str
    huggingface: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)


ACTIVATIONS: dict[Activation, ActivationNames] = {
    "relu": ActivationNames("relu", "RELU", ("relu",)),
    "gelu": ActivationNames("gelu", "GELU", ("gelu", "gelu_python")),
    "gelu_tanh": ActivationNames(
        "gelu", "GELUTanh", ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh"), {"approximate": "tanh"}
    ),
    "silu": ActivationNames("silu", "SWISH", ("swish", "silu")),
}
FROM_HUGGINGFACE: dict[str, Activation] = {
    theirs: name for name, names in ACTIVATIONS.items() for theirs in names.huggingface
}


def activation_function(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function of an activation, elementwise."""
    import torch.nn.functional

    names = ACTIVATIONS[name]
    return partial(getattr(torch.nn.functional, names.torch), **names.arguments)
