"""Vocabularies of other programs as tokenizers of mtkit: sentencepiece models with the ids of a table of JSON."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sentencepiece

from mtkit.errors import DataError, UsageError
from mtkit.importers.foreign_folder import GENERATION, TOKENIZER_SETTINGS, Fields, ForeignFolder, shown
from mtkit.importers.generation import never_generated
from mtkit.importers.tokenizer_json import sentencepiece_of
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.import_tokenizer import model_type_of
from mtkit.text.subword.listed_vocabulary import unused_names
from mtkit.text.subword.mapped_vocabulary import TokenList, with_vocabulary
from mtkit.text.subword.protobuf import PieceType, pieces_of
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.vocab import SPECIAL_TOKENS

VOCABULARY, TOKENIZER, SPECIAL_TOKENS_MAP, ADDED = (
    "vocab.json",
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
MAX_LANGUAGES = 1000  # ids after those of the pieces
_LANGUAGE = re.compile(r"(?P<code>[a-z]{2,3}_[A-Z]\w{1,3})|__(?P<listed>\w+)__")  # such as de_DE, deu_Latn and __de__
_NO_TEXT = re.compile(r"<mask>|<extra_id_\d+>|<unused\d+>|__\w+__")  # added tokens that no text of ours produces
# of a sentencepiece model's pieces that the vocabulary has, and of a model's ids that have a token, if both are of one
MIN_SHARE = 0.5


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


@dataclass(frozen=True)
class AddedToken:
    """A token that was added to a tokenizer; a special one is left out of texts."""

    name: str
    is_special: bool


def read_added_tokens(folder: ForeignFolder) -> dict[int, AddedToken]:
    """Added tokens by id, of tokenizer.json, tokenizer_config.json and added_tokens.json.

    Raises:
        ReadWriteError: a file cannot be read.
        DataError: a file is damaged, or has a token that is found by another rule than its name.
    """
    added: dict[int, AddedToken] = {}
    settings, fast = folder.optional_table(TOKENIZER_SETTINGS), folder.optional_table(TOKENIZER)
    listed: list[tuple[str, Any]] = [  # where it stands, and the token
        (
            f"{settings.path}: added_tokens_decoder",
            {**value, "id": int(key)} if isinstance(value, dict) and key.isdecimal() else key,
        )
        for key, value in settings.get("added_tokens_decoder", dict, {}).items()
    ]
    listed += [(f"{fast.path}: added_tokens", each) for each in fast.get("added_tokens", list, [])]
    for place, each in listed:
        if not isinstance(each, dict) or type(each.get("id")) is not int or not isinstance(each.get("content"), str):
            raise DataError(f"{place}: {shown(each)} is no token; copy it again")
        name, flags = each["content"], [key for key in ("single_word", "lstrip", "rstrip") if each.get(key)]
        if flags and not _NO_TEXT.fullmatch(name):
            raise DataError(f"{place}: {shown(name)} has {flags[0]}, which mtkit does not compute")
        added[each["id"]] = AddedToken(name, bool(each.get("special")))
    for key, value in folder.optional_table(ADDED).values.items():
        if type(value) is not int:
            raise DataError(f"{folder.path / ADDED}: {shown(key)}: {shown(value)} is no id; copy it again")
        added.setdefault(value, AddedToken(key, False))
    return added


@dataclass(frozen=True)
class ForeignVocabulary:
    """The tokens of a model by id, and the sentencepiece model that segments into them.

    Attributes:
        path: of the file that names the tokens, for messages.
        model_path: of the sentencepiece model.
        model: its content.
        names: tokens by id, without those that were added.
        added: by id, also some of `names`.
        codes: id of the token of each language.
        keeps_space: see TokenList.
    """

    path: Path
    model_path: Path
    model: bytes
    names: list[str]
    added: Mapping[int, AddedToken] = field(default_factory=dict)
    codes: Mapping[str, int] = field(default_factory=dict)
    keeps_space: bool = False

    def tokens(self, fields: Fields, size_key: str = "vocab_size", *, control: Sequence[int] = ()) -> TokenList:
        """The list of all ids of the model in `fields`, followed by mtkit's special tokens.

        An id without a token is unused: no text produces it.

        Raises:
            DataError: the model has fewer ids, or the names are of another model.
        """
        names, size = [*self.names], fields.count(size_key)
        count = max(len(names), *(number + 1 for number in self.added), 0)
        if not size * MIN_SHARE <= count <= size:
            raise DataError(
                f"{self.path}: has {count:,} tokens, but the model in {fields.path} has {size:,}; copy the tokenizer "
                "of the same model"
            )
        for number, token in self.added.items():
            if number < len(names) and names[number] != token.name:
                raise DataError(
                    f"{self.path}: token {number} is {shown(names[number])} and {shown(token.name)} among the added "
                    "ones; copy the tokenizer of the same model"
                )
        taken = {*names, *(token.name for token in self.added.values())}
        unused, hidden = unused_names(taken), [*self.codes.values()]
        for number in range(len(names), size):
            names.append(self.added[number].name if number in self.added else next(unused))
        hidden += [number for number in range(len(self.names), size) if number not in self.added]
        if "<unk>" not in names:
            raise DataError(f"{self.path}: has no token <unk>; copy the tokenizer of the same model")
        pad, eos, start = _special_ids(fields, size)
        names += [token for token in SPECIAL_TOKENS if token not in names]
        roles = {pad, eos, start, *control, *map(names.index, SPECIAL_TOKENS)}
        unk = names.index("<unk>")
        added = []
        for number, token in self.added.items():
            if number in roles or number == unk or number in self.codes.values():
                continue
            is_found = not _NO_TEXT.fullmatch(token.name) and not (token.is_special and number < len(self.names))
            if is_found:
                added.append(number)
            if token.is_special or not is_found:
                hidden.append(number)
        try:
            return TokenList(
                names,
                pad,
                unk,
                start,
                eos,
                sorted(roles - {unk}),
                hidden=sorted({*hidden} - roles),
                added=sorted(added),
                keeps_space=self.keeps_space,
            )
        except ValueError as error:
            raise DataError(
                f"{self.path}: does not fit {fields.path}: {error}; copy the tokenizer of the same model"
            ) from error

    def tokenizer(self, tokens: TokenList) -> Tokenizer:
        """The sentencepiece model with the ids of a list; DataError if it is damaged, or of another model."""
        with sentencepiece_errors(self.model_path):
            pieces = _all_pieces(self.model)
            tokenizer = Tokenizer(with_vocabulary(self.model, tokens))
        share = len(set(pieces) & set(tokens.tokens)) / max(1, len(pieces))
        if share < MIN_SHARE:
            raise DataError(
                f"{self.model_path}: {share:.0%} of its pieces are in {self.path}; it is the tokenizer of another "
                "model: copy that of the same one"
            )
        return tokenizer


def _pair(
    vocabularies: Sequence[ForeignVocabulary], sides: Sequence[TokenList], sizes: tuple[int, int], *, shared: bool
) -> ForeignTokenizers:
    tokenizers = [vocabulary.tokenizer(tokens) for vocabulary, tokens in zip(vocabularies, sides, strict=True)]
    config = TokenizerConfig(
        model_type=model_type_of(vocabularies[0].model),
        vocab_size=tokenizers[0].vocab.size,
        shared=shared,
        normaliser="none",
    )
    src, tgt = tokenizers
    return ForeignTokenizers(TokenizerPair(src=src, tgt=tgt, config=config, tags=tuple(src.tag_ids)), sizes)


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
    keys = ("vocab_size", "vocab_size" if vocabularies[0] == vocabularies[1] else "decoder_vocab_size")
    added, (begin, end) = read_added_tokens(folder), tag_marks
    read, sides = [], []
    for model, vocabulary, key in zip(models, vocabularies, keys, strict=True):
        path = folder.path / vocabulary
        names = _by_id(folder.table(vocabulary).values, path)
        if vocabulary != vocabularies[0] and (more := sorted(number for number in added if number >= len(names))):
            raise DataError(f"{path}: {shown(added[more[0]].name)} was added to two vocabularies, which is not read")
        is_first = vocabulary == vocabularies[0]
        read.append(ForeignVocabulary(path, folder.path / model, folder.bytes(model), names, added if is_first else {}))
        tags = {
            name.removeprefix(begin).removesuffix(end): number
            for number, name in enumerate(names)
            if begin and name.startswith(begin) and name.endswith(end)
        }
        sides.append(replace(read[-1].tokens(fields, key, control=[*tags.values()]), tags=tags))
    generation, ids = folder.optional_table(GENERATION), range(len(sides[1].tokens))
    never = never_generated(fields, generation) & set(ids)
    first = generation.get("forced_bos_token_id", int, fields.get("forced_bos_token_id", int))
    before = [first] if first in ids else []  # the language of the translations, in a folder that mtkit exported
    sides[1] = replace(sides[1], control=sorted({*sides[1].control, *never} - {sides[1].unk}), before=before)
    return _pair(read, sides, (fields.count(keys[0]), fields.count(keys[1])), shared=models[0] == models[1])


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


def _all_pieces(model: bytes) -> list[str]:
    """The pieces of the content of a sentencepiece model by id; RuntimeError if it is damaged."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return list(processor.id_to_piece(list(range(processor.get_piece_size()))))


