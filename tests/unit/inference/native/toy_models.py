"""Small Transformers that the native library serves, others that it does not, and sources."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from mtkit.corpus.order.batch import Source
from mtkit.inference.native.library import native
from mtkit.inference.native.model import NativeTransformer
from mtkit.layers.attention.config import HeadGatesConfig
from mtkit.layers.attention.sparse.config import WindowAttentionConfig
from mtkit.layers.feed_forward.config import DenseConfig, GatedConfig
from mtkit.layers.norms.config import DeepNormConfig, NoNormConfig, PostNormConfig
from mtkit.layers.positions.absolute_config import NoPositionConfig
from mtkit.layers.positions.relative_config import ALiBiConfig, RoPEConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.model import Transformer
from mtkit.models.transformer.sharing import AllSharedConfig, CycleConfig, SequenceConfig
from tests.unit.inference.test_fused_decoder import FUSABLE, OTHERS, SMALL

V = 60
ROPE = {"encoder_positions": RoPEConfig(), "decoder_positions": RoPEConfig()}
HALVES = {"encoder_positions": RoPEConfig(rotate_half=True), "decoder_positions": RoPEConfig(rotate_half=True)}
NO_POSITIONS = {"encoder_positions": NoPositionConfig(), "decoder_positions": NoPositionConfig()}
SHARED = {"encoder_layers": 3, "encoder_sharing": SequenceConfig(distinct=2), "decoder_sharing": AllSharedConfig()}

SERVED = {
    **FUSABLE,
    "rope_in_both": replace(SMALL, **ROPE),
    "halves_in_both": replace(SMALL, **HALVES),
    "gelu": replace(SMALL, feed_forward=DenseConfig(activation="gelu")),
    "silu": replace(SMALL, feed_forward=DenseConfig(activation="silu")),
    "deep_encoder": replace(SMALL, encoder_layers=5, decoder_layers=1),
    "shared": replace(SMALL, **SHARED),
    "cycle": replace(SMALL, decoder_sharing=CycleConfig(distinct=2)),
    "no_biases": replace(SMALL, bias=False),
    "no_norms": replace(SMALL, residual=PostNormConfig(norm=NoNormConfig())),
    "unscaled": replace(SMALL, scaled_attention=False),
    "encoder_heads": replace(SMALL, encoder_layers=3, encoder_heads=[2, 4, 1]),
    # no width is a multiple of the lanes of a vector, or of the inputs in a group
    "odd_widths": replace(SMALL, d_model=30, num_heads=3, head_dim=5, d_ff=47, **NO_POSITIONS),
    "wide_heads": replace(SMALL, num_heads=3, head_dim=20, **ROPE),
    "many_panels": replace(SMALL, d_model=144, d_ff=330),
}
OTHER_ENCODERS = {
    "window": replace(SMALL, encoder_attention=WindowAttentionConfig(width=2)),
    "alibi": replace(SMALL, encoder_positions=ALiBiConfig()),
}
REFUSED = {
    **OTHERS,
    "parallel": replace(SMALL, parallel_sublayers=True),
    "gated": replace(SMALL, feed_forward=GatedConfig()),
    "deepnorm": replace(SMALL, residual=DeepNormConfig()),
    "head_gates": replace(SMALL, head_gates=HeadGatesConfig()),
    "window": replace(SMALL, decoder_attention=WindowAttentionConfig(width=2)),
}


def build(config: TransformerConfig = SMALL) -> Transformer:
    """A model whose biases and norms differ from zeros and ones, as after training."""
    torch.manual_seed(1)
    model = config.build(V, V).eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and "gate" not in name:
            nn.init.normal_(parameter, mean=float(name.endswith("weight")), std=0.2)
    return model


def native_model(config: TransformerConfig = SMALL, dtype: torch.dtype = torch.float32) -> NativeTransformer:
    """The same in the library; skips the test where the processor lacks the instructions."""
    if not native().supports(dtype):
        pytest.skip(f"the processor has no instructions for {dtype}")
    return NativeTransformer(build(config), dtype)


def source_of(real: torch.Tensor) -> Source:
    """A source with padding where real [B, S] is False; its positions count the tokens."""
    ids = torch.randint(4, V, real.shape, generator=torch.Generator().manual_seed(1))
    return Source(ids, real, (real.cumsum(1) - 1).clamp(min=0))


def right_padded(lengths: list[int]) -> Source:
    """A source of sentences of these lengths."""
    return source_of(torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1))
