"""Export of a model folder for CTranslate2, which runs it without mtkit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from mtkit.errors import DataError, UsageError, require_extra
from mtkit.export.equivalence import check_equivalence, lost_settings, sample_lines, stated
from mtkit.export.supported_models import CTRANSLATE2
from mtkit.export.usage import ctranslate2_usage, write_card
from mtkit.inference.support import ComputeType
from mtkit.io.files import atomic_folder, translate_write_errors
from mtkit.io.lock import OutputLock
from mtkit.layers.activations import ACTIVATIONS
from mtkit.layers.config import (
    DeepNormConfig,
    DenseConfig,
    GatedConfig,
    LayerNormConfig,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    RoPEConfig,
    SandwichNormConfig,
)
from mtkit.layers.kinds import PositionConfig
from mtkit.layers.norms import DeepNorm, SandwichNorm
from mtkit.layers.positions import Learned, Position
from mtkit.layers.variants.config import ALiBiConfig, ShawConfig, T5BiasConfig
from mtkit.layers.variants.positions import Shaw, T5Bias
from mtkit.model_folder.config_file import EXPORTED, require_replaceable
from mtkit.model_folder.folder import write_metadata
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.layers import DecoderLayer, Stack
from mtkit.models.transformer.model import Transformer
from mtkit.search.config import SearchConfig
from mtkit.search.support import options, unsupported
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engine import special_ids
from mtkit.translate.load import read_translation_model

MIN_POSITIONS = 1024  # size of the position table for an encoding without a maximum length
BATCH_TOKENS = 1_024  # measured (tools/benchmarks/NOTES.md): 32 to 64 captions are its fastest batches
TYPES: dict[ComputeType, str] = {"auto": "default", "float32": "float32", "bf16": "bfloat16", "int8": "int8"}
# arguments of the specification for the kinds of a model's parts
OPTIONS: dict[type[Any], dict[str, Any]] = {
    PreNormConfig: {"pre_norm": True},
    PostNormConfig: {"pre_norm": False},
    SandwichNormConfig: {"pre_norm": True, "pre_post_layer_norm": True},
    DeepNormConfig: {"pre_norm": False},
    LayerNormConfig: {"rms_norm": False},
    RMSNormConfig: {"rms_norm": True},
    DenseConfig: {"ffn_glu": False},
    GatedConfig: {"ffn_glu": True},
}
POSITION_OPTIONS: dict[type[Any], dict[str, Any]] = {
    ShawConfig: {"relative_position": True},
    T5BiasConfig: {"relative_attention_bias": True},
    ALiBiConfig: {"alibi": True},
}
# names in the specification of a sandwich's norms, before and after each sublayer
SANDWICH_NORMS = {
    "attention": ("input_layer_norm", "post_attention_layer_norm"),
    "cross_attention": ("external_pre_encoder_attention_layer_norm", "external_post_encoder_attention_layer_norm"),
    "feed_forward": ("pre_feedforward_layer_norm", "post_feedforward_layer_norm"),
}


def export_ctranslate2(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Convert a model to CTranslate2's format and compare the translations of both.

    Args:
        model: a model folder or a finished run.
        folder: the folder to write; an exported model in it is replaced.
        check_file: text for the comparison; see `sample_lines`.

    Returns:
        Sentences with the result of the comparison (see `check_equivalence`) and about settings of the search.

    Raises:
        UsageError: CTranslate2 does not support this model, or `folder` exists and is no exported model.
        MissingExtraError: ctranslate2 is not installed.
        DataError: the translations differ; nothing is written then.
        BusyError: another process is writing the folder.
        MissingInputError, ReadWriteError: a file cannot be read or written.
    """
    result, search = convert(model, folder, check_file=check_file), read_translation_model(model).metadata.search
    told = ", ".join(f"{name}={value}" for name, value in options("ctranslate2", search).items())
    limits = stated(search, ["max_length", "min_length"])
    callers = f"CTranslate2 has the search settings of each call; this model's are {told}; limits of length: {limits}"
    return "\n".join([result, callers, *lost_settings("ctranslate2", "CTranslate2", search)])