def read_pieces(folder: ForeignFolder, model: str) -> list[str]:
    """The pieces of a sentencepiece model by id.

    Raises:
        MissingInputError, ReadWriteError: there is no such file, or it cannot be read.
        DataError: it is damaged.
    """
    with sentencepiece_errors(folder.path / model):
        return _all_pieces(folder.bytes(model))


def listed_vocabulary(folder: ForeignFolder, model: str, languages: Sequence[str]) -> ForeignVocabulary:
    """The tokens of `vocab.json`, followed by those of languages, such as __de__.

    Raises:
        MissingInputError, ReadWriteError, DataError: a file is missing, cannot be read or is damaged.
    """
    path = folder.path / VOCABULARY
    names = _by_id(folder.table(VOCABULARY).values, path)
    codes = {code: len(names) + number for number, code in enumerate(languages)}
    names += [f"__{code}__" for code in languages]
    model_path = folder.path / model
    return ForeignVocabulary(path, model_path, folder.bytes(model), names, read_added_tokens(folder), codes)


def shared_vocabulary(folder: ForeignFolder, model: str, reserved: Sequence[str] = ()) -> ForeignVocabulary:
    """The pieces of a sentencepiece model, or of tokenizer.json without one, and the added tokens.

    Args:
        model: name of the sentencepiece model.
        reserved: tokens that stand for its first three pieces, as fairseq reserves them; none: its ids are its own.

    Raises:
        MissingInputError, ReadWriteError: a file is missing, or cannot be read.
        DataError: a file is damaged.
    """
    added = read_added_tokens(folder)
    if folder.has(model) or not folder.has(TOKENIZER):
        path, content, pieces = folder.path / model, folder.bytes(model), read_pieces(folder, model)
        names = [*reserved, *pieces[3:]] if reserved else pieces
        if not reserved:  # T5: pieces that its trainer was given are found before the segmentation
            given = pieces_of(content, PieceType.USER_DEFINED)
            added |= {names.index(name): AddedToken(name, False) for name in given}
    else:
        path = folder.path / TOKENIZER
        content, names = sentencepiece_of(folder.table(TOKENIZER))
    return ForeignVocabulary(path, path, content, names, added, keeps_space=bool(reserved))


