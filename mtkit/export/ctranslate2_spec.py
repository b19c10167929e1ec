"""A Transformer of ours as CTranslate2's own specification of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.errors import MissingExtraError
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.multi_head import SelfAttention
from mtkit.layers.feed_forward.mixture_of_experts import ExpertsConfig
from mtkit.layers.norms.deepnorm import DeepNorm
from mtkit.layers.norms.sandwich import Sandwich
from mtkit.layers.positions import PositionConfig
from mtkit.layers.positions.base import Position
from mtkit.layers.positions.learned import Learned
from mtkit.layers.positions.rope import LinearScaling, RoPEConfig
from mtkit.layers.positions.shaw import Shaw
from mtkit.layers.positions.t5 import T5Bias
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.model import Embedding, Transformer
from mtkit.text.tokenizer import Tokenizer, TokenizerPair

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


def specification(model: Transformer, config: TransformerConfig, tokenizers: TokenizerPair, *, positions: int) -> Any:
    """A ctranslate2.specs.TransformerSpec with the model's weights.

    Args:
        model: as `config` builds it, in float32.
        config: one that ctranslate2_rules.check lets pass.
        tokenizers: their pieces become its vocabularies.
        positions: how many are tabulated, where positions are added to the embeddings.

    Raises:
        MissingExtraError: ctranslate2 is not installed.
    """
    try:
        from ctranslate2 import specs
        from ctranslate2.specs import transformer_spec
    except ModuleNotFoundError as error:
        raise MissingExtraError("export", "ctranslate2") from error
    common = {
        "num_heads": config.num_heads,
        "pre_norm": config.norm.kind in ("pre", "sandwich"),
        "pre_post_layer_norm": config.norm.kind == "sandwich",
        "activation": specs.common_spec.Activation[_activation(config)],
        "ffn_glu": config.feed_forward.kind == "gated",
        "rms_norm": config.norm.norm_layer.kind == "rms",
        "num_heads_kv": config.num_kv_heads if config.num_kv_heads != config.num_heads else None,
        "head_dim": config.head_dim,
    }
    encoder = transformer_spec.TransformerEncoderSpec(
        config.encoder_layers, **common, **_scheme(config.encoder_positions, config.heads.head_dim)
    )
    decoder = transformer_spec.TransformerDecoderSpec(
        config.decoder_layers,
        **common,
        **_scheme(config.decoder_positions, config.heads.head_dim),
        alibi=config.decoder_positions.kind == "alibi",
        external_pre_post_encoder_layers=config.norm.kind == "sandwich",
    )
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    _Filler(positions).fill(spec, model)
    _vocabularies(spec, tokenizers)
    spec.config.layer_norm_epsilon = config.norm.norm_layer.epsilon
    return spec


def _activation(config: TransformerConfig) -> str:
    if isinstance(config.feed_forward, ExpertsConfig):
        raise ValueError("experts, which ctranslate2_rules.check refuses")
    return ACTIVATIONS[config.feed_forward.activation]


def _scheme(config: PositionConfig, head_dim: int) -> dict[str, Any]:
    """The options of a stack's position scheme."""
    if not isinstance(config, RoPEConfig):
        return {"relative_position": config.kind == "shaw", "relative_attention_bias": config.kind == "t5"}
    from ctranslate2.specs.attention_spec import RotaryScalingType

    base, divisor = config.scaling.apply(config.base, head_dim)
    options: dict[str, Any] = {"rotary_dim": 0, "rotary_interleave": not config.half_split, "rotary_base": base}
    if isinstance(config.scaling, LinearScaling):
        options |= {"rotary_scaling_type": RotaryScalingType.Linear, "rotary_scaling_factor": divisor}
    return options


def _vocabularies(spec: Any, tokenizers: TokenizerPair) -> None:
    vocab = tokenizers.tgt.vocab
    spec.register_source_vocabulary(_names(tokenizers.src))
    spec.register_target_vocabulary(_names(tokenizers.tgt))
    unk, bos, eos = tokenizers.tgt.pieces([vocab.unk, vocab.bos, vocab.eos])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, bos, eos
    spec.config.decoder_start_token = bos
    spec.config.add_source_eos = True


