"""Tokenizers with some of their tokens: lines of kept tokens are segmented and decoded as before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.compression.vocabulary import _kept_tokens
from mtkit.text.language import script_name
from mtkit.text.subword.tokenizer import Tokenizer
from tests.unit.text.subword.test_kinds import TEXT, learn

KINDS = {
    "bpe": {"model_type": "bpe", "vocab_size": 260},
    "bpe with bytes": {"model_type": "bpe", "vocab_size": 480, "byte_fallback": True},
    "unigram": {"model_type": "unigram", "vocab_size": 160},
    "byte_bpe": {"model_type": "byte_bpe", "vocab_size": 450},
}
CHARACTERS = sorted({character for line in TEXT for character in line})


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return learn(tmp_path_factory.mktemp("kinds"), **KINDS[request.param])


@given(
    line=st.text(CHARACTERS, max_size=30) | st.sampled_from(TEXT) | st.text("語é🙂 a", max_size=8),
    seed=st.integers(0, 1000),
    share=st.floats(0, 1),
)
def test_lines_of_kept_tokens_are_as_before(tokenizer: Tokenizer, line: str, seed: int, share: float) -> None:
    draw, vocab = random.Random(seed), tokenizer.vocab
    used = [token_id for token_id in range(vocab.size) if draw.random() < share]
    kept = _kept_tokens(tokenizer, used, [])
    cut = tokenizer.with_tokens(kept, {}, {})
    assert cut.vocab.size == len(kept)
    assert cut.unsupported() is None
    (before,), (after,) = tokenizer.encode([line]), cut.encode([line])
    names = cut.ids_to_tokens(after)
    assert set(names) <= set(tokenizer.ids_to_tokens(kept))
    if set(before) <= set(kept):
        assert names == tokenizer.ids_to_tokens(before)
    scripts = {script_name(character) for token_id in used for character in tokenizer.model_pieces[token_id]}
    if vocab.unk not in before and {script_name(character) for character in line} <= {*scripts, None}:
        assert vocab.unk not in after
        assert cut.decode([after])[0].strip() == tokenizer.decode([before])[0].strip()  # outer spaces are no text
    if tokenizer.inner_model == tokenizer.model and (sample := cut.sample(line, seed=seed, alpha=0.1)):
        assert set(cut.ids_to_tokens(sample)) <= set(tokenizer.ids_to_tokens(kept))


def test_segmentation_without_dropout_is_that_of_the_cut_model(tmp_path: Path) -> None:
    tokenizer = learn(tmp_path, **KINDS["bpe"])
    used = tokenizer.encode([TEXT[1]])[0]
    cut = tokenizer.with_tokens(_kept_tokens(tokenizer, used, []), {}, {})
    assert cut.vocab.size < tokenizer.vocab.size
    for line in TEXT[:4]:
        assert cut.sample(line, seed=1, alpha=0.0) == cut.encode([line])[0]
