"""Collection of auxiliary losses."""

import torch
from torch import nn

from mtkit.layers.layer_call import AuxLoss, AuxLosses, collect_aux_losses, current_aux_losses


def test_total_weights_calls_by_tokens_and_sums_layers():
    one, other, aux_losses = nn.Identity(), nn.Identity(), AuxLosses()
    aux_losses.by_layer[one] += [AuxLoss(1, torch.tensor(4.0), {"m": torch.tensor(0.0)})]
    aux_losses.by_layer[one] += [AuxLoss(3, torch.tensor(8.0), {"m": torch.tensor(1.0)})]
    aux_losses.by_layer[other] += [AuxLoss(5, torch.tensor(1.0), {"m": torch.tensor(0.25)})]
    loss, metrics = aux_losses.total()
    assert float(loss) == 7 + 1
    assert float(metrics["m"]) == 0.5


def test_nothing_is_collected_outside_training():
    layer = nn.Identity()
    assert current_aux_losses(layer) is None
    with collect_aux_losses() as aux_losses:
        assert current_aux_losses(layer) is aux_losses
        assert current_aux_losses(layer.eval()) is None
        with torch.no_grad():
            assert current_aux_losses(layer.train()) is None
    assert current_aux_losses(layer) is None
