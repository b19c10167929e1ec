"""Linformer: maximum length."""

import pytest

from mtkit.errors import DataError
from mtkit.layers.variants.config import LinformerConfig
from tests.unit.layers.toy_kernels import build, x_and_pos


def test_a_sentence_beyond_the_projections_is_refused():
    with pytest.raises(DataError, match="19 tokens is longer than the 16 positions"):
        build(LinformerConfig(max_length=16))(*x_and_pos())
