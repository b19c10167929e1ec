import os

import pytest
import torch

from mtkit.errors import ComputeError
from mtkit.training.numerics import deterministic_algorithms
from tests.toy.training import toy_config, toy_train, toy_validate

MESSAGE = (
    "bincount_cuda does not have a deterministic implementation, but you set "
    "'torch.use_deterministic_algorithms(True)'. You can turn off determinism"
)


def test_training_is_deterministic_and_leaves_torch_as_it_was(tmp_path, monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    seen = []

    def validate(model, update):
        seen.append((torch.are_deterministic_algorithms_enabled(), os.environ.get("CUBLAS_WORKSPACE_CONFIG")))
        return toy_validate(model, update)

    toy_train(tmp_path / "a", toy_config(max_updates=6), validate=validate)
    toy_train(tmp_path / "b", toy_config(max_updates=6, deterministic=True), validate=validate)
    assert seen == [(False, None), (True, ":4096:8")]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_kernel_that_is_not_deterministic_is_named_with_the_key():
    message = r"^training.deterministic: bincount_cuda .* on this device; set it to false"
    with pytest.raises(ComputeError, match=message), deterministic_algorithms(enabled=True):
        raise RuntimeError(MESSAGE)
    with pytest.raises(RuntimeError, match="something else"), deterministic_algorithms(enabled=True):
        raise RuntimeError("something else")
