"""Export of a model folder in the layout of Hugging Face, as a MarianMTModel with its tokenizer."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.errors import DataError, UsageError, require_extra
from mtkit.export.equivalence import SampleLines, check_equivalence, lost_settings, sample_lines
from mtkit.export.supported_models import MARIAN
from mtkit.importers.bart import OUTPUT_BIAS, Marian
from mtkit.importers.foreign_folder import GENERATION, SAFETENSORS, TOKENIZER_SETTINGS
from mtkit.io.files import atomic_folder, write_bytes, write_json
from mtkit.io.lock import OutputLock
from mtkit.layers.activations import ACTIVATIONS
from mtkit.layers.config import LayerNormConfig, SinusoidalConfig
from mtkit.model_folder.config_file import CONFIG, EXPORTED, MODEL_CARD, require_replaceable
from mtkit.model_folder.folder import LoadedModel, write_metadata
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.search.support import FIXED_TOKENS, options
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.checkpoints.tensor_file import write_tensors
from mtkit.training.weights import weights
from mtkit.translate.engine import special_ids
from mtkit.translate.load import read_translation_model

MIN_POSITIONS = 512  # of their table of sinusoids
BATCH = 16  # sentences that are translated together in the comparison


def export_huggingface(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Write a model as a MarianMTModel and compare the translations of both.

    Arguments, result and errors are those of `export_ctranslate2`; the package is transformers.
    """
    require_replaceable(folder, EXPORTED)
    loaded = read_translation_model(model).load()
    config = _check(loaded)
    sample, search = sample_lines(model, loaded, check_file), _one_limit(loaded)
    with OutputLock(folder, make_parents=True), atomic_folder(folder) as temporary:
        _write_tokenizers(temporary, loaded, is_tied=config.tied_embeddings == "all")
        write_json(temporary / CONFIG, _config(config, loaded))
        write_json(temporary / GENERATION, generation_settings(search, loaded.tokenizers))
        write_tensors(temporary / SAFETENSORS, marian_tensors(config, weights(loaded.model), loaded.tokenizers))
        write_bytes(temporary / MODEL_CARD, (loaded.folder / MODEL_CARD).read_bytes())
        write_metadata(temporary / EXPORTED, loaded.metadata, loaded.tokenizers)
        runner = TransformersRunner(temporary, loaded.tokenizers)
        runner.check_tokenizer(sample)
        result = check_equivalence(loaded, runner, sample)
    stored = loaded.metadata.search
    cut = [] if search.max_length == stored.max_length else ["max_length"]
    return "\n".join([result, *lost_settings("huggingface", "transformers", stored, cut)])


def _check(loaded: LoadedModel) -> TransformerConfig:
    """The configuration of a model that Marian's class computes.

    Raises:
        UsageError: it does not; the message names the key.
    """
    config = MARIAN.check(loaded.metadata.model)
    sinusoids: Any = config.encoder_positions
    errors = {
        "tied_embeddings: none": config.tied_embeddings == "none",
        "encoder_positions: other than those of the decoder": config.encoder_positions != config.decoder_positions,
        "encoder_positions: offset or reaches_base": sinusoids != SinusoidalConfig(layout=sinusoids.layout),
        "residual.norm: other than layer with epsilon 1e-05": config.residual.norm != LayerNormConfig(),
    }
    for error, is_error in errors.items():
        if is_error:
            raise UsageError(f"model.{error}: not supported by Hugging Face export")
    if loaded.tokenizers.src.sentencepiece_model is None or loaded.tokenizers.tgt.sentencepiece_model is None:
        raise UsageError("tokenizer.model_type: Hugging Face export supports only sentencepiece models of characters")
    return config


def marian_tensors(
    config: TransformerConfig, ours: Mapping[str, Tensor], tokenizers: TokenizerPair
) -> dict[str, Tensor]:
    """The weights by Marian's names.

    Sines and cosines that alternate are brought into Marian's order, all sines first: the numbers of all embeddings and
    layer inputs and outputs are rearranged alike, which changes no product.
    """
    width = config.d_model
    order = torch.arange(width)
    if config.encoder_positions.layout == "interleaved":  # type: ignore[union-attr]
        order = torch.cat([order[::2], order[1::2]])
    theirs: dict[str, Tensor] = {}
    for names in Marian().weights(config):
        tensor = ours[names.ours]
        _, _, kind = names.ours.removesuffix(".weight").removesuffix(".bias").rpartition(".")
        if kind in ("table", "query_key_value", "query", "key_value", "inner") and tensor.dim() == 2:
            tensor = tensor[:, order]  # reads the model's width
        elif kind in ("out", "outer", "norm"):
            tensor = tensor[order]  # writes it
        parts = tensor.chunk(len(names.theirs))
        theirs |= {name: part.contiguous() for name, part in zip(names.theirs, parts, strict=True)}
    bias = ours.get("output.bias", torch.zeros(tokenizers.tgt.vocab.size))
    return {**theirs, OUTPUT_BIAS: bias.unsqueeze(0)}


