"""Copy tokens: spans of both sides become the same tokens, and come back exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.text.config import TokenizerConfig
from mtkit.text.copy_tokens import NUM_COPIES, copied_texts, pair_places
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.text.vocab import spare_token

WORDS = ["see", "the", "page", "at", "for", "now", "(", ")", ".", ",", "a", "犬を", "x"]
SPANS = ["https://x.org/a_b", "%s", "{name}", "1,250.50", "12", "`f(x)`", "a@b.org", "😀", "<b>", "2026-11-26"]
JOINTS = ["", " ", "\u2003"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> TokenizerPair:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    text = "see the page at ( now ) for a . , 犬を\n" * 50 + "0123456789 is it? % s { } < > `\n"
    (folder / "text").write_text(text, encoding="utf-8")
    config = TokenizerConfig(vocab_size=200, copy_tokens=True)
    train_pair([folder / "text"], [folder / "text"], folder, config)
    return TokenizerPair.load(folder)


def tokens(pair: TokenizerPair, ids: list[int]) -> str:
    return " ".join(pair.src.ids_to_tokens(ids))


def copy(number: int, *, swapped: bool = False) -> str:
    return spare_token(number + NUM_COPIES * swapped)


JOINT = spare_token(2 * NUM_COPIES)


def test_a_source_has_a_copy_token_for_each_span(pair):
    (ids,) = pair.encode("src", ["see (https://x.org/a_b) at 12"])
    assert tokens(pair, ids) == f"▁see ▁( {JOINT} {copy(0)} {JOINT} ▁) ▁at {copy(1)}"


def test_equal_spans_are_one_copy_and_small_numbers_are_text(pair):
    assert copied_texts("12 a 3 12 %s") == ["12", "%s"]
    (ids,) = pair.encode("src", ["12 a 12"])
    assert tokens(pair, ids) == f"{copy(0)} ▁a {copy(0)}"


def test_spans_of_both_sides_are_copies_and_others_text(pair):
    src, tgt = pair.encode_pairs(["see 17 at %s"], ["%s at see the"])
    assert tokens(pair, tgt[0]) == f"{copy(0)} ▁at ▁see ▁the"
    assert copy(0) in tokens(pair, src[0])
    assert "1 7" in tokens(pair, src[0])


def test_numbers_with_other_separators_are_copies_of_another_kind(pair):
    src, tgt = pair.encode_pairs(["see 1,250.50 at 2.5"], ["see 1.250,50 at 2.5"])
    assert tokens(pair, src[0]) == f"▁see {copy(0)} ▁at {copy(1)}"
    assert tokens(pair, tgt[0]) == f"▁see {copy(0, swapped=True)} ▁at {copy(1)}"
    assert pair.decode(tgt, ["see 1,250.50 at 2.5"]) == ["see 1.250,50 at 2.5"]


@pytest.mark.parametrize(
    ("src", "tgt"),
    [("12", "112"), ("%s %s", "%s"), ("FOO_BAR", "FOO_BARS"), ("12 is", "12 and 12"), ("no", "no"), ("2", "2")],
)
def test_no_copies_where_the_sides_differ(src, tgt):
    assert pair_places(src, tgt) == ([], [])


def test_further_spans_stay_text(pair):
    line = " ".join(f"x{number}@b.org" for number in range(NUM_COPIES + 2))
    assert len(copied_texts(line)) == NUM_COPIES
    (ids,) = pair.encode("src", [line])
    assert sum(pair.src.ids_to_tokens([each])[0].startswith("<spare") for each in ids) == NUM_COPIES


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from([*WORDS, *SPANS]), st.sampled_from(JOINTS)), min_size=1, max_size=12))
def test_a_line_comes_back_from_its_ids_and_its_surfaces(pair, parts):
    line = "".join(part + joint for part, joint in parts)
    line = pair.prepare("src", line)
    (ids,) = pair.read("src", [line])
    if pair.src.vocab.unk not in ids:
        text = "".join(pair.spell("src", ids, line)).replace("▁", " ")
        assert text.removeprefix(" ") == line.removeprefix(" ")
        assert pair.decode([ids], [line]) == [line]


def test_a_copy_without_a_span_is_dropped(pair):
    ids = pair.tgt.tokens_to_ids(["▁see", copy(3), JOINT, JOINT, "▁the", copy(0)])
    assert pair.decode([ids], ["at %s"]) == ["seethe %s"]
    assert "".join(pair.spell("tgt", ids, "at %s")).replace("▁", " ").strip() == "seethe %s"


def test_copies_need_single_spaces():
    with pytest.raises(ValueError, match="copy_tokens: needs normaliser plain-1"):
        TokenizerConfig(copy_tokens=True, normaliser="none")


def test_tokenizers_without_copies_read_spans_as_text(pair):
    from dataclasses import replace

    plain = replace(pair, config=replace(pair.config, copy_tokens=False))
    line = "see 12 at %s"
    assert plain.encode("src", [line]) == plain.src.encode([line])
    assert plain.encode_pairs([line], [line]) == (plain.src.encode([line]), plain.tgt.encode([line]))
    assert plain.hash() != pair.hash()
    assert not plain.copy_ids("tgt")
