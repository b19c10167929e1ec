import pytest
import torch
from torch import nn

from mtkit.training.checkpoints.averaging import ExponentialMovingAverage
from mtkit.training.config import EMAConfig


@pytest.mark.parametrize("update_every", [1, 3])
def test_ema_equals_the_formula(update_every):
    torch.manual_seed(0)
    model = nn.Linear(2, 3)
    ema = ExponentialMovingAverage(model, EMAConfig(decay=0.6, update_every=update_every))
    expected = {name: p.detach().clone() for name, p in model.named_parameters()}
    for update in range(1, 10):
        for p in model.parameters():
            p.data.add_(torch.randn_like(p))
        ema.update_from(model, update)
        for name, p in model.named_parameters():
            if update % update_every == 0:
                decay = min(0.6, (1 + update) / (10 + update)) ** update_every
                expected[name] = decay * expected[name] + (1 - decay) * p.detach()
            torch.testing.assert_close(ema.weights[name], expected[name])


def test_swapped_in_restores_the_weights_also_after_an_error():
    model = nn.Linear(2, 2)
    ema = ExponentialMovingAverage(model, EMAConfig(decay=0.5, update_every=1))
    own = model.weight.detach().clone()
    averaged = ema.weights["weight"].zero_().clone()

    def fail_inside():
        with ema.swapped_in(model):
            assert torch.equal(model.weight, averaged)
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert torch.equal(model.weight, own)
    assert torch.equal(ema.weights["weight"], averaged)
