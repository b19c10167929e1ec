"""Dropped and invented words of a made-up language, whose dictionary tells which words have partners."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from mtkit.corpus.binarise import binarise
from mtkit.corpus.coverage import PREFIX, WordCoverage
from mtkit.corpus.ibm_model1 import Lexicon, learn_lexicon
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import SIDES, Store
from mtkit.errors import DamagedError
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.text.vocab import Vocab
from mtkit.translate.alignment import words_of

DATA = Path(__file__).parents[3] / "data"
SETS, LANGS = ("train", "valid", "test"), ("en", "de")

NUM_WORDS, FIRST = 120, 4
VOCAB = Vocab(size=FIRST + NUM_WORDS + 1, pad=0, unk=1, bos=2, eos=3)
STOP = FIRST + NUM_WORDS  # a full stop, which is no word
Pair = tuple[list[int], list[int], list[int]]  # ids of both sides, and the source position of each target token


@dataclass
class Language:
    """A tokenizer of one token for each word, and one for the full stop."""

    letter: str
    vocab: Vocab = VOCAB
    special_ids: tuple[int, ...] = (0, 2, 3)

    def ids_to_tokens(self, ids: Any) -> list[str]:
        return ["." if each == STOP else f"▁{self.letter}{each}" for each in ids]


@dataclass
class Languages:
    src: Language
    tgt: Language


class Corpus:
    """The part of a store that the lexicon reads."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.sides = {"src": Ragged.of([p[0] for p in pairs]), "tgt": Ragged.of([p[1] for p in pairs])}

    def ids(self, side: str) -> Ragged:
        return self.sides[side]

    def __len__(self) -> int:
        return len(self.sides["src"])

    def release_pages(self) -> None:
        """There are none."""

    def stats(self, side: str) -> Any:
        return type("Stats", (), {"vocab": VOCAB})


def pairs(count: int, seed: int) -> list[Pair]:
    """Word w is w on the other side, but 3n and 3n + 1 are one word there; neighbours change places at times."""
    rng = random.Random(seed)
    weights = [1 / (10 + n) for n in range(NUM_WORDS)]
    result = []
    for _ in range(count):
        src = [FIRST + word for word in rng.choices(range(NUM_WORDS), weights, k=rng.randint(4, 12))]
        order = [*range(len(src))]
        for place in range(len(order) - 1):
            if rng.random() < 0.3:
                order[place], order[place + 1] = order[place + 1], order[place]
        tgt = [src[place] - (src[place] % 3 == 1) for place in order]
        result.append(([*src, STOP], [*tgt, STOP], [*order, len(src)]))
    return result


@pytest.fixture(scope="module")
def coverage() -> WordCoverage:
    found = learned(pairs(3000, 1), pairs(300, 2))
    assert found is not None
    return found


def learned(train: list[Pair], valid: list[Pair]) -> WordCoverage | None:
    stores: list[Any] = [Corpus(train)]
    return WordCoverage.learn(stores, [Corpus(valid)], learn_lexicon(stores), Languages(Language("s"), Language("t")))  # type: ignore[arg-type,list-item]


def test_at_least_80_percent_of_deleted_and_inserted_words_are_found_and_of_alarms_right(
    coverage: WordCoverage,
) -> None:
    rng = random.Random(5)
    texts: list[tuple[list[int], list[int]]] = []
    truth: list[tuple[set[int], set[int]]] = []
    for src, tgt, places in pairs(600, 3):
        words, dropped, invented = [*tgt], set[int](), set[int]()
        place = rng.randrange(len(tgt) - 1)
        if len(texts) % 3 == 1:
            del words[place]
            dropped = {places[place]}
        elif len(texts) % 3 == 2:
            words.insert(place, rng.randrange(FIRST, STOP))
            invented = {place}
        texts.append((src, words))
        truth.append((dropped, invented))
    found = coverage.doubts([src for src, _ in texts], [tgt for _, tgt in texts])
    for side in (0, 1):
        alarms = [(n, each.token) for n, doubts in enumerate(found) for each in doubts[side]]
        right = sum(token in truth[n][side] for n, token in alarms)
        assert right >= 0.8 * len(alarms), (side, right, len(alarms))
        assert right >= 0.8 * sum(len(each[side]) for each in truth), (side, right, len(alarms))
        assert all(0.5 < each.probability <= 1 for doubts in found for each in doubts[side])


