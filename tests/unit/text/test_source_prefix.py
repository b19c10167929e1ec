"""Source prefixes: ids of tags, segmentation of text, and the tags that a tokenizer knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.errors import UsageError
from mtkit.text.config import TokenizerConfig
from mtkit.text.source_prefix import SourcePrefix, merge_tags
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.text.vocab import NUM_TAGS


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> TokenizerPair:
    folder = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("translate English to German: a dog sees the cat .\n" * 30)
    train_pair([text], [text], folder, TokenizerConfig(vocab_size=140))
    return replace(TokenizerPair.load(folder), tags=("de", "fr"))


def test_a_tag_is_one_reserved_token(tokenizers: TokenizerPair) -> None:
    assert tokenizers.src.ids_to_tokens(SourcePrefix(tag="fr").ids(tokenizers)) == ["<tag1>"]
    assert set(SourcePrefix(tag="de").ids(tokenizers)) <= set(tokenizers.src.special_ids)


@pytest.mark.parametrize("text", ["translate English to German:", "  translate English to German: "])
def test_a_text_prefix_is_segmented_as_if_it_were_in_the_line(tokenizers: TokenizerPair, text: str) -> None:
    prefix = SourcePrefix(tag="de", prefix=text).ids(tokenizers)
    line = tokenizers.src.encode(["a dog"])[0]
    whole = tokenizers.src.encode(["translate English to German: a dog"])[0]
    assert [*prefix, *line] == [tokenizers.src.token_to_id("<tag0>"), *whole]


def test_unknown_tags_are_refused_with_the_known_ones(tokenizers: TokenizerPair) -> None:
    with pytest.raises(UsageError, match="tag 'it': unknown; the model has de, fr"):
        SourcePrefix(tag="it").ids(tokenizers)
    with pytest.raises(UsageError, match="tag 'it': unknown; the model has no tags"):
        SourcePrefix(tag="it").ids(replace(tokenizers, tags=()))


def test_tags_keep_their_numbers_when_more_are_added() -> None:
    assert merge_tags(("de", "fr"), ["cs", None, "de"]) == ("de", "fr", "cs")
    with pytest.raises(ValueError, match=f"{NUM_TAGS + 1} tags, and the tokenizer reserves {NUM_TAGS}"):
        merge_tags((), map(str, range(NUM_TAGS + 1)))


def test_tags_are_on_disk_and_in_the_hash(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    tokenizers.save(tmp_path)
    assert TokenizerPair.load(tmp_path).tags == ("de", "fr")
    assert len({replace(tokenizers, tags=tags).hash() for tags in ((), ("de",), ("de", "fr"), ("fr", "de"))}) == 4
