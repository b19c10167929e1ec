"""Helpers of parity tests: reference packages, and a measure of agreement."""

import warnings

import pytest
from torch import Tensor, nn


def transformers_module(name: str):
    """Import a module of the package `transformers` without its warnings, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(f"transformers.{name}", reason="needs the package transformers (extra dev)")


def relative_error(output: Tensor, expected: Tensor) -> float:
    """Largest difference divided by the largest expected value."""
    return float((output - expected).detach().abs().max() / expected.detach().abs().max())


def shake(module: nn.Module) -> None:
    """Add noise to every parameter, biases and norms too, so that no default value hides a mistake."""
    for p in module.parameters():
        p.data.add_(0.3 * p.new_empty(p.shape).normal_())
