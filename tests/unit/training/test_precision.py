import pytest
import torch

from mtkit.errors import RecipeError
from mtkit.training import numerics
from mtkit.training.numerics import resolve_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(("has", "name"), [(True, "bf16"), (False, "float32")])
def test_auto_is_what_the_processor_has(monkeypatch, has, name):
    monkeypatch.setattr(numerics, "has_bf16", lambda device: has)
    assert resolve_precision("auto", CPU).name == name


def test_fp16_needs_a_gpu():
    with pytest.raises(RecipeError, match="fp16 needs a GPU; choose bf16"):
        resolve_precision("fp16", CPU)


@pytest.mark.parametrize(("name", "dtype"), [("float32", torch.float32), ("bf16", torch.bfloat16)])
def test_products_are_in_that_type_and_weights_stay(name, dtype):
    linear = torch.nn.Linear(2, 2)
    with resolve_precision(name, CPU).autocast():
        assert linear(torch.ones(1, 2)).dtype == dtype
    assert linear.weight.dtype == torch.float32
