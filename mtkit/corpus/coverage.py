"""Dropped and invented words: is each word of a source covered by its translation, and each word of that supported?

The evidence is a lexicon of both directions (IBM Model 1, see ibm_model1.py), not the model that translates: what this
believes wrongly, it believes with confidence. Each pair of tokens has t(target | source) and t(source | target), times
a prior for the diagonal (Dyer et al. 2013, https://aclanthology.org/N13-1073/). From these come posteriors of both
directions, and soft links in which tokens compete (Sinkhorn iterations, with slack for tokens without a partner).

A logistic regression turns features of a word into the probability that it has no partner. It is calibrated on the
validation set, from whose pairs a program deletes words and into which it inserts words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.ibm_model1 import REMEDY, Lexicon, learn_lexicon
from mtkit.corpus.order.ragged import Ragged
from mtkit.corpus.store import SIDES, Store
from mtkit.errors import DamagedError
from mtkit.io.safetensors_file import map_tensors
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.spans import is_spaced
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair

Floats = NDArray[np.float32]

MIN_PROBABILITY = 0.7  # from which a word counts as dropped or invented
MIN_PAIRS, MIN_WORDS = 50, 30  # of a validation set, and harmed ones of each side, that a calibration needs
MAX_PAIRS, USUAL_PAIRS = 1000, 20_000  # of each set for the calibration, and for the usual links of tokens
MAX_LENGTH = 60  # tokens of a side of these pairs
MAX_TARGETS, MIN_PROB = 16, 0.01  # of a token, in each direction
DIAGONAL = 4.0  # the prior is exp(-DIAGONAL · |s/S - t/T|)
EMPTY_WORD, FLOOR = 0.3, 1e-3  # weight of the empty word in posteriors, and that of what the lexicon lacks
SLACK, ITERATIONS = 0.02, 3  # of the soft links
COPY = 0.3  # least probability of the token with the same letters on the other side
LEAST = 1e-4  # probability whose logarithm is taken of smaller ones
RARE = 5  # occurrences of a token, which weigh as much as the mean of all tokens
BLOCK, BLOCK_CELLS = 256, 1 << 17  # pairs that are computed together, and squares of the longest one's length
MAX_JUDGED = 1000  # tokens of a side of a pair; longer ones have no doubts
RIDGE, NEWTON_STEPS = 1.0, 12  # of the regression
MOST, LINKED = 0.7, 0.2  # of the links of a word, for its label; and its links, without which it had no partner before
BEGINS, COUNTS = 1, 2  # kinds of tokens
NUM_FEATURES = 11  # of tokens; words have one more
PREFIX = "coverage1."  # of the columns in the file of the lexicon, with their version: others are ignored


class Doubt(NamedTuple):
    """A word without a partner: the index of its first token with letters or digits, and the probability."""

    token: int
    probability: float


class Doubts(NamedTuple):
    """Words of a source that its translation seems to lack, and words of this that have no source."""

    dropped: Sequence[Doubt]
    invented: Sequence[Doubt]


@dataclass(frozen=True)
class Regression:
    """Logistic regression on products of the standardised features of words and a constant 1.

    Attributes:
        mean, scale: of the features [K].
        weights: of the products, [K + 1, K + 1].
    """

    mean: Floats
    scale: Floats
    weights: Floats

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], side: str) -> Regression:
        """That of a side."""
        return cls(*(columns[f"{side}.{name}"] for name in ("mean", "scale", "weights")))

    @classmethod
    def fit(cls, features: NDArray[np.float64], y: NDArray[np.float64]) -> Regression:
        """Fit features [W, K] to labels [W] by Newton's method."""
        mean, scale = features.mean(0), np.maximum(1e-3, features.std(0))
        ones = np.ones((len(features), 1))
        standardised = np.concatenate([(features - mean) / scale, ones], 1)
        first, second = np.triu_indices(standardised.shape[1])
        x = standardised[:, first] * standardised[:, second]
        weights = np.zeros(x.shape[1])
        for _ in range(NEWTON_STEPS):
            p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
            hessian = (x * (p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(x.shape[1])
            weights -= np.linalg.solve(hessian, x.T @ (p - y) + RIDGE * weights)
        matrix = np.zeros((standardised.shape[1],) * 2)
        matrix[first, second] = weights
        return cls(*(each.astype(np.float32) for each in (mean, scale, matrix)))

    def probabilities(self, features: Floats) -> Floats:
        """Probability [W] that a word has no partner, from its features [W, K]."""
        x = np.concatenate([(features - self.mean) / self.scale, np.ones((len(features), 1), np.float32)], 1)
        scores = np.einsum("wk,wk->w", np.einsum("wk,kj->wj", x, self.weights), x)
        return 1 / (1 + np.exp(-np.clip(scores, -30, 30)))  # type: ignore[no-any-return]


class _Words(NamedTuple):
    """Words of one side of some pairs: tokens without letters and digits belong to none."""

    features: Floats  # [W, K]
    row: NDArray[np.int64]  # [W] number of the pair
    first: NDArray[np.int64]  # [W] index of its first token in the pair
    word: NDArray[np.int64]  # [tokens of all pairs] number of the word of each token, -1 for none
    is_token: NDArray[np.bool_]  # [N, longest] false for padding

    @property
    def token(self) -> NDArray[np.int64]:
        """[W] the first token of each word, among those of all pairs."""
        return np.flatnonzero(np.diff(np.maximum.accumulate(self.word), prepend=-1) > 0)


@dataclass(frozen=True)
class WordCoverage:
    """Finds dropped and invented words. Sides are source and target; row s of `targets` belongs to source token s.

    Attributes:
        targets: [V_src] rows of target ids, int32.
        forward: t(target | source) of each element, float16.
        backward: t(source | target).
        constants: of each token of each side and, last, of padding, [4, V + 1]: logarithms of its highest probabilities
            in both directions and by the empty word, and its usual sum of links.
        kinds: of each token of each side [V], 1 if it begins a word, plus 2 if it has letters or digits; uint8.
        length_ratio: target tokens for each source token.
        regressions: of each side; empty before the calibration.
    """

    targets: Ragged
    forward: NDArray[np.float16]
    backward: NDArray[np.float16]
    constants: tuple[Floats, Floats]
    kinds: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    length_ratio: float
    regressions: tuple[Regression, ...] = ()

    @classmethod
    def learn(
        cls, train: Sequence[Store], valid: Sequence[Store], lexicon: Lexicon, pair: TokenizerPair
    ) -> WordCoverage | None:
        """Learn it from the training and validation texts; None if these have too few pairs.

        Args:
            lexicon: of the training text, from source to target; that of the other direction is learned here.
        """
        texts = [_sample(stores, count) for stores, count in ((train, USUAL_PAIRS), (valid, MAX_PAIRS))]
        if len(texts[1][0]) < MIN_PAIRS:
            return None
        backward = learn_lexicon(train, backward=True)
        sizes = len(lexicon.targets), len(backward.targets)
        names = [side.ids_to_tokens(range(size)) for side, size in zip((pair.src, pair.tgt), sizes, strict=True)]
        kinds = _kinds(pair.src, names[0]), _kinds(pair.tgt, names[1])
        ids = {token: number for number, token in enumerate(names[1])}
        copies = [(n, ids[token]) for n, token in enumerate(names[0]) if token in ids and kinds[0][n] & COUNTS]
        rows, targets, probabilities = _joined(lexicon, backward, copies)
        constants = np.zeros((4, sizes[0] + 1), np.float32), np.zeros((4, sizes[1] + 1), np.float32)
        for number, values in enumerate(probabilities):
            np.maximum.at(constants[0][number], rows, values)
            np.maximum.at(constants[1][number], targets, values)
        # the end of sentence stands for the empty word
        by_empty, of_empty = rows == pair.src.vocab.eos, targets == pair.tgt.vocab.eos
        constants[1][2, targets[by_empty]] = probabilities[0, by_empty]
        constants[0][2, rows[of_empty]] = probabilities[1, of_empty]
        for of_side in constants:
            of_side[:3] = np.log(of_side[:3] + LEAST)
        coverage = cls(
            Ragged(targets, np.searchsorted(rows, np.arange(sizes[0] + 1))),
            probabilities[0],
            probabilities[1],
            constants,
            kinds,
            len(texts[0][1].flat) / max(1, len(texts[0][0].flat)),
        )
        for of_side, usual in zip(constants, coverage._usual_links(*texts[0]), strict=True):
            of_side[3] = usual
        return replace(coverage, regressions=regressions) if (regressions := coverage._calibrated(*texts[1])) else None

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays, for the file of the lexicon."""
        columns: dict[str, NDArray[Any]] = {
            "targets": self.targets.flat,
            "offsets": self.targets.offsets,
            "forward": self.forward,
            "backward": self.backward,
            "length_ratio": np.array([self.length_ratio], dtype=np.float32),
        }
        for side, constants, kinds, regression in zip(SIDES, self.constants, self.kinds, self.regressions, strict=True):
            columns |= {f"{side}.constants": constants, f"{side}.kinds": kinds}
            columns |= {f"{side}.{name}": value for name, value in vars(regression).items()}
        return {f"{PREFIX}{name}": value for name, value in columns.items()}

    @classmethod
    def load(cls, path: Path, vocab_sizes: tuple[int, int]) -> WordCoverage | None:
        """Read it from the file of a lexicon; None if that is missing or has none, as those of older versions.

        Raises:
            ReadWriteError: the file cannot be read.
            DamagedError: it is damaged, or belongs to other vocabularies.
        """
        if not path.is_file():
            return None
        try:
            _, columns = map_tensors(path)
            if not any(name.startswith(PREFIX) for name in columns):
                return None
            get = {name.removeprefix(PREFIX): value for name, value in columns.items() if name.startswith(PREFIX)}
            coverage = cls(
                Ragged(get["targets"], get["offsets"]),
                get["forward"],
                get["backward"],
                (get["src.constants"], get["tgt.constants"]),
                (get["src.kinds"], get["tgt.kinds"]),
                float(get["length_ratio"][0]),
                (Regression.of(get, "src"), Regression.of(get, "tgt")),
            )
        except (ValueError, KeyError, IndexError) as error:
            raise DamagedError(f"{path}: damaged: its columns of coverage cannot be read", REMEDY) from error
        if not coverage._is_consistent(get, vocab_sizes):
            raise DamagedError(f"{path}: damaged: its columns of coverage contradict each other", REMEDY)
        return coverage

    def _is_consistent(self, columns: Mapping[str, NDArray[Any]], vocab_sizes: tuple[int, int]) -> bool:
        """Return whether types and shapes are right, all indices exist and all numbers are finite."""
        (sources, targets), pairs, features = vocab_sizes, len(self.targets.flat), NUM_FEATURES + 1
        expected: dict[str, tuple[str, tuple[int, ...]]] = {
            "targets": ("int32", (pairs,)),
            "offsets": ("int64", (sources + 1,)),
            "forward": ("float16", (pairs,)),
            "backward": ("float16", (pairs,)),
            "length_ratio": ("float32", (1,)),
        }
        for side, size in zip(SIDES, vocab_sizes, strict=True):
            expected |= {f"{side}.constants": ("float32", (4, size + 1)), f"{side}.kinds": ("uint8", (size,))}
            expected |= {f"{side}.{name}": ("float32", (features,)) for name in ("mean", "scale")}
            expected[f"{side}.weights"] = ("float32", (features + 1, features + 1))
        return (
            {name: (str(each.dtype), each.shape) for name, each in columns.items()} == expected
            and self.targets.offsets[0] == 0
            and int(self.targets.offsets[-1]) == pairs
            and bool((np.diff(self.targets.offsets) >= 0).all())
            and bool(((self.targets.flat >= 0) & (self.targets.flat < targets)).all())
            and all(np.isfinite(each).all() for each in columns.values() if np.issubdtype(each.dtype, np.floating))
            and min(self.length_ratio, *(float(columns[f"{side}.scale"].min()) for side in SIDES)) > 0
        )

    @cached_property
    def _empty(self) -> list[Floats]:
        """Probability of each token of each side by the empty word."""
        return [np.exp(each[2]) - LEAST for each in self.constants]

    def doubts(self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> list[Doubts]:
        """The words of each pair that have no partner, from the ids of both sides without ends of sentences."""
        results: list[tuple[list[Doubt], list[Doubt]]] = [([], []) for _ in src]
        longest = [max(map(len, pair)) for pair in zip(src, tgt, strict=True)]
        order = sorted((pair for pair, length in enumerate(longest) if length <= MAX_JUDGED), key=longest.__getitem__)
        while order:  # the longest first
            count = max(1, min(BLOCK, BLOCK_CELLS // max(1, longest[order[-1]]) ** 2))
            order, block = order[:-count], order[-count:]
            sides = [Ragged.of([side[pair] for pair in block]) for side in (src, tgt)]
            for side, words in enumerate(self._words(*sides)[:2]):
                if not len(words.row):
                    continue
                probabilities = self.regressions[side].probabilities(words.features)
                for word in np.flatnonzero(probabilities >= MIN_PROBABILITY):
                    doubt = Doubt(int(words.first[word]), round(float(probabilities[word]), 3))
                    results[block[words.row[word]]][side].append(doubt)
        return [Doubts(*each) for each in results]

    def _words(self, src: Ragged, tgt: Ragged) -> tuple[_Words, _Words, Floats]:
        """The words of both sides of N pairs with their features, and the soft links [S, T, N]."""
        sides, lengths = (src, tgt), (src.lengths, tgt.lengths)
        ids = [_padded(each, len(kinds)) for each, kinds in zip(sides, self.kinds, strict=True)]  # [S, N], [T, N]
        is_token = [np.arange(len(x))[:, None] < n for x, n in zip(ids, lengths, strict=True)]
        forward, backward = self._evidence(*ids)
        best = [[each.max(1 - side) for each in (forward, backward)] for side in (0, 1)]
        s, t = (
            np.exp(DIAGONAL * np.arange(len(x), dtype=np.float32)[:, None] / np.maximum(1, n).astype(np.float32))
            for x, n in zip(ids, lengths, strict=True)
        )
        prior = s[:, None] / t
        np.minimum(prior, 1 / prior, out=prior)
        forward *= prior
        backward *= prior
        links = np.sqrt(forward * backward)
        v = np.ones(ids[1].shape, np.float32)
        for _ in range(ITERATIONS):
            u = 1 / (np.einsum("stn,tn->sn", links, v) + SLACK)
            v = 1 / (np.einsum("stn,sn->tn", links, u) + SLACK)
        mass = u * np.einsum("stn,tn->sn", links, v), v * np.einsum("stn,sn->tn", links, u)
        # posteriors: of t(target | source) over the sources, and of t(source | target) over the targets
        empty = [EMPTY_WORD * each[x] + FLOOR for each, x in zip(self._empty, ids, strict=True)]
        total = forward.sum(0), backward.sum(1)
        norm = 1 / (total[0] + empty[1]), 1 / (total[1] + empty[0])
        posteriors = (
            (np.einsum("stn,tn->sn", forward, norm[0]), total[1] * norm[1]),
            (np.einsum("stn,sn->tn", backward, norm[1]), total[0] * norm[0]),
        )
        ratio = np.log((lengths[1] + 1) / ((lengths[0] + 1) * self.length_ratio))
        words = []
        for side, rows in enumerate(sides):
            unlinked = np.where(is_token[1 - side], np.maximum(0, 1 - mass[1 - side]), 0).sum(0)
            unlinked /= np.maximum(1, lengths[1 - side])
            of_tokens = np.empty((NUM_FEATURES, *ids[side].shape), dtype=np.float32)
            for number, each in enumerate((*best[side], *posteriors[side], mass[side])):
                of_tokens[number] = each
            of_tokens[5:9] = self.constants[side][:, ids[side]]
            of_tokens[9], of_tokens[10] = ratio, unlinked
            real = np.ascontiguousarray(is_token[side].T)
            words.append(self._of_words(side, rows, of_tokens.transpose(0, 2, 1)[:, real], real))
        links *= u[:, None]
        links *= v
        return words[0], words[1], links

    def _evidence(self, src: NDArray[np.int64], tgt: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """t(target | source) and t(source | target) [S, T, N], through tables of the tokens that occur."""
        used, rows = _distinct(src, len(self.kinds[0]) + 1)
        others, columns = _distinct(tgt, len(self.kinds[1]) + 1)
        local = np.full(len(self.kinds[1]), -1)  # column of each target token
        real = others[others < len(local)]
        local[real] = np.arange(len(real))
        starts, lengths = self.targets.offsets.take(used, mode="clip"), self.targets.lengths.take(used, mode="clip")
        lengths[used == len(self.targets)] = 0  # of padding
        index = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        column = local[self.targets.flat[index]]
        cell = np.repeat(np.arange(len(used)) * len(others), lengths) + column
        places = np.full(len(used) * len(others), len(self.forward), dtype=np.int32)  # in the lists of probabilities
        places[cell[column >= 0]] = index[column >= 0]
        found = places.take(rows[:, None] * len(others) + columns)
        return self._values[0].take(found), self._values[1].take(found)

    @cached_property
    def _values(self) -> list[Floats]:
        """The probabilities of both directions, and 0 for pairs that the lexicon lacks."""
        return [np.append(each, 0).astype(np.float32) for each in (self.forward, self.backward)]

    def _of_words(self, side: int, rows: Ragged, features: Floats, is_token: NDArray[np.bool_]) -> _Words:
        """The words of rows of tokens, with the means of the features [K - 1, tokens] of their tokens that count."""
        kinds = self.kinds[side][rows.flat]
        starts = kinds & BEGINS > 0
        starts[rows.offsets[:-1][rows.lengths > 0]] = True
        counted = np.flatnonzero(kinds & COUNTS)
        number = np.cumsum(starts)[counted]
        begins = np.flatnonzero(np.diff(number, prepend=0))
        sizes = np.diff(begins, append=len(counted))
        means = np.empty((NUM_FEATURES + 1, len(begins)), dtype=np.float32)
        means[:-1] = features[:, counted[begins]]
        for n in range(1, int(sizes.max(initial=0))):  # np.add.reduceat takes longer than all else
            longer = np.flatnonzero(sizes > n)
            means[:-1, longer] += features[:, counted[begins[longer] + n]]
        means[:-1] /= sizes
        np.log(means[:2] + LEAST, out=means[:2])
        np.minimum(means[2:4], 2, out=means[2:4])
        means[-1] = np.minimum(3, sizes)
        first = counted[begins]
        row = np.searchsorted(rows.offsets, first, side="right") - 1
        word = np.full(len(rows.flat), -1)
        word[counted] = np.repeat(np.arange(len(begins)), sizes)
        return _Words(means.T, row, first - rows.offsets[row], word, is_token)

    def _usual_links(self, src: Ragged, tgt: Ragged) -> list[Floats]:
        """Mean links of each token of both sides in a text; those of a rare one are near the mean of all tokens."""
        sums = [np.zeros((2, each.shape[1])) for each in self.constants]
        for start in range(0, len(src), BLOCK):
            pairs = [side.take(np.arange(start, min(start + BLOCK, len(src)))) for side in (src, tgt)]
            links = self._words(*pairs)[2]
            for side, rows in enumerate(pairs):
                mass = links.sum(1 - side).T[_padded(rows, -1).T >= 0]
                sums[side] += [np.bincount(rows.flat, each, sums[side].shape[1]) for each in (mass, np.ones_like(mass))]
        means = [mass.sum() / max(1, count.sum()) for mass, count in sums]
        return [
            ((mass + RARE * mean) / (count + RARE)).astype(np.float32)
            for (mass, count), mean in zip(sums, means, strict=True)
        ]

    def _calibrated(self, src: Ragged, tgt: Ragged) -> tuple[Regression, ...]:
        """Harm sentence pairs and learn to find the words that lost their partners; empty from too little text.

        Each pair is used as it is, and with one or two words deleted from, or inserted into, its source or its
        translation. An inserted word has no partner, and neither has one most of whose links went to deleted words;
        words that lost some links are left out.
        """
        rng, pairs = np.random.default_rng(1), (src, tgt)
        of_src, of_tgt, links = self._words(src, tgt)
        words = of_src, of_tgt
        samples = [[(each.features, np.zeros(len(each.row)))] for each in words]
        for side in (0, 1):
            groups = [_split(pairs[side][n], self.kinds[side]) for n in range(len(src))]
            for harm in (_insert_words, _delete_words):
                rows, marked = harm(groups, rng)
                found = self._words(*((rows, tgt) if side == 0 else (src, rows)))[:2]
                labels = [np.zeros(len(each.row)) for each in found]
                if harm is _insert_words:
                    labels[side] = marked[found[side].token].astype(np.float64)
                else:
                    labels[1 - side] = _lost(
                        links if side == 0 else links.transpose(1, 0, 2), marked, words[1 - side], pairs[side]
                    )
                for sample, of_side, label in zip(samples, found, labels, strict=True):
                    sample.append((of_side.features[label >= 0], label[label >= 0]))
        x, y = ([np.concatenate([p[n] for p in of_side]).astype(np.float64) for of_side in samples] for n in (0, 1))
        if min(each.sum() for each in y) < MIN_WORDS:
            return ()
        return Regression.fit(x[0], y[0]), Regression.fit(x[1], y[1])


def _joined(
    forward: Lexicon, backward: Lexicon, copies: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float16]]:
    """Source [P] and target [P] of the likely pairs of both directions, in order, and their probabilities [2, P].

    Args:
        copies: tokens with the same letters; their probability is at least COPY, since names are often copied.
    """
    likely = [each.pruned(max_targets=MAX_TARGETS, min_prob=MIN_PROB) for each in (forward, backward)]
    rows = [np.repeat(np.arange(len(each.targets), dtype=np.int64), each.targets.lengths) for each in likely]
    flat = [each.targets.flat.astype(np.int64) for each in likely]
    num_targets = len(backward.targets)
    src, tgt = np.array(copies, dtype=np.int64).reshape(-1, 2).T
    keys = rows[0] * num_targets + flat[0], flat[1] * num_targets + rows[1], src * num_targets + tgt
    both = np.unique(np.concatenate(keys))
    probabilities = np.zeros((2, len(both)), dtype=np.float16)
    for direction, (key, each) in enumerate(zip(keys, likely, strict=False)):
        probabilities[direction, np.searchsorted(both, key)] = each.probabilities
    copied = np.searchsorted(both, keys[2])
    probabilities[:, copied] = np.maximum(probabilities[:, copied], COPY)
    return both // num_targets, (both % num_targets).astype(np.int32), probabilities


def _sample(stores: Sequence[Store], count: int) -> tuple[Ragged, Ragged]:
    """At most `count` pairs of each of some stores, evenly spaced, without those that would take much memory."""
    pairs = []
    for store in stores:
        sides = [store.ids(side) for side in SIDES]
        rows = np.linspace(0, len(store) - 1, min(count, len(store))).astype(np.int64)
        is_short = np.maximum(*(np.diff(each.offsets)[rows] for each in sides)) <= MAX_LENGTH
        pairs.append([each.take(rows[is_short]) for each in sides])
    empty = Ragged.of([])
    return Ragged.concat([empty, *(src for src, _ in pairs)]), Ragged.concat([empty, *(tgt for _, tgt in pairs)])


def _split(row: NDArray[Any], kinds: NDArray[np.uint8]) -> list[NDArray[Any]]:
    """The words of a row of tokens."""
    return np.split(row, np.flatnonzero(kinds[row][1:] & BEGINS) + 1) if len(row) else []


def _insert_words(groups: Sequence[list[NDArray[Any]]], rng: np.random.Generator) -> tuple[Ragged, NDArray[np.bool_]]:
    """Rows with one or two words of other rows, and which of all their tokens are new."""
    rows, marks = [], []
    for row in groups:
        words, is_new = [*row], [False] * len(row)
        for other in rng.integers(len(groups), size=rng.integers(1, 3)):
            if groups[other]:
                place = int(rng.integers(len(words) + 1))
                words.insert(place, groups[other][rng.integers(len(groups[other]))])
                is_new.insert(place, True)
        rows.append([int(token) for word in words for token in word])
        marks += [new for word, new in zip(words, is_new, strict=True) for _ in word]
    return Ragged.of(rows), np.array(marks, dtype=np.bool_)


def _delete_words(groups: Sequence[list[NDArray[Any]]], rng: np.random.Generator) -> tuple[Ragged, NDArray[np.bool_]]:
    """Rows without one or two of their words, and which tokens of the original rows are gone."""
    rows, marks = [], []
    for row in groups:
        gone = set(rng.choice(len(row), rng.integers(1, 3), replace=False).tolist()) if len(row) > 3 else set()
        rows.append([int(token) for n, word in enumerate(row) if n not in gone for token in word])
        marks += [n in gone for n, word in enumerate(row) for _ in word]
    return Ragged.of(rows), np.array(marks, dtype=np.bool_)


def _lost(links: Floats, marked: NDArray[np.bool_], words: _Words, rows: Ragged) -> NDArray[np.float64]:
    """Label [W] of each word whose partners may be gone: 1 if most of its links were on them, 0 if none, else -1.

    Args:
        links: [X, Y, N] where tokens of X were deleted.
        marked: deleted ones, of all tokens of the N rows.
        words: of Y.
        rows: those of X.
    """
    gone = np.zeros((links.shape[2], links.shape[0]), dtype=np.bool_)
    gone[np.arange(len(links)) < rows.lengths[:, None]] = marked
    real = words.is_token
    of_words = []
    for each in (links, links * gone.T[:, None]):
        of_tokens = each.sum(0).T[real]
        of_words.append(np.bincount(words.word[words.word >= 0], of_tokens[words.word >= 0], minlength=len(words.row)))
    total, lost = of_words
    share = lost / np.maximum(total, 1e-9)
    is_unknown = ((share < MOST) & (share > 1 - MOST)) | ((total < LINKED) & np.asarray(gone.any(1))[words.row])
    label = (share >= MOST).astype(np.float64)
    label[is_unknown] = -1
    return label


def _distinct(ids: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct ids, ascending, and the number of each id among them; sooner than np.unique, which sorts."""
    numbers = np.zeros(size, dtype=np.int64)
    numbers[ids] = 1
    distinct = np.flatnonzero(numbers)
    numbers[distinct] = np.arange(len(distinct))
    return distinct, numbers[ids]


def _padded(rows: Ragged, padding: int) -> NDArray[np.int64]:
    """[longest, N] the ids of rows, with padding behind them."""
    lengths = rows.lengths
    padded = np.full((len(rows), max(1, int(lengths.max(initial=0)))), padding, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = rows.flat
    return np.ascontiguousarray(padded.T)


def _kinds(tokenizer: Tokenizer, tokens: Sequence[str]) -> NDArray[np.uint8]:
    """BEGINS for tokens that begin a word, as all do in scripts without spaces, plus COUNTS for those with letters."""
    special, kinds = {*tokenizer.special_ids, tokenizer.vocab.unk}, []
    for number, token in enumerate(tokens):
        letter = "" if number in special else next(filter(str.isalnum, token), "")
        begins = token.startswith(SPACE_MARK) or (letter and not is_spaced(letter))
        kinds.append(BEGINS * bool(begins) + COUNTS * bool(letter))
    return np.array(kinds, dtype=np.uint8)
