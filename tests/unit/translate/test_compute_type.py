"""What models become for translation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mtkit.corpus.order.batch import Source
from mtkit.errors import UsageError
from mtkit.layers.int8_linear import Int8Linear
from mtkit.layers.positions.transformer_xl import TransformerXLConfig
from mtkit.layers.screened_linear import ScreenedLinear
from mtkit.models import quantised as quantised_module
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.translate.compute_type import prepare, resolve_compute_type

CPU = torch.device("cpu")
SMALL = {"d_model": 32, "d_ff": 48, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
CONFIGS = [
    TransformerConfig(**SMALL),
    TransformerConfig(**SMALL, encoder_positions=TransformerXLConfig(), decoder_positions=TransformerXLConfig()),
    AttentionRNNConfig(d_model=32, d_embedding=24, d_attention=16),
    LSTMConfig(d_model=32, d_embedding=24),
]


def source() -> Source:
    ids = torch.randint(4, 60, (3, 5), generator=torch.Generator().manual_seed(1))
    return Source(ids, torch.arange(5) < torch.tensor([[5], [3], [4]]), torch.arange(5).expand(3, 5))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_int8_is_near_float32(config, monkeypatch) -> None:
    monkeypatch.setattr(quantised_module, "LEAST_WEIGHTS", 256)
    torch.manual_seed(1)
    model = config.build(60, 60)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    quantised = prepare(model, torch.int8, CPU)
    assert any(isinstance(module, Int8Linear) for module in quantised.modules())
    exact = prepare(model, torch.float32, CPU)
    columns = torch.tensor([3, 50, 7])
    token = torch.tensor([2, 20, 30])
    with torch.inference_mode():
        for chosen in (None, columns):
            found = [m.step(token, m.start(source(), chosen)).logits() for m in (exact, quantised)]
            assert (found[0] - found[1]).abs().max() < 0.05 * found[0].abs().max()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_small_projections_and_positions_keep_their_precision(monkeypatch) -> None:
    monkeypatch.setattr(quantised_module, "LEAST_WEIGHTS", 256)
    rnn = prepare(CONFIGS[2].build(60, 60), torch.int8, CPU)
    assert any(type(m) is nn.Linear and m.out_features == 1 for m in rnn.modules())
    xl = prepare(CONFIGS[1].build(60, 60), torch.int8, CPU)
    assert any(type(m) is nn.Linear and "position" in name for name, m in xl.named_modules())


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
@pytest.mark.parametrize("columns", [None, torch.tensor([0, 3, 50, 7, 9])])
def test_a_model_for_one_hypothesis_computes_the_same(config, columns, monkeypatch) -> None:
    monkeypatch.setattr(quantised_module, "cpu_has_byte_products", lambda: True)
    torch.manual_seed(1)
    model = config.build(60, 60).eval()
    for_one, for_any = (prepare(model, torch.float32, CPU, hypotheses=number) for number in (1, None))
    token, banned = torch.tensor([2, 20, 30]), torch.tensor([0, 3])
    with torch.inference_mode():
        step, expected = (m.step(token, m.start(source(), columns)) for m in (for_one, for_any))
        torch.testing.assert_close(step.logits(), expected.logits())
        column = expected.logits().index_fill(1, banned, float("-inf")).argmax(1)
        assert expected.argmax(banned) is None
        found = step.argmax(banned)
    assert (found is not None) == (model.output.bias is None)
    assert found is None or torch.equal(found, column)


@pytest.mark.parametrize(("hypotheses", "kind"), [(1, ScreenedLinear), (5, Int8Linear), (None, Int8Linear)])
def test_the_output_of_int8_is_screened_where_one_hypothesis_is_followed(hypotheses, kind, monkeypatch) -> None:
    monkeypatch.setattr(quantised_module, "LEAST_WEIGHTS", 256)
    monkeypatch.setattr(quantised_module, "cpu_has_byte_products", lambda: True)
    assert type(prepare(CONFIGS[0].build(60, 60), torch.int8, CPU, hypotheses=hypotheses).output) is kind


def test_int8_is_refused_elsewhere() -> None:
    with pytest.raises(UsageError, match="int8 is for the processor, not for cuda"):
        resolve_compute_type("int8", torch.device("cuda"))
    assert resolve_compute_type("int8", CPU) == torch.int8


def test_float32_lies_by_column_for_translation() -> None:
    model = CONFIGS[0].build(60, 60).eval()
    prepared = prepare(model, torch.float32, CPU)
    assert prepared.output.weight.T.is_contiguous()
    assert prepared.tgt_embedding.table.weight.is_contiguous()
    assert model.output.weight is model.tgt_embedding.table.weight
    with torch.inference_mode():
        found, expected = (m.step(torch.tensor([2, 20, 30]), m.start(source())).logits() for m in (prepared, model))
    torch.testing.assert_close(found, expected)
