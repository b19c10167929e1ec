"""Preparation for inference: compute types, and rewrites that can be turned off."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.errors import UsageError
from mtkit.inference import int8, pruned_argmax
from mtkit.inference.absorbed_cross_attention import AbsorbedCrossAttention
from mtkit.inference.int8 import Int8Linear
from mtkit.inference.prepare import prepare_for_inference, resolve_compute_type
from mtkit.inference.pruned_argmax import Int8PrunedArgmax
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.positions.relative_config import TransformerXLConfig
from mtkit.layers.projections import Projection
from mtkit.models.interface import TranslationModel
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.objectives.cross_entropy import CrossEntropy

pytestmark = pytest.mark.usefixtures("without_native_library")

CPU = torch.device("cpu")
SMALL = {"d_model": 32, "d_ff": 48, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
CONFIGS = [
    TransformerConfig(**SMALL),
    TransformerConfig(**SMALL, encoder_positions=TransformerXLConfig(), decoder_positions=TransformerXLConfig()),
    AttentionRNNConfig(d_model=32, d_embed=24, d_attention=16),
    Seq2SeqRNNConfig(d_model=32, d_embed=24),
    AttentionRNNConfig(d_model=32, d_embed=24, decoder="input_feeding"),
]


def source() -> Source:
    ids = torch.randint(4, 60, (3, 5), generator=torch.Generator().manual_seed(1))
    return Source(ids, torch.arange(5) < torch.tensor([[5], [3], [4]]), torch.arange(5).expand(3, 5))


@pytest.fixture
def quantises_small_projections(monkeypatch) -> None:
    monkeypatch.setattr(int8, "MIN_WEIGHTS", 256)


@pytest.mark.usefixtures("quantises_small_projections")
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_int8_is_near_float32(config) -> None:
    torch.manual_seed(1)
    model = config.build(60, 60)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    quantised = prepare_for_inference(model, torch.int8, CPU)
    assert any(isinstance(module, Int8Linear) for module in quantised.modules())
    exact = prepare_for_inference(model, torch.float32, CPU)
    token = torch.tensor([2, 20, 30])
    with torch.inference_mode():
        found = [m.step(token, m.start(source())).logits() for m in (exact, quantised)]
        assert (found[0] - found[1]).abs().max() < 0.05 * found[0].abs().max()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.usefixtures("quantises_small_projections")
def test_small_projections_and_positions_keep_their_precision() -> None:
    rnn = prepare_for_inference(CONFIGS[2].build(60, 60), torch.int8, CPU)
    assert any(type(m) is Projection and m.out_features == 1 for m in rnn.modules())
    xl = prepare_for_inference(CONFIGS[1].build(60, 60), torch.int8, CPU)
    assert any(type(m) is Projection and "position" in name for name, m in xl.named_modules())


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_rewrites_for_one_hypothesis_change_nothing(config, monkeypatch) -> None:
    monkeypatch.setattr(pruned_argmax, "has_fast_int8", lambda: True)
    torch.manual_seed(1)
    model = config.build(60, 60).eval()
    for_one, for_any = (prepare_for_inference(model, torch.float32, CPU, beam_size=number) for number in (1, None))
    token, banned = torch.tensor([2, 20, 30]), torch.tensor([0, 3])
    with torch.inference_mode():
        step, expected = (m.step(token, m.start(source())) for m in (for_one, for_any))
        torch.testing.assert_close(step.logits(), expected.logits())
        column = expected.logits().index_fill(1, banned, float("-inf")).argmax(1)
        assert expected.fast_argmax(banned) is None
        found = step.fast_argmax(banned)
    assert (found is not None) == (model.output.bias is None)
    assert found is None or torch.equal(found[0], column)


@pytest.mark.usefixtures("quantises_small_projections")
@pytest.mark.parametrize(("beam_size", "kind"), [(1, Int8PrunedArgmax), (5, Int8Linear), (None, Int8Linear)])
def test_the_output_of_int8_is_pruned_for_one_hypothesis(beam_size, kind, monkeypatch) -> None:
    monkeypatch.setattr(pruned_argmax, "has_fast_int8", lambda: True)
    model = CONFIGS[0].build(60, 60)
    assert type(prepare_for_inference(model, torch.int8, CPU, beam_size=beam_size).output) is kind


def test_int8_on_a_gpu_is_refused() -> None:
    with pytest.raises(UsageError, match="int8 runs on the CPU only, not on cuda"):
        resolve_compute_type("int8", torch.device("cuda"))
    assert resolve_compute_type("int8", CPU) == torch.int8


def test_float32_weights_are_stored_by_column() -> None:
    model = CONFIGS[0].build(60, 60).eval()
    prepared = prepare_for_inference(model, torch.float32, CPU)
    assert prepared.output.weight.T.is_contiguous()
    assert prepared.tgt_embedding.table.weight.is_contiguous()
    assert model.output.weight is model.tgt_embedding.table.weight
    with torch.inference_mode():
        found, expected = (m.step(torch.tensor([2, 20, 30]), m.start(source())).logits() for m in (prepared, model))
    torch.testing.assert_close(found, expected)


def test_without_rewrites_the_model_is_as_it_is_written(monkeypatch) -> None:
    monkeypatch.setattr(pruned_argmax, "has_fast_int8", lambda: True)
    model = CONFIGS[0].build(60, 60)
    plain = prepare_for_inference(model, torch.float32, CPU, beam_size=1, rewrite=False)
    assert plain is not model  # in eval mode
    assert [type(module) for module in plain.modules()] == [type(module) for module in model.modules()]
    assert all("weight" not in vars(module) for module in plain.modules())
    assert prepare_for_inference(model.eval(), torch.float32, CPU, beam_size=1, rewrite=False) is model
    rewritten = prepare_for_inference(model, torch.float32, CPU, beam_size=1)
    assert any(type(module) is AbsorbedCrossAttention for module in rewritten.modules())


def greedy(model: TranslationModel) -> list[Tensor]:
    """Logits of four greedy steps."""
    logits, token = [], torch.full((3,), 2)
    with torch.inference_mode():
        state = model.start(source())
        for _ in range(4):
            step = model.step(token, state)
            logits.append(step.logits())
            token, state = logits[-1].argmax(1), step.state
    return logits


def test_a_changed_cross_attention_shows_in_loss_and_in_decoding_with_and_without_rewrites(monkeypatch) -> None:
    torch.manual_seed(1)
    model = CONFIGS[0].build(60, 60).eval()
    src = source()
    batch = Batch(src, Target(src.ids, src.real, src.pos), src.ids, src.real, torch.arange(3))
    objective = CrossEntropy(TeacherForcing(), 0.0)

    def results() -> tuple[float, list[Tensor], list[Tensor]]:
        plain = prepare_for_inference(model, torch.float32, CPU, beam_size=1, rewrite=False)
        rewritten = prepare_for_inference(model, torch.float32, CPU, beam_size=1)
        return float(model(batch, objective).sum.detach()), greedy(plain), greedy(rewritten)

    loss, plain, rewritten = results()
    torch.testing.assert_close(rewritten, plain)
    original = CrossAttention.forward

    def changed(self: CrossAttention, x: Tensor, pos: Tensor, memory) -> tuple[Tensor, Tensor]:
        y, weights = original(self, x, pos, memory)
        return 2 * y, weights

    monkeypatch.setattr(CrossAttention, "forward", changed)
    changed_loss, changed_plain, changed_rewritten = results()
    assert changed_loss != pytest.approx(loss)
    assert all((one - other).abs().max() > 1e-3 for one, other in zip(changed_plain, plain, strict=True))
    torch.testing.assert_close(changed_rewritten, changed_plain)  # the rewrite disagrees and is not used
