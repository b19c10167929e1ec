"""sentencepiece models with the ids of another vocabulary, against Marian's tokenizer of the package transformers."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mtkit.importers.bart import Marian
from mtkit.importers.foreign_folder import Fields, ForeignFolder
from mtkit.importers.vocabulary import LanguagePair
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.subword.import_tokenizer import import_tokenizer
from mtkit.text.subword.mapped_vocabulary import MappedVocabulary, TokenList, pad_vocabulary, with_vocabulary
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from tests.toy.foreign_models import lines, marian_tokenizer

ODD = ["", " ", "a  b ", "ﬁne\u00a0Ａ", "日本 unknown", "</s> <pad> <unk> >>deu<<", "▁x▁", "\t tabs\t"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marian")
    marian_tokenizer(path, num_lines=600, tags=[">>deu<<", ">>nld<<"])
    return path


def read_pair(folder: Path) -> TokenizerPair:
    size = len(json.loads((folder / "vocab.json").read_text()))
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "vocab_size": size}
    fields, direction = Fields(folder / "config.json", ids), LanguagePair("en", "de")
    return Marian().tokenizers(ForeignFolder(folder), fields, direction).pair


@pytest.fixture(scope="module")
def pair(folder: Path) -> TokenizerPair:
    return read_pair(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        return transformers.MarianTokenizer.from_pretrained(folder)


@pytest.mark.whole
def test_ids_are_those_of_marian_on_both_sides(pair: TokenizerPair, theirs: Any) -> None:
    texts = [*lines("test.en", 200), *ODD[:5]]
    expected = [theirs(text).input_ids[:-1] for text in texts]
    assert pair.encode("src", texts) == expected
    assert any(pair.src.vocab.unk in ids for ids in expected)  # pieces that the vocabulary lacks
    texts = lines("test.de", 200)
    assert pair.encode("tgt", texts) == [theirs(text_target=text).input_ids[:-1] for text in texts]


def test_text_produces_no_special_token(pair: TokenizerPair) -> None:
    for side in ("src", "tgt"):
        tokenizer = pair.of(side)
        for ids in tokenizer.encode(ODD):
            assert not set(ids) & set(tokenizer.special_ids)


def test_text_of_ids_is_that_of_marian(pair: TokenizerPair, theirs: Any) -> None:
    ids = [*pair.encode("tgt", lines("test.de", 100)), *pair.encode("src", lines("test.en", 100))]  # of either side
    ids += [[5, 1, 6], [1, 1], [theirs.pad_token_id, 7, 0], []]
    assert pair.tgt.decode(ids) == [theirs.decode(each, skip_special_tokens=True) for each in ids]


def test_a_language_tag_is_marians(pair: TokenizerPair, theirs: Any) -> None:
    assert pair.tags == ("deu", "nld")
    ids = [*SourcePrefix(tag="nld").ids(pair), *pair.encode("src", ["A dog."])[0], pair.src.vocab.eos]
    assert ids == theirs(">>nld<<A dog.").input_ids


def test_a_further_tag_has_a_reserved_token(pair: TokenizerPair) -> None:
    more = replace(pair, tags=(*pair.tags, "formal"))
    (tag,) = SourcePrefix(tag="formal").ids(more)
    assert more.src.ids_to_tokens([tag]) == ["<tag0>"]


def test_both_tokenizers_survive_saving(pair: TokenizerPair, tmp_path: Path) -> None:
    pair.save(tmp_path)
    again = TokenizerPair.load(tmp_path)
    assert again.hash() == pair.hash()
    assert again.encode("src", lines("test.en", 5)) == pair.encode("src", lines("test.en", 5))
    assert import_tokenizer(tmp_path / "src.model").tokenizer.vocab == pair.src.vocab
    assert import_tokenizer(tmp_path / "src.model").model_type == "unigram"


def test_padding_adds_tokens_that_no_text_produces(pair: TokenizerPair) -> None:
    padded = Tokenizer(pad_vocabulary(pair.src.model, 64))
    assert padded.vocab.size % 64 == 0
    assert set(padded.special_ids) - set(pair.src.special_ids) == set(range(pair.src.vocab.size, padded.vocab.size))
    assert padded.encode(lines("test.en", 20)) == pair.src.encode(lines("test.en", 20))


def test_sampled_segmentations_are_of_the_text(pair: TokenizerPair) -> None:
    line = lines("test.en", 1)[0]
    samples = {tuple(pair.src.sample(line, seed=seed, alpha=0.3)) for seed in range(8)}
    assert len(samples) > 1
    assert {pair.src.decode([list(each)])[0] for each in samples} == {line}


def test_spelled_tokens_and_bytes_join_to_the_text(pair: TokenizerPair) -> None:
    for line, tokens in zip(lines("test.de", 20), pair.tgt.encode_as_tokens(lines("test.de", 20)), strict=True):
        assert "".join(tokens).replace("▁", " ").strip() == line
    surfaces = pair.tgt.token_bytes()
    ids = pair.tgt.encode(["Der Hund"])[0]
    assert b"".join(surfaces[each] for each in ids).decode() == "▁Der▁Hund"
    assert pair.tgt.tokens_to_ids(pair.tgt.ids_to_tokens(ids)) == ids


TOKENS = TokenList(["a", "<unk>", "</s>"], pad=2, unk=1, bos=2, eos=2, control=[2])


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": ["a", "a", "</s>"]},
        {"tokens": ["a", 5, "</s>"]},
        {"pad": 3},
        {"bos": -1},
        {"control": []},
        {"control": [2, 1]},
        {"control": ["2"]},
        {"tags": {"deu": 9}},
    ],
)
def test_ids_that_do_not_fit_are_refused(pair: TokenizerPair, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"token|id"):
        replace(TOKENS, **changes)


@pytest.mark.parametrize("cut", [1, 2, 3, 40, -1, -2000])
def test_a_file_that_is_cut_off_is_refused(pair: TokenizerPair, cut: int) -> None:
    with pytest.raises(RuntimeError):
        MappedVocabulary(with_vocabulary(b"", TOKENS) if cut == -2000 else pair.src.model[:cut])
