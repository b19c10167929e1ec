"""New pieces for a tokenizer that exists: joins of its own pieces, learned from text for which it needs many.

New pieces come after all others. Text is segmented as before, and then neighbours are joined: where no new piece fits,
the tokens are those of the old tokenizer. BPE models apply new merges last. In unigram models, the score of a new piece
is the sum of the scores of its parts plus JOIN_BONUS for each join.
"""

from __future__ import annotations

import heapq
import unicodedata
from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain, groupby, pairwise

import sentencepiece

from mtkit.errors import UsageError
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.import_tokenizer import model_type_of
from mtkit.text.subword.mapped_vocabulary import MappedVocabulary, with_vocabulary
from mtkit.text.subword.protobuf import piece_field
from mtkit.text.subword.tokenizer import Tokenizer

MIN_COUNT = 10  # occurrences of a piece, so that its vector is trained
JOIN_BONUS = 0.01  # nats; far above the rounding of a sentence's score, far below the differences of segmentations

Parts = dict[str, tuple[int, ...]]  # by new token: the old tokens that it replaces
_Join = tuple[str, str]


def require_extendable(tokenizer: Tokenizer) -> bytes:
    """The sentencepiece model of a tokenizer; UsageError unless it has one of kind bpe or unigram."""
    content = tokenizer.inner_model
    if content is None or model_type_of(content) not in ("bpe", "unigram"):
        raise UsageError(
            "finetune: --extend-tokenizer: only sentencepiece models of kind bpe, byte_bpe and unigram can be "
            "extended, and this model has another tokenizer; omit the option"
        )
    return content


