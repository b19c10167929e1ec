"""Tokenizers of transformers that segment as those of a model: of its own kind if one does, else MarianTokenizer.

M2M100Tokenizer reads a sentencepiece model, and its languages are fixed. NllbTokenizer (BPE), MBart50Tokenizer
(unigram) and PreTrainedTokenizerFast read tokenizer.json; the last one puts no language before a text. MarianTokenizer
segments as any sentencepiece model does.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sentencepiece
import torch

from mtkit.errors import UsageError
from mtkit.export.equivalence import usual_prefix
from mtkit.export.hub_classes import HubClass
from mtkit.importers.bart import LANGUAGES, M2M100, MARIAN_MODELS, SENTENCEPIECE, TGT_VOCABULARY, MBart
from mtkit.importers.foreign_folder import TOKENIZER_SETTINGS
from mtkit.importers.t5 import T5
from mtkit.importers.tokenizer_json import normaliser_flags
from mtkit.importers.vocabulary import TOKENIZER, VOCABULARY
from mtkit.layers.config import SinusoidalConfig
from mtkit.model_folder.folder import LoadedModel
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.models.transformer.config import TransformerConfig
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.subword.import_tokenizer import model_type_of
from mtkit.text.subword.mapped_vocabulary import MappedVocabulary, TokenList, with_kept_tokens
from mtkit.text.subword.protobuf import PieceType, pieces_of
from mtkit.text.subword.tokenizer import Side, Tokenizer
from mtkit.text.vocab import SPECIAL_TOKENS
from mtkit.training.weights import tensor_names


@dataclass(frozen=True)
class HubTokenizer:
    """The tokens of MarianTokenizer, or of another class that is derived from this one.

    Attributes:
        src, tgt: names by id; the same list if one vocabulary serves both sides.
        marks: names of the tokens of languages and tags, which are found before a text is segmented, by id.
        start: what a text begins with where nothing else is chosen.
        begin: ids that translations begin with then.
        src_lang: name of the language of sources, which the class puts before a text; None: it puts none.
        name: of the class.
    """

    src: list[str]
    tgt: list[str]
    marks: Mapping[int, str]
    start: str
    begin: list[int]
    src_lang: str | None = None
    name: str = "MarianTokenizer"

    @classmethod
    def of(cls, loaded: LoadedModel) -> HubTokenizer:
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

    @property
    def is_shared(self) -> bool:
        """True if one vocabulary serves both sides."""
        return self.src is self.tgt

    def files(self, loaded: LoadedModel) -> dict[str, Any]:
        """By name, the content of its files: bytes, or a table of JSON."""
        pair = loaded.tokenizers
        models = [side.sentencepiece_model or b"" for side in (pair.src, pair.tgt)]
        vocabularies = {VOCABULARY: self.src, **({} if self.is_shared else {TGT_VOCABULARY: self.tgt})}
        return {
            **dict(zip(MARIAN_MODELS, models, strict=True)),
            **{name: {token: number for number, token in enumerate(each)} for name, each in vocabularies.items()},
            TOKENIZER_SETTINGS: {
                **self._settings(loaded),
                "source_lang": loaded.metadata.src_lang,
                "target_lang": loaded.metadata.tgt_lang,
                "separate_vocabs": not self.is_shared,
            },
        }

    def read(self, tokenizer: Any, mark: str, line: str) -> list[int]:
        """The ids of a line by a loaded tokenizer, after a language or tag by its name here."""
        if self.src_lang is not None:
            tokenizer.src_lang, mark = self.code(mark), ""
        ids: list[int] = tokenizer(mark + line).input_ids
        return ids

    @staticmethod
    def code(mark: str) -> str:
        """The name of a language for the class, by that of its token."""
        return mark

    def _settings(self, loaded: LoadedModel) -> dict[str, Any]:
        vocab, hidden = loaded.tokenizers.tgt.vocab, loaded.tokenizers.tgt.hidden
        special = [*self.marks.values(), *(self.tgt[each] for each in hidden if not _is_unused(self.tgt[each]))]
        return {
            "tokenizer_class": self.name,
            "unk_token": self.tgt[vocab.unk],
            "eos_token": self.tgt[vocab.eos],
            "pad_token": self.tgt[vocab.pad],
            "extra_special_tokens": list(dict.fromkeys(special)),
            "model_max_length": loaded.metadata.max_source_length + 1,
        }


def mark(name: str) -> str:
    """The name of a language or tag in a vocabulary of Marian."""
    return f">>{name}<<"


@dataclass(frozen=True)
class OwnTokenizer(HubTokenizer):
    """The tokens of a class that reads tokenizer.json."""

    name: str = "PreTrainedTokenizerFast"

    def files(self, loaded: LoadedModel) -> dict[str, Any]:
        """See HubTokenizer."""
        languages = {} if self.src_lang is None else {"src_lang": self.src_lang, "tgt_lang": self.tgt[self.begin[0]]}
        return {
            TOKENIZER: _tokenizer_json(loaded.tokenizers.src, self.src_lang),
            TOKENIZER_SETTINGS: {**self._settings(loaded), **languages},
        }


@dataclass(frozen=True)
class M2M100Tokens(HubTokenizer):
    """The tokens of M2M100Tokenizer, whose languages have the last ids."""

    name: str = "M2M100Tokenizer"

    @staticmethod
    def code(mark: str) -> str:
        """See HubTokenizer."""
        return mark.strip("_")

    def files(self, loaded: LoadedModel) -> dict[str, Any]:
        """See HubTokenizer."""
        names = self.src[: min(self.marks)]
        listed = loaded.tokenizers.src.token_list
        added = _added_tokens(listed, (each for each in {*listed.control, *listed.hidden} if each < len(names)))
        more = {
            "src_lang": loaded.metadata.src_lang,
            "tgt_lang": loaded.metadata.tgt_lang,
            "added_tokens_decoder": {str(each.pop("id")): each for each in added},
        }
        return {
            SENTENCEPIECE: loaded.tokenizers.src.sentencepiece_model,
            VOCABULARY: {token: number for number, token in enumerate(names)},
            TOKENIZER_SETTINGS: {**self._settings(loaded), **more},
        }


def hub_tokenizers(loaded: LoadedModel, kind: HubClass) -> Iterator[HubTokenizer]:
    """Tokenizers that may segment as those of a model, the best first; a comparison decides. Errors as `of`."""
    marian, pair, architecture = HubTokenizer.of(loaded), loaded.tokenizers, type(kind.architecture)
    tokens, languages = pair.src.model_pieces, pair.src.languages
    content = pair.src.inner_model
    has_own = pair.src.model.startswith(MappedVocabulary.header) and content == pair.tgt.inner_model
    if has_own and content and architecture in (M2M100, MBart, T5) and tokens == pair.tgt.model_pieces:
        marks = {number: tokens[number] for number in marian.marks}
        own: dict[str, Any] = {"src": tokens, "tgt": tokens, "marks": marks, "begin": marian.begin}
        first = tokens[languages[pair.direction[0]]] if languages else None
        if [*languages] == list(LANGUAGES) and [*languages.values()] == list(range(min(marks), max(marks) + 1)):
            yield M2M100Tokens(**own, start="", src_lang=pair.direction[0])
        if not any(pair.src.is_byte) and _is_whole(content, tokens):
            if languages:
                name = "NllbTokenizer" if model_type_of(content) == "bpe" else "MBart50Tokenizer"
                yield OwnTokenizer(**own, start="", src_lang=first, name=name)
            start = "".join(f"{tokens[number]} " for number in usual_prefix(loaded).ids(pair))
            yield OwnTokenizer(**own, start=start)
    yield marian


def without_reserved(loaded: LoadedModel) -> LoadedModel:
    """A model of another program without the tokens that mtkit added and does not use; the model changes in place.

    Pieces come before tokens of languages, also those that were learned later.
    """
    pair = loaded.tokenizers
    sides: dict[Side, Tokenizer] = {"src": pair.src, "tgt": pair.tgt}
    if not all(side.model.startswith(MappedVocabulary.header) for side in sides.values()):
        return loaded
    used = {SourcePrefix(tag=tag).ids(pair)[-1] for tag in pair.tags}
    used |= {pair.first_ids(side, code)[0] for code in pair.languages for side in sides}
    pieces = set[str]().union(*(_scores(side.inner_model or b"") for side in sides.values()))
    kept: dict[Side, list[int]] = {}
    config: Any = loaded.metadata.model
    is_listed = isinstance(config, TransformerConfig) and isinstance(config.encoder_positions, SinusoidalConfig)
    first_position = config.encoder_positions.offset if is_listed else 0
    for name, side in sides.items():
        tokens = side.model_pieces
        reserved = set(_reserved(tokens)) - used
        first = min(reserved, default=len(tokens))
        last = max((number for number in range(first) if tokens[number] in pieces), default=-1)
        ids = [number for number in range(len(tokens)) if number not in reserved]
        kept[name] = sorted(ids, key=lambda number: number > last and tokens[number] not in pieces)
        if first_position > 0:  # M2M-100, where positions begin after the id of padding
            kept[name].remove(side.vocab.pad)
            kept[name].insert(first_position - 1, side.vocab.pad)
    reduced = {
        name: Tokenizer(with_kept_tokens(side.inner_model or b"", side.token_list, kept[name]), form=side.form)
        for name, side in sides.items()
    }
    names = tensor_names(loaded.model)
    parameters = dict(loaded.model.named_parameters())
    for weight, vocabulary in {names[alias]: side for alias, side in VOCAB_TENSORS.items() if alias in names}.items():
        parameters[weight].data = parameters[weight].data[torch.tensor(kept[vocabulary])]
    src, tgt = reduced["src"], reduced["src" if pair.shared else "tgt"]
    pair = replace(pair, src=src, tgt=tgt, config=replace(pair.config, vocab_size=src.vocab.size))
    return replace(loaded, metadata=replace(loaded.metadata, tokenizer=pair.config), tokenizers=pair)


def _reserved(tokens: Sequence[str]) -> Iterator[int]:
    """The ids of the special tokens that mtkit added, in their order, to those of another program."""
    number, rank = tokens.index(SPECIAL_TOKENS[-1]), len(SPECIAL_TOKENS)
    ranks = {token: number for number, token in enumerate(SPECIAL_TOKENS)}
    while number >= 0 and ranks.get(tokens[number], rank) < rank:
        yield number
        number, rank = number - 1, ranks[tokens[number]]


def _scores(content: bytes) -> dict[str, float]:
    """The scores of the pieces of a sentencepiece model that texts are segmented into."""
    model = sentencepiece.SentencePieceProcessor(model_proto=content)
    ids = range(model.get_piece_size())
    kinds = (model.is_control, model.is_unknown, model.is_unused, model.is_byte)
    return {model.id_to_piece(each): model.get_score(each) for each in ids if not any(kind(each) for kind in kinds)}


def _is_whole(content: bytes, tokens: Sequence[str]) -> bool:
    """Return whether all pieces are tokens. Pieces that a vocabulary was cut by take part in the merges of BPE."""
    is_bpe = model_type_of(content) == "bpe"
    return _scores(content).keys() <= {*tokens} and not (is_bpe and pieces_of(content, PieceType.UNUSED))


def _is_unused(name: str) -> bool:
    return name.startswith("<unused")


def _added_tokens(listed: TokenList, ids: Iterable[int]) -> list[dict[str, Any]]:
    """Entries of tokens that are found before a text is segmented; those that texts are to have are not special."""
    special = {*listed.control, *listed.hidden, *listed.languages.values(), listed.unk}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": each, "content": listed.tokens[each], **flags, "special": each in special} for each in sorted(ids)]


def _tokenizer_json(tokenizer: Tokenizer, src_lang: str | None) -> dict[str, Any]:
    """The table of tokenizer.json; the opposite of `sentencepiece_of`."""
    content, listed = tokenizer.inner_model or b"", tokenizer.token_list
    tokens, scores, is_bpe = [*listed.tokens], _scores(content), model_type_of(content) == "bpe"
    while _is_unused(tokens[-1]):
        tokens.pop()
    # of the model; MBart50Tokenizer expects the languages in it
    size = 1 + max(number for number, token in enumerate(tokens) if token in scores or number == listed.unk)
    size = size if is_bpe else max(size, *(number + 1 for number in listed.languages.values()), 0)
    unk, eos = listed.tokens[listed.unk], listed.tokens[listed.eos]
    model: dict[str, Any]
    if is_bpe:
        ranked = sorted(scores, key=lambda piece: -scores[piece])
        splits = ((piece[:at], piece[at:]) for piece in ranked for at in range(1, len(piece)))
        merges = [[left, right] for left, right in splits if left in scores and right in scores]
        model = {"type": "BPE", "unk_token": unk, "fuse_unk": True, "byte_fallback": False}
        model |= {"vocab": {token: number for number, token in enumerate(tokens[:size])}, "merges": merges}
    else:
        model = {"type": "Unigram", "unk_id": listed.unk, "byte_fallback": False}
        model["vocab"] = [[token, scores.get(token, 0.0)] for token in tokens[:size]]
    charsmap, removes_spaces, adds_prefix = normaliser_flags(content)
    steps: list[dict[str, Any]] = []
    if charsmap:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()})
    if removes_spaces:
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    marks = {"type": "Metaspace", "replacement": SPACE_MARK, "split": True}
    marks["prepend_scheme"] = "always" if adds_prefix else "never"
    special = {*listed.control, *listed.hidden, *listed.languages.values(), listed.unk, *listed.added}
    added = (number for number in range(len(tokens)) if number in special or number >= size)
    ids = {token: listed.tokens.index(token) for token in (src_lang, eos) if token is not None}
    text, (*before, after) = (
        {"Sequence": {"id": "A", "type_id": 0}},
        ({"SpecialToken": {"id": each, "type_id": 0}} for each in ids),
    )
    template = {
        "type": "TemplateProcessing",
        "single": [*before, text, after],
        "pair": [*before, text, {"Sequence": {"id": "B", "type_id": 0}}, after],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]} for token, number in ids.items()},
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(listed, added),
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": marks,
        "post_processor": template,
        "decoder": marks,
        "model": model,
    }
