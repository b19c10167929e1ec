"""Export of a model folder in the layout of Hugging Face, for a class of transformers, with MarianTokenizer."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.errors import DataError, UsageError, require_extra
from mtkit.export.ctranslate2 import tabulate
from mtkit.export.equivalence import SampleLines, check_equivalence, lost_settings, sample_lines, usual_prefix
from mtkit.export.hub_classes import MIN_POSITIONS, HubClass, hub_class
from mtkit.export.usage import transformers_usage, write_card
from mtkit.importers.bart import MARIAN_MODELS, OUTPUT_BIAS, TGT_VOCABULARY
from mtkit.importers.foreign_folder import GENERATION, SAFETENSORS, TOKENIZER_SETTINGS
from mtkit.importers.vocabulary import VOCABULARY
from mtkit.io.files import atomic_folder, write_bytes, write_json
from mtkit.io.lock import OutputLock
from mtkit.layers.config import SinusoidalConfig
from mtkit.model_folder.config_file import CONFIG, EXPORTED, require_replaceable
from mtkit.model_folder.folder import LoadedModel, write_metadata
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.search.support import FIXED_TOKENS, options
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.vocab import SPECIAL_TOKENS
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
    loaded = read_translation_model(model).load()
    vocabularies = Vocabularies.of(loaded)
    bias = weights(loaded.model).get("output.bias")
    has_bias = bias is not None and bool(bias[: own_size(loaded.tokenizers.tgt, vocabularies.marks)].any())
    kind = hub_class(loaded.metadata.model, has_bias=has_bias)
    if not kind.has_output_bias:
        vocabularies = vocabularies.without_added(loaded.tokenizers)
    sample, search = sample_lines(model, loaded, check_file), _one_limit(loaded)
    with OutputLock(folder, make_parents=True), atomic_folder(folder) as temporary:
        vocabularies.write(temporary, loaded)
        write_json(temporary / CONFIG, _config(kind, loaded, vocabularies))
        write_json(temporary / GENERATION, generation_settings(search, loaded.tokenizers, vocabularies))
        write_tensors(temporary / SAFETENSORS, hub_tensors(kind, loaded, vocabularies))
        begin = [vocabularies.tgt[token] for token in vocabularies.begin]
        write_card(
            temporary, loaded, "transformers", transformers_usage(vocabularies.start, begin[0] if begin else None)
        )
        write_metadata(temporary / EXPORTED, loaded.metadata, loaded.tokenizers)
        runner = TransformersRunner(temporary, loaded.tokenizers, vocabularies)
        runner.check_tokenizer(sample)
        result = check_equivalence(loaded, runner, sample)
    stored = loaded.metadata.search
    cut = [] if search.max_length == stored.max_length else ["max_length"]
    return "\n".join([result, f"class: {kind.name}", *lost_settings("huggingface", "transformers", stored, cut)])


def mark(name: str) -> str:
    """The name of a language or tag in a vocabulary of Marian."""
    return f">>{name}<<"


def own_size(tokenizer: Tokenizer, used: Container[int]) -> int:
    """Number of tokens of a model of another program without those that mtkit added after them."""
    pieces = tokenizer.model_pieces
    while pieces[-1] in SPECIAL_TOKENS and len(pieces) - 1 not in used:
        pieces.pop()
    return len(pieces)


@dataclass(frozen=True)
class Vocabularies:
    """The tokens of MarianTokenizer.

    Attributes:
        src, tgt: names by id; the same list if one vocabulary serves both sides.
        marks: names of the tokens of languages and tags, which are found before a text is segmented, by id.
        start: what a text begins with where nothing else is chosen.
        begin: ids that translations begin with then.
    """

    src: list[str]
    tgt: list[str]
    marks: Mapping[int, str]
    start: str
    begin: list[int]

    @classmethod
    def of(cls, loaded: LoadedModel) -> Vocabularies:
        """The tokens of a model.

        Raises:
            UsageError: MarianTokenizer does not segment as its tokenizers do.
        """
        pair, prefix = loaded.tokenizers, usual_prefix(loaded)
        if pair.src.sentencepiece_model is None or pair.tgt.sentencepiece_model is None:
            raise UsageError(
                "tokenizer.model_type: Hugging Face export supports only sentencepiece models of characters"
            )
        if pair.src.after or max(len(pair.src.before), len(pair.tgt.before)) > 1:
            raise UsageError(
                f"{loaded.folder}: sources end with a token of their language, which the tokenizers of transformers do "
                "not write; export it --to ctranslate2"
            )
        marks = {pair.first_ids("src", code)[0]: mark(code) for code in pair.languages}
        marks |= {SourcePrefix(tag=tag).ids(pair)[-1]: mark(tag) for tag in pair.tags}
        marks |= dict.fromkeys(pair.src.before, mark(loaded.metadata.tgt_lang))
        src, tgt = (
            [marks.get(number, piece) for number, piece in enumerate(side.model_pieces)]
            for side in (pair.src, pair.tgt)
        )
        has_one = src == tgt and loaded.metadata.model.tied_embeddings != "target"
        start = "".join(marks[number] for number in prefix.ids(pair))
        return cls(src, src if has_one else tgt, marks, start, prefix.tgt_ids(pair))

    def without_added(self, pair: TokenizerPair) -> Vocabularies:
        """The tokens that the model had before mtkit added its own, which only a bias of the output excludes."""
        src, tgt = (each[: own_size(side, self.marks)] for each, side in ((self.src, pair.src), (self.tgt, pair.tgt)))
        return replace(self, src=src, tgt=src if self.is_shared else tgt)

    @property
    def is_shared(self) -> bool:
        """True if one vocabulary serves both sides."""
        return self.src is self.tgt

    def write(self, folder: Path, loaded: LoadedModel) -> None:
        """Write sentencepiece models, vocabularies and the settings of MarianTokenizer."""
        pair, metadata = loaded.tokenizers, loaded.metadata
        for name, side in zip(MARIAN_MODELS, (pair.src, pair.tgt), strict=True):
            write_bytes(folder / name, side.sentencepiece_model or b"")
        vocabularies = {VOCABULARY: self.src, **({} if self.is_shared else {TGT_VOCABULARY: self.tgt})}
        for name, tokens in vocabularies.items():
            write_json(folder / name, {token: number for number, token in enumerate(tokens)})
        vocab, hidden = pair.tgt.vocab, [self.tgt[each] for each in pair.tgt.hidden if each < len(self.tgt)]
        settings = {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": metadata.src_lang,
            "target_lang": metadata.tgt_lang,
            "unk_token": self.tgt[vocab.unk],
            "eos_token": self.tgt[vocab.eos],
            "pad_token": self.tgt[vocab.pad],
            "extra_special_tokens": list(dict.fromkeys([*self.marks.values(), *hidden])),
            "separate_vocabs": not self.is_shared,
            "model_max_length": _positions(loaded),
        }
        write_json(folder / TOKENIZER_SETTINGS, settings)


def hub_tensors(kind: HubClass, loaded: LoadedModel, vocabularies: Vocabularies) -> dict[str, Tensor]:
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
        tensor = ours.get(names.ours)
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
        parts = (tensor / names.scale).chunk(len(names.theirs))
        for key, each in zip(names.theirs, parts, strict=True):
            each = each.unsqueeze(0) if key == OUTPUT_BIAS else each
            if not torch.equal(theirs.setdefault(key, each.contiguous()), each):
                raise UsageError(f"{kind.name} has one tensor {key}, and the model two: {names.ours} differs from it")
    return theirs


def _positions(loaded: LoadedModel) -> int:
    """Size of a table of sinusoids."""
    return max(MIN_POSITIONS, loaded.metadata.max_source_length + 1)


def _config(kind: HubClass, loaded: LoadedModel, vocabularies: Vocabularies) -> dict[str, Any]:
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


def generation_settings(search: SearchConfig, tokenizers: TokenizerPair, vocabularies: Vocabularies) -> dict[str, Any]:
    """The table of generation_config.json for a search."""
    begin, size = vocabularies.begin, len(vocabularies.tgt)
    banned = special_ids(tokenizers.tgt, allow_unknown=search.allow_unknown).banned
    settings = options("huggingface", search)
    for key in {"max_length", "min_length"} & settings.keys():
        settings[key] += len(begin)
    settings["bad_words_ids"] = [[each] for each in banned if each < size]
    forced = {"forced_bos_token_id": begin[0]} if begin else {}
    return {**settings, **forced, **_special_tokens(tokenizers)}


class TransformersRunner:
    """An exported model, run by the package transformers."""

    def __init__(self, folder: Path, tokenizers: TokenizerPair, vocabularies: Vocabularies) -> None:
        """Load the model.

        Raises:
            MissingExtraError: transformers is not installed.
        """
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        # loading prints bars and warnings
        with warnings.catch_warnings(action="ignore"), open(os.devnull, "w") as null, contextlib.redirect_stderr(null):
            with require_extra("transformers", "transformers"):
                import transformers
            model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
            self._model = model.eval()
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self._tokenizers, self._vocabularies = tokenizers, vocabularies

    def check_tokenizer(self, sample: SampleLines) -> None:
        """Compare the ids of the sample, whose lines begin with each language and tag in turn.

        Raises:
            DataError: they differ.
        """
        own = self._tokenizers
        lines = [own.prepare("src", line) for line in sample.lines]
        marks = self._vocabularies.marks
        ids_of = {name: number for number, name in marks.items()}
        starts = itertools.cycle([""] if not marks else marks.values())
        for start, line, ids in zip(starts, lines, own.src.encode(lines), strict=False):
            theirs = self._tokenizer(start + line).input_ids
            expected = [*([ids_of[start]] if start else []), *ids, own.src.vocab.eos]
            if theirs != expected:
                raise DataError(
                    f"the exported tokenizer reads {start + line!r} as {theirs}, mtkit as {expected}; nothing was "
                    "written"
                )

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
