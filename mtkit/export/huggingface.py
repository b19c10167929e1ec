"""Export of a model folder in the layout of Hugging Face, for classes of transformers that compute it."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.errors import DataError, UsageError, require_extra
from mtkit.export.ctranslate2 import tabulate
from mtkit.export.equivalence import SampleLines, check_equivalence, lost_settings, sample_lines, usual_prefix
from mtkit.export.hub_classes import MIN_POSITIONS, HubClass, hub_class
from mtkit.export.hub_tokenizers import HubTokenizer, hub_tokenizers, without_reserved
from mtkit.export.usage import transformers_usage, write_card
from mtkit.importers.bart import OUTPUT_BIAS
from mtkit.importers.foreign_folder import GENERATION, SAFETENSORS
from mtkit.io.files import atomic_folder, write_bytes, write_json
from mtkit.io.lock import OutputLock
from mtkit.layers.config import SinusoidalConfig
from mtkit.model_folder.config_file import CONFIG, EXPORTED, require_replaceable
from mtkit.model_folder.folder import LoadedModel, write_metadata
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.search.support import FIXED_TOKENS, options
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.checkpoints.tensor_file import write_tensors
from mtkit.training.weights import weights
from mtkit.translate.engine import special_ids
from mtkit.translate.load import read_translation_model

BATCH = 16  # sentences that are translated together in the comparison


def export_huggingface(model: Path, folder: Path, *, check_file: Path | None = None) -> str:
    """Write a model for the class of transformers that computes it, and compare the translations of both.

    Arguments, result and errors are those of `export_ctranslate2`; the package is transformers.
    """
    require_replaceable(folder, EXPORTED)
    loaded = without_reserved(read_translation_model(model).load())
    bias = weights(loaded.model).get("output.bias")
    has_bias = bias is not None and bool(bias.any())
    kind = hub_class(loaded.metadata.model, has_bias=has_bias, pad=loaded.tokenizers.tgt.vocab.pad)
    sample, search = sample_lines(model, loaded, check_file), _one_limit(loaded)
    with OutputLock(folder, make_parents=True), atomic_folder(folder) as temporary:
        marian = HubTokenizer.of(loaded)
        write_json(temporary / CONFIG, _config(kind, loaded, marian))
        write_json(temporary / GENERATION, generation_settings(search, loaded.tokenizers, marian))
        write_tensors(temporary / SAFETENSORS, hub_tensors(kind, loaded, marian))
        written = _write_tokenizer(temporary, loaded, hub_tokenizers(loaded, kind), sample)
        begin = written.tgt[written.begin[0]] if written.begin else None
        write_card(temporary, loaded, "transformers", transformers_usage(written.start, begin, written.src_lang))
        write_metadata(temporary / EXPORTED, loaded.metadata, loaded.tokenizers)
        result = check_equivalence(loaded, TransformersRunner(temporary, loaded.tokenizers, written), sample)
    stored = loaded.metadata.search
    cut = [] if search.max_length == stored.max_length else ["max_length"]
    classes = f"class: {kind.name}, {written.name}"
    return "\n".join([result, classes, *lost_settings("huggingface", "transformers", stored, cut)])


def _write_tokenizer(
    folder: Path, loaded: LoadedModel, tokenizers: Iterable[HubTokenizer], sample: SampleLines
) -> HubTokenizer:
    """Write the first tokenizer that gives the ids of the sample; DataError if none does."""
    for tokenizer in tokenizers:
        files = tokenizer.files(loaded)
        for name, content in files.items():
            if isinstance(content, bytes):
                write_bytes(folder / name, content)
            else:
                write_json(folder / name, content)
        difference = tokenizer_difference(folder, loaded.tokenizers, tokenizer, sample)
        if difference is None:
            return tokenizer
        for name in files:
            (folder / name).unlink()
    raise DataError(f"{difference}; nothing was written")


def hub_tensors(kind: HubClass, loaded: LoadedModel, vocabularies: HubTokenizer) -> dict[str, Tensor]:
    """The weights by the names of a class.

    Sines and cosines that alternate are brought into its order, all sines first: the numbers of all embeddings and
    layer inputs and outputs are rearranged alike, which changes no product. Biases that a model lacks are 0.

    Raises:
        UsageError: a tensor of the class would be two weights that differ.
    """
    config: Any = loaded.metadata.model
    model: Any = loaded.model
    ours, sizes = weights(model), {"src": len(vocabularies.src), "tgt": len(vocabularies.tgt)}
    order = torch.arange(config.d_model)
    positions = config.encoder_positions
    if isinstance(positions, SinusoidalConfig) and positions.layout == "interleaved":
        order = torch.cat([order[::2], order[1::2]])
    theirs: dict[str, Tensor] = {}
    for side, position in (("encoder", model.src_embedding.position), ("decoder", model.tgt_embedding.position)):
        if (name := f"model.{side}.embed_positions.weight") in kind.architecture.unused_weights:
            theirs[name] = tabulate(position, _positions(loaded), config.d_model)[:, order].contiguous()
    for names in kind.architecture.weights(kind.computed(config)):
        if names.ours == "output.bias" and not kind.has_output_bias:  # it is 0
            continue
        module, _, _ = names.ours.rpartition(".")
        tensor = model.output.weight.detach() if names.ours == "output.weight" else ours.get(names.ours)
        if tensor is None:
            tensor = torch.zeros(sizes["tgt"] if names.ours == "output.bias" else len(ours[f"{module}.weight"]))
        if names.ours in VOCAB_TENSORS:
            tensor = tensor[: sizes[VOCAB_TENSORS[names.ours]]]
        _, _, name = module.rpartition(".")
        if name in ("table", "output", "query_key_value", "query", "key_value", "inner") and tensor.dim() == 2:
            tensor = tensor[:, order] if tensor.size(1) == config.d_model else tensor  # reads the model's width
        elif name in ("out", "outer", "norm") or module.endswith("_norm"):
            tensor = tensor[order]  # writes it
        if names.skipped:
            tensor = torch.cat([tensor.new_zeros(names.skipped, tensor.size(1)), tensor])
        for key, each in zip(names.theirs, tensor.chunk(len(names.theirs)), strict=True):
            each = each.unsqueeze(0) if key == OUTPUT_BIAS else each
            if not torch.equal(theirs.setdefault(key, each.contiguous()), each):
                raise UsageError(f"{kind.name} has one tensor {key}, and the model two: {names.ours} differs from it")
    return theirs


def _positions(loaded: LoadedModel) -> int:
    """Size of a table of sinusoids."""
    return max(MIN_POSITIONS, loaded.metadata.max_source_length + 1)


def _config(kind: HubClass, loaded: LoadedModel, vocabularies: HubTokenizer) -> dict[str, Any]:
    config: Any = loaded.metadata.model
    return {
        **kind.settings(config, positions=_positions(loaded)),
        "vocab_size": len(vocabularies.src),
        "decoder_vocab_size": len(vocabularies.tgt),
        **_special_tokens(loaded.tokenizers),
    }


def _special_tokens(tokenizers: TokenizerPair) -> dict[str, Any]:
    vocab = tokenizers.tgt.vocab
    return {
        "pad_token_id": vocab.pad,
        "eos_token_id": vocab.eos,
        "decoder_start_token_id": vocab.bos,
        "forced_eos_token_id": vocab.eos,
    }


def _one_limit(loaded: LoadedModel) -> SearchConfig:
    """The model's search with one maximum length for all sources, within the table of positions of the export."""
    search, longest = loaded.metadata.search, loaded.metadata.max_source_length
    begin = usual_prefix(loaded).tgt_ids(loaded.tokenizers)
    limited = search.limited_to(loaded.metadata.model.max_target_length(), begin=begin)
    limit = min(limited.max_length.of(longest), _positions(loaded) - FIXED_TOKENS)
    constant = search.max_length.factor == 0 and search.max_length.of(longest) == limit
    return search if constant else replace(search, max_length=MaxLength(factor=0.0, offset=limit))


