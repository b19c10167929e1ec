"""Vocabularies of other programs as tokenizers of mtkit: sentencepiece models with the ids of a table of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import sentencepiece

from mtkit.errors import DataError, UsageError
from mtkit.importers.foreign_folder import GENERATION, Fields, ForeignFolder, shown
from mtkit.importers.generation import never_generated
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.import_tokenizer import model_type_of
from mtkit.text.subword.mapped_vocabulary import TokenList, with_vocabulary
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.vocab import SPECIAL_TOKENS

SENTENCEPIECE = "sentencepiece.bpe.model"  # of models that share one vocabulary
VOCABULARY, TOKENIZER_SETTINGS = "vocab.json", "tokenizer_config.json"
TOKENIZER, SPECIAL_TOKENS_MAP = "tokenizer.json", "special_tokens_map.json"
MAX_LANGUAGES = 1000  # ids after those of the pieces
_LANGUAGE = re.compile(r"[a-z]{2,3}_[A-Z]\w{1,3}")  # such as de_DE and deu_Latn
MIN_SHARE = 0.5  # of a sentencepiece model's pieces that the vocabulary has, if both are of one model


@dataclass(frozen=True)
class ForeignTokenizers:
    """The tokenizers of a model.

    Attributes:
        pair: with mtkit's special tokens after those of the model.
        sizes: numbers of source and target tokens without them.
    """

    pair: TokenizerPair
    sizes: tuple[int, int]


@dataclass(frozen=True)
class LanguagePair:
    """Codes of the source and the target language."""

    src: str
    tgt: str


def read_mapped_tokenizers(
    folder: ForeignFolder,
    fields: Fields,
    *,
    models: tuple[str, str],
    vocabularies: tuple[str, str],
    tag_marks: tuple[str, str] = ("", ""),
) -> ForeignTokenizers:
    """Read sentencepiece models of both sides and the ids of their pieces.

    Args:
        folder: of the model.
        fields: of config.json, with the sizes and special ids of the vocabulary.
        models: files of the sentencepiece models of source and target in the folder.
        vocabularies: files with the ids of the tokens of source and target.
        tag_marks: what is before and after the name of a language in its token; empty: there are no such tokens.

    Raises:
        MissingInputError, ReadWriteError: a file is missing, or cannot be read.
        DataError: a file is damaged, or of another model than the others.
    """
    tgt_key = "vocab_size" if vocabularies[0] == vocabularies[1] else "decoder_vocab_size"
    src_tokens = _token_list(folder, fields, vocabularies[0], "vocab_size", tag_marks)
    tgt_tokens = _token_list(folder, fields, vocabularies[1], tgt_key, tag_marks)
    never = never_generated(fields, folder.optional_table(GENERATION)) & set(range(len(tgt_tokens.tokens)))
    tgt_tokens = replace(tgt_tokens, control=sorted({*tgt_tokens.control, *never} - {tgt_tokens.unk}))
    sides = [
        _tokenizer(folder, model, tokens, vocabulary)
        for model, tokens, vocabulary in zip(models, (src_tokens, tgt_tokens), vocabularies, strict=True)
    ]
    config = TokenizerConfig(
        model_type=model_type_of(folder.bytes(models[0])),
        vocab_size=sides[0].vocab.size,
        shared=models[0] == models[1],
        normaliser="none",
    )
    pair = TokenizerPair(src=sides[0], tgt=sides[-1], config=config, tags=tuple(sides[0].tag_ids))
    return ForeignTokenizers(pair, (fields.count("vocab_size"), fields.count(tgt_key)))


def _token_list(
    folder: ForeignFolder, fields: Fields, vocabulary: str, size_key: str, tag_marks: tuple[str, str]
) -> TokenList:
    path = folder.path / vocabulary
    names = _by_id(folder.table(vocabulary).values, path)
    size = fields.count(size_key)
    if len(names) != size:
        raise DataError(
            f"{path}: has {len(names):,} tokens, but the model in {fields.path} has {size:,}; copy the tokenizer of "
            "the same model"
        )
    begin, end = tag_marks
    tags = {
        name.removeprefix(begin).removesuffix(end): number
        for number, name in enumerate(names)
        if begin and name.startswith(begin) and name.endswith(end)
    }
    if "<unk>" not in names:
        raise DataError(f"{path}: has no token <unk>; copy the tokenizer of the same model")
    pad, eos, start = _special_ids(fields, size)
    names += [token for token in SPECIAL_TOKENS if token not in names]
    control = {pad, eos, start, *tags.values(), *map(names.index, SPECIAL_TOKENS)}
    try:
        return TokenList(names, pad, names.index("<unk>"), start, eos, sorted(control), tags)
    except ValueError as error:
        raise DataError(f"{path}: does not fit {fields.path}: {error}; copy the tokenizer of the same model") from error


def _by_id(values: Mapping[str, object], path: Path) -> list[str]:
    """The tokens of a table in the order of their ids."""
    names: dict[object, str] = {number: name for name, number in values.items()}
    if not names or set(names) != set(range(len(values))):
        raise DataError(f"{path}: the ids of its {len(values):,} tokens are not 0, 1, 2 ...; copy it again")
    return [names[number] for number in range(len(values))]


def _special_ids(fields: Fields, size: int) -> list[int]:
    """The ids of padding, of the end of sentence, and of the token that begins a target."""
    ids = []
    for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        value = fields.get(key, int)
        if value is None or not 0 <= value < size:
            raise DataError(f"{fields.path}: {key}: {shown(value)}; the id of one of the {size:,} tokens is expected")
        ids.append(int(value))
    return ids


@contextmanager
def sentencepiece_errors(path: Path) -> Iterator[None]:
    """Raise DataError where sentencepiece cannot read the model of a file in the block."""
    try:
        yield
    except (RuntimeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: damaged, cut off, or no sentencepiece model; copy it again") from error


def read_pieces(folder: ForeignFolder, model: str) -> list[str]:
    """The pieces of a sentencepiece model by id.

    Raises:
        MissingInputError, ReadWriteError: there is no such file, or it cannot be read.
        DataError: it is damaged.
    """
    with sentencepiece_errors(folder.path / model):
        processor = sentencepiece.SentencePieceProcessor(model_proto=folder.bytes(model))
        return list(processor.id_to_piece(list(range(processor.get_piece_size()))))


def _tokenizer(folder: ForeignFolder, model: str, tokens: TokenList, vocabulary: str) -> Tokenizer:
    """A sentencepiece model with the ids of a vocabulary."""
    path, pieces = folder.path / model, read_pieces(folder, model)
    share = len(set(pieces) & set(tokens.tokens)) / max(1, len(pieces))
    with sentencepiece_errors(path):
        tokenizer = Tokenizer(with_vocabulary(folder.bytes(model), tokens))
    if share < MIN_SHARE:
        raise DataError(
            f"{path}: {share:.0%} of its pieces are in {folder.path / vocabulary}; it is the tokenizer of another "
            "model: copy that of the same one"
        )
    return tokenizer


@dataclass(frozen=True)
class LanguageTokens:
    """The tokens of a model of many languages.

    Attributes:
        path: of the file that has them, for messages.
        names: by id.
        codes: id of the token of each language.
    """

    path: Path
    names: list[str]
    codes: Mapping[str, int]


def listed_language_tokens(folder: ForeignFolder, languages: Sequence[str]) -> LanguageTokens:
    """The tokens of `vocab.json`, followed by those of languages, such as __de__.

    Raises:
        MissingInputError, ReadWriteError, DataError: the file is missing, cannot be read or is damaged.
    """
    path = folder.path / VOCABULARY
    names = _by_id(folder.table(VOCABULARY).values, path)
    codes = {code: len(names) + number for number, code in enumerate(languages)}
    return LanguageTokens(path, [*names, *(f"__{code}__" for code in languages)], codes)


def sentencepiece_language_tokens(folder: ForeignFolder, model: str) -> LanguageTokens:
    """The pieces of a sentencepiece model in the order of fairseq, and the languages that the tokenizer's files name.

    Raises:
        MissingInputError, ReadWriteError: a file is missing, or cannot be read.
        DataError: a file is damaged.
    """
    names = ["<s>", "<pad>", "</s>", "<unk>", *read_pieces(folder, model)[3:]]
    added = folder.optional_table(TOKENIZER).get("added_tokens", list, [])
    listed = folder.optional_table(SPECIAL_TOKENS_MAP).get("additional_special_tokens", list, [])
    pairs = [(each.get("content"), each.get("id")) for each in added if isinstance(each, dict)]
    pairs = pairs or [(each, len(names) + number) for number, each in enumerate(listed)]
    possible = range(len(names), len(names) + MAX_LANGUAGES)
    codes: dict[str, int] = {
        text: number
        for text, number in pairs
        if isinstance(text, str) and _LANGUAGE.fullmatch(text) and type(number) is int and number in possible
    }
    if not codes or len({*codes.values()}) < len(codes):
        raise DataError(
            f"{folder.path}: {TOKENIZER} and {SPECIAL_TOKENS_MAP} name no languages with ids after those of the "
            "pieces; copy one of them from the same model"
        )
    names += [f"<unused{number}>" for number in range(len(names), max(codes.values()) + 1)]
    for code, number in codes.items():
        names[number] = code
    return LanguageTokens(folder.path / model, names, codes)


def read_language_tokenizers(
    folder: ForeignFolder, fields: Fields, direction: LanguagePair, *, model: str, languages: LanguageTokens
) -> ForeignTokenizers:
    """Read the tokenizer of a model of many languages, whose texts begin with a token of their language.

    Args:
        folder: of the model.
        fields: of config.json, with the size and special ids of the vocabulary.
        direction: the languages.
        model: name of the sentencepiece model.
        languages: the tokens.

    Raises:
        MissingInputError, ReadWriteError: a file is missing, or cannot be read.
        DataError: a file is damaged, or of another model than the others.
        UsageError: the model does not have a language.
    """
    size, names, codes = fields.count("vocab_size"), [*languages.names], languages.codes
    if len(names) > size or "<unk>" not in names:
        raise DataError(
            f"{languages.path}: has {len(names) - len(codes):,} tokens and {len(codes)} languages, but the model in "
            f"{fields.path} has {size:,}; copy the tokenizer of the same model"
        )
    names += [f"<unused{number}>" for number in range(len(names), size)]
    names += [token for token in SPECIAL_TOKENS if token not in names]
    pad, eos, start = _special_ids(fields, size)
    control = sorted({pad, eos, start, *map(names.index, SPECIAL_TOKENS)})
    sides = []
    for code in (direction.src, direction.tgt):
        if code not in codes:
            raise UsageError(f"{folder.path}: has no language {shown(code)}; it has {', '.join(sorted(codes))}")
        unk, hidden = names.index("<unk>"), sorted(codes.values())
        tokens = TokenList(names, pad, unk, start, eos, control, before=[codes[code]], hidden=hidden)
        sides.append(_tokenizer(folder, model, tokens, languages.path.name))
    kind = model_type_of(folder.bytes(model))
    config = TokenizerConfig(model_type=kind, vocab_size=len(names), shared=False, normaliser="none")
    return ForeignTokenizers(TokenizerPair(src=sides[0], tgt=sides[1], config=config), (size, size))