def _config(config: TransformerConfig, loaded: LoadedModel) -> dict[str, Any]:
    src_size, tgt_size = loaded.tokenizers.vocab_sizes
    return {
        "architectures": ["MarianMTModel"],
        "model_type": Marian.name,
        "is_encoder_decoder": True,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_ffn_dim": config.d_ff,
        "encoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.d_ff,
        "decoder_attention_heads": config.num_heads,
        "activation_function": ACTIVATIONS[config.feed_forward.activation].huggingface[0],  # type: ignore[union-attr]
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "scale_embedding": config.scaled_embeddings,
        "share_encoder_decoder_embeddings": config.tied_embeddings == "all",
        "tie_word_embeddings": True,
        "vocab_size": src_size,
        "decoder_vocab_size": tgt_size,
        "max_position_embeddings": max(MIN_POSITIONS, loaded.metadata.max_source_length + 1),
        **_special_tokens(loaded.tokenizers),
        "torch_dtype": "float32",
    }


def _special_tokens(tokenizers: TokenizerPair) -> dict[str, Any]:
    vocab = tokenizers.tgt.vocab
    return {
        "pad_token_id": vocab.pad,
        "eos_token_id": vocab.eos,
        "decoder_start_token_id": vocab.bos,
        "forced_eos_token_id": None,
    }


def _one_limit(loaded: LoadedModel) -> SearchConfig:
    """The model's search with one maximum length for all sources, within the table of positions of the export."""
    search, longest = loaded.metadata.search, loaded.metadata.max_source_length
    limit = min(search.max_length.of(longest), max(MIN_POSITIONS, longest + 1) - FIXED_TOKENS)
    constant = search.max_length.factor == 0 and search.max_length.of(longest) == limit
    return search if constant else replace(search, max_length=MaxLength(factor=0.0, offset=limit))


def generation_settings(search: SearchConfig, tokenizers: TokenizerPair) -> dict[str, Any]:
    """The table of generation_config.json for a search."""
    banned = special_ids(tokenizers.tgt, allow_unknown=search.allow_unknown).banned
    excluded = {"bad_words_ids": [[each] for each in banned]}
    return {**options("huggingface", search), **excluded, **_special_tokens(tokenizers)}


def _write_tokenizers(folder: Path, loaded: LoadedModel, *, is_tied: bool) -> None:
    """Write sentencepiece models, vocabularies and the settings of MarianTokenizer."""
    tokenizers, metadata = loaded.tokenizers, loaded.metadata
    sides = {"source.spm": tokenizers.src, "target.spm": tokenizers.tgt}
    for name, tokenizer in sides.items():
        write_bytes(folder / name, tokenizer.sentencepiece_model or b"")
    is_shared = tokenizers.src.model_pieces == tokenizers.tgt.model_pieces and is_tied
    vocabularies = {"vocab.json": tokenizers.src, **({} if is_shared else {"target_vocab.json": tokenizers.tgt})}
    for name, tokenizer in vocabularies.items():
        write_json(folder / name, {piece: number for number, piece in enumerate(tokenizer.model_pieces)})
    pieces, vocab = tokenizers.tgt.model_pieces, tokenizers.tgt.vocab
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": metadata.src_lang,
        "target_lang": metadata.tgt_lang,
        "unk_token": pieces[vocab.unk],
        "eos_token": pieces[vocab.eos],
        "pad_token": pieces[vocab.pad],
        "separate_vocabs": not is_shared,
        "model_max_length": max(MIN_POSITIONS, metadata.max_source_length + 1),
    }
    write_json(folder / TOKENIZER_SETTINGS, settings)


class TransformersRunner:
    """An exported model, run by the package transformers."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair) -> None:
        """Load the model.

        Raises:
            MissingExtraError: transformers is not installed.
        """
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        # loading prints bars and warnings
        with warnings.catch_warnings(action="ignore"), open(os.devnull, "w") as null, contextlib.redirect_stderr(null):
            with require_extra("transformers", "transformers"):
                import transformers
            model: Any = transformers.MarianMTModel.from_pretrained(folder)
            self._model = model.eval()
            self._tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self._tokenizers = tokenizers

    def check_tokenizer(self, sample: SampleLines) -> None:
        """Compare the ids of the sample; DataError if they differ."""
        lines = [self._tokenizers.prepare("src", line) for line in sample.lines]
        for line, ids in zip(lines, self._tokenizers.src.encode(lines), strict=True):
            theirs = self._tokenizer(line).input_ids[:-1]
            if theirs != ids:
                raise DataError(
                    f"the exported tokenizer reads {line!r} as {theirs}, mtkit as {ids}; nothing was written"
                )

    @torch.inference_mode()
    def translate(self, sources: Sequence[Sequence[int]], search: SearchConfig) -> list[list[int]]:
        """The greedy translation of each source; see ExportRunner."""
        src, eos = self._tokenizers.src.vocab, self._tokenizers.tgt.vocab.eos
        found: list[list[int]] = []
        for first in range(0, len(sources), BATCH):
            batch = [torch.tensor([*ids, src.eos]) for ids in sources[first : first + BATCH]]
            ids = pad_sequence(batch, batch_first=True, padding_value=src.pad)
            real = pad_sequence([torch.ones_like(each) for each in batch], batch_first=True)
            limit = MaxLength(factor=0.0, offset=max(search.max_length.of(len(each) - 1) for each in batch))
            settings = generation_settings(replace(search, max_length=limit), self._tokenizers)
            # in the place of the exported settings: `generate` takes those that it is not given from them
            self._model.generation_config = type(self._model.generation_config)(**settings)
            result = self._model.generate(input_ids=ids, attention_mask=real)
            rows = result[:, 1:].tolist()
            found += [row[: row.index(eos)] if eos in row else row for row in rows]
        return found
