"""Prefix of a sentence: a language tag and a task description before the source, or tokens of languages.

A tag is a reserved token that text cannot produce, before the source: Johnson et al. 2017, sec. 3,
https://arxiv.org/abs/1611.04558 , where it names the target language. A text prefix is segmented like any text: Raffel
et al. 2020, sec. 2.4, https://arxiv.org/abs/1910.10683 .
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from mtkit.config import Limits, config
from mtkit.errors import UsageError
from mtkit.text.vocab import NUM_TAGS

if TYPE_CHECKING:
    from mtkit.text.tokenizer import TokenizerPair

NAME_OF_TAG = "a name of letters, digits, _ and, after the first, . and -"
TagName = Annotated[str, Limits(pattern=r"^\w[\w.-]*\Z", description=NAME_OF_TAG)]
PrefixText = Annotated[str, Limits(pattern=r"\S", description="text that is not blank")]
LanguageCode = Annotated[str, Limits(min_length=1)]


@config
class SourcePrefix:
    """Keys of a text: what the model reads before each of its source sentences."""

    # Reserved token before each source, such as the target language. Default: null has none; one direction needs none.
    tag: TagName | None = None
    # Text before each source, such as "translate English to German:" (T5). Default: null has none; one direction needs
    # none.
    prefix: PrefixText | None = None
    # Language of the sources, in a model whose texts begin with a token of their language, such as NLLB. Default: null
    # is that of the model or `corpus.src_lang`.
    src_lang: LanguageCode | None = None
    # Language of the translations, in such a model; elsewhere it selects the tokenizer of BLEU. Default: null is that
    # of the model or `corpus.tgt_lang`.
    tgt_lang: LanguageCode | None = None

    def ids(self, tokenizers: TokenizerPair, *, max_source_length: int | None = None) -> list[int]:
        """The ids that precede those of a source sentence; empty without tag, prefix and language.

        Args:
            max_source_length: tokens of the longest training source; None: unknown.

        Raises:
            UsageError: the tokenizers have no such tag or language, or the longest training source has no more tokens
                than that.
        """
        ids = tokenizers.first_ids("src", self.src_lang)
        if self.tag is not None:
            ids.append(tokenizers.tag_id(self.tag))
        if self.prefix is not None:
            ids += tokenizers.encode("src", [self.prefix.strip()])[0]
        if max_source_length is not None and len(ids) >= max_source_length:
            raise UsageError(
                f"the source prefix has {len(ids)} tokens, and the longest training source has {max_source_length}; "
                "shorten --prefix"
            )
        return ids

    def tgt_ids(self, tokenizers: TokenizerPair) -> list[int]:
        """The ids that each translation begins with, which search forces: the token of its language, if there are such.

        Raises:
            UsageError: the tokenizers have no such language.
        """
        return tokenizers.first_ids("tgt", self.tgt_lang)

    def check_tag(self, tokenizers: TokenizerPair, *, requires_tag: bool) -> None:
        """Check that there is a tag if the model has read no source without one.

        Raises:
            UsageError: there is none.
        """
        if requires_tag and self.tag is None:
            tags = ", ".join(sorted(tokenizers.tags))
            raise UsageError(f"the model needs a tag before each source; choose one with --tag: {tags}")


NO_PREFIX = SourcePrefix()


def merge_tags(known: Iterable[str], tags: Iterable[str | None]) -> tuple[str, ...]:
    """Tags in the order of their numbers: those already known, then each new one as it appears.

    Raises:
        ValueError: more tags than the tokenizer reserves.
    """
    merged = tuple(dict.fromkeys([*known, *(tag for tag in tags if tag is not None)]))
    if len(merged) > NUM_TAGS:
        raise ValueError(f"{len(merged)} tags, and the tokenizer reserves {NUM_TAGS}; use fewer, or text prefixes")
    return merged