FAIRSEQ_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")


def language_vocabulary(folder: ForeignFolder, model: str) -> ForeignVocabulary:
    """The pieces of a sentencepiece model in the order of fairseq, and the languages that the tokenizer's files name.

    Raises:
        MissingInputError, ReadWriteError: a file is missing, or cannot be read.
        DataError: a file is damaged.
    """
    vocabulary = shared_vocabulary(folder, model, FAIRSEQ_TOKENS)
    names, added = vocabulary.names, {**vocabulary.added}
    listed = folder.optional_table(SPECIAL_TOKENS_MAP).get("additional_special_tokens", list, [])
    if not any(_LANGUAGE.fullmatch(token.name) for token in added.values()):
        pairs = {len(names) + number: name for number, name in enumerate(listed) if isinstance(name, str)}
        if len(set(pairs.values())) == len(listed):
            added |= {number: AddedToken(name, True) for number, name in pairs.items() if _LANGUAGE.fullmatch(name)}
    possible = range(len(names), len(names) + MAX_LANGUAGES)
    codes = {
        match["code"] or match["listed"]: number
        for number, token in added.items()
        if (match := _LANGUAGE.fullmatch(token.name)) and (number in possible or number < len(names))
    }
    if not codes:
        raise DataError(
            f"{folder.path}: {TOKENIZER} and {SPECIAL_TOKENS_MAP} name no languages with ids after those of the "
            "pieces; copy one of them from the same model"
        )
    return replace(vocabulary, added=added, codes=codes)


