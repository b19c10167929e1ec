"""Importance of attention heads. Michel et al. 2019, https://arxiv.org/abs/1905.10650"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Batch
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.multi_head import SelfAttention
from mtkit.models.interface import TranslationModel
from mtkit.training.decoder_inputs.scheduled_sampling import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy


def attention_modules(model: nn.Module) -> dict[str, SelfAttention | CrossAttention]:
    """Attention modules of a Transformer by path, such as decoder.0.cross_attention."""
    return {name: each for name, each in model.named_modules() if isinstance(each, SelfAttention | CrossAttention)}


def head_importance(model: TranslationModel, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Expected sensitivity of the loss to a mask ξ on each head, I_h = E |∂L/∂ξ_h|. Michel et al. 2019, eq. 2.

    The derivative by the mask at ξ = 1 is the product of the head's output and its gradient, summed over positions. The
    expectation is over sentences. The importances of a layer are divided by their l2 norm (sec. 2.3).

    Args:
        model: a Transformer, in eval mode.

    Returns:
        [H] for each attention module, by path.
    """
    attention = attention_modules(model)
    importance = {name: torch.zeros(each.heads.num_heads) for name, each in attention.items()}
    outputs: dict[str, Tensor] = {}  # of the heads of a batch, [B, T, H·K]

    def record(name: str, x: Tensor) -> None:
        x.retain_grad()
        outputs[name] = x

    hooks = [
        each.out.register_forward_pre_hook(lambda _, args, name=name: record(name, args[0]))
        for name, each in attention.items()
    ]
    objective = CrossEntropy(TeacherForcing(), 0.0)
    try:
        for batch in batches:
            loss: Tensor = model(batch, objective).sum
            loss.backward()  # type: ignore[no-untyped-call]
            for name, x in outputs.items():
                products = torch.zeros_like(x) if x.grad is None else x.detach() * x.grad  # [B, T, H·K]
                by_head = products.view(*x.shape[:2], importance[name].numel(), -1)  # [B, T, H, K]
                importance[name] += by_head.sum((1, 3)).abs().sum(0)
            model.zero_grad(set_to_none=True)
    finally:
        for hook in hooks:
            hook.remove()
    return {
        name: values / values.norm().clamp(min=torch.finfo(values.dtype).tiny) for name, values in importance.items()
    }
