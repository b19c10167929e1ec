"""A Transformer in the native library: names and shapes of its weights, and its structures, packed from them.

The library reads weights by pointers, so that a file is compared with the names, types and shapes before it is packed.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError
from mtkit.hardware import num_threads
from mtkit.inference.packing import (
    Float32,
    PackedWeights,
    Packer,
    PrunedOutput,
    Weights,
    address,
    as_float32,
    check,
)
from mtkit.inference.support import CpuType
from mtkit.layers.config import GatedConfig, NoNormConfig, RoPEConfig, SinusoidalConfig
from mtkit.layers.variants.config import T5BiasConfig
from mtkit.models.capabilities import ONE_TABLE, TIED_OUTPUT
from mtkit.models.transformer.config import sharing_order
from mtkit.native.library import CONSTANTS, Layer, StackStructure, native, run_in_chunks

BIAS_PADDING = CONSTANTS["BIAS_PADDING"]
_BIAS = "attention.position.table.weight"  # of the first layer, which shares it with the others


class PackedStack:
    """The layers of an encoder or a decoder.

    Attributes:
        structure: the argument of the library's functions.
        source_heads: heads of cross-attention of the layer whose attention is returned; 0 in an encoder.
    """

    def __init__(self, config: Any, side: str, packer: Packer) -> None:
        """Pack the layers of `side`, encoder or decoder, of a supported TransformerConfig."""
        is_decoder = side == "decoder"
        config = config.decoder_side() if is_decoder else config
        head_dim = config.heads.head_dim
        count = config.decoder_layers if is_decoder else config.encoder_layers
        order = sharing_order(f"{side}_sharing", getattr(config, f"{side}_sharing"), count)
        self._config = config
        layers = [self._layer(f"{side}.{index}", is_decoder, packer) for index in range(max(order) + 1)]
        layer, head = config.alignment if is_decoder else (0, None)
        self.source_heads: int = layers[order[layer]].source_heads
        positions = getattr(config, f"{side}_positions")
        source_scale = 1 / math.sqrt(head_dim) if config.scaled_attention else 1.0
        is_unscaled = isinstance(positions, T5BiasConfig) and not positions.scaled
        is_pre_norm = not config.residual.ends_with_norm
        output_scale = config.output_scale if is_decoder else 1.0
        embedding = "tgt_embedding" if is_decoder else "src_embedding"
        self.structure = StackStructure(
            layers=(Layer * count)(*(layers[index] for index in order)),
            embedding_norm=self._norm(f"{embedding}.norm", packer, config.embedding_norm),
            final_norm=self._norm(f"{side}_norm", packer, is_pre_norm, output_scale),
            scale=1.0 if is_unscaled else source_scale,
            source_scale=source_scale,
            num_layers=count,
            d_model=config.d_model,
            head_dim=head_dim,
            rotate_halves=isinstance(positions, RoPEConfig) and positions.rotate_half,
            alignment_layer=layer,
            alignment_head=-1 if head is None else head,
        )

    def with_bias(self, bias: Float32 | None) -> ctypes.Structure:
        """The structure with a bias of PositionTables, which the caller keeps alive as long as it."""
        if bias is None:
            return self.structure
        structure = StackStructure.from_buffer_copy(self.structure)
        structure.bias, structure.bias_length = address(bias), (bias.shape[1] + 1 - BIAS_PADDING) // 2
        return structure

    def _layer(self, name: str, is_decoder: bool, packer: Packer) -> ctypes.Structure:
        config = self._config
        layer = Layer(
            query_key_value=packer.projection(f"{name}.attention.query_key_value"),
            out=packer.projection(f"{name}.attention.out"),
            inner=packer.projection(f"{name}.feed_forward.{_inner_name(config)}"),
            outer=packer.projection(f"{name}.feed_forward.outer"),
            norm=self._norm(f"{name}.attention_residual.norm", packer),
            feed_forward_norm=self._norm(f"{name}.feed_forward_residual.norm", packer),
            activation=CONSTANTS[config.feed_forward.activation.upper()],
            is_pre_norm=not config.residual.ends_with_norm,
        )
        layer.heads = layer.out.inputs // config.heads.head_dim  # layers differ where heads were pruned
        if is_decoder:
            layer.source_query = packer.projection(f"{name}.cross_attention.query")
            layer.source_key_value = packer.projection(f"{name}.cross_attention.key_value")
            layer.source_out = packer.projection(f"{name}.cross_attention.out")
            layer.source_norm = self._norm(f"{name}.cross_attention_residual.norm", packer)
            layer.source_heads = layer.source_out.inputs // config.heads.head_dim
        return layer

    def _norm(self, name: str, packer: Packer, is_there: bool = True, scale: float = 1.0) -> Any:
        norm = self._config.residual.norm if is_there else NoNormConfig()
        return packer.norm(name, norm, scale)


class PositionTables:
    """The position encoding of a stack: vectors that are added to embeddings, rotations of queries and keys, biases."""

    def __init__(self, config: Any, side: str, weights: Weights) -> None:
        """Take the encoding of `side`, encoder or decoder, of a supported TransformerConfig."""
        self.positions, self._d_model = getattr(config, f"{side}_positions"), config.d_model
        self._head_dim = (config.decoder_side() if side == "decoder" else config).heads.head_dim
        table = weights.get(f"{'src' if side == 'encoder' else 'tgt'}_embedding.position.table.weight")
        self._learned = None if table is None else as_float32(table)
        self._is_causal = side == "decoder"
        self._buckets: Any = weights.get(f"{side}.0.{_BIAS}")
        self._count = 1
        self._tables = self._compute(self._count)

    def of(self, count: int) -> tuple[Float32 | None, Float32 | None, Float32 | None]:
        """Vectors [P, D], rotations [P, K] and biases (see Stack) of at least `count` positions; None: there are none.

        Raises:
            DataError: there are fewer learned positions.
        """
        limit = self.positions.length_limit
        if limit is not None and count > limit:
            raise DataError(
                f"a sentence of {count} tokens is longer than the {limit} learned positions; raise max_length or "
                "interpolation_factor of the learned positions, or use sinusoidal ones"
            )
        if count > self._count:
            self._count = count if limit is None else min(limit, count)
            self._tables = self._compute(self._count)
        return self._tables

    def _compute(self, count: int) -> tuple[Float32 | None, Float32 | None, Float32 | None]:
        pos = np.arange(count, dtype=np.float32)
        config, width = self.positions, self._d_model
        if isinstance(config, SinusoidalConfig):
            exponent = np.arange(0, width, 2, dtype=np.float32) / np.float32(config.divisor(width))
            frequency = np.exp(np.float32(-math.log(config.base)) * exponent)
            angle = (pos + config.offset)[:, None] * frequency  # [P, D/2]
            waves = (np.sin(angle), np.cos(angle))
            is_concatenated = config.layout == "concatenated"
            table = np.concatenate(waves, axis=-1) if is_concatenated else np.stack(waves, axis=-1).reshape(count, -1)
            return np.ascontiguousarray(table[:, :width]), None, None
        if isinstance(config, T5BiasConfig):
            return None, None, self._bias(count)
        if isinstance(config, RoPEConfig):
            base, divisor = config.scaling.apply(config.base, self._head_dim)
            exponent = np.arange(0, self._head_dim, 2, dtype=np.float32) / np.float32(self._head_dim)
            frequency = (np.float32(base) ** -exponent / np.float32(divisor)).astype(np.float32)  # [K/2]
            angle = pos[:, None] * frequency  # [P, K/2]
            return None, np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(count, -1), None
        if self._learned is None:
            return None, None, None
        row, table = pos / np.float32(config.interpolation_factor), self._learned  # [P], [rows, D]; see Learned
        below = row.astype(np.int64)
        above = np.minimum(below + 1, len(table) - 1)
        fraction = (row - below.astype(np.float32))[:, None]
        return table[below] + fraction * (table[above] - table[below]), None, None

    def _bias(self, count: int) -> Float32:
        """T5's biases [H, 2 P - 1 + BIAS_PADDING] by key minus query, from -P + 1 on; see relative_position_bucket."""
        config, distance = self.positions, np.arange(count - 1, -count, -1)  # query minus key
        size = config.num_buckets if self._is_causal else config.num_buckets // 2
        first = np.where(distance < 0, 0 if self._is_causal else size, 0)
        distance = np.maximum(distance, 0) if self._is_causal else np.abs(distance)
        exact = size // 2
        ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
        ratio /= np.float32(math.log(config.max_distance / exact))
        far = np.minimum(exact + (ratio * np.float32(size - exact)).astype(np.int64), size - 1)
        table = as_float32(self._buckets)[first + np.where(distance < exact, distance, far)]  # [2 P - 1, H]
        return np.ascontiguousarray(np.pad(table, ((0, BIAS_PADDING), (0, 0))).T)


