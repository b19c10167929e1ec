"""A Transformer whose encoder, decoder step and output run in the native library."""

from __future__ import annotations

import ctypes
import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.inference.known_layers import agree
from mtkit.inference.native.layers import NativeStack, serves
from mtkit.inference.native.library import native
from mtkit.inference.native.output import NativeOutput
from mtkit.inference.native.packing import address, check
from mtkit.inference.native.state import NativeCache, NativeMemory, keys_values, sentence_numbers
from mtkit.inference.native.structures import StepArguments
from mtkit.inference.native.threads import run_in_parts
from mtkit.layers.positions.base import Position
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.transformer.model import Embedding, Transformer


class NativeTransformer(Transformer):
    """The function of a Transformer, which is not changed, with another `start` and `step`.

    A row has the same result, to the last bit, in every batch. An encoder with layers that the library lacks runs as
    it is written.
    """

    output: NativeOutput  # type: ignore[assignment]

    def __init__(self, of: Transformer, dtype: torch.dtype) -> None:
        """Pack the weights of a served model (see native_transformer) as float32, bfloat16 or int8."""
        nn.Module.__init__(self)
        self.src_embedding, self.tgt_embedding = of.src_embedding, of.tgt_embedding
        self.native_encoder: NativeStack | None = None
        if _has_native_encoder(of):
            self.native_encoder = NativeStack(of.encoder, of.encoder_norm, dtype)
        else:
            self.encoder, self.encoder_norm = of.encoder, of.encoder_norm
        self.native_decoder = NativeStack(of.decoder, of.decoder_norm, dtype, of.alignment_layer)
        self.output = NativeOutput(of.output.weight, of.output.bias, dtype)
        self.functions = cast("ctypes.CDLL", native().functions)
        self.lanes: int = self.functions.mtkit_lanes()
        self.eval()

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        states, lengths = self.encoder_states(source)
        decoder = self.native_decoder
        padded = (lengths + self.lanes - 1) // self.lanes * self.lanes
        ends = padded.cumsum(0)
        tokens = int(ends[-1]) if lengths.numel() else 0
        sizes = [heads * decoder.head_dim * tokens for heads in decoder.source_heads]
        layers = tuple((states.new_empty(size), states.new_empty(size)) for size in sizes)
        sentences, index = lengths.numel(), source.real.cumsum(1) - 1  # [B, S]
        memory = NativeMemory(
            layers=layers,
            structures=keys_values(layers),
            lengths=lengths.int(),
            offsets=ends - padded,
            columns=None if _is_right_padded(source, lengths) else index.masked_fill(~source.real, -1),
            source_length=source.ids.size(1),
        )
        first_tokens = [0, *lengths.cumsum(0).tolist()]

        def project(first: int, number: int) -> None:
            inputs = (address(states[first_tokens[first] :]), address(memory.lengths[first:]))
            arguments = (*inputs, address(memory.offsets[first:]), number, memory.structures)
            check(self.functions.mtkit_project_memory(ctypes.byref(decoder.structure), *arguments))

        run_in_parts(project, sentences)
        widths = [heads * decoder.head_dim for heads in decoder.heads]
        return State(
            memory=memory,
            cache=NativeCache.empty(widths, sentences),
            num_sentences=sentences,
            num_rows=sentences,
            output_projection=self.output_projection(),
        )

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        past, memory, decoder = state.cache, state.memory, self.native_decoder
        if not isinstance(past, NativeCache) or not isinstance(memory, NativeMemory):
            raise ValueError(f"state of another model: {type(past).__name__}, {type(memory).__name__}")
        cache = past.extended()
        x = self._embed(token, past.length)  # [rows, D]
        rotation = decoder.rotation_at(past.length)
        heads = decoder.source_heads[decoder.structure.alignment_layer]
        attention = x.new_zeros(x.size(0), heads, memory.source_length)
        sentences = sentence_numbers(state.num_sentences, cache.width)
        lengths = torch.full_like(memory.lengths, cache.length)
        per_sentence = (lengths, cache.storage, memory.lengths, memory.offsets)
        arguments = StepArguments(
            *(address(each) for each in (sentences, cache.slots, *per_sentence, rotation, attention)),
            stride=cache.length,
            capacity=cache.buffer.capacity,
            first_position=past.length,
            source_length=memory.source_length,
        )
        layers = (ctypes.byref(decoder.structure), cache.buffer.structures, memory.structures)

        def decode(first: int, rows: int) -> None:
            check(self.functions.mtkit_decode(*layers, ctypes.byref(arguments), address(x), first, rows))

        run_in_parts(decode, x.size(0), cache.width)
        state = State(memory, cache, state.num_sentences, state.num_rows, state.output_projection)
        return Step(x, state, memory.to_columns(attention, cache.width))

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """See TranslationModel; position by position, so that scores are those of the search to the last bit."""
        state, hidden = self.start(source), []
        for token in target.ids.unbind(1):
            step = self.step(token, state)
            state = step.state
            hidden.append(step.hidden)
        return torch.stack(hidden, dim=1)  # [B, T, D]

    def _embed(self, token: Tensor, pos: int) -> Tensor:
        """Embeddings [rows, D] of the tokens [rows] of all hypotheses at one position."""
        embedding = self.tgt_embedding
        if type(embedding.position).embed is Position.embed:  # nothing is added: two operations do
            return F.embedding(token, embedding.table.weight).mul_(math.sqrt(embedding.table.embedding_dim))
        x: Tensor = embedding(token.unsqueeze(1), token.new_full((1, 1), pos))
        return x.squeeze(1).contiguous()

    def encoder_states(self, source: Source) -> tuple[Tensor, Tensor]:
        """Encoder states [R, D] of the real tokens, one sentence after another, and the sentences' lengths [B]."""
        lengths = source.real.sum(1)
        if self.native_encoder is None:
            return self.encode(source)[source.real].contiguous(), lengths
        x: Tensor = self.src_embedding(source.ids, source.pos, source.real)[source.real].contiguous()
        rotation = self.native_encoder.rotations(source.pos[source.real])
        first_tokens, lengths_int32 = [0, *lengths.cumsum(0).tolist()], lengths.int()
        stack = ctypes.byref(self.native_encoder.structure)

        def encode(first: int, number: int) -> None:
            rows = None if rotation is None else address(rotation[first_tokens[first] :])
            inputs = (address(x[first_tokens[first] :]), address(lengths_int32[first:]), number, rows)
            check(self.functions.mtkit_encode(stack, *inputs))

        run_in_parts(encode, lengths.numel())
        return x, lengths


def native_transformer(model: TranslationModel, dtype: torch.dtype) -> NativeTransformer | None:
    """The model in the native library, with weights of this type; None if it is not served.

    A model is served if the library has its layers and, in float32, computes what is written: a changed layer is
    therefore never overridden.
    """
    if type(model) is not Transformer or type(model.tgt_embedding) is not Embedding:
        return None
    if not native().supports(dtype) or not serves(model.decoder, model.decoder_norm, is_decoder=True):
        return None
    compared = NativeTransformer(model, torch.float32)
    if not agree(model, compared):
        return None
    return compared if dtype == torch.float32 else NativeTransformer(model, dtype)


def _has_native_encoder(model: Transformer) -> bool:
    return type(model.src_embedding) is Embedding and serves(model.encoder, model.encoder_norm, is_decoder=False)


def _is_right_padded(source: Source, lengths: Tensor) -> bool:
    columns = torch.arange(source.ids.size(1), device=lengths.device)
    return bool((source.real == (columns < lengths.unsqueeze(1))).all())