class PieceLearner:
    """A sentencepiece model, and new pieces for it.

    A unit is a piece of the model, or a character that it lacks.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        is_mapped = tokenizer.model.startswith(MappedVocabulary.header)
        self._mapped = MappedVocabulary(tokenizer.model) if is_mapped else None
        self._content = require_extendable(tokenizer)
        self._is_bpe = model_type_of(self._content) == "bpe"
        processor = self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._content)
        ids = range(processor.get_piece_size())
        self._bytes = {processor.id_to_piece(i) for i in ids if processor.is_byte(i)}
        special = {i for i in ids if processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i)}
        texts = [i for i in ids if i not in special]
        self._scores: dict[str, float] = {processor.id_to_piece(i): processor.get_score(i) for i in texts}
        self._lowest = min(self._scores.values())
        self._units: Parts = {}  # ids of the old tokens of each unit
        self._new: dict[str, float] = {}  # scores

    def learn(self, lines: Iterable[str], count: int) -> None:
        """Learn characters that the model lacks, then joins of units, at most `count` in all."""
        words: Counter[tuple[str, ...]] = Counter(word for line in lines for word in self._words(line))
        characters: Counter[str] = Counter()
        for word, number in words.items():
            characters.update({unit: number * word.count(unit) for unit in {*word} - self._scores.keys()})
        for text, number in characters.most_common(count):
            if number >= MIN_COUNT and unicodedata.category(text)[0] not in "CZ":
                self._add(text, self._old_ids(text), self._lowest)
        known = ChainMap(self._new, self._scores)
        for left, right in _joins(words, set(known)):
            if len(self._new) >= count:
                break
            if left + right not in known:
                parts, score = self._old_ids(left) + self._old_ids(right), known[left] + known[right] + JOIN_BONUS
                self._add(left + right, parts, score)

    def _add(self, text: str, parts: tuple[int, ...], score: float) -> None:
        self._new[text] = self._lowest - 1 - len(self._new) if self._is_bpe else score
        self._units[text] = parts

    def _words(self, line: str) -> Iterator[tuple[str, ...]]:
        """The units of each word of a line."""
        pieces: list[str] = self._processor.encode(self._tokenizer.model_text(line), out_type=str)
        units: list[str] = []
        for is_byte, run in groupby(pieces, self._bytes.__contains__):
            if is_byte:
                units += bytes(int(piece[3:5], 16) for piece in run).decode(errors="replace")
            else:
                units += chain.from_iterable([piece] if piece in self._scores else piece for piece in run)
        word: list[str] = []
        for unit in units:
            if unit.startswith(SPACE_MARK) and word:
                yield tuple(word)
                word = []
            word.append(unit)
        yield tuple(word)

    def _old_ids(self, unit: str) -> tuple[int, ...]:
        """The old tokens of a unit; a character that the model lacks has those of its bytes, or is unknown."""
        if unit in self._units:
            return self._units[unit]
        vocabulary = self._mapped or self._processor
        names = [f"<0x{byte:02X}>" for byte in unit.encode()] if unit not in self._scores and self._bytes else [unit]
        return tuple(vocabulary.piece_to_id(names))

    def new_tokens(self) -> Parts:
        """The new pieces that are no tokens of the vocabulary yet, as one of the other language may be."""
        known = set(self._tokenizer.model_pieces)
        return {text: self._units[text] for text in self._new if text not in known}

    def extended(self, tokens: Iterable[str]) -> Tokenizer:
        """The tokenizer with the new pieces, and with `tokens` after all others."""
        content = self._content + b"".join(piece_field(text, score) for text, score in self._new.items())
        if self._mapped is not None:
            listed = self._mapped.token_list
            content = with_vocabulary(content, replace(listed, tokens=[*listed.tokens, *tokens]))
        return Tokenizer(content, form=self._tokenizer.form)


def _joins(words: Mapping[tuple[str, ...], int], known: set[str]) -> Iterator[_Join]:
    """Pairs of neighbours to join, the most frequent first, each counted after those before it are joined.

    Sennrich et al. 2016, algorithm 1, https://arxiv.org/abs/1508.07909, over units instead of characters. Known units
    of letters are joined, so that numbers and punctuation stay as they are.
    """
    sequences, weights = [list(word) for word in words], list(words.values())
    counts: Counter[_Join] = Counter()
    places: defaultdict[_Join, set[int]] = defaultdict(set)
    for index, sequence in enumerate(sequences):
        _count(counts, sequence, weights[index])
        for join in pairwise(sequence):
            places[join].add(index)
    queue = [(-number, join) for join, number in counts.items() if _is_allowed(join, known)]
    heapq.heapify(queue)
    while queue:
        negative, join = heapq.heappop(queue)
        number = counts[join]
        if number < MIN_COUNT:
            continue
        if number != -negative:  # it changed since: wait for its turn
            heapq.heappush(queue, (-number, join))
            continue
        yield join
        text = join[0] + join[1]
        known.add(text)
        changed: set[_Join] = set()
        for index in places.pop(join):
            _count(counts, sequences[index], -weights[index])
            sequences[index] = _joined(sequences[index], join)
            _count(counts, sequences[index], weights[index])
            created = {pair for pair in pairwise(sequences[index]) if text in pair}
            for pair in created:
                places[pair].add(index)
            changed |= created
        for pair in sorted(pair for pair in changed if _is_allowed(pair, known)):
            heapq.heappush(queue, (-counts[pair], pair))


def _count(counts: Counter[_Join], sequence: list[str], number: int) -> None:
    for pair in pairwise(sequence):
        counts[pair] += number


def _joined(sequence: list[str], join: _Join) -> list[str]:
    """A sequence with each occurrence of a pair joined, from the left."""
    result: list[str] = []
    for unit in sequence:
        if result and (result[-1], unit) == join:
            result[-1] += unit
        else:
            result.append(unit)
    return result


def _is_allowed(join: _Join, known: set[str]) -> bool:
    left, right = join
    return left in known and right in known and _is_letters(left.removeprefix(SPACE_MARK)) and _is_letters(right)


@lru_cache(1 << 16)
def _is_letters(text: str) -> bool:
    """Return whether a text has letters and their marks only."""
    return all(unicodedata.category(character)[0] in "LM" for character in text)