class PackedTransformer:
    """The weights of a Transformer, packed for the library.

    Attributes:
        functions: the library.
        decoder: layers of the decoder.
        tgt_table: embeddings [V, D] of target tokens.
        embedding_scale: factor of embeddings.
        tgt_positions: positions of the decoder.
        output: projection to the target vocabulary.
        pruned: the same for greedy search.
        compute_type: type of the weights of projections.
    """

    def __init__(
        self,
        config: Any,
        weights: Weights,
        compute_type: CpuType,
        *,
        threads: int | None = None,
        packed: PackedWeights | None = None,
    ) -> None:
        """Pack a model.

        Args:
            config: a TransformerConfig for which `unsupported_model_key` is None.
            weights: by name, as a model folder stores them; bfloat16 as uint16. Float32 tables are not copied.
            compute_type: see the attribute.
            threads: on which the library computes; None: see `hardware.num_threads`.
            packed: weights of other models, which are shared where the arrays are the same; None: there are none.

        Raises:
            ValueError: there is no native library.
        """
        self.compute_type = compute_type
        self.functions: Any = native().functions
        if self.functions is None:
            raise ValueError("there is no native library")
        self._threads = threads
        packer = Packer(weights, compute_type, packed)
        self._src_table = packer.table("src_embedding.table.weight")
        self.tgt_table = self._src_table
        if config.tied_embeddings not in ONE_TABLE:
            self.tgt_table = packer.table("tgt_embedding.table.weight")
        output = self.tgt_table if config.tied_embeddings in TIED_OUTPUT else packer.table("output.weight")
        self.embedding_scale: float = config.embedding_scale
        self._src_positions = PositionTables(config, "encoder", weights)
        self.tgt_positions = PositionTables(config, "decoder", weights)
        self._encoder = PackedStack(config, "encoder", packer)
        self.decoder = PackedStack(config, "decoder", packer)
        bias = weights.get("output.bias")
        self.output = packer.pack(output, bias)
        self.pruned = packer.shared(PrunedOutput, output, bias)
        self._kept = packer.kept

    @property
    def threads(self) -> int:
        """Number of threads on which the library computes."""
        return self._threads or num_threads()

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Float32, NDArray[np.int32]]:
        """Encoder states [R, D] of sources, one after another, and their lengths [B].

        Raises:
            DataError: a source is longer than the learned positions.
            MemoryError: memory is exhausted.
        """
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        ids = np.concatenate([np.asarray(source, dtype=np.int64) for source in sources])
        pos = np.concatenate([np.arange(length) for length in lengths])
        vectors, rotations, bias = self._src_positions.of(int(lengths.max(initial=0)))
        stack = self._encoder.with_bias(bias)
        with np.errstate(all="ignore"):  # the search finds NaN and infinity, and names the line
            x = self._src_table[ids] * np.float32(self.embedding_scale)  # [R, D]
            if vectors is not None:
                x += vectors[pos]
        rotation = None if rotations is None else rotations[pos]  # [R, K]
        first_rows = np.concatenate([[0], np.cumsum(lengths)])

        def encode(first: int, count: int) -> None:
            row = first_rows[first]
            rows = None if rotation is None else address(rotation[row:])
            inputs = (address(x[row:]), address(lengths[first:]), count, rows)
            check(self.functions.mtkit_encode(ctypes.byref(stack), *inputs))

        run_in_chunks(encode, len(lengths), self.threads)
        return x, lengths


