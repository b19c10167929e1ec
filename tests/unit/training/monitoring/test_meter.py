"""Logged means, each over the tokens of the micro-batches that report it."""

import pytest
import torch

from mtkit.corpus.order.loader import DataPosition, UpdateData
from mtkit.models.interface import Losses
from mtkit.training.monitoring.meter import LossSums, Stopwatch, ThroughputMeter

DATA = UpdateData([], DataPosition(0, 1), sentences=2, src_tokens=10, tgt_tokens=40, padded_tokens=100)


def test_an_extra_loss_is_a_mean_over_the_micro_batches_that_report_it():
    """As a mixture of experts with layerdrop: of 40 tokens only 10 were routed to experts."""
    sums = LossSums()
    sums.add(Losses(torch.tensor(60.0), 30))
    sums.add(Losses(torch.tensor(20.0), 10, {"expert_peak": torch.tensor(10 * 1.5)}))
    meter = ThroughputMeter(Stopwatch())
    meter.add(DATA, sums, torch.tensor(1.0))
    meter.add(DATA, sums, torch.tensor(3.0))
    means = meter.read()
    assert (means["loss"], means["expert_peak"], means["grad_norm"]) == (2.0, 1.5, 2.0)
    assert means["padding_efficiency"] == 0.5


def test_sums_of_ranks_with_different_extra_losses_are_merged():
    one, other = LossSums(), LossSums()
    one.add(Losses(torch.tensor(60.0), 30))
    other.add(Losses(torch.tensor(20.0), 10, {"dropped": torch.tensor(-5.0)}))
    one.merge_ranks([one.to_json(), other.to_json()])
    assert one.mean() == 2.0
    assert one.tokens == 40
    meter = ThroughputMeter(Stopwatch())
    meter.add(DATA, one, torch.tensor(1.0))
    assert meter.read()["dropped"] == pytest.approx(-0.5)
