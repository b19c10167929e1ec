"""Equality of the fast road with the layers and searches as they are written, in float32: many lines, 30 settings.

    python tools/benchmarks/search_equality.py MODEL INPUT [--lines 1000] [--only beam]

For each setting: lines whose best hypotheses differ, those of them that are near-ties (at the first token that differs,
or in the score, both are within 1e-5; in sampling of one path, the random number is within 1e-6 of the probability mass
that gives the other token), the largest difference of log-probabilities among equal hypotheses, and the
seconds of both roads. Sampling uses the same random numbers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mtkit.corpus.order.batch import collate_source
from mtkit.inference.native_search import NativeModel
from mtkit.model_folder.folder import LoadedModel, read_model
from mtkit.search.config import LengthLimit, MaxLength, SamplingConfig, SearchConfig
from mtkit.search.constraints import ExcludedTexts, ForcedPrefix, TokenBytes
from mtkit.search.hypothesis import Hypothesis, SearchSettings, SentenceRequest
from mtkit.search.interface import SearchRequest
from mtkit.search.length_penalty import GNMT, WordReward
from mtkit.search.single_path import SampleKey, Sampling, SinglePathSearch, uniform
from mtkit.text.lines import read_lines
from mtkit.translate.translator import special_ids

NEAR = 1e-5  # nats
NEAR_MASS = 1e-6  # of a random number to the border between two tokens
BATCH = 100  # lines that are searched together


@dataclass(frozen=True)
class Setting:
    """A search, and constraints on every line: the first tokens of its translation, and frequent pieces of text."""

    config: SearchConfig
    prefix: int = 0
    forbidden: tuple[str, ...] = ()
    with_scores: bool = True
    with_attention: bool = False


def sampling(**options: Any) -> SearchConfig:
    return SearchConfig(method=SamplingConfig(**options), n_best=options.get("num_samples", 1))


GREEDY, BEAM = SearchConfig(beam_size=1), SearchConfig(beam_size=5)
SETTINGS = {
    "greedy": Setting(GREEDY, with_scores=False),
    "greedy with scores": Setting(GREEDY),
    "beam 2": Setting(SearchConfig(beam_size=2)),
    "beam 5": Setting(BEAM),
    "beam 12": Setting(SearchConfig(beam_size=12)),
    "5 best": Setting(SearchConfig(beam_size=5, n_best=5)),
    "patience 3": Setting(SearchConfig(beam_size=4, patience=3.0)),
    "no length penalty": Setting(SearchConfig(beam_size=4, length_penalty=0.0)),
    "gnmt": Setting(SearchConfig(beam_size=4, length_penalty=GNMT())),
    "word reward": Setting(SearchConfig(beam_size=4, length_penalty=WordReward())),
    "coverage": Setting(replace(BEAM, coverage_penalty=0.2)),
    "minimum length": Setting(replace(BEAM, min_length=LengthLimit(factor=1.5))),
    "greedy minimum length": Setting(replace(GREEDY, min_length=LengthLimit(factor=1.5)), with_scores=False),
    "maximum length": Setting(replace(BEAM, max_length=MaxLength(factor=0.6, offset=0))),
    "greedy no 2-gram": Setting(replace(GREEDY, no_repeat_ngram=2)),
    "no 1-gram": Setting(replace(BEAM, no_repeat_ngram=1)),
    "no 3-gram": Setting(replace(BEAM, no_repeat_ngram=3)),
    "greedy repetition penalty": Setting(replace(GREEDY, repetition_penalty=1.3)),
    "repetition penalty": Setting(replace(BEAM, repetition_penalty=1.3)),
    "greedy prefix": Setting(GREEDY, prefix=3),
    "prefix": Setting(BEAM, prefix=3),
    "greedy forbidden": Setting(GREEDY, forbidden=("ein", "e", "der ")),
    "forbidden": Setting(BEAM, forbidden=(" ein", "Mann", "ie")),
    "forbidden after a prefix": Setting(replace(BEAM, no_repeat_ngram=3), prefix=2, forbidden=(" ein", "a")),
    "attention": Setting(BEAM, with_attention=True),
    "greedy attention": Setting(GREEDY, with_scores=False, with_attention=True),
    "sampling": Setting(sampling()),
    "sampling, cold": Setting(sampling(temperature=0.5, seed=7)),
    "sampling, 10 best": Setting(sampling(top_k=10)),
    "sampling, nucleus of 5": Setting(sampling(top_p=0.9, num_samples=5)),
    "sampling, epsilon": Setting(replace(sampling(epsilon=0.02, temperature=1.5, num_samples=3), no_repeat_ngram=3)),
}


class Roads:
    """A model on both roads."""

    def __init__(self, loaded: LoadedModel, weights: Any) -> None:
        self.loaded, self.model = loaded, loaded.model.eval()
        self.fast = NativeModel(loaded.metadata.model, weights, "float32", threads=torch.get_num_threads())
        self.token_bytes = loaded.tokenizers.tgt.token_bytes()
        self.table = TokenBytes(self.token_bytes)

    def written(self, ids: list[list[int]], first: int, setting: Setting, texts: list[bytes]) -> list[list[Hypothesis]]:
        options = {"with_log_probs": setting.with_scores, "with_attention": setting.with_attention}
        search = setting.config.build(self.special_ids(setting), **options)
        return search(self.model, self.request(ids, first, setting, texts))

    def request(self, ids: list[list[int]], first: int, setting: Setting, texts: list[bytes]) -> SearchRequest:
        source = collate_source(ids, self.loaded.tokenizers.src.vocab)
        sizes = [len(each) for each in ids]
        constraints: list[Any] = []
        if texts or setting.prefix:
            constraints = [ExcludedTexts([texts] * len(ids), self.table), ForcedPrefix(self.prefixes(ids, setting))]
        return SearchRequest(
            source=source,
            real=source.real,
            max_length=torch.tensor([max(setting.prefix, setting.config.max_length.of(size)) for size in sizes]),
            min_length=torch.tensor([setting.config.min_length.of(size) for size in sizes]),
            sentence_ids=torch.arange(first, first + len(ids)),
            constraints=tuple(constraints),
        )

    def draws_from(self, ids: list[int], number: int, setting: Setting, tokens: Sequence[int], step: int) -> bool:
        """Return whether the random number of a step, in sampling of one path, is next to the mass of a token."""
        search = setting.config.build(self.special_ids(setting), with_log_probs=True)
        if not isinstance(search, SinglePathSearch) or not isinstance(search.choose, Sampling) or search.num_paths > 1:
            return False
        sampling, margins = search.choose, []

        def choose(logits: torch.Tensor, key: SampleKey) -> tuple[torch.Tensor, torch.Tensor]:
            prob, column = sampling.distribution(logits)
            end = prob.cumsum(1)[0]  # of the mass of each token, most probable first
            rank = int((column[0] == tokens[min(key.step, len(tokens) - 1)]).nonzero())
            random = float(uniform(sampling.seed, key)[0] * end[-1])
            margins.append(max(float(end[rank] - prob[0, rank]) - random, random - float(end[rank])))
            return sampling(logits, key)

        replace(search, choose=choose)(self.model, self.request([ids], number, setting, []))
        return margins[step] < NEAR_MASS

    def native(self, ids: list[list[int]], first: int, setting: Setting, texts: list[bytes]) -> list[list[Hypothesis]]:
        eos, config = self.loaded.tokenizers.src.vocab.eos, setting.config
        requests = [
            SentenceRequest(
                source=[*each, eos],
                max_length=max(setting.prefix, config.max_length.of(len(each))),
                min_length=config.min_length.of(len(each)),
                sentence_id=first + number,
                prefix=prefix,
                exclude=texts,
            )
            for number, (each, prefix) in enumerate(zip(ids, self.prefixes(ids, setting), strict=True))
        ]
        settings = SearchSettings(
            config=config,
            special_ids=self.special_ids(setting),
            with_log_probs=setting.with_scores,
            with_attention=setting.with_attention,
            token_bytes=self.token_bytes,
        )
        return self.fast.search(requests, settings)

    def special_ids(self, setting: Setting) -> Any:
        return special_ids(self.loaded.tokenizers.tgt, allow_unknown=setting.config.allow_unknown)

    def prefixes(self, ids: list[list[int]], setting: Setting) -> list[list[int]]:
        """A few tokens of each source, of those that a translation may contain."""
        banned = {*self.special_ids(setting).banned, self.loaded.tokenizers.src.vocab.eos}
        return [[token for token in each if token not in banned][: setting.prefix] for each in ids]


def is_near(written: Hypothesis, fast: Hypothesis, draws: Callable[[int], bool]) -> bool:
    """Return whether two hypotheses differ by a near-tie: in their score, or at the first token that differs.

    `draws` tells whether the random number of a step is next to what gives the token of `fast`.
    """
    if abs(written.score - fast.score) < NEAR:
        return True
    pairs = zip([*written.tokens, -1], [*fast.tokens, -1], strict=False)
    first = next((t for t, (a, b) in enumerate(pairs) if a != b), 0)
    return draws(first) or abs(written.token_log_probs[first] - fast.token_log_probs[first]) < NEAR


def distance(written: Hypothesis, fast: Hypothesis) -> float:
    """Largest difference of log-probabilities and attention of equal hypotheses."""
    a, b = np.array(written.token_log_probs), np.array(fast.token_log_probs)
    size = min(len(a), len(b))
    values = np.abs(a[:size] - b[:size])
    result = float(np.nan_to_num(values).max(initial=0))
    if written.attention is not None and fast.attention is not None and len(written.tokens):
        padded = np.asarray(written.attention)[:, : fast.attention.shape[1]]
        result = max(result, float(np.abs(padded - fast.attention).max()))
    return result


def compare(name: str, setting: Setting, roads: Roads, lines: Sequence[list[int]]) -> bool:
    """Print the row of a setting; returns whether all differences are near-ties."""
    texts = [roads.loaded.tokenizers.tgt.text_bytes(text) for text in setting.forbidden]
    differ = near = 0
    largest, seconds = 0.0, [0.0, 0.0]
    for first in range(0, len(lines), BATCH):
        ids = list(lines[first : first + BATCH])
        results = []
        for road, compute in enumerate((roads.written, roads.native)):
            start = time.perf_counter()
            results.append(compute(ids, first, setting, texts))
            seconds[road] += time.perf_counter() - start
        for number, (written, fast) in enumerate(zip(*results, strict=True)):
            if [h.tokens for h in written] == [h.tokens for h in fast]:
                flags = [(h.finished, h.failed) for h in written] == [(h.finished, h.failed) for h in fast]
                differ += not flags
                largest = max([largest, *(distance(*pair) for pair in zip(written, fast, strict=True))])
                continue
            differ += 1
            pairs = [pair for pair in zip(written, fast, strict=False) if pair[0].tokens != pair[1].tokens]
            tokens = [*pairs[0][1].tokens, roads.loaded.tokenizers.tgt.vocab.eos] if pairs else []
            draws = partial(roads.draws_from, ids[number], first + number, setting, tokens)
            near += all(is_near(*pair, draws) for pair in pairs) and len(written) == len(fast)
    ratio = seconds[0] / max(seconds[1], 1e-9)
    print(f"{name:28}{differ:8}{near:8}{largest:12.1e}{seconds[0]:10.2f}{seconds[1]:10.2f}{ratio:8.2f}", flush=True)
    return differ == near


def compare_scores(roads: Roads, lines: Sequence[list[int]]) -> None:
    """Print the row of forced decoding: the log-probabilities of greedy translations as given targets."""
    setting = SETTINGS["greedy with scores"]
    eos, largest = roads.loaded.tokenizers.src.vocab.eos, 0.0
    for first in range(0, len(lines), BATCH):
        ids = list(lines[first : first + BATCH])
        hypotheses = [best for best, *_ in roads.written(ids, first, setting, [])]
        pairs = [([*source, eos], best.tokens) for source, best in zip(ids, hypotheses, strict=True)]
        for best, scores in zip(hypotheses, roads.fast.score(pairs, roads.special_ids(setting)), strict=True):
            found = np.array([score.log_prob for score in scores])
            largest = max(largest, float(np.abs(found - np.array(best.token_log_probs)).max()))
    print(f"{'scores of given targets':28}{'':16}{largest:12.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--only", default="", help="settings whose names contain this text")
    arguments = parser.parse_args()
    loaded = read_model(arguments.model)
    weights = {name: tensor.detach().numpy() for name, tensor in loaded.model.named_parameters()}
    roads = Roads(loaded, weights)
    texts = [line for line, _ in zip(read_lines(arguments.input), range(arguments.lines), strict=False) if line.strip()]
    lines = loaded.tokenizers.src.encode(texts)
    print(f"{len(lines)} lines\n{'':28}{'differ':>8}{'near':>8}{'distance':>12}{'written':>10}{'fast':>10}{'ratio':>8}")
    chosen = {name: setting for name, setting in SETTINGS.items() if arguments.only in name}
    is_equal = [compare(name, setting, roads, lines) for name, setting in chosen.items()]
    compare_scores(roads, lines)
    raise SystemExit(0 if all(is_equal) else 1)


if __name__ == "__main__":
    main()