Shape = tuple[int, ...]


def transformer_weights(config: Any, src_vocab: int, tgt_vocab: int) -> dict[str, tuple[str, Shape]]:
    """Type and shape of each weight of a TransformerConfig's model, as its model folder names them.

    Raises:
        ValueError: one table is for both sides, and their vocabularies differ.
    """
    if config.tied_embeddings in ONE_TABLE and src_vocab != tgt_vocab:
        raise ValueError(
            f"tied_embeddings {config.tied_embeddings}: {src_vocab} source tokens and {tgt_vocab} target tokens"
        )
    width = config.d_model
    shapes: dict[str, Shape] = {"src_embedding.table.weight": (src_vocab, width)}
    if config.tied_embeddings not in ONE_TABLE:
        shapes["tgt_embedding.table.weight"] = tgt_vocab, width
    if config.tied_embeddings not in TIED_OUTPUT:
        shapes["output.weight"] = tgt_vocab, width
    if config.output_bias:
        shapes["output.bias"] = (tgt_vocab,)
    for side, positions in (("src", config.encoder_positions), ("tgt", config.decoder_positions)):
        if isinstance(positions, T5BiasConfig):
            stack = "encoder" if side == "src" else "decoder"
            heads = config.num_heads if side == "src" else config.decoder_side().num_heads
            shapes[f"{stack}.0.{_BIAS}"] = positions.num_buckets, heads
        elif positions.length_limit is not None:  # learned ones
            shapes[f"{side}_embedding.position.table.weight"] = positions.max_length, width
        if config.embedding_norm:
            shapes.update(_norm(config, f"{side}_embedding.norm"))
    shapes.update(_stack(config, "encoder"))
    shapes.update(_stack(config, "decoder"))
    return {name: ("F32", shape) for name, shape in shapes.items()}


