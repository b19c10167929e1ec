"""Conversion of a Transformer into CTranslate2's model specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.errors import require_extra
from mtkit.layers.attention import CrossAttention, SelfAttention
from mtkit.layers.config import (
    GatedConfig,
    LayerNormConfig,
    LinearScaling,
    PreNormConfig,
    RMSNormConfig,
    RoPEConfig,
    SandwichNormConfig,
)
from mtkit.layers.kinds import PositionConfig
from mtkit.layers.norms import DeepNorm, SandwichNorm
from mtkit.layers.positions import Learned, Position
from mtkit.layers.variants.config import ALiBiConfig, MixtureOfExpertsConfig, ShawConfig, T5BiasConfig
from mtkit.layers.variants.positions import Shaw, T5Bias
from mtkit.models.embeddings import Embedding
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.model import Transformer
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


def build_spec(model: Transformer, config: TransformerConfig, tokenizers: TokenizerPair, *, num_positions: int) -> Any:
    """Build a `ctranslate2.specs.TransformerSpec` with the weights of the model.

    Args:
        model: a float32 model built from `config`.
        config: a configuration that CTranslate2 supports (see supported_models.CTRANSLATE2).
        num_positions: size of the position table, if positions are added to the embeddings.

    Raises:
        MissingExtraError: ctranslate2 is not installed.
    """
    with require_extra("export", "ctranslate2"):
        from ctranslate2 import specs
        from ctranslate2.specs import transformer_spec
    has_sandwich_norm = isinstance(config.residual, SandwichNormConfig)
    common = {
        "num_heads": config.num_heads,
        "pre_norm": isinstance(config.residual, PreNormConfig | SandwichNormConfig),
        "pre_post_layer_norm": has_sandwich_norm,
        "activation": specs.common_spec.Activation[_activation(config)],
        "ffn_glu": isinstance(config.feed_forward, GatedConfig),
        "rms_norm": isinstance(config.residual.norm, RMSNormConfig),
        "num_heads_kv": config.num_kv_heads if config.num_kv_heads != config.num_heads else None,
        "head_dim": config.head_dim,
    }
    encoder = transformer_spec.TransformerEncoderSpec(
        config.encoder_layers, **common, **_position_options(config.encoder_positions, config.heads.head_dim)
    )
    decoder = transformer_spec.TransformerDecoderSpec(
        config.decoder_layers,
        **common,
        **_position_options(config.decoder_positions, config.heads.head_dim),
        alibi=isinstance(config.decoder_positions, ALiBiConfig),
        external_pre_post_encoder_layers=has_sandwich_norm,
    )
    encoder.scale_embeddings = decoder.scale_embeddings = config.scaled_embeddings
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    _WeightCopier(num_positions).copy(spec, model)
    _register_vocabularies(spec, tokenizers)
    norm = config.residual.norm
    if not isinstance(norm, LayerNormConfig | RMSNormConfig):
        raise ValueError(f"{norm.kind} norm, which CTranslate2 does not support")
    spec.config.layer_norm_epsilon = norm.epsilon
    return spec


def _activation(config: TransformerConfig) -> str:
    if isinstance(config.feed_forward, MixtureOfExpertsConfig):
        raise ValueError("mixture of experts, which CTranslate2 does not support")
    return ACTIVATIONS[config.feed_forward.activation]


def _position_options(config: PositionConfig, head_dim: int) -> dict[str, Any]:
    """Keyword arguments of the specification for the position encoding of a stack."""
    if not isinstance(config, RoPEConfig):
        return {
            "relative_position": isinstance(config, ShawConfig),
            "relative_attention_bias": isinstance(config, T5BiasConfig),
        }
    from ctranslate2.specs.attention_spec import RotaryScalingType

    base, divisor = config.scaling.apply(config.base, head_dim)
    options: dict[str, Any] = {"rotary_dim": 0, "rotary_interleave": not config.rotate_half, "rotary_base": base}
    if isinstance(config.scaling, LinearScaling):
        options |= {"rotary_scaling_type": RotaryScalingType.Linear, "rotary_scaling_factor": divisor}
    return options


def _register_vocabularies(spec: Any, tokenizers: TokenizerPair) -> None:
    vocab = tokenizers.tgt.vocab
    spec.register_source_vocabulary(_all_tokens(tokenizers.src))
    spec.register_target_vocabulary(_all_tokens(tokenizers.tgt))
    unk, bos, eos = tokenizers.tgt.ids_to_tokens([vocab.unk, vocab.bos, vocab.eos])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, bos, eos
    spec.config.decoder_start_token = bos
    spec.config.add_source_eos = True


def _all_tokens(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.ids_to_tokens(range(tokenizer.vocab.size))


@dataclass(frozen=True)
class _WeightCopier:
    """Copies the weights of a Transformer into the specification, with a table of `num_positions` positions."""

    num_positions: int

    def copy(self, spec: Any, model: Transformer) -> None:
        """Copy all weights."""
        self.embedding(spec.encoder, spec.encoder.embeddings[0], model.src_embedding)
        self.embedding(spec.decoder, spec.decoder.embeddings, model.tgt_embedding)
        for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
            for layer_spec, number in zip(side.layer, stack.order, strict=True):  # shared layers are written repeatedly
                self.layer(layer_spec, stack[number])
        for side, end in ((spec.encoder, model.encoder_norm), (spec.decoder, model.decoder_norm)):
            if not isinstance(end, nn.Identity):
                self.norm(side.layer_norm, end)
        self.linear(spec.decoder.projection, model.output)

    def embedding(self, stack: Any, spec: Any, module: Embedding) -> None:
        """Copy the embedding table, and tabulate the positions that are added to it."""
        spec.weight = module.table.weight.detach()
        if "position_encodings" in vars(stack) and not self.has_rotary_positions(stack):
            stack.position_encodings.encodings = _tabulate(module.position, self.num_positions, spec.weight.size(1))

    @staticmethod
    def has_rotary_positions(stack: Any) -> bool:
        """Return whether positions are rotations in the layers, so that none are added to the embeddings."""
        return "rotary_dim" in vars(stack.layer[0].self_attention)

    def layer(self, spec: Any, layer: Any) -> None:
        """Copy an encoder or a decoder layer."""
        residual = layer.attention_residual
        outer = 1.0 / residual.alpha if isinstance(residual, DeepNorm) else 1.0
        self.self_attention(spec.self_attention, layer.attention, outer)
        if "cross_attention" in dict(layer.named_children()):
            self.cross_attention(spec.attention, layer.cross_attention, outer)
        self.feed_forward(spec.ffn, layer.feed_forward, outer)
        self.norms(spec, layer)

    def norms(self, spec: Any, layer: Any) -> None:
        """Copy the norms of all sublayers."""
        residuals = dict(layer.named_children())
        if isinstance(layer.attention_residual, SandwichNorm):
            self.norm(spec.input_layer_norm, layer.attention_residual.before)
            self.norm(spec.post_attention_layer_norm, layer.attention_residual.after)
            self.norm(spec.pre_feedforward_layer_norm, layer.feed_forward_residual.before)
            self.norm(spec.post_feedforward_layer_norm, layer.feed_forward_residual.after)
            if "cross_attention_residual" in residuals:
                self.norm(spec.external_pre_encoder_attention_layer_norm, layer.cross_attention_residual.before)
                self.norm(spec.external_post_encoder_attention_layer_norm, layer.cross_attention_residual.after)
            return
        self.norm(spec.self_attention.layer_norm, layer.attention_residual.norm)
        self.norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)
        if "cross_attention_residual" in residuals:
            self.norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)

    def self_attention(self, spec: Any, module: SelfAttention, outer: float) -> None:
        """Copy the projections and the parameters of the position encoding."""
        self.linear(spec.linear[0], module.query_key_value)
        self.linear(spec.linear[1], module.out, outer)
        position = module.position
        if isinstance(position, Shaw):
            spec.relative_position_keys = position.key.weight.detach()
            spec.relative_position_values = position.value.weight.detach()
        if isinstance(position, T5Bias):
            spec.relative_attention_bias = position.table.weight.detach()
            spec.relative_attention_max_distance = torch.tensor(position.max_distance, dtype=torch.int32).numpy()
            spec.queries_scale = position.scale(module.heads.head_dim)

    def cross_attention(self, spec: Any, module: CrossAttention, outer: float) -> None:
        """Copy the projections."""
        self.linear(spec.linear[0], module.query)
        self.linear(spec.linear[1], module.key_value)
        self.linear(spec.linear[2], module.out, outer)

    def feed_forward(self, spec: Any, module: Any, outer: float) -> None:
        """Copy a dense or gated feed-forward sublayer."""
        self.linear(spec.linear_1, module.outer, outer)
        if "linear_0_noact" not in vars(spec):
            self.linear(spec.linear_0, module.inner)
            return
        halves: Sequence[Tensor] = module.gate_value.weight.detach().chunk(2)
        spec.linear_0.weight, spec.linear_0_noact.weight = (half.contiguous() for half in halves)
        if module.gate_value.bias is not None:
            halves = module.gate_value.bias.detach().chunk(2)
            spec.linear_0.bias, spec.linear_0_noact.bias = (half.contiguous() for half in halves)

    @staticmethod
    def linear(spec: Any, module: nn.Linear, factor: float = 1.0) -> None:
        """Copy weight and bias, scaled by `factor`.

        DeepNorm's norm(a·x + f(x)) equals norm(x + f(x)/a), so that the factor 1/a implements it without a constant
        that CTranslate2 lacks.
        """
        spec.weight = (module.weight * factor).detach()
        if module.bias is not None:
            spec.bias = (module.bias * factor).detach()

    @staticmethod
    def norm(spec: Any, module: Any) -> None:
        """Copy the gain, and the bias of a layer norm."""
        spec.gamma = module.weight.detach()
        if isinstance(module, nn.LayerNorm):
            spec.beta = module.bias.detach()


@torch.inference_mode()
def _tabulate(position: Position, count: int, width: int) -> Tensor:
    """Vectors that the encoding adds to the embeddings at the first positions, [N, D]."""
    if isinstance(position, Learned):
        count = position.num_positions
    return position.embed(torch.zeros(1, count, width), torch.arange(count).unsqueeze(0)).squeeze(0).clone()