def read_language_tokenizers(
    folder: ForeignFolder,
    fields: Fields,
    direction: LanguagePair,
    vocabulary: ForeignVocabulary,
    *,
    ends_with_language: bool = False,
    starts_with_language: bool = False,
) -> ForeignTokenizers:
    """The tokenizers of a model of many languages, whose texts have a token of their language.

    Args:
        folder: of the model.
        fields: of config.json, with the size and special ids of the vocabulary.
        direction: the languages.
        vocabulary: with the tokens of languages.
        ends_with_language: sources end with the end of sentence and their language, instead of beginning with it.
        starts_with_language: the language of the target is the token that the decoder reads first.

    Raises:
        MissingInputError, ReadWriteError: a file is missing, or cannot be read.
        DataError: a file is damaged, or of another model than the others.
        UsageError: the model does not have a language.
    """
    codes, size = vocabulary.codes, fields.count("vocab_size")
    for code in (direction.src, direction.tgt):
        if code not in codes:
            raise UsageError(f"{folder.path}: has no language {shown(code)}; it has {', '.join(sorted(codes))}")
    src_code, tgt_code = codes[direction.src], codes[direction.tgt]
    common = vocabulary.tokens(fields)
    if not ends_with_language and not starts_with_language:
        both = _pair([vocabulary] * 2, [replace(common, languages=dict(codes))] * 2, (size, size), shared=True)
        pair = replace(both.pair, languages=tuple(codes), direction=(direction.src, direction.tgt))
        return replace(both, pair=pair)
    src = replace(common, before=[src_code])
    if ends_with_language:  # the last token of a source has the part of the end of sentence
        src = replace(common, after=[common.eos], eos=src_code, control=sorted({*common.control, src_code}))
    tgt = replace(common, before=[tgt_code])
    if starts_with_language:
        tgt = replace(common, bos=tgt_code, control=sorted({*common.control, tgt_code}))
    return _pair([vocabulary] * 2, [src, tgt], (size, size), shared=False)


def read_prefixed_tokenizers(
    folder: ForeignFolder, fields: Fields, direction: LanguagePair, *, model: str, mark: str
) -> ForeignTokenizers:
    """The tokenizers of a model whose sources may begin with the language of the target, as `mark` writes it.

    Args:
        folder: of the model.
        fields: of config.json, with the size and special ids of the vocabulary.
        direction: the languages.
        model: name of the sentencepiece model.
        mark: token of a language, {} for its code; sources have none if the vocabulary has no such tokens.

    Raises:
        MissingInputError, ReadWriteError: a file is missing, or cannot be read.
        DataError: a file is damaged, or of another model than the others.
        UsageError: there are tokens of languages, and none of the target.
    """
    vocabulary, size = shared_vocabulary(folder, model), fields.count("vocab_size")
    tokens = vocabulary.tokens(fields)
    begin, end = mark.split("{}")
    languages = [
        name[len(begin) : -len(end)]
        for name in itertools.chain(vocabulary.names, (token.name for token in vocabulary.added.values()))
        if re.fullmatch(f"{re.escape(begin)}\\w+{re.escape(end)}", name)
    ]
    src = tokens
    if languages and direction.tgt not in languages:
        raise UsageError(
            f"{folder.path}: has no language {shown(direction.tgt)}; it has {', '.join(sorted(languages))}"
        )
    if languages:
        src = replace(tokens, before=vocabulary.tokenizer(tokens).encode([mark.format(direction.tgt)])[0])
    return _pair([vocabulary] * 2, [src, tokens], (size, size), shared=not languages)
