"""Dropout of recurrent models: per step and variational."""

from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from mtkit.layers.dropout import PerStepDropout, VariationalDropout
from mtkit.layers.recurrent.config import (
    CellConfig,
    GRUCellConfig,
    PerStepDropoutConfig,
    VariationalDropoutConfig,
)
from mtkit.layers.recurrent.stack import RecurrentLayer

CELLS = [*(kind() for kind in get_args(CellConfig)), GRUCellConfig(reset_gate="before")]

ONES = torch.ones(40, 5, 30)


def test_variational_dropout_has_one_mask_per_sentence():
    torch.manual_seed(0)
    x = VariationalDropout(0.5)(ONES)
    assert torch.equal(x, x[:, :1].expand_as(x))
    assert not torch.equal(x[0], x[1])
    assert set(x.unique().tolist()) == {0.0, 2.0}
    assert x.mean().item() == pytest.approx(1, abs=0.1)  # 1200 samples: three standard deviations are 0.087
    per_step = PerStepDropout(0.5)(ONES)
    assert not torch.equal(per_step, per_step[:, :1].expand_as(per_step))


def test_each_loop_has_its_own_mask():
    torch.manual_seed(0)
    dropout = VariationalDropout(0.5)
    drop, again = dropout.make_step_fn(), dropout.make_step_fn()
    assert torch.equal(drop(ONES[:, 0]), drop(ONES[:, 1]))
    assert not torch.equal(drop(ONES[:, 0]), again(ONES[:, 0]))
    per_step = PerStepDropout(0.5).make_step_fn()
    assert not torch.equal(per_step(ONES[:, 0]), per_step(ONES[:, 0]))


def test_identity_in_evaluation_and_at_zero():
    for dropout in (VariationalDropout(0.5).eval(), VariationalDropout(0.0)):
        assert torch.equal(dropout(ONES), ONES)
        assert torch.equal(dropout.make_step_fn()(ONES[:, 0]), ONES[:, 0])


def test_kinds():
    assert type(PerStepDropoutConfig().build(0.1)) is PerStepDropout
    assert type(VariationalDropoutConfig().build(0.1)) is VariationalDropout
    assert (PerStepDropoutConfig().state, VariationalDropoutConfig(state=0.25).state) == (0.0, 0.25)


@pytest.mark.parametrize("config", CELLS)
def test_state_dropout_masks_the_recurrent_product_alike_at_all_steps(config):
    """Gal & Ghahramani 2016, eq. 7: state dropout with mask m is the same as recurrent weights U diag(m)."""
    torch.manual_seed(0)
    cell = config.build(3, 6, 0.5).double()
    layer, x = RecurrentLayer(cell), torch.randn(1, 4, 3).double()  # one sentence, so that there is one mask
    torch.manual_seed(1)
    output, _ = layer(x)
    torch.manual_seed(1)
    mask = VariationalDropout(0.5).make_step_fn()(x.new_ones(1, 6))
    assert 0 < int((mask == 0).sum()) < 6
    with torch.no_grad():
        for name, p in cell.named_parameters():
            if name.startswith("recurrent") and p.dim() == 2:
                p.mul_(mask)
    expected, _ = layer.eval()(x)
    assert_close(output, expected)
