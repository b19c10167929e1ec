"""sentencepiece models of other programs in which names of special tokens are symbols of the text."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import sentencepiece

from mtkit.errors import DataError
from mtkit.text.subword.import_tokenizer import import_tokenizer

SYMBOLS = ["<s>", "</s>", "<pad>", "<mtkit:s>", "<mtkit:pad>", "<mtkit:s2>"]
LINES = [f"a dog {n} sees the cat" for n in range(40)]


def train(path: Path, symbols: list[str], *, bos: bool, eos: bool, pad: bool) -> None:
    ids = {name: number for number, name in enumerate(["unk", *(["bos"] * bos), *(["eos"] * eos), *(["pad"] * pad)])}
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES), model_writer=file, vocab_size=60, model_type="char", minloglevel=2,
            user_defined_symbols=symbols, **{f"{name}_id": ids.get(name, -1) for name in ("unk", "bos", "eos", "pad")},
            num_threads=1, hard_vocab_limit=False,
        )  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(4))
def test_names_that_are_taken_are_replaced(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    subsets = [list(subset) for size in range(4) for subset in itertools.combinations(SYMBOLS, size)]
    for symbols in rng.sample(subsets + subsets, 50):
        roles = {role: rng.random() < 0.3 for role in ("bos", "eos", "pad")}
        taken = {"<s>": "bos", "</s>": "eos", "<pad>": "pad"}
        symbols = [name for name in symbols if not roles.get(taken.get(name, ""))]  # sentencepiece refuses these
        path = tmp_path / "x.model"
        train(path, symbols, **roles)
        own = sentencepiece.SentencePieceProcessor(model_file=str(path))
        tokenizer = import_tokenizer(path).tokenizer
        assert tokenizer.unsupported() is None
        vocab = tokenizer.vocab
        assert len({vocab.pad, vocab.unk, vocab.bos, vocab.eos}) == 4
        lines = [*LINES[:2], *(f"a{name} dog" for name in symbols)]
        assert tokenizer.encode(lines) == own.encode(lines)  # all ids stay
        special = set(tokenizer.special_ids)
        assert not special & {token_id for ids in tokenizer.encode(lines) for token_id in ids}


def test_a_piece_with_a_null_character_is_the_reason(tmp_path: Path) -> None:
    train(tmp_path / "m.model", [], bos=True, eos=True, pad=False)
    content = (tmp_path / "m.model").read_bytes()
    assert b"\n\x01d" in content  # the piece `d`
    (tmp_path / "m.model").write_bytes(content.replace(b"\n\x01d", b"\n\x01\0"))
    with pytest.raises(DataError, match=r"m\.model: a piece holds a null character, which sentencepiece refuses"):
        import_tokenizer(tmp_path / "m.model")
