import pytest
import torch
from torch.testing import assert_close

from mtkit.layers.recurrent.cells import GRUCell, LSTMCell, ResetBeforeGRUCell
from mtkit.layers.recurrent.dropout import FreshConfig, FreshDropout, VariationalConfig, VariationalDropout
from mtkit.layers.recurrent.layer_norm_cells import NormedGRUCell, NormedLSTMCell
from mtkit.layers.recurrent.stack import RecurrentLayer

ONES = torch.ones(40, 5, 30)


def test_one_mask_a_sentence():
    torch.manual_seed(0)
    x = VariationalDropout(0.5)(ONES)
    assert torch.equal(x, x[:, :1].expand_as(x))
    assert not torch.equal(x[0], x[1])
    assert set(x.unique().tolist()) == {0.0, 2.0}
    assert x.mean().item() == pytest.approx(1, abs=0.1)  # 1200 draws: three standard deviations are 0.087
    fresh = FreshDropout(0.5)(ONES)
    assert not torch.equal(fresh, fresh[:, :1].expand_as(fresh))


def test_a_loop_has_one_mask_and_the_next_loop_another():
    torch.manual_seed(0)
    dropout = VariationalDropout(0.5)
    drop, again = dropout.unroll(), dropout.unroll()
    assert torch.equal(drop(ONES[:, 0]), drop(ONES[:, 1]))
    assert not torch.equal(drop(ONES[:, 0]), again(ONES[:, 0]))
    fresh = FreshDropout(0.5).unroll()
    assert not torch.equal(fresh(ONES[:, 0]), fresh(ONES[:, 0]))


def test_off_in_evaluation_and_at_zero():
    for dropout in (VariationalDropout(0.5).eval(), VariationalDropout(0.0)):
        assert torch.equal(dropout(ONES), ONES)
        assert torch.equal(dropout.unroll()(ONES[:, 0]), ONES[:, 0])


def test_kinds():
    assert type(FreshConfig().build(0.1)) is FreshDropout
    assert type(VariationalConfig().build(0.1)) is VariationalDropout
    assert (FreshConfig().state, VariationalConfig(state=0.25).state) == (0.0, 0.25)


@pytest.mark.parametrize("make", [LSTMCell, GRUCell, ResetBeforeGRUCell, NormedLSTMCell, NormedGRUCell])
def test_the_state_is_dropped_where_weights_multiply_it_with_one_mask_for_all_steps(make):
    """Gal & Ghahramani 2016, eq. 7: with a mask m a cell computes what it does with weights U diag(m)."""
    torch.manual_seed(0)
    cell = make(3, 6, 0.5).double()
    layer, x = RecurrentLayer(cell), torch.randn(1, 4, 3).double()  # one sentence, so that there is one mask
    torch.manual_seed(1)
    found, _ = layer(x)
    torch.manual_seed(1)
    mask = VariationalDropout(0.5).unroll()(x.new_ones(1, 6))
    assert 0 < int((mask == 0).sum()) < 6
    with torch.no_grad():
        for name, p in cell.named_parameters():
            if name.startswith("recurrent") and p.dim() == 2:
                p.mul_(mask)
    expected, _ = layer.eval()(x)
    assert_close(found, expected)