def _stack(config: Any, side: str) -> Iterator[tuple[str, Shape]]:
    is_decoder = side == "decoder"
    config = config.decoder_side() if is_decoder else config
    count = config.decoder_layers if is_decoder else config.encoder_layers
    order = sharing_order(f"{side}_sharing", getattr(config, f"{side}_sharing"), count)
    heads, width, head_dim = config.head_counts(), config.d_model, config.heads.head_dim
    for index in range(max(order) + 1):
        layer = f"{side}.{index}"
        inner = (heads[f"{side}_heads"].of_layer(index) or config.num_heads) * head_dim
        yield from _projection(config.bias, f"{layer}.attention.query_key_value", 3 * inner, width)
        yield from _projection(config.bias, f"{layer}.attention.out", width, inner)
        if is_decoder:
            inner = (heads["cross_heads"].of_layer(index) or config.num_heads) * head_dim
            yield from _projection(config.bias, f"{layer}.cross_attention.query", inner, width)
            yield from _projection(config.bias, f"{layer}.cross_attention.key_value", 2 * inner, width)
            yield from _projection(config.bias, f"{layer}.cross_attention.out", width, inner)
            yield from _norm(config, f"{layer}.cross_attention_residual.norm")
        has_bias, is_gated = config.bias, isinstance(config.feed_forward, GatedConfig)
        if is_gated:
            has_bias = has_bias and config.feed_forward.bias
        inner_name = f"{layer}.feed_forward.{_inner_name(config)}"
        yield from _projection(has_bias, inner_name, config.d_ff * (2 if is_gated else 1), width)
        yield from _projection(has_bias, f"{layer}.feed_forward.outer", width, config.d_ff)
        yield from _norm(config, f"{layer}.attention_residual.norm")
        yield from _norm(config, f"{layer}.feed_forward_residual.norm")
    if not config.residual.ends_with_norm:
        yield from _norm(config, f"{side}_norm")


def _inner_name(config: Any) -> str:
    return "gate_value" if isinstance(config.feed_forward, GatedConfig) else "inner"


def _projection(has_bias: bool, name: str, outputs: int, inputs: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    if has_bias:
        yield f"{name}.bias", (outputs,)


def _norm(config: Any, name: str) -> Iterator[tuple[str, Shape]]:
    kind = config.residual.norm.kind
    if kind != "none":
        yield f"{name}.weight", (config.d_model,)
    if kind == "layer":
        yield f"{name}.bias", (config.d_model,)
