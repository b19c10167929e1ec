"""The pair of tokenizers of a translation system: text to the ids that training and translation read, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from mtkit.errors import DataError, UsageError
from mtkit.io.records import read_record, write_record
from mtkit.text.config import TokenizerConfig, stored_tokenizer
from mtkit.text.copy_tokens import COPY_VERSION, CopyTokens, copied_texts, pair_places, source_places
from mtkit.text.normalise import Folding, plain
from mtkit.text.subword.tokenizer import Side, Tokenizer
from mtkit.text.vocab import NUM_TAGS, tag_token

FORMAT = 2  # of tokenizer.json


def prepared(line: str, side: Side, config: TokenizerConfig) -> str:
    """A line after the normaliser of a configuration; the target side keeps no-break spaces."""
    return line if config.normaliser == "none" else plain(line, keep_no_break=side == "tgt")


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of both sides; the same object twice if they are shared.

    On disk: `spm.model`, or `src.model` and `tgt.model`, and `tokenizer.json`.
    """

    src: Tokenizer
    tgt: Tokenizer
    config: TokenizerConfig
    tags: tuple[str, ...] = ()  # names of the reserved tags in use, in the order of their numbers
    forms: str | None = None  # typographic characters of the training sources, a result of `kept_forms`; None: unknown
    languages: tuple[str, ...] = ()  # codes of those whose texts begin with a token of theirs; empty: no text does
    direction: tuple[str, str] = ("", "")  # languages of source and target where a request names no others

    @property
    def shared(self) -> bool:
        """True if both sides have one vocabulary."""
        return self.config.shared

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Numbers of source and of target tokens."""
        return self.src.vocab.size, self.tgt.vocab.size

    def of(self, side: Side) -> Tokenizer:
        """The tokenizer of a side."""
        return self.src if side == "src" else self.tgt

    def first_ids(self, side: Side, lang: str | None = None) -> list[int]:
        """The ids that the texts of a side begin with: the token of their language, in a model that has such tokens.

        Reserved tokens of tags stand for languages from the last one on, and for tags from the first one on.

        Args:
            side: of the texts.
            lang: code of their language; None: that of `direction`.

        Raises:
            UsageError: the model does not have the language.
        """
        if not self.languages:
            return [*self.of(side).before]
        option, default = ("--src-lang", self.direction[0]) if side == "src" else ("--tgt-lang", self.direction[1])
        lang = lang or default
        if lang not in self.languages:
            problem = f"{option} {lang}:" if lang else f"{option} is missing;"
            raise UsageError(f"{problem} the model has the languages {', '.join(sorted(self.languages))}")
        tokenizer = self.of(side)
        if lang in tokenizer.languages:
            return [tokenizer.languages[lang]]
        return [tokenizer.token_to_id(tag_token(NUM_TAGS - 1 - self.languages.index(lang)))]

    def tag_id(self, tag: str) -> int:
        """The id of a tag before a source; UsageError if the model does not have it."""
        if tag not in self.tags:
            known = f"the model has {', '.join(sorted(self.tags))}" if self.tags else "the model has no tags"
            raise UsageError(f"tag {tag!r}: unknown; {known}")
        if tag in self.src.tag_ids:
            return self.src.tag_ids[tag]
        reserved = [each for each in self.tags if each not in self.src.tag_ids]
        return self.src.token_to_id(tag_token(reserved.index(tag)))

    def prepare(self, side: Side, line: str) -> str:
        """The text of a line that training and translation read, normalised: `encode` does the same."""
        line = prepared(line, side, self.config)
        folds = side == "src" and self.config.normaliser != "none" and not line.isascii()
        return self.of(side).normalise(self._folding.fold(line) if folds else line)

    @cached_property
    def _folding(self) -> Folding:
        return Folding(self.src.characters, self.forms)

    def encode(self, side: Side, lines: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """The ids that training and translation read for each line; `Tokenizer.encode` is exact."""
        return self.read(side, [self.prepare(side, line) for line in lines], threads=threads)

    def read(self, side: Side, lines: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """The ids of normalised lines; sources have copy tokens for all their spans, if the tokenizer uses them."""
        if side == "src" and self._copies and any(places := [source_places(line) for line in lines]):
            return self._copies["src"].encode(lines, places, threads=threads)
        return self.of(side).encode(lines, threads=threads)

    def encode_pairs(
        self, src: Sequence[str], tgt: Sequence[str], *, threads: int = 1
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of both sides of normalised pairs, with copy tokens for the spans of both, if it uses them."""
        if not self._copies:
            return self.src.encode(src, threads=threads), self.tgt.encode(tgt, threads=threads)
        places = [pair_places(*pair) for pair in zip(src, tgt, strict=True)]
        return (
            self._copies["src"].encode(src, [of_src for of_src, _ in places], threads=threads),
            self._copies["tgt"].encode(tgt, [of_tgt for _, of_tgt in places], threads=threads),
        )

    def encode_texts(self, src: Sequence[str], tgt: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """`encode_pairs` of lines that are not normalised."""
        return self.encode_pairs(
            [self.prepare("src", line) for line in src], [self.prepare("tgt", line) for line in tgt]
        )

    def decode(self, ids: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of each translation, of which copy tokens have the texts of spans in its normalised source."""
        texts = self.tgt.decode(ids)
        if copies := self._copies.get("tgt"):
            return [
                text if copies.ids.isdisjoint(each) else copies.decode(each, copied_texts(source))
                for text, each, source in zip(texts, ids, sources, strict=True)
            ]
        return texts

    def spell(self, side: Side, ids: Sequence[int], src: str) -> list[str]:
        """The text of each token, with U+2581 for a space: of a source line, or of a translation of it."""
        tokens = self.src.spell(src, ids) if side == "src" else self.tgt.ids_to_tokens(ids)
        copies = self._copies.get(side)
        if copies is None or copies.ids.isdisjoint(ids):
            return tokens
        return copies.surfaces(ids, copied_texts(src), self.of(side).ids_to_tokens(ids))

    def copy_ids(self, side: Side) -> frozenset[int]:
        """The ids of copy tokens of a side; empty if the tokenizer does not use them."""
        return self._copies[side].ids if self._copies else frozenset()

    @cached_property
    def _copies(self) -> dict[Side, CopyTokens]:
        return {side: CopyTokens(self.of(side)) for side in ("src", "tgt")} if self.config.copy_tokens else {}

    def hash(self) -> str:
        """A hash of everything that determines the ids of a text, except `forms`, which follow from the corpus."""
        parts = (self.src.hash(), self.tgt.hash(), self.src.form.unicode, self.tgt.form.unicode, *self.tags)
        if self.languages:
            parts = (*parts, "languages", *self.languages)
        if self.config.normaliser != "none":
            parts = (*parts, self.config.normaliser)
        if self.config.copy_tokens:
            parts = (*parts, COPY_VERSION)
        if self.config.lowercase:
            parts = (*parts, "lowercase")
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        """Read the files written by `save`.

        Raises:
            MissingInputError: the folder or one of its files does not exist.
            DataError: a file is damaged, or was written by a later version.
        """
        path = folder / "tokenizer.json"
        description = read_record(
            path, remedy="in a run folder, mtkit run makes it again; train any other tokenizer again"
        )
        try:
            version, config = description["format"], TokenizerConfig(**stored_tokenizer(description["config"]))
            tags, languages = (tuple(map(str, description.get(key, ()))) for key in ("tags", "languages"))
            forms = description.get("forms")
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: damaged, or written by another version of mtkit; train it again") from error
        if version != FORMAT:
            raise DataError(f"{path}: has format {version}; this mtkit reads format {FORMAT}")
        sides = [Tokenizer.load(folder / name, form=config.form) for name in model_names(config.shared)]
        forms = None if forms is None else str(forms)
        return cls(src=sides[0], tgt=sides[-1], config=config, tags=tags, languages=languages, forms=forms)

    def save(self, folder: Path) -> None:
        """Write the files into an existing folder.

        Raises:
            ReadWriteError: as `files.translate_write_errors`.
        """
        for name, tokenizer in zip(model_names(self.shared), (self.src, self.tgt), strict=False):
            tokenizer.save(folder / name)
        named = {key: list(names) for key, names in (("tags", self.tags), ("languages", self.languages)) if names}
        fields = {"format": FORMAT, "config": asdict(self.config), **named}
        if self.forms is not None:
            fields["forms"] = self.forms
        write_record(folder / "tokenizer.json", fields)


def model_names(shared: bool) -> list[str]:
    """The names of the model files, source first."""
    return ["spm.model"] if shared else ["src.model", "tgt.model"]
