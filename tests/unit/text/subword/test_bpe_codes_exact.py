"""BPE codes give any text back, also text with the marks of subword-nmt and the names of control tokens."""

from __future__ import annotations

import random

import pytest

from mtkit.text.subword.listed_vocabulary import BpeCodes, with_characters
from mtkit.text.subword.tokenizer import Tokenizer

PARTS = ["@", "@@", "@@@", "</w>", "<", "/", "w", ">", "x", "xy", " ", " ", "<s>", "<unk>", "-8,2", "\u3000", "é"]
LINES = ["@@ -8,2 +11,6 @@", "x@@ y", "@@@ @@ @", "</w>", "a</w> </w>b", "<s> x</s>", "  @@  ", "x</w>@@", "@@</w> @@x"]


def random_line(rng: random.Random) -> str:
    return "".join(rng.choices(PARTS, k=rng.randint(1, 8)))


def random_codes(rng: random.Random, version: str) -> bytes:
    """Merges of symbols of random words, as training on text with these marks gives them."""
    merges: list[str] = []
    for _ in range(rng.randint(1, 12)):
        word = random_line(rng).replace(" ", "") or "x"
        symbols = [*word, "</w>"] if version == "0.1" else [*word[:-1], word[-1] + "</w>"]
        while len(symbols) > 1 and rng.random() < 0.85:
            at = rng.randrange(len(symbols) - 1)
            merges.append(f"{symbols[at]} {symbols[at + 1]}")
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    codes = "\n".join([f"#version: {version}", *(merges or ["x x"])]) + "\n"
    return with_characters(codes.encode(), "".join(PARTS) + "".join(LINES))


@pytest.mark.whole
@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_any_codes_give_any_text_back(version: str) -> None:
    rng = random.Random(int(version[-1]))
    for _ in range(300):
        model = random_codes(rng, version)
        lines = [*LINES, *(random_line(rng) for _ in range(8))]
        codes, tokenizer = BpeCodes(model), Tokenizer(model)
        assert codes.decode(codes.encode(lines)) == lines
        assert codes.decode(codes.encode(lines, out_type=str)) == lines
        assert tokenizer.decode_tokens(tokenizer.encode_as_tokens(lines)) == lines
        sampled = [codes.sample(line, seed=1, alpha=0.3) for line in lines]
        assert codes.decode(sampled) == lines
        control = {token_id for token_id in range(codes.vocab.size) if codes.is_control(token_id)}
        assert not control & {token_id for ids in codes.encode(lines) for token_id in ids}


def test_the_smallest_example() -> None:
    codes = BpeCodes(b"#version: 0.2\nx @\nx@ @</w>\n")
    assert codes.encode(["x@@ y"], out_type=str) == [["x@@", "@@@", "@", "y"]]
    assert codes.decode(codes.encode(["x@@ y"], out_type=str)) == ["x@@ y"]
    assert codes.encode(["x@"], out_type=str) == [["x@@", "@"]]  # as subword-nmt
