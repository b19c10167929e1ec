"""Independence of the batch: a row has the same result, to the last bit, wherever it is computed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mtkit.corpus.order.batch import Source
from mtkit.inference.native.model import NativeTransformer
from mtkit.models.interface import RankingRequest
from tests.unit.inference.native.toy_models import SERVED, V, native_model, right_padded

pytestmark = pytest.mark.usefixtures("library")

TYPES = [torch.float32, torch.bfloat16, torch.int8]
LENGTHS = [5, 1, 9, 17, 3, 16, 2, 40, 8, 5, 5, 31, 1]
STEPS, WIDTH = 6, 3


def search(model: NativeTransformer, source: Source, numbers: list[int]) -> list[list[Tensor]]:
    """Logits, attention and best tokens of each sentence, whose tokens depend on its number only."""
    found: list[list[Tensor]] = [[] for _ in numbers]
    sentences, width, state = len(numbers), 1, model.start(source)
    for t in range(STEPS):
        generators = [torch.Generator().manual_seed(100 * number + t) for number in numbers]
        token = torch.cat([torch.randint(4, V, (width,), generator=each) for each in generators])
        step = model.step(token, state)
        request = RankingRequest(torch.tensor([0, 2, 3]), end=2, count=2 * width, rows_per_beam=width)
        scores = torch.cat([torch.randn(width, generator=each) for each in generators])
        ranking = step.state.output_projection.ranking(step.hidden, scores, request)
        best, logit = step.fast_argmax(torch.tensor([0])) or (step.logits().argmax(1), step.logits().amax(1))
        per_row = (step.logits(), ranking.normaliser, ranking.end, best, logit)
        for i, lines in enumerate(found):
            rows, real = slice(i * width, (i + 1) * width), source.real[i]
            lines += [each[rows] for each in per_row]
            lines += [step.attention[rows][..., real], ranking.value[i], ranking.row[i] - i * width, ranking.column[i]]
        parents = torch.cat([torch.randint(width, (WIDTH,), generator=each) for each in generators])
        first = torch.arange(sentences).repeat_interleave(WIDTH) * width
        state, width = step.state.select_rows(first + parents), WIDTH
    return found


def assert_equal_to_the_bit(found: list[list[Tensor]], expected: list[list[Tensor]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@torch.inference_mode()
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("config", ["sinusoidal", "rope_in_both", "odd_widths", "gelu", "many_panels"])
def test_results_do_not_depend_on_the_batch(config, dtype) -> None:
    model, source = native_model(SERVED[config], dtype), right_padded(LENGTHS)
    numbers = list(range(len(LENGTHS)))
    together = search(model, source, numbers)
    for part in ([[number] for number in numbers], [numbers[::-1]], [numbers[1::2], numbers[::2]]):
        for chosen in part:
            batch = source.select(torch.tensor(chosen))
            shorter = int(batch.real.sum(1).max())
            batch = Source(batch.ids[:, :shorter], batch.real[:, :shorter], batch.pos[:, :shorter])
            assert_equal_to_the_bit(search(model, batch, chosen), [together[number] for number in chosen])


@torch.inference_mode()
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_results_do_not_depend_on_the_number_of_threads(dtype, request) -> None:
    model, source, numbers = native_model(dtype=dtype), right_padded(LENGTHS), list(range(len(LENGTHS)))
    expected = search(model, source, numbers)
    request.getfixturevalue("two_threads")
    assert torch.get_num_threads() == 2
    assert_equal_to_the_bit(search(model, source, numbers), expected)


@torch.inference_mode()
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 7, 11, 12, 13, 24, 25, 97, 200])
def test_a_product_does_not_depend_on_the_number_of_rows(rows, dtype) -> None:
    output = native_model(SERVED["many_panels"], dtype).output
    hidden = torch.randn(200, 144, generator=torch.Generator().manual_seed(3))
    hidden[::7] *= 100
    assert torch.equal(output(hidden[-rows:]), output(hidden)[-rows:])