def generation_settings(search: SearchConfig, tokenizers: TokenizerPair, vocabularies: HubTokenizer) -> dict[str, Any]:
    """The table of generation_config.json for a search."""
    begin, size = vocabularies.begin, len(vocabularies.tgt)
    banned = special_ids(tokenizers.tgt, allow_unknown=search.allow_unknown).banned
    settings = options("huggingface", search)
    for key in {"max_length", "min_length"} & settings.keys():
        settings[key] += len(begin)
    settings["bad_words_ids"] = [[each] for each in banned if each < size and each not in begin]
    forced = {"forced_bos_token_id": begin[0]} if begin else {}
    return {**settings, **forced, **_special_tokens(tokenizers)}


def _load(folder: Path, kind: str) -> Any:
    """Load a folder by a class of transformers, without the bars and warnings that loading prints.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    with warnings.catch_warnings(action="ignore"), open(os.devnull, "w") as null, contextlib.redirect_stderr(null):
        with require_extra("transformers", "transformers"):
            import transformers
        return getattr(transformers, kind).from_pretrained(folder)


def tokenizer_difference(folder: Path, own: TokenizerPair, tokenizer: HubTokenizer, sample: SampleLines) -> str | None:
    """A sentence about the first line of the sample that an exported tokenizer reads differently; None: there is none.

    The lines begin with each language and tag in turn.
    """
    theirs = _load(folder, "AutoTokenizer")
    if (count := len(theirs)) > (size := len(tokenizer.src)):
        return f"{type(theirs).__name__} has {count} tokens, the model {size}"
    lines = [own.prepare("src", line) for line in sample.lines]
    marks = tokenizer.marks.items() or [(None, "")]
    for (first, mark), line, ids in zip(itertools.cycle(marks), lines, own.src.encode(lines), strict=False):
        found = tokenizer.read(theirs, mark, line)
        expected = [*([] if first is None else [first]), *ids, own.src.vocab.eos]
        if found != expected:
            return f"the exported tokenizer reads {mark + line!r} as {found}, mtkit as {expected}"
    return None


class TransformersRunner:
    """An exported model, run by the package transformers."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair, vocabularies: HubTokenizer) -> None:
        """Load the model; MissingExtraError if transformers is not installed."""
        self._model = _load(folder, "AutoModelForSeq2SeqLM").eval()
        self._tokenizers, self._vocabularies = tokenizers, vocabularies

    @torch.inference_mode()
    def translate(
        self, sources: Sequence[Sequence[int]], search: SearchConfig, begin: Sequence[int] = ()
    ) -> list[list[int]]:
        """The greedy translation of each source; see ExportRunner."""
        src, eos = self._tokenizers.src.vocab, self._tokenizers.tgt.vocab.eos
        found: list[list[int]] = []
        for first in range(0, len(sources), BATCH):
            batch = [torch.tensor([*ids, src.eos]) for ids in sources[first : first + BATCH]]
            ids = pad_sequence(batch, batch_first=True, padding_value=src.pad)
            real = pad_sequence([torch.ones_like(each) for each in batch], batch_first=True)
            limit = MaxLength(factor=0.0, offset=max(search.max_length.of(len(each) - 1) for each in batch))
            settings = generation_settings(replace(search, max_length=limit), self._tokenizers, self._vocabularies)
            # in the place of the exported settings: `generate` takes those that it is not given from them
            self._model.generation_config = type(self._model.generation_config)(**settings)
            result = self._model.generate(input_ids=ids, attention_mask=real)
            rows = result[:, 1 + len(begin) :].tolist()
            found += [row[: row.index(eos)] if eos in row else row for row in rows]
        return found