def convert(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """The conversion of `export_ctranslate2`, without sentences about the search."""
    require_replaceable(folder, EXPORTED)
    loaded = read_translation_model(model).load()
    metadata, tokenizers = loaded.metadata, loaded.tokenizers
    config = CTRANSLATE2.check(metadata.model)
    sample = sample_lines(model, loaded, check_file)
    max_target_length = metadata.search.max_length.of(metadata.max_source_length) + 2  # with bos and eos
    num_positions = max(MIN_POSITIONS, max_target_length, metadata.max_source_length + 1)
    spec = build_spec(cast(Transformer, loaded.model), config, tokenizers, num_positions=num_positions)
    spec.validate()
    spec.optimize()
    with OutputLock(folder, make_parents=True), atomic_folder(folder) as temporary:
        with translate_write_errors(temporary):
            spec.save(str(temporary))
        write_card(temporary, loaded, "ctranslate2", ctranslate2_usage(loaded, adds_eos=adds_eos(tokenizers)))
        write_metadata(temporary / EXPORTED, metadata, tokenizers)
        return check_equivalence(loaded, CTranslate2Runner(temporary, tokenizers), sample)


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
        from ctranslate2.specs import common_spec, transformer_spec
    residual, norm, feed_forward = config.residual, config.residual.norm, config.feed_forward
    common = {
        "num_heads": config.num_heads,
        "num_heads_kv": config.num_kv_heads if config.num_kv_heads != config.num_heads else None,
        "head_dim": config.head_dim,
        "activation": common_spec.Activation[ACTIVATIONS[feed_forward.activation].ctranslate2],  # type: ignore[union-attr]
        **OPTIONS[type(residual)],
        **OPTIONS[type(norm)],
        **OPTIONS[type(feed_forward)],
        "layernorm_embedding": config.embedding_norm,
    }
    src_positions, tgt_positions = config.encoder_positions, config.decoder_positions
    encoder = transformer_spec.TransformerEncoderSpec(
        config.encoder_layers, **common, **_position_options(src_positions, config.heads.head_dim)
    )
    decoder_side = config.decoder_side()
    decoder = transformer_spec.TransformerDecoderSpec(
        config.decoder_layers,
        **{**common, "num_heads": decoder_side.num_heads},
        **_position_options(tgt_positions, decoder_side.heads.head_dim),
        external_pre_post_encoder_layers=isinstance(residual, SandwichNormConfig),
    )
    encoder.scale_embeddings = decoder.scale_embeddings = config.scaled_embeddings
    _copy_stack(encoder, model.encoder, model.encoder_norm)
    _copy_stack(decoder, model.decoder, model.decoder_norm, config.output_scale)
    _copy_linear(decoder.projection, model.output)
    for side, embedding, positions, module in (
        (encoder, encoder.embeddings[0], src_positions, model.src_embedding),
        (decoder, decoder.embeddings, tgt_positions, model.tgt_embedding),
    ):
        embedding.weight = module.table.weight.detach()
        if config.embedding_norm:
            _copy_norm(side.layernorm_embedding, module.norm)
        if "position_encodings" in vars(side) and not positions.acts_in_attention:
            side.position_encodings.encodings = tabulate(module.position, num_positions, config.d_model)
    spec = transformer_spec.TransformerSpec(encoder, decoder)
    src, tgt = tokenizers.src, tokenizers.tgt
    spec.register_source_vocabulary(src.ids_to_tokens(range(src.vocab.size)))
    spec.register_target_vocabulary(tgt.ids_to_tokens(range(tgt.vocab.size)))
    unk, bos, eos = tgt.ids_to_tokens([tgt.vocab.unk, tgt.vocab.bos, tgt.vocab.eos])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, bos, eos
    spec.config.decoder_start_token = bos
    spec.config.add_source_eos = adds_eos(tokenizers)
    spec.config.layer_norm_epsilon = norm.epsilon  # type: ignore[union-attr]
    return spec


def adds_eos(tokenizers: TokenizerPair) -> bool:
    """Return whether CTranslate2 ends sources itself: not where another token ends them, such as their language."""
    sides = (tokenizers.src, tokenizers.tgt)
    ends = {side.ids_to_tokens([side.vocab.eos])[0] for side in sides}
    return len(ends) == 1


def _position_options(config: PositionConfig, head_dim: int) -> dict[str, Any]:
    """Arguments of the specification for the position encoding of a stack."""
    if not isinstance(config, RoPEConfig):
        return POSITION_OPTIONS.get(type(config), {})
    from ctranslate2.specs.attention_spec import RotaryScalingType

    base, divisor = config.scaling.apply(config.base, head_dim)
    options: dict[str, Any] = {"rotary_dim": 0, "rotary_interleave": not config.rotate_half, "rotary_base": base}
    if divisor != 1:
        options |= {"rotary_scaling_type": RotaryScalingType.Linear, "rotary_scaling_factor": divisor}
    return options


def _copy_stack(spec: Any, stack: Stack, norm: nn.Module, scale: float = 1.0) -> None:
    """Copy the weights of the layers of an encoder or a decoder; shared ones are written repeatedly."""
    for layer_spec, number in zip(spec.layer, stack.order, strict=True):
        layer: Any = stack[number]
        # DeepNorm's norm(a·x + f(x)) equals norm(x + f(x)/a): scaled weights compute it, since CTranslate2 has no a
        is_deepnorm = isinstance(layer.attention_residual, DeepNorm)
        factor = 1.0 / layer.attention_residual.alpha if is_deepnorm else 1.0
        sublayers = {"attention": layer_spec.self_attention, "feed_forward": layer_spec.ffn}
        _copy_linear(layer_spec.self_attention.linear[0], layer.attention.query_key_value)
        _copy_linear(layer_spec.self_attention.linear[1], layer.attention.out, factor)
        position = layer.attention.position
        layer_spec.self_attention.queries_scale = position.scale(layer.attention.heads.head_dim)
        if isinstance(position, Shaw):
            layer_spec.self_attention.relative_position_keys = position.key.weight.detach()
            layer_spec.self_attention.relative_position_values = position.value.weight.detach()
        if isinstance(position, T5Bias):
            max_distance = torch.tensor(position.max_distance, dtype=torch.int32).numpy()
            layer_spec.self_attention.relative_attention_bias = position.table.weight.detach()
            layer_spec.self_attention.relative_attention_max_distance = max_distance
        if isinstance(layer, DecoderLayer):
            sublayers["cross_attention"] = layer_spec.attention
            _copy_linear(layer_spec.attention.linear[0], layer.cross_attention.query)
            _copy_linear(layer_spec.attention.linear[1], layer.cross_attention.key_value)
            _copy_linear(layer_spec.attention.linear[2], layer.cross_attention.out, factor)
            cross = layer.cross_attention
            layer_spec.attention.queries_scale = cross.dot_product.position.scale(cross.heads.head_dim)
        _copy_feed_forward(layer_spec.ffn, layer.feed_forward, factor)
        for name, sublayer in sublayers.items():
            residual = getattr(layer, f"{name}_residual")
            if isinstance(residual, SandwichNorm):
                before, after = SANDWICH_NORMS[name]
                _copy_norm(getattr(layer_spec, before), residual.before)
                _copy_norm(getattr(layer_spec, after), residual.after)
            else:
                _copy_norm(sublayer.layer_norm, residual.norm)
    if not isinstance(norm, nn.Identity):
        _copy_norm(spec.layer_norm, norm, scale)


def _copy_feed_forward(spec: Any, module: Any, factor: float) -> None:
    """Copy a dense or gated feed-forward sublayer."""
    _copy_linear(spec.linear_1, module.outer, factor)
    if "linear_0_noact" not in vars(spec):
        _copy_linear(spec.linear_0, module.inner)
        return
    for name, parameter in module.gate_value.named_parameters():
        gate, value = parameter.detach().chunk(2)
        setattr(spec.linear_0, name, gate.contiguous())
        setattr(spec.linear_0_noact, name, value.contiguous())


def _copy_linear(spec: Any, module: nn.Linear, factor: float = 1.0) -> None:
    spec.weight = (module.weight * factor).detach()
    if module.bias is not None:
        spec.bias = (module.bias * factor).detach()


def _copy_norm(spec: Any, module: Any, scale: float = 1.0) -> None:
    """Copy the gain, and the bias of a layer norm, whose result is multiplied by `scale`."""
    spec.gamma = module.weight.detach() * scale
    if isinstance(module, nn.LayerNorm):
        spec.beta = module.bias.detach() * scale


@torch.inference_mode()
def tabulate(position: Position, count: int, width: int) -> Tensor:
    """Vectors that the encoding adds to the embeddings at the first positions, [N, D]."""
    if isinstance(position, Learned):
        count = position.num_positions
    return position.embed(torch.zeros(1, count, width), torch.arange(count).unsqueeze(0)).squeeze(0).clone()


class CTranslate2Runner:
    """An exported model.

    Attributes:
        compute_type: the number format of the computation, by CTranslate2's name.
    """

    def __init__(
        self,
        folder: Path,
        tokenizers: TokenizerPair,
        *,
        compute_type: ComputeType = "float32",
        inter_threads: int = 1,
        intra_threads: int = 0,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        """Load the model.

        Args:
            inter_threads: number of batches translated in parallel.
            intra_threads: threads of each batch; 0: CTranslate2 chooses.
            batch_tokens: source tokens of a batch, into which CTranslate2 sorts and splits a request.

        Raises:
            MissingExtraError: ctranslate2 is not installed.
            UsageError: CTranslate2 does not support the compute type on this machine.
        """
        with require_extra("export", "ctranslate2"):
            import ctranslate2
        name = TYPES[compute_type]
        supported = ctranslate2.get_supported_compute_types("cpu")
        if name != "default" and name not in supported:
            names = ", ".join(sorted(supported))
            raise UsageError(f"CTranslate2 does not support compute type {name} on this machine; choose from: {names}")
        self._translator = ctranslate2.Translator(
            str(folder),
            device="cpu",
            compute_type=name,
            inter_threads=inter_threads,
            intra_threads=intra_threads,
        )
        self.compute_type: str = self._translator.compute_type
        self._batch_tokens = batch_tokens
        self._src_tokens = tokenizers.src.ids_to_tokens(range(tokenizers.src.vocab.size))
        self._tgt_tokens = tokenizers.tgt.ids_to_tokens(range(tokenizers.tgt.vocab.size))
        self._tgt_ids = {token: i for i, token in enumerate(self._tgt_tokens)}
        self._ending = [] if adds_eos(tokenizers) else [self._src_tokens[tokenizers.src.vocab.eos]]
        self._unk, self._banned = tokenizers.tgt.vocab.unk, special_ids(tokenizers.tgt).banned

    def translate(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, begin: Sequence[int] = ()
    ) -> list[list[int]]:
        """The best translation of each source, empty for an empty source; see ExportRunner.

        CTranslate2 has one pair of length limits for a call: the widest of the sources'.

        Raises:
            UsageError: names the key for whose value CTranslate2 has no option.
            DataError: a sentence is longer than the exported position table.
        """
        lengths = [len(ids) for ids in sources if ids]
        options = search_options(search) | {
            "max_decoding_length": max(map(search.max_length.of, lengths), default=0) + len(begin) + 1,  # with the end
            "min_decoding_length": min(map(search.min_length.of, lengths), default=0) + len(begin),
            "suppress_sequences": [[self._tgt_tokens[i]] for i in self._banned if i != self._unk],
            "max_input_length": 0,
        }
        tokens = [[*(self._src_tokens[i] for i in ids), *self._ending] for ids in sources if ids]
        if begin:
            options["target_prefix"] = [[self._tgt_tokens[i] for i in begin]] * len(tokens)
        try:
            results = iter(
                self._translator.translate_batch(
                    tokens, max_batch_size=self._batch_tokens, batch_type="tokens", **options
                )
            )
        except RuntimeError as error:
            if "position encodings" not in str(error):
                raise
            raise DataError(f"a sentence is longer than the exported position table: {str(error).lower()}") from error
        return [
            [self._tgt_ids[each] for each in next(results).hypotheses[0][len(begin) :]] if ids else []
            for ids in sources
        ]


def search_options(search: SearchConfig) -> dict[str, Any]:
    """Options of `ctranslate2.Translator.translate_batch` for a search configuration.

    Raises:
        UsageError: names the keys for whose values CTranslate2 has no option.
    """
    if keys := unsupported("ctranslate2", search, with_wrappers=False):
        raise UsageError(f"{stated(search, keys)}: CTranslate2 has no option for this; measure without --peer")
    return options("ctranslate2", search)
