"""Configurations of recurrent models that are refused."""

import pytest

from mtkit.layers.config import LayerNormConfig
from mtkit.layers.recurrent.config import DotConfig, LocalConfig, ResidualConnectionConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig

TINY = {"d_model": 6, "d_embed": 4, "dropout": 0.0}
RESIDUAL = ResidualConnectionConfig(norm=LayerNormConfig())

INVALID = [
    ({"attention": DotConfig()}, "attention.kind: dot multiplies states of width 6 with annotations of width 12"),
    ({"attention": LocalConfig(score=DotConfig())}, "attention.score.kind: dot multiplies states of width 6"),
    ({"bidirectional_layers": 2}, "bidirectional_layers: 2 exceeds encoder_layers 1"),
    ({"connection": RESIDUAL}, "connection.kind: residual .* raise encoder_layers or decoder_layers"),
    ({"bidirectional_layers": 0, "bridge_source": "backward"}, "bridge_source: backward needs .* bridge_source: all"),
    ({"connection": RESIDUAL, "encoder_layers": 2, "bidirectional_layers": 1}, "connection.kind: residual"),
]


@pytest.mark.parametrize(("keys", "message"), INVALID)
def test_invalid_configurations_are_rejected_by_key(keys, message):
    with pytest.raises(ValueError, match=message):
        AttentionRNNConfig(**TINY, **keys)


def test_residual_connections_need_a_second_layer():
    with pytest.raises(ValueError, match=r"connection.kind: residual .* raise num_layers"):
        Seq2SeqRNNConfig(**TINY, num_layers=1, connection=RESIDUAL)
