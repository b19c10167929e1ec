"""Head pruning: importance against masks that autograd differentiates, and pruned models against masked ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mtkit.analysis.head_statistics import attention_modules, head_importance
from mtkit.compression.pruning import choose_heads, prune_heads
from mtkit.corpus.order.batch import Batch, collate
from mtkit.errors import UsageError
from mtkit.layers.config import RoPEConfig
from mtkit.layers.variants.config import T5BiasConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.model import Transformer
from mtkit.text.vocab import Vocab
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy
from mtkit.training.weights import load_weights, weights

VOCAB = Vocab(size=30, pad=0, unk=1, bos=2, eos=3)
CONFIG = TransformerConfig(
    d_model=12, d_ff=16, num_heads=3, encoder_layers=2, decoder_layers=2, encoder_positions=RoPEConfig()
)


def build(config: TransformerConfig = CONFIG) -> Transformer:
    torch.manual_seed(3)
    model = config.build(VOCAB.size, VOCAB.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))  # biases too
    return model


def batch(*lengths: int) -> Batch:
    generator = torch.Generator().manual_seed(1)
    sides = [[torch.randint(4, 30, (n,), generator=generator).tolist() for n in lengths] for _ in range(2)]
    return collate(*sides, list(range(len(lengths))), VOCAB, VOCAB)


def mask_heads(model: Transformer, masks: dict[str, Tensor]) -> None:
    """Multiply the output of each head by its mask, in front of the output projection."""
    for name, module in attention_modules(model).items():
        mask = masks[name].repeat_interleave(module.heads.head_dim)
        module.out.register_forward_pre_hook(lambda _, args, mask=mask: (args[0] * mask,))


def test_importance_is_the_expected_derivative_by_a_mask() -> None:
    model, objective = build(), CrossEntropy(TeacherForcing(), 0.0)
    importance = head_importance(model, [batch(4, 7, 2), batch(5)])
    masked = build()
    masks = {name: torch.ones(3, requires_grad=True) for name in attention_modules(model)}
    mask_heads(masked, masks)
    expected = {name: torch.zeros(3) for name in masks}
    for whole in (batch(4, 7, 2), batch(5)):
        for row in range(whole.num_sentences):  # sentence by sentence
            src, tgt = whole.source.ids[row][whole.source.real[row]].tolist()[:-1], whole.labels[row]
            alone = collate([src], [tgt[whole.loss_mask[row]].tolist()[:-1]], [0], VOCAB, VOCAB)
            gradients = torch.autograd.grad(masked(alone, objective).sum, list(masks.values()))
            for name, gradient in zip(masks, gradients, strict=True):
                expected[name] += gradient.abs()
    for name, values in expected.items():
        torch.testing.assert_close(importance[name], values / values.norm(), rtol=1e-4, atol=1e-5)


def test_a_pruned_model_computes_as_one_whose_other_heads_are_masked() -> None:
    model = build()
    keep = {name: [n % 3, 2] if n % 3 != 2 else [1] for n, name in enumerate(attention_modules(model))}
    config, tensors = prune_heads(CONFIG, weights(model), keep)
    pruned = config.build(VOCAB.size, VOCAB.size).eval()
    load_weights(pruned, tensors)
    mask_heads(model, {name: torch.tensor([float(h in heads) for h in range(3)]) for name, heads in keep.items()})
    data = batch(4, 7, 2)
    with torch.no_grad():
        torch.testing.assert_close(
            pruned.decode_states(data.source, data.target)[data.loss_mask],
            model.decode_states(data.source, data.target)[data.loss_mask],
        )
        state, reference = pruned.start(data.source), model.start(data.source)
        for token in (torch.tensor([2, 2, 2]), torch.tensor([7, 8, 9])):  # the cache has less heads too
            step, expected = pruned.step(token, state), model.step(token, reference)
            torch.testing.assert_close(step.hidden, expected.hidden)
            state, reference = step.state, expected.state
    assert sum(p.numel() for p in pruned.parameters()) < sum(p.numel() for p in model.parameters())


def test_the_least_important_heads_go_and_one_stays() -> None:
    importance = {"a": torch.tensor([0.1, 0.2]), "b": torch.tensor([0.9, 0.8, 0.7])}
    assert choose_heads(importance, 0.4) == {"a": [1], "b": [0, 1]}
    assert choose_heads(importance, 0.6) == {"a": [1], "b": [0]}
    assert choose_heads(importance, 0.0) == {"a": [0, 1], "b": [0, 1, 2]}
    with pytest.raises(UsageError, match=r"removes 4 of 5 heads, but each of 2 .* maximum is 0.60"):
        choose_heads(importance, 0.8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_heads": [1]}, "encoder_heads: 1 counts for 2 layers"),
        ({"decoder_heads": [1, 4]}, r"decoder_heads: \[1, 4\] has a count outside 1 to num_heads 3"),
        ({"cross_heads": [0, 1]}, "outside 1"),
        ({"cross_heads": [1, 1], "num_kv_heads": 1}, "cross_heads: cannot be combined with num_kv_heads"),
        ({"encoder_heads": [1, 2], "encoder_positions": T5BiasConfig()}, "positions with a bias for each head"),
    ],
)
def test_counts_of_heads_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)
