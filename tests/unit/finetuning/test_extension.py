"""New pieces: old ids stay, every new token stands for old ones, text is given back, new text needs fewer tokens."""

from __future__ import annotations

from itertools import accumulate, groupby
from pathlib import Path

import pytest
import torch

from mtkit.errors import UsageError
from mtkit.finetuning.extension import ExtendedPair, extend_pair, with_mean_rows
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.new_pieces import MIN_COUNT
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from tests.toy.foreign_models import lines, marian_tokenizer
from tests.unit.text.subword.test_mapped_vocabulary import read_pair

OLD, NEW = lines("train.en", 600), lines("train.de", 600)
SCRIPT = ["日本語の 語 2019 2019 x2019"] * MIN_COUNT
ODD = [*SCRIPT[:1], "", " ", "a  日ü本 ▁ <unk> ß"]
HELD_OUT = [*lines("test.en", 300), *lines("test.de", 300), *ODD]
KINDS = {
    "bpe": {"model_type": "bpe"},
    "unigram": {"model_type": "unigram"},
    "bytes": {"model_type": "byte_bpe"},
    "fallback": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 800},
}


def trained(folder: Path, **settings) -> TokenizerPair:
    (folder / "text").write_text("".join(f"{line}\n" for line in OLD))
    train_pair([folder / "text"], [], folder, TokenizerConfig(**{"vocab_size": 550, **settings}))
    return TokenizerPair.load(folder)


@pytest.fixture(scope="module", params=[*KINDS, "marian"])
def extended(request, tmp_path_factory) -> tuple[TokenizerPair, ExtendedPair, dict[str, list[str]]]:
    """Tokenizers before and after, and text of the kind that they were extended for, by side."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "marian":  # two models of one vocabulary
        marian_tokenizer(folder, num_lines=600)
        pair = read_pair(folder)
        held_out = {side: [*lines(f"test.{lang}", 300), *ODD] for side, lang in (("src", "en"), ("tgt", "de"))}
        return pair, extend_pair(pair, [*lines("train.en")[600:1500], *SCRIPT], NEW, 150), held_out
    pair = trained(folder, **KINDS[request.param])
    return pair, extend_pair(pair, [*NEW, *SCRIPT], SCRIPT, 150), {"src": HELD_OUT, "tgt": HELD_OUT}


def surfaces(tokenizer: Tokenizer, line: str) -> list[bytes]:
    """The bytes of each token of a line; every unknown character is a token."""
    (ids,) = tokenizer.encode([line])
    if tokenizer.vocab.unk in ids:
        pieces, tokens = {*tokenizer.model_pieces}, tokenizer.encode_as_tokens([line])[0]
        return [part.encode() for token in tokens for part in ([token] if token in pieces else token)]
    known = tokenizer.token_bytes()
    return [known[token] for token in ids]


def places(tokens: list[bytes]) -> set[int]:
    """The places of a text where a token ends."""
    return set(accumulate(map(len, tokens)))


@pytest.mark.whole
def test_neighbours_are_joined_and_nothing_else_changes(extended) -> None:
    pair, result, held_out = extended
    for side in ("src", "tgt"):
        old, new = pair.of(side), result.tokenizers.of(side)
        for line in held_out[side][::3] + ODD:
            before, after = surfaces(old, line), surfaces(new, line)
            assert b"".join(after) == b"".join(before)
            assert places(after) <= places(before)


def without_runs(ids: list[int], unk: int) -> list[int]:
    """Ids with one unknown token for several in a row, as sentencepiece counts unknown characters."""
    return [token for token, run in groupby(ids) for _ in ([0] if token == unk else run)]


@pytest.mark.whole
def test_a_new_token_stands_for_the_old_tokens_of_its_text(extended) -> None:
    pair, result, held_out = extended
    for side in ("src", "tgt"):
        old, new, parts = pair.of(side), result.tokenizers.of(side), [*result.parts[side].values()]
        size, fewer = old.vocab.size, 0
        assert new.model_pieces == [*old.model_pieces, *result.parts[side]]
        assert new.special_ids == old.special_ids
        assert not any(set("0123456789<") & {*text} for text in result.parts[side] if len(text) > 1)
        for before, after in zip(old.encode(held_out[side]), new.encode(held_out[side]), strict=True):
            expanded = [part for token in after for part in ((token,) if token < size else parts[token - size])]
            fewer += len(before) - len(after)
            if old.sentencepiece_model in (old.model, None):  # otherwise a token of the other language may be used
                assert without_runs(expanded, old.vocab.unk) == without_runs(before, old.vocab.unk)
        assert fewer > 0


@pytest.mark.whole
def test_new_text_needs_fewer_tokens_and_is_given_back(extended) -> None:
    pair, result, held_out = extended
    for side in ("src", "tgt"):
        old, new = pair.of(side), result.tokenizers.of(side)
        text = held_out[side][-300:-3]
        counts = [sum(map(len, tokenizer.encode(text))) for tokenizer in (old, new)]
        assert counts[1] < 0.9 * counts[0]
        known = [line for line in text if new.vocab.unk not in new.encode([line])[0]]
        assert len(known) > 0.9 * len(text)
        assert new.decode(new.encode(known)) == known
        samples = [new.sample(line, seed=1, alpha=0.1) for line in known[:5]]
        assert new.decode(samples) == known[:5]
        assert samples != new.encode(known[:5])


def test_both_sides_of_one_vocabulary_have_its_new_tokens(extended, tmp_path: Path) -> None:
    pair, result, _ = extended
    sides = result.tokenizers.src, result.tokenizers.tgt
    if pair.src.model_pieces == pair.tgt.model_pieces:
        assert sides[0].model_pieces == sides[1].model_pieces
    result.tokenizers.save(tmp_path)
    again = TokenizerPair.load(tmp_path)
    assert again.hash() == result.tokenizers.hash()
    assert again.config.vocab_size == sides[0].vocab.size


@pytest.mark.parametrize("kind", ["word", "char", "wordpiece"])
def test_other_tokenizers_are_refused(tmp_path: Path, kind: str) -> None:
    pair = trained(tmp_path, model_type=kind, vocab_size=166)
    with pytest.raises(UsageError, match="only sentencepiece models of kind bpe, byte_bpe and unigram"):
        extend_pair(pair, NEW, NEW, 10)


def test_rows_of_new_tokens_are_means() -> None:
    table, output, bias = torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0]]), torch.eye(3), torch.tensor([1.0, 2, 6])
    names = {"src_embedding.table.weight": "a", "tgt_embedding.table.weight": "a"}
    tensors = {"a": table, "output.weight": output, "output.bias": bias, "other": torch.ones(3)}
    names |= {name: name for name in ("output.weight", "output.bias", "other")}
    parts = {"x": (0, 1), "y": (2,), "z": (0, 0, 2)}
    result = with_mean_rows(tensors, names, {"src": parts, "tgt": parts})
    assert result["a"].tolist() == [*table.tolist(), [2, 4], [5, 4], [pytest.approx(7 / 3), pytest.approx(8 / 3)]]
    assert result["output.weight"][3].tolist() == [0.5, 0.5, 0]
    assert result["output.bias"].tolist() == [1, 2, 6, 1.5, 6, pytest.approx(8 / 3)]
    assert result["other"] is tensors["other"]
