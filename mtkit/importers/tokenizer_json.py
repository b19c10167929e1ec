"""The tokenizer of a file tokenizer.json, of the package tokenizers, as a sentencepiece model.

Transformers writes only this file since version 5 for tokenizers that came from a sentencepiece model: pieces with
scores (unigram) or merges (BPE), the table of character replacements, and how spaces become U+2581. Whatever a
sentencepiece model cannot say is refused by name.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mtkit.errors import DataError
from mtkit.importers.foreign_folder import Fields, shown
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.protobuf import (
    MODEL_TYPE,
    NORMALIZER_SPEC,
    TRAINER_SPEC,
    PieceType,
    bytes_field,
    number_field,
    piece_field,
    read_fields,
)

_MODEL_NUMBERS = {"Unigram": 1, "BPE": 2}  # TrainerSpec.model_type
_BYTE_FALLBACK = 35  # field of TrainerSpec
_CHARSMAP, _ADD_PREFIX, _REMOVE_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5  # fields of NormalizerSpec
_SECTIONS = {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor"}
_SECTIONS |= {"decoder", "model"}
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {  # values of keys of the model that change nothing
    "type": ("Unigram", "BPE"),
    "dropout": (None, 0.0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "ignore_merges": (None, False),
    "fuse_unk": (True,),
}
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def sentencepiece_of(fields: Fields) -> tuple[bytes, list[str]]:
    """The content of a sentencepiece model that segments as a tokenizer.json does, and its pieces by id.

    Raises:
        DataError: the file is damaged, or describes something that no sentencepiece model does.
    """
    path, model = fields.path, fields.get("model", dict, {})
    if unknown := sorted(fields.values.keys() - _SECTIONS):
        raise DataError(f"{path}: {shown(unknown[0])} is not read; copy the sentencepiece model of the same model")
    try:
        pieces, unk = _unigram(model) if model.get("type") == "Unigram" else _merged(model)
        for key, value in model.items():
            if key not in ("vocab", "merges", "unk_id", "unk_token", "byte_fallback") and (
                key not in _NEUTRAL or value not in _NEUTRAL[key]
            ):
                raise _RefusedError(f"model: {key}: {shown(value)}")
        special = {each["content"] for each in fields.get("added_tokens", list, []) if each["special"]}
        normaliser = _normaliser(fields)
        has_bytes = bool(model.get("byte_fallback"))
    except _RefusedError as error:
        raise DataError(
            f"{path}: {error} is not read; copy the sentencepiece model of the same model into the folder"
        ) from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise DataError(f"{path}: damaged, or no description of a tokenizer ({error}); copy it again") from error

    def kind(piece: str) -> PieceType:
        if piece == unk:
            return PieceType.UNKNOWN
        if piece in special:
            return PieceType.CONTROL
        return PieceType.BYTE if has_bytes and _BYTE.fullmatch(piece) else PieceType.NORMAL

    content = b"".join(piece_field(text, score, kind(text)) for text, score in pieces)
    trainer = number_field(MODEL_TYPE, _MODEL_NUMBERS[model["type"]]) + (
        number_field(_BYTE_FALLBACK, 1) if has_bytes else b""
    )
    return content + bytes_field(TRAINER_SPEC, trainer) + bytes_field(NORMALIZER_SPEC, normaliser), [
        text for text, _ in pieces
    ]


class _RefusedError(Exception):
    """A part that no sentencepiece model has."""


def _unigram(model: Mapping[str, Any]) -> tuple[list[tuple[str, float]], str]:
    """Pieces with their scores by id, and the unknown one."""
    pieces = [(str(text), float(score)) for text, score in model["vocab"]]
    return pieces, pieces[model["unk_id"]][0]


def _merged(model: Mapping[str, Any]) -> tuple[list[tuple[str, float]], str]:
    """As `_unigram`, of BPE: the score of a piece is lower the later it is merged.

    Sentencepiece merges any two pieces whose concatenation is a piece, so that the file must list all such pairs.
    """
    if (kind := model.get("type")) != "BPE":
        raise _RefusedError(f"model: type: {shown(kind)}")
    ids: dict[str, int] = model["vocab"]
    merges = [tuple(each.split(" ") if isinstance(each, str) else each) for each in model["merges"]]
    ranks: dict[str, int] = {}
    for left, right in merges:
        ranks.setdefault(left + right, len(ranks))
    listed = set(merges)
    for text in ranks:
        splits = {(text[:at], text[at:]) for at in range(1, len(text)) if text[:at] in ids and text[at:] in ids}
        if missing := splits - listed:
            left, right = min(missing)
            raise _RefusedError(f"model: merges without the pair {shown(left)} {shown(right)}")
    texts = sorted(ids, key=ids.__getitem__)
    if [ids[text] for text in texts] != list(range(len(texts))) or not ranks.keys() <= ids.keys():
        raise ValueError("the ids of its tokens are not 0, 1, 2 ...")
    return [(text, -float(ranks.get(text, len(ranks)))) for text in texts], str(model["unk_token"])


def _normaliser(fields: Fields) -> bytes:
    """The NormalizerSpec: the table of replacements, and what becomes of spaces."""
    charsmap, removes_spaces, adds_prefix, has_marks = b"", False, True, False
    for part in (*_flat(fields, "normalizer", "normalizers"), *_flat(fields, "pre_tokenizer", "pretokenizers")):
        kind = part["type"]
        if kind == "Precompiled":
            charsmap = base64.b64decode(part["precompiled_charsmap"] or "", validate=True)
        elif kind == "Metaspace" and part["replacement"] == SPACE_MARK and part.get("split", True):
            has_marks = True
            scheme = part.get("prepend_scheme", "always" if part.get("add_prefix_space", True) else "never")
            adds_prefix = scheme != "never"
        elif kind == "WhitespaceSplit" or (kind, part.get("pattern")) == ("Replace", {"Regex": " {2,}"}):
            removes_spaces = True
            if part.get("content", " ") not in (" ", SPACE_MARK):
                raise _RefusedError(f"normalizer Replace by {shown(part['content'])}")
        elif kind != "Strip":  # lines have no outer space
            raise _RefusedError(f"{kind}, a step before the segmentation,")
    if not has_marks:
        raise _RefusedError("a pre_tokenizer without Metaspace")
    for name, known in (("decoder", "Metaspace"), ("post_processor", "TemplateProcessing")):
        section = fields.get(name, dict, {"type": known})
        if section.get("type") != known:
            raise _RefusedError(f"{name} {shown(section.get('type'))}")
    flags = ((_ADD_PREFIX, adds_prefix), (_REMOVE_SPACES, removes_spaces), (_ESCAPE_SPACES, True))
    return bytes_field(_CHARSMAP, charsmap) + b"".join(number_field(field, int(value)) for field, value in flags)


def normaliser_flags(content: bytes) -> tuple[bytes, bool, bool]:
    """Of a sentencepiece model: the table of replacements, and whether it removes spaces and adds one before a text."""
    spec = next((value for number, value, _ in read_fields(content) if number == NORMALIZER_SPEC), b"")
    fields = {number: value for number, value, _ in read_fields(bytes(spec))}
    return bytes(fields.get(_CHARSMAP, b"")), bool(fields.get(_REMOVE_SPACES, 1)), bool(fields.get(_ADD_PREFIX, 1))


def _flat(fields: Fields, name: str, parts: str) -> Iterator[Mapping[str, Any]]:
    """The steps of a section, which may be sequences of steps."""
    waiting = [section] if (section := fields.get(name, dict)) else []
    while waiting:
        step = waiting.pop(0)
        if step["type"] == "Sequence":
            waiting = [*step[parts], *waiting]
        else:
            yield step
