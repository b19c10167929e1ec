import torch

from mtkit.corpus.order.batch import Target
from mtkit.training.decoder_inputs.interface import TargetTokens


def test_previous_column_skips_padding():
    real = torch.tensor([[False, True, False, True, True]])
    tokens = TargetTokens.of(Target(torch.arange(5).unsqueeze(0), real, torch.zeros(1, 5, dtype=torch.int64)))
    assert tokens.column.tolist() == [3, 4]
    assert tokens.previous_column.tolist() == [1, 3]
    assert tokens.index_in_sentence.tolist() == [1, 2]