def _names(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.pieces(range(tokenizer.vocab.size))


@dataclass(frozen=True)
class _Filler:
    """Puts weights where the specification wants them; `positions` are tabulated."""

    positions: int

    def fill(self, spec: Any, model: Transformer) -> None:
        """The whole model."""
        self.embedding(spec.encoder, spec.encoder.embeddings[0], model.src_embedding)
        self.embedding(spec.decoder, spec.decoder.embeddings, model.tgt_embedding)
        for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
            for layer_spec, number in zip(side.layer, stack.order, strict=True):
                self.layer(layer_spec, stack[number])
        for side, end in ((spec.encoder, model.encoder_end), (spec.decoder, model.decoder_end)):
            if not isinstance(end, nn.Identity):
                self.norm(side.layer_norm, end)
        self.linear(spec.decoder.projection, model.output)

    def embedding(self, stack: Any, spec: Any, module: Embedding) -> None:
        """The table, and the positions that are added to it."""
        spec.weight = module.table.weight.detach()
        if "position_encodings" in vars(stack) and not self.in_layers(stack):
            stack.position_encodings.encodings = _table(module.position, self.positions, spec.weight.size(1))

    @staticmethod
    def in_layers(stack: Any) -> bool:
        """Whether positions act in the layers, so that none are added to the embeddings."""
        return "rotary_dim" in vars(stack.layer[0].self_attention)

    def layer(self, spec: Any, layer: Any) -> None:
        """An encoder or a decoder layer."""
        joint = layer.attention_joint
        outer = 1.0 / joint.alpha if isinstance(joint, DeepNorm) else 1.0
        self.self_attention(spec.self_attention, layer.attention, outer)
        if "cross_attention" in dict(layer.named_children()):
            self.cross_attention(spec.attention, layer.cross_attention, outer)
        self.feed_forward(spec.ffn, layer.feed_forward, outer)
        self.norms(spec, layer)

    def norms(self, spec: Any, layer: Any) -> None:
        """The norms of all sublayers."""
        joints = dict(layer.named_children())
        if isinstance(layer.attention_joint, Sandwich):
            self.norm(spec.input_layer_norm, layer.attention_joint.before)
            self.norm(spec.post_attention_layer_norm, layer.attention_joint.after)
            self.norm(spec.pre_feedforward_layer_norm, layer.feed_forward_joint.before)
            self.norm(spec.post_feedforward_layer_norm, layer.feed_forward_joint.after)
            if "cross_joint" in joints:
                self.norm(spec.external_pre_encoder_attention_layer_norm, layer.cross_joint.before)
                self.norm(spec.external_post_encoder_attention_layer_norm, layer.cross_joint.after)
            return
        self.norm(spec.self_attention.layer_norm, layer.attention_joint.norm)
        self.norm(spec.ffn.layer_norm, layer.feed_forward_joint.norm)
        if "cross_joint" in joints:
            self.norm(spec.attention.layer_norm, layer.cross_joint.norm)

    def self_attention(self, spec: Any, module: SelfAttention, outer: float) -> None:
        """Projections, and what the position scheme has."""
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
        """Projections."""
        self.linear(spec.linear[0], module.query)
        self.linear(spec.linear[1], module.key_value)
        self.linear(spec.linear[2], module.out, outer)

    def feed_forward(self, spec: Any, module: Any, outer: float) -> None:
        """Dense or gated."""
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
        """Weight and bias. norm(a·x + f(x)) is norm(x + f(x)/a), so that DeepNorm's constant goes in here."""
        spec.weight = (module.weight * factor).detach()
        if module.bias is not None:
            spec.bias = (module.bias * factor).detach()

    @staticmethod
    def norm(spec: Any, module: Any) -> None:
        """Gain, and the bias of a layer norm."""
        spec.gamma = module.weight.detach()
        if isinstance(module, nn.LayerNorm):
            spec.beta = module.bias.detach()


@torch.inference_mode()
def _table(position: Position, count: int, width: int) -> Tensor:
    """What a scheme adds to the embeddings at each of the first positions, [N, D]."""
    if isinstance(position, Learned):
        count = position.reach
    return position.embed(torch.zeros(1, count, width), torch.arange(count).unsqueeze(0)).squeeze(0).clone()