def test_results_do_not_depend_on_the_batch(coverage: WordCoverage) -> None:
    rng = random.Random(7)
    texts = [(src, rng.sample(tgt, max(1, len(tgt) - 2))) for src, tgt, _ in pairs(60, 6)]
    texts += [([], []), ([STOP], []), ([], [STOP, FIRST]), ([FIRST, STOP], [STOP])]
    whole = coverage.doubts([src for src, _ in texts], [tgt for _, tgt in texts])
    assert any(each.dropped for each in whole)
    assert whole == [coverage.doubts([src], [tgt])[0] for src, tgt in texts]
    assert coverage.doubts([], []) == []


def test_the_file_gives_it_back_and_a_lexicon_alone_has_none(coverage: WordCoverage, tmp_path: Path) -> None:
    lexicon = Lexicon(coverage.targets, coverage.forward, np.arange(VOCAB.size, dtype=np.int32))
    path, sizes = tmp_path / "lexicon", (VOCAB.size, VOCAB.size)
    assert WordCoverage.load(path, sizes) is None
    lexicon.save(path)
    assert WordCoverage.load(path, sizes) is None
    lexicon.save(path, coverage.columns())
    again = WordCoverage.load(path, sizes)
    assert again is not None
    src, tgt, _ = zip(*pairs(50, 8), strict=True)
    assert again.doubts(src, tgt[::-1]) == coverage.doubts(src, tgt[::-1])
    assert len(Lexicon.load(path).targets) == VOCAB.size
    with pytest.raises(DamagedError, match="contradict"):
        WordCoverage.load(path, (VOCAB.size + 1, VOCAB.size))


def test_each_damaged_column_is_named_as_damage(coverage: WordCoverage, tmp_path: Path) -> None:
    columns, path = coverage.columns(), tmp_path / "lexicon"
    for name, value in columns.items():
        changes: list[np.ndarray | None] = [None, value[:-1], value.astype(np.float64)]
        if value.dtype.kind == "f":
            changes.append(np.full_like(value, np.nan))
        elif value.dtype != np.uint8:
            changes += [np.full_like(value, 1 << 20), np.full_like(value, -2)]
        for change in changes:
            others = {key: each for key, each in columns.items() if key != name}
            safetensors.numpy.save_file(
                others if change is None else {**others, name: np.ascontiguousarray(change)}, path
            )
            with pytest.raises(DamagedError):
                WordCoverage.load(path, (VOCAB.size, VOCAB.size))
    safetensors.numpy.save_file({f"{PREFIX}unknown": np.zeros(1)}, path)
    with pytest.raises(DamagedError):
        WordCoverage.load(path, (VOCAB.size, VOCAB.size))


def test_too_little_validation_text_calibrates_nothing() -> None:
    assert learned(pairs(50, 1), pairs(10, 2)) is None
    assert learned(pairs(50, 1), []) is None
    assert learned(pairs(50, 1), [([STOP], [STOP], [0])] * 60) is None


@pytest.mark.whole
def test_inserted_words_of_the_embedded_corpus_are_found_through_a_subword_model(tmp_path: Path) -> None:
    """What is inserted has no partner for certain; it is looked for by tokens that are parts of words."""
    lines = {f"{name}.{lang}": (DATA / f"{name}.{lang}").read_text().splitlines() for name in SETS for lang in LANGS}
    train_pair([DATA / "train.en"], [DATA / "train.de"], tmp_path, TokenizerConfig(vocab_size=2000))
    tokenizers = TokenizerPair.load(tmp_path)
    for name in ("train", "valid"):
        binarise(DATA / f"{name}.en", DATA / f"{name}.de", tmp_path / name, tokenizers, None)
    train = [Store(tmp_path / "train")]
    found = WordCoverage.learn(train, [Store(tmp_path / "valid")], learn_lexicon(train), tokenizers)
    assert found is not None
    rng = random.Random(1)
    for side, lang in enumerate(LANGS):
        pool = [word for line in lines[f"valid.{lang}"] for word in line.split()]
        texts, places = [[line.split() for line in lines[f"test.{each}"]] for each in LANGS], []
        for words in texts[side]:
            places.append(rng.randrange(len(words)))
            words.insert(places[-1], rng.choice(pool).strip(".,?"))
        ids = [
            tokenizers.encode(each, [" ".join(words) for words in text])
            for each, text in zip(SIDES, texts, strict=True)
        ]
        alarms = [
            (n, words_of(tokenizers.of(SIDES[side]).ids_to_tokens(ids[side][n]))[each.token])
            for n, doubts in enumerate(found.doubts(*ids))
            for each in doubts[side]
        ]
        right = sum(places[n] == word for n, word in alarms)
        assert right >= 0.8 * len(alarms), (lang, right, len(alarms))
        assert right >= 0.8 * len(places), (lang, right, len(alarms))
