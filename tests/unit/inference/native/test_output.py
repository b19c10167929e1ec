"""The output projection: logits, and the best tokens of beams against the search's own ranking of all logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mtkit.inference.native.library import native
from mtkit.inference.native.output import NativeOutput
from mtkit.models.interface import Ranking, RankingRequest
from mtkit.search.fast_topk import log_normaliser, top_k

pytestmark = pytest.mark.usefixtures("library")

TYPES = [torch.float32, torch.bfloat16, torch.int8]
NONE = torch.zeros(0, dtype=torch.int64)
EXCLUDED = torch.tensor([0, 2, 1])
ROUNDING = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.int8: 1 / 127}  # of one number


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def output_of(weight: Tensor, bias: Tensor | None = None, dtype: torch.dtype = torch.float32) -> NativeOutput:
    if not native().supports(dtype):
        pytest.skip(f"the processor has no instructions for {dtype}")
    return NativeOutput(weight, bias, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("vocab", "width"), [(1, 1), (3, 24), (16, 37), (33, 64), (300, 7), (1025, 130)])
@pytest.mark.parametrize("rows", [0, 1, 14])
def test_logits_are_those_of_the_layer(rows, vocab, width, with_bias, dtype) -> None:
    weight, bias, x = random(vocab, width), random(vocab) if with_bias else None, random(rows, width, seed=2)
    found = output_of(weight, bias, dtype)(x)
    exact = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    # int8: steps relative to the largest number of a row, in both factors of all products; else to the number itself
    sizes = [
        each.abs().amax(1, keepdim=True).expand_as(each) if dtype == torch.int8 else each.abs() for each in (x, weight)
    ]
    bound = 2 * ROUNDING[dtype] * (sizes[0] @ sizes[1].T) + width * 2.0**-23 * (x.abs() @ weight.abs().T + 10)
    assert found.shape == (rows, vocab)
    assert ((found - exact).abs() <= bound).all()


def assert_ranks(output: NativeOutput, x: Tensor, log_prob: Tensor, request: RankingRequest) -> Ranking:
    """The ranking is that of all logits, where equal totals may be in any order."""
    ranking, logits = output.ranking(x, log_prob, request), output(x)
    torch.testing.assert_close(ranking.normaliser, log_normaliser(logits), rtol=1e-6, atol=1e-5)
    assert torch.equal(ranking.end, logits[:, request.end])
    offset, width = log_prob - ranking.normaliser, request.rows_per_beam
    logits[:, request.excluded] = float("-inf")
    expected = top_k(logits, request.count, offset, width)
    assert ranking.value.shape == ranking.row.shape == ranking.column.shape == expected.value.shape
    total = ranking.value + offset[ranking.row]
    assert torch.equal(total, expected.value + offset[expected.row])
    ranked = ranking.value > float("-inf")
    assert torch.equal(ranking.value[ranked], logits[ranking.row, ranking.column][ranked])
    assert ((ranking.column >= 0) & (ranking.column < logits.size(1))).all()
    assert torch.equal(ranking.row // width, torch.arange(len(ranking.row)).unsqueeze(1).expand_as(ranking.row))
    for rows, columns, is_ranked in zip(ranking.row.tolist(), ranking.column.tolist(), ranked.tolist(), strict=True):
        tokens = [each for each, is_token in zip(zip(rows, columns, strict=True), is_ranked, strict=True) if is_token]
        assert len(set(tokens)) == len(tokens)
    return ranking


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("vocab", [4, 60, 127, 128, 129, 1000])
@pytest.mark.parametrize(("width", "count"), [(1, 1), (1, 70), (4, 8), (5, 400), (13, 26), (30, 5)])
def test_the_best_tokens_of_beams(vocab, width, count, dtype) -> None:
    output = output_of(random(vocab, 24), random(vocab, seed=4), dtype)
    x, log_prob = random(3 * width, 24, seed=2), 3 * random(3 * width, seed=3)
    for excluded in (EXCLUDED, NONE):
        assert_ranks(output, x, log_prob, RankingRequest(excluded, 2, count, width))


@pytest.mark.parametrize("bias", [-1e4, -100.0, 0.0, 80.0, 1e4])
@pytest.mark.parametrize("scale", [0.01, 5.0, 1000.0])
def test_logits_of_any_size(scale, bias) -> None:
    output, x = output_of(random(700, 16), torch.full((700,), bias)), scale * random(20, 16, seed=2)
    ranking = assert_ranks(output, x, torch.zeros(20), RankingRequest(EXCLUDED, 2, 10, 5))
    exact = output(x).double().logsumexp(1)
    torch.testing.assert_close(ranking.normaliser.double(), exact, rtol=1e-6, atol=2e-6)


def test_dead_hypotheses_are_ranked_last() -> None:
    output, x, log_prob = output_of(random(60, 24)), random(9, 24, seed=2), random(9)
    log_prob[[0, 4, 5]] = float("-inf")
    log_prob[6:] = float("-inf")
    assert_ranks(output, x, log_prob, RankingRequest(EXCLUDED, 2, 6, 3))
    assert_ranks(output, x, log_prob, RankingRequest(EXCLUDED, 2, 60, 3))  # the live ones have 57 tokens each


def test_no_token_is_left() -> None:
    output = output_of(random(3, 24))
    ranking = output.ranking(random(4, 24), torch.zeros(4), RankingRequest(EXCLUDED, 2, 4, 2))
    assert (ranking.value == float("-inf")).all()
    assert ((ranking.column >= 0) & (ranking.column < 3)).all()
    assert (ranking.row // 2 == torch.arange(2).unsqueeze(1)).all()


def test_equal_logits_are_in_the_order_of_rows_and_columns() -> None:
    weight = random(1, 24).expand(300, 24)
    x = random(1, 24, seed=2).expand(6, 24)
    ranking = output_of(weight).ranking(x, torch.zeros(6), RankingRequest(EXCLUDED, 2, 500, 3))
    order = [(row, column) for row in range(3) for column in range(3, 300)][:500]
    assert list(zip(ranking.row[0].tolist(), ranking.column[0].tolist(), strict=True)) == order
    assert torch.equal(ranking.row[1], ranking.row[0] + 3)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_show_in_the_normaliser_of_their_row(bad, dtype) -> None:
    output, x, log_prob = output_of(random(300, 24), dtype=dtype), random(30, 24, seed=2), random(30)
    request = RankingRequest(EXCLUDED, 2, 6, 3)
    expected = output.ranking(x, log_prob, request)
    x[13, 4] = bad
    ranking = output.ranking(x, log_prob, request)
    assert ranking.normaliser.isnan().nonzero().flatten().tolist() == [13]
    assert ((ranking.column >= 0) & (ranking.column < 300)).all()
    assert (ranking.row // 3 == torch.arange(10).unsqueeze(1)).all()
    others = torch.arange(10) != 13 // 3
    for found, before in zip(ranking[:3], expected[:3], strict=True):
        assert torch.equal(found[others], before[others])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("column", [0, 2, 130, 299])
def test_a_token_that_is_not_finite_shows_in_all_normalisers(column, bad) -> None:
    weight = random(300, 24)
    weight[column, 3] = bad
    ranking = output_of(weight).ranking(random(4, 24).abs(), torch.zeros(4), RankingRequest(EXCLUDED, 2, 4, 2))
    assert not ranking.normaliser.isfinite().any()


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("is_inference", [True, False])
def test_two_threads_number_the_rows_of_all_beams(is_inference) -> None:
    with torch.inference_mode(is_inference):
        output, x, log_prob = output_of(random(60, 24)), random(40, 24, seed=2), random(40)
        assert_ranks(output, x, log_prob, RankingRequest(EXCLUDED, 2, 8, 4))
        assert_ranks(output, x, log_prob, RankingRequest(EXCLUDED, 2, 8, 40))
