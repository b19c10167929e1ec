"""Rules for the tokenizer: size of the vocabulary, one or two vocabularies."""

from __future__ import annotations

import math

from mtkit.recipe.defaults.facts import Choice, Facts, Values
from mtkit.recipe.defaults.model_size import SHALLOW, size_of
from mtkit.text.special_tokens import SPECIAL_TOKENS

TOKENS_PER_SQRT_PAIR = 60  # 4,000 tokens for 4,600 pairs, 10,000 for 29,000
SMALLEST, LARGEST = 1000, 32_000
STEP = 500
RESERVED = len(SPECIAL_TOKENS) + 4  # with pad, unk, bos and eos
TOKENS_PER_CHARACTER = 2  # room for the subwords of a script with thousands of characters
CHAR_SHARE = 0.9  # of the characters for a vocabulary of them; the rarest are noise, and the rule sees a sample
MIN_SHARED_CHARACTERS = 0.3  # en-de 0.9, en-ja 0.1 to 0.2 (markup and digits)
LARGEST_SHORT = 5000  # for a model that reads little text: each token is seen more often, and updates are faster


def shared(facts: Facts, values: Values) -> Choice:
    """One vocabulary if both sides use the same characters (Sennrich et al. 2016, sec. 3.2: joint BPE)."""
    overlap = facts.corpus.shared_characters
    share = f"{overlap:.0%} of the text is written in characters of both sides"
    if values["model.tied_embeddings"] == "all":
        return Choice(True, "tied_embeddings all")
    if overlap >= MIN_SHARED_CHARACTERS:
        return Choice(True, share)
    if "corpus.noise.kind" in values:
        return Choice(True, "monolingual text is both source and target")
    return Choice(False, f"only {share}")


def vocab_size(facts: Facts, values: Values) -> Choice:
    """Proportional to the square root of the pairs, with room for the alphabet, within what the text can give.

    Fewer tokens in a budget so short that batches are smaller or layers fewer.
    """
    text = facts.corpus
    size, reason = TOKENS_PER_SQRT_PAIR * math.sqrt(text.pairs), f"{text.pairs:,} pairs"
    is_very_short = facts.limits.batch_tokens is not None or size_of(facts)[0] in SHALLOW
    if size > LARGEST_SHORT and is_very_short:
        size, reason = LARGEST_SHORT, f"{facts.limits.words} of training"
    sides = (text.src, text.tgt)
    alphabets = [side.alphabet.keys() for side in sides]
    is_shared = values["tokenizer.shared"]
    characters = len(alphabets[0] | alphabets[1]) if is_shared else max(map(len, alphabets))
    if values["tokenizer.model_type"] == "char":
        return Choice(RESERVED + math.floor(CHAR_SHARE * characters), f"{characters:,} different characters")
    if (room := TOKENS_PER_CHARACTER * characters + RESERVED) > size:
        size, reason = room, f"{characters:,} different characters"
    size = min(max(size, SMALLEST), LARGEST)
    words = sum(s.distinct_words for s in sides) / 2 if is_shared else min(s.distinct_words for s in sides)
    if not any(side.is_unspaced for side in sides) and (most := RESERVED + characters + words / 2) < size:
        return Choice(math.floor(most), f"{round(words):,} different words give no more tokens")
    return Choice(max(STEP, STEP * round(size / STEP)), reason)
