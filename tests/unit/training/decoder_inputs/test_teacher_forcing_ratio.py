import math

import pytest

from mtkit.training.decoder_inputs.config import (
    ExponentialDecayConfig,
    InverseSigmoidDecayConfig,
    LinearDecayConfig,
)


def test_schedules_are_the_formulas_of_the_paper():
    linear = LinearDecayConfig(updates=100, end=0.2)
    assert [linear.ratio(i) for i in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    exponential = ExponentialDecayConfig(k=0.99)
    assert [exponential.ratio(i) for i in (0, 1, 70)] == pytest.approx([1.0, 0.99, 0.99**70])
    sigmoid = InverseSigmoidDecayConfig(k=10.0)
    assert [sigmoid.ratio(i) for i in (0, 10, 50)] == pytest.approx([10 / (10 + math.exp(i / 10)) for i in (0, 10, 50)])
    assert sigmoid.ratio(10**9) == pytest.approx(0.0)
