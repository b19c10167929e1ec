"""What is logged of some updates: means over the tokens that each figure is of."""

import pytest
import torch

from mtkit.corpus.order.loader import Position, Update
from mtkit.models.interface import Losses
from mtkit.training.monitoring.meter import Meter, Stopwatch, Sums

DRAWN = Update([], Position(0, 1), sentences=2, src_tokens=10, tgt_tokens=40, padded_tokens=100)


def test_a_figure_is_a_mean_over_the_micro_batches_that_have_it():
    """As experts have it where layers are left out: of 40 tokens only 10 were sent to any."""
    sums = Sums()
    sums.add(Losses(torch.tensor(60.0), 30))
    sums.add(Losses(torch.tensor(20.0), 10, {"expert_peak": torch.tensor(10 * 1.5)}))
    meter = Meter(Stopwatch())
    meter.add(DRAWN, sums, torch.tensor(1.0))
    meter.add(DRAWN, sums, torch.tensor(3.0))
    read = meter.read()
    assert (read["loss"], read["expert_peak"], read["grad_norm"], read["fill"]) == (2.0, 1.5, 2.0, 0.5)


def test_ranks_put_their_sums_together_also_where_one_has_no_such_figure():
    one, other = Sums(), Sums()
    one.add(Losses(torch.tensor(60.0), 30))
    other.add(Losses(torch.tensor(20.0), 10, {"dropped": torch.tensor(-5.0)}))
    one.take([one.to_json(), other.to_json()])
    assert one.mean() == 2.0
    assert one.tokens == 40
    meter = Meter(Stopwatch())
    meter.add(DRAWN, one, torch.tensor(1.0))
    assert meter.read()["dropped"] == pytest.approx(-0.5)
