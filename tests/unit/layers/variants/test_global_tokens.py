"""Global tokens by rule."""

import torch

from mtkit.layers.variants.sliding_window import GatheredTokens, GlobalTokens


def test_global_tokens_by_rule():
    pos = torch.tensor([[0, 0, 1, 2, 3, 4], [5, 6, 7, 8, 0, 0]])
    real = torch.tensor([[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], dtype=torch.bool)
    assert GlobalTokens(bos=True).mask(pos, real).nonzero().tolist() == [[0, 1], [1, 0]]
    assert GlobalTokens(eos=True).mask(pos, real).nonzero().tolist() == [[0, 5], [1, 3]]
    assert GlobalTokens(stride=4).mask(pos, real).nonzero().tolist() == [[0, 4], [1, 2]]
    assert not GlobalTokens(stride=10).mask(pos, real).any()
    assert not GlobalTokens().enabled
    tokens = GatheredTokens.of(GlobalTokens(bos=True, stride=2).mask(pos, real))
    assert tokens.gather(pos, 1).masked_fill(~tokens.real, -1).tolist() == [[0, 1, 3], [5, 7, -1]]
