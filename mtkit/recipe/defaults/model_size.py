"""Rules for the sizes of model and vocabulary: a Transformer of one of seven sizes, by corpus and machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mtkit.recipe.defaults.facts import Choice, Facts, Values
from mtkit.recipe.defaults.schedule import expected_epochs, is_short
from mtkit.text.vocab import SPECIAL_TOKENS


@dataclass(frozen=True)
class Size:
    """Size of a Transformer.

    Attributes:
        from_tokens: tokens of the smallest corpus that it is chosen for.
    """

    name: str
    from_tokens: int
    d_model: int
    d_ff: int
    num_heads: int
    encoder_layers: int
    decoder_layers: int
    dropout: float
    inner_dropout: float


SHALLOW = (  # for short budgets alone: more updates in the same time
    Size("shallowest", 0, 128, 256, 4, 2, 1, 0.3, 0.1),
    Size("shallow", 0, 128, 256, 4, 2, 2, 0.3, 0.1),
)
SIZES = (
    *SHALLOW,
    Size("tiny", 0, 128, 256, 4, 4, 4, 0.3, 0.1),  # Wu et al. 2021 on Multi30k
    Size("small", 1_000_000, 256, 512, 4, 4, 4, 0.3, 0.1),
    Size("medium", 3_000_000, 512, 1024, 4, 6, 6, 0.3, 0.0),  # fairseq's transformer_iwslt_de_en
    Size("base", 20_000_000, 512, 2048, 8, 6, 6, 0.1, 0.0),  # Vaswani et al. 2017, table 3
    Size("big", 500_000_000, 1024, 4096, 16, 6, 6, 0.1, 0.0),  # the same
)
NARROWEST = len(SHALLOW)  # index of the smallest size with all layers
LARGEST_ON_CPU = 3  # without a GPU larger models take days
FEW_EPOCHS = 20  # 0.1 is better than 0.3 in 10 and 12 of them, equal in 29 (docs/defaults.md)
FEW_EPOCHS_DROPOUT = 0.1
VERY_FEW_EPOCHS = 5  # within a short budget: no dropout at all


def size_of(facts: Facts) -> tuple[Size, str]:
    """Return the size that suits a corpus, and the reason."""
    tokens = facts.corpus.tokens
    index = max(i for i, size in enumerate(SIZES) if tokens >= size.from_tokens)
    reason = f"{SIZES[index].name}: {tokens:,} tokens"
    limit = facts.limits.size
    if limit is not None and index > limit:
        return SIZES[limit], f"{SIZES[limit].name}: {facts.limits.words} of training"
    if not facts.has_gpu and facts.limits.words != "best" and index > LARGEST_ON_CPU:
        return SIZES[LARGEST_ON_CPU], f"{SIZES[LARGEST_ON_CPU].name}: training on a CPU; --budget best lifts this limit"
    return SIZES[index], reason


def d_model(facts: Facts, values: Values) -> Choice:
    """Width by the size that suits the corpus."""
    size, reason = size_of(facts)
    return Choice(size.d_model, reason)


def _of_width(facts: Facts, values: Values) -> tuple[Size, str]:
    """Return the size with the decided width, or the nearest one, and the reason."""
    width = values["model.d_model"]
    size, reason = size_of(facts)
    if size.d_model != width:
        size = min((each for each in SIZES if each not in SHALLOW), key=lambda each: abs(each.d_model - width))
        reason = f"d_model {width}"
    return size, reason


def d_ff(facts: Facts, values: Values) -> Choice:
    """Feed-forward width, in the size's proportion to d_model."""
    size, reason = _of_width(facts, values)
    return Choice(values["model.d_model"] * size.d_ff // size.d_model, reason)


def num_heads(facts: Facts, values: Values) -> Choice:
    """Number of heads of the size, or the largest power of two below it that fits the width with an even head size."""
    size, reason = _of_width(facts, values)
    heads = size.num_heads
    while heads > 1 and values["model.d_model"] % (2 * heads):
        heads //= 2
    return Choice(heads, reason)


def encoder_layers(facts: Facts, values: Values) -> Choice:
    """Depth of the encoder."""
    size, reason = _of_width(facts, values)
    return Choice(size.encoder_layers, reason)


def decoder_layers(facts: Facts, values: Values) -> Choice:
    """Depth of the decoder."""
    size, reason = _of_width(facts, values)
    return Choice(size.decoder_layers, reason)


def tied_embeddings(facts: Facts, values: Values) -> Choice:
    """All embeddings tied with one vocabulary (Vaswani et al. 2017, sec. 3.4), else target and output."""
    if values["tokenizer.shared"]:
        return Choice("all", "one vocabulary")
    return Choice("target", "two vocabularies")


def dropout(facts: Facts, values: Values) -> Choice:
    """More dropout for smaller corpora, and less for a training that reads its corpus a few times only.

    None if a short budget allows very few passes. R-Drop, which compares two dropout masks, keeps some.
    """
    is_needed = values.get("training.objective.kind") == "r_drop"
    if is_short(facts) and expected_epochs(facts, values) < VERY_FEW_EPOCHS and not is_needed:
        return _less_in_few_epochs(_by_tokens(facts).dropout, 0.0, facts, values)
    return _less_in_few_epochs(_by_tokens(facts).dropout, FEW_EPOCHS_DROPOUT, facts, values)


def inner_dropout(facts: Facts, values: Values) -> Choice:
    """Dropout of attention weights and feed-forward layers, for small corpora that are read many times only."""
    return _less_in_few_epochs(_by_tokens(facts).inner_dropout, 0.0, facts, values)


def _less_in_few_epochs(usual: float, less: float, facts: Facts, values: Values) -> Choice:
    epochs = expected_epochs(facts, values)
    if epochs < FEW_EPOCHS and less < usual:
        return Choice(less, f"{epochs:,.1f} epochs of training")
    return Choice(usual, f"{facts.corpus.tokens:,} tokens")


def _by_tokens(facts: Facts) -> Size:
    """Return the size that the corpus alone suggests, on whatever machine and in whatever time."""
    return max((size for size in SIZES if facts.corpus.tokens >= size.from_tokens), key=lambda size: size.from_tokens)


def positions(facts: Facts, values: Values) -> Choice:
    """Rotary positions (Su et al. 2021), which need an even head size.

    They learned faster than sinusoidal ones after three epochs and after six, each at one learning rate.
    """
    heads = values["model.num_heads"]
    if values["model.d_model"] % (2 * heads) == 0:
        return Choice({"kind": "rope"}, "they learned faster than sinusoidal ones in trainings of a few epochs")
    return Choice({"kind": "sinusoidal"}, "an odd head size")


TOKENS_PER_SQRT_PAIR = 60  # 4,000 tokens for 4,600 pairs, 10,000 for 29,000
SMALLEST, LARGEST = 1000, 32_000
STEP = 500
RESERVED = len(SPECIAL_TOKENS) + 4  # with pad, unk, bos and eos
TOKENS_PER_CHARACTER = 2  # room for the subwords of a script with thousands of characters
MAX_WORDS_OF_LISTS = 1.5  # words in a line of a dictionary: a vocabulary of whole words would learn it by heart
CHAR_SHARE = 0.9  # of the characters for a vocabulary of them; the rarest are noise, and the rule sees a sample
MIN_SHARED_CHARACTERS = 0.3  # en-de 0.9, en-ja 0.1 to 0.2 (markup and digits)
LARGEST_SHORT = 5000  # for a model that reads little text: each token is seen more often, and updates are faster


def shared_vocabulary(facts: Facts, values: Values) -> Choice:
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
    room = TOKENS_PER_CHARACTER * characters + RESERVED
    is_unspaced = any(side.is_unspaced for side in sides)
    words = sum(s.distinct_words for s in sides) / 2 if is_shared else min(s.distinct_words for s in sides)
    most = math.floor(RESERVED + characters + words / 2)
    if min(s.words for s in sides) < MAX_WORDS_OF_LISTS and not (
        is_unspaced or values["tokenizer.model_type"] == "word"
    ):
        return Choice(min(room, most), f"lines of single words, spelled with {characters:,} characters")
    if room > size:
        size, reason = room, f"{characters:,} different characters"
    size = min(max(size, SMALLEST), LARGEST)
    if not is_unspaced and most < size:
        return Choice(most, f"{round(words):,} different words give no more tokens")
    return Choice(max(STEP, STEP * round(size / STEP)), reason)
