import torch
from torch.testing import assert_close

from mtkit.training.decoder_inputs.interface import SAMPLERS, make_sampler


def test_samples_follow_the_distribution():
    torch.manual_seed(0)
    probability = torch.tensor([0.1, 0.2, 0.7])
    for name in ("multinomial", "gumbel"):
        ids = SAMPLERS[name](probability.log().expand(10_000, 3))
        assert_close(ids.bincount(minlength=3) / 10_000, probability, atol=0.02, rtol=0)
    cold = make_sampler("gumbel", 0.5)(probability.log().expand(10_000, 3))
    squares = probability.square() / probability.square().sum()
    assert_close(cold.bincount(minlength=3) / 10_000, squares, atol=0.02, rtol=0)
    assert SAMPLERS["argmax"](probability.log().expand(4, 3)).tolist() == [2] * 4
