"""What parity tests share: the package that serves as reference, and the measure of agreement."""

import warnings

import pytest
from torch import Tensor, nn


def transformers_module(name: str):
    """A module of the package `transformers`, or skip; what it warns of while it is imported is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(f"transformers.{name}", reason="needs the package transformers (extra dev)")


def relative_error(found: Tensor, truth: Tensor) -> float:
    """The largest difference over the largest value."""
    return float((found - truth).detach().abs().max() / truth.detach().abs().max())


def shake(module: nn.Module) -> None:
    """Give every parameter, biases and norms too, a value that a mistake would show."""
    for p in module.parameters():
        p.data.add_(0.3 * p.new_empty(p.shape).normal_())
