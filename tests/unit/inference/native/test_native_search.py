"""Whole searches in the library: the hypotheses of the written search, in any batch and on any number of threads."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from mtkit.errors import DataError
from mtkit.inference.native import search as native_search
from mtkit.inference.native.model import NativeTransformer
from mtkit.inference.native.search import bind_search
from mtkit.layers.positions.absolute_config import LearnedConfig, NoPositionConfig, SinusoidalConfig
from mtkit.layers.positions.relative_config import RoPEConfig
from mtkit.layers.positions.sinusoidal import Sinusoidal
from mtkit.models.transformer.model import Embedding
from mtkit.search.beam.coverage import Coverage
from mtkit.search.beam.diverse import DiverseBeam
from mtkit.search.constraints.repeats import NoRepeatNgram
from mtkit.search.length_penalty import GNMT, Average, WordReward
from mtkit.search.method_config import SamplingConfig
from mtkit.search.run import Search
from mtkit.search.single_path import SinglePathSearch
from tests.unit.inference.native.toy_models import SMALL, build, native_model, right_padded
from tests.unit.inference.native.toy_searches import (
    EOS,
    LENGTHS,
    LIMITS,
    OtherFunctions,
    assert_equal,
    beam,
    few,
    in_library,
    model_that_ends,
    parts,
    request,
)

pytestmark = pytest.mark.usefixtures("library")


def assert_like_written_search(search: Search, model: NativeTransformer, **changes: Any) -> None:
    asked = request(**changes)
    native = in_library(search, model)
    assert native.serves(asked)
    assert_equal(native(asked), search(model, asked))


def greedy(**changes: Any) -> SinglePathSearch:
    return SinglePathSearch(parts(**{"with_log_probs": False, **changes}))


KINDS = ["beam", "greedy", "greedy with log-probabilities"]
SEARCHES = {
    "n best": (beam(), {}),
    "one hypothesis": (beam(beam_size=1, n_best=1), {}),
    "one of many": (beam(beam_size=5, n_best=1), {}),
    "wide": (beam(beam_size=17, n_best=17), {}),
    "wider than the vocabulary": (beam(beam_size=70, n_best=5), {}),
    "wider than the rows in work": (beam(beam_size=100, n_best=2), {}),
    "patience": (beam(patience=2.0), {}),
    "endless patience": (beam(patience=math.inf), {}),
    "length limits": (beam(), LIMITS),
    "GNMT": (replace(beam(), parts=replace(beam().parts, length_penalty=GNMT(alpha=0.7))), {}),
    "word reward": (replace(beam(), parts=replace(beam().parts, length_penalty=WordReward(reward=0.8))), {}),
    "greedy": (greedy(), {}),
    "greedy with log-probabilities": (greedy(with_log_probs=True), {}),
    "greedy with limits": (greedy(), LIMITS),
    "greedy with log-probabilities and limits": (greedy(with_log_probs=True), LIMITS),
}


@pytest.mark.parametrize(("search", "changes"), SEARCHES.values(), ids=SEARCHES)
def test_the_hypotheses_are_those_of_the_written_search(search, changes, model) -> None:
    assert_like_written_search(search, model, **changes)


@pytest.mark.parametrize(("patience", "beam_size"), [(1.2, 25), (1.08, 25), (0.1, 10), (0.3, 7)])
def test_enough_hypotheses_are_counted_alike(patience, beam_size) -> None:
    """1.2 as a float times 25 is more than 30."""
    search = beam(beam_size=beam_size, n_best=1, patience=patience)
    assert_like_written_search(search, model_that_ends(torch.float32, factor=3), max_length=torch.tensor(LENGTHS) + 20)


POSITIONS = {
    "none": {"decoder_positions": NoPositionConfig()},
    "learned": {"decoder_positions": LearnedConfig(max_length=40)},
    "interpolated": {"decoder_positions": LearnedConfig(max_length=20, interpolation_factor=2.0)},
    "sinusoidal": {"decoder_positions": SinusoidalConfig()},
    "rotary": {"decoder_positions": RoPEConfig()},
    "rotated halves": {"decoder_positions": RoPEConfig(rotate_half=True)},
}


@pytest.mark.parametrize("search", [beam(), greedy()], ids=["beam", "greedy"])
@pytest.mark.parametrize("changes", POSITIONS.values(), ids=POSITIONS)
def test_positions_of_every_kind_that_is_added_or_rotated(changes, search) -> None:
    assert_like_written_search(search, native_model(replace(SMALL, **changes)))


@pytest.mark.parametrize("search", [beam(), greedy()], ids=["beam", "greedy"])
def test_learned_positions_end_with_their_table(search) -> None:
    """At most one position more than tokens is read; a longer request is left to the written search, which says so."""
    model = native_model(replace(SMALL, decoder_positions=LearnedConfig(max_length=12)))
    model.output.weight[EOS] = 0  # seldom the end
    assert_like_written_search(search, model, max_length=torch.full((10,), 11))
    asked = request(max_length=torch.full((10,), 13))
    assert not in_library(search, model).serves(asked)
    with pytest.raises(DataError, match="12 learned positions"):
        bind_search(search, model)(asked)


@pytest.mark.parametrize("search", [beam(), greedy()], ids=["beam", "greedy"])
def test_long_translations_let_the_cache_grow(search) -> None:
    model = model_that_ends(torch.float32)
    model.output = type(model.output)(model.output.weight.index_fill(0, torch.tensor([EOS]), 0), None, torch.float32)
    lengths = torch.tensor([300, 3, 150, 70, 90, 260, 0, 1, 2, 40])
    assert_like_written_search(search, model, max_length=lengths)
    found = in_library(search, model)(request(max_length=lengths))
    assert max(len(hypotheses[0].tokens) for hypotheses in found) > 250


@pytest.mark.parametrize("search", [beam(n_best=4), greedy(), greedy(with_log_probs=True)], ids=KINDS)
@pytest.mark.parametrize("rows", [1, 4, 12, 1000], ids=str)
def test_batches_order_and_sentences_in_work_change_nothing(search, rows, model, monkeypatch) -> None:
    native, source = in_library(search, model), right_padded(LENGTHS)
    together = native(request())
    monkeypatch.setattr(native_search, "ROWS", rows)
    for order in (list(range(10)), list(range(9, -1, -1)), [3], [4, 0], [1, 7, 1, 1, 1, 2, 9]):
        some = source.select(torch.tensor(order))
        found = native(request(source=some, max_length=torch.tensor(LENGTHS)[order] + 8, **few(len(order))))
        assert list(map(exact, found)) == [exact(together[sentence]) for sentence in order]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("search", [beam(), greedy()], ids=["beam", "greedy"])
def test_threads_change_nothing(search, model, monkeypatch) -> None:
    monkeypatch.setattr(native_search, "MIN_ITEMS", 1)
    handles = counted_searches(model, monkeypatch)
    native = in_library(search, model)
    shared = native(request())
    assert len(handles) == 2
    torch.set_num_threads(1)
    assert list(map(exact, shared)) == list(map(exact, native(request())))
    assert len(handles) == 3


def exact(hypotheses: list[Any]) -> list[str]:
    """All that is known of hypotheses, to the last bit; NaN equals NaN."""
    return [repr((each.tokens, each.score, each.token_log_probs, each.finished)) for each in hypotheses]


def counted_searches(model: NativeTransformer, monkeypatch) -> list[int]:
    """The list of the searches that will be begun."""
    handles: list[int] = []
    begin = model.functions.mtkit_search_begin

    def counted(task: Any, places: int) -> Any:
        handles.append(begin(task, places))
        return handles[-1]

    monkeypatch.setattr(model, "functions", OtherFunctions(model.functions, mtkit_search_begin=counted))
    return handles


@pytest.mark.parametrize("search", [beam(), greedy(), greedy(with_log_probs=True)], ids=KINDS)
def test_a_sentence_that_is_not_finite_fails_alone(search, model) -> None:
    native, asked = in_library(search, model), request()
    expected = native(asked)
    model.src_embedding = copy.deepcopy(model.src_embedding)  # shared with the target side
    model.src_embedding.table.weight.data[asked.source.ids[4, 11]] = float("nan")
    is_hit = (asked.source.ids == asked.source.ids[4, 11]).logical_and(asked.source.real).any(1).tolist()
    assert 0 < sum(is_hit) < len(is_hit)
    for found in (native(asked), search(model, asked)):
        assert [hypotheses[0].failed for hypotheses in found] == is_hit
        for hypotheses, before, failed in zip(found, expected, is_hit, strict=True):
            assert failed or [each.tokens for each in hypotheses] == [each.tokens for each in before]


class Doubled(Average):
    """A length penalty that somebody has written."""

    def score(self, log_prob: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        return 2 * super().score(log_prob, length)


OTHERS = {
    "another length penalty": replace(beam(), parts=replace(beam().parts, length_penalty=Doubled())),
    "constraints": beam(constraints=(NoRepeatNgram(1),)),
    "attention": beam(with_attention=True),
    "coverage": beam(with_attention=True, coverage=Coverage(0.3)),
    "diverse": beam(DiverseBeam(groups=2, diversity_strength=0.5)),
    "sampling": SinglePathSearch(parts(), SamplingConfig(seed=3).chooser()),
    "several paths": SinglePathSearch(parts(n_best=2), num_paths=2),
    "greedy with attention": greedy(with_attention=True),
}


@pytest.mark.parametrize("search", OTHERS.values(), ids=OTHERS)
def test_other_searches_take_one_step_after_another(search, monkeypatch) -> None:
    model = model_that_ends(torch.float32)
    handles = counted_searches(model, monkeypatch)
    assert_equal(bind_search(search, model)(request()), search(model, request()))
    assert not handles


@pytest.mark.parametrize("search", [beam(), greedy()], ids=["beam", "greedy"])
def test_requests_for_more_take_one_step_after_another(search, monkeypatch) -> None:
    model = model_that_ends(torch.float32)
    handles = counted_searches(model, monkeypatch)
    bound, asked = bind_search(search, model), request()
    bound(asked)
    assert len(handles) == 1
    assert_equal(
        bound(replace(asked, constraints=(NoRepeatNgram(1),))),
        search(model, replace(asked, constraints=(NoRepeatNgram(1),))),
    )
    nothing = right_padded([1]).select(torch.tensor([], dtype=torch.int64))
    assert bound(request(source=nothing, max_length=torch.tensor([], dtype=torch.int64), **few(0))) == []
    assert len(handles) == 1


def test_other_models_take_one_step_after_another() -> None:
    """Also those that compute only their projections in the library."""
    written = build()
    assert_equal(bind_search(beam(), written)(request()), beam()(written, request()))


class Halved(Embedding):
    """An embedding that somebody has changed."""

    def forward(self, *arguments: Any) -> torch.Tensor:
        return super().forward(*arguments) / 2


class Shrinking(Sinusoidal):
    """Positions that somebody has changed."""

    def embed(self, x: torch.Tensor, pos: torch.Tensor, real: torch.Tensor | None = None) -> torch.Tensor:
        return super().embed(x / 2, pos, real)


@pytest.mark.parametrize("changed", ["embedding", "positions", "positions of the same name"])
def test_changed_embeddings_are_not_overridden(changed, monkeypatch) -> None:
    model = native_model(replace(SMALL, decoder_positions=SinusoidalConfig()))
    assert in_library(beam(), model).serves(request())
    old = model.tgt_embedding
    if changed == "embedding":
        model.tgt_embedding = Halved(old.table, old.position, 0).eval()
    elif changed == "positions":
        model.tgt_embedding = Embedding(old.table, Shrinking(SMALL.d_model), 0).eval()
    else:
        embed = Sinusoidal.embed
        monkeypatch.setattr(Sinusoidal, "embed", lambda self, x, *arguments: embed(self, x / 2, *arguments))
    assert not in_library(beam(), model).serves(request())
    assert_equal(bind_search(beam(), model)(request()), beam()(model, request()))
