"""Properties that both recurrent models share."""

import pytest
import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.norms.layer_norm import LayerNormConfig
from mtkit.layers.norms.rms_norm import RMSNormConfig
from mtkit.layers.recurrent.additive_attention import ConcatConfig
from mtkit.layers.recurrent.attention import DotConfig, GeneralConfig
from mtkit.layers.recurrent.cells import GRUCellConfig, LSTMCellConfig
from mtkit.layers.recurrent.dropout import VariationalConfig
from mtkit.layers.recurrent.layer_norm_cells import NormedGRUCellConfig, NormedLSTMCellConfig
from mtkit.layers.recurrent.local_attention import LocalConfig
from mtkit.layers.recurrent.readout import TanhConfig
from mtkit.layers.recurrent.stack import PlainJointConfig, ResidualJointConfig
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig

VOCAB, PAD, BOS = 11, 0, 2
TINY = {"d_model": 6, "d_embedding": 4, "dropout": 0.0}
BEFORE = GRUCellConfig(reset_gate="before")
NORMED = {"encoder_cell": NormedLSTMCellConfig(), "decoder_cell": NormedLSTMCellConfig()}
RESIDUAL = ResidualJointConfig(norm_layer=LayerNormConfig())
CONFIGS = {
    "lstm": LSTMConfig(**TINY),
    "lstm-gru-forward": LSTMConfig(**TINY, cell=GRUCellConfig(), reverse_source=False, num_layers=1),
    "bahdanau": AttentionRNNConfig(**TINY, d_attention=5),
    "bahdanau-paper": AttentionRNNConfig(**TINY, encoder_cell=BEFORE, decoder_cell=BEFORE, tied_embeddings="none"),
    "deep": AttentionRNNConfig(
        **TINY, encoder_layers=2, decoder_layers=3, encoder_cell=LSTMCellConfig(), decoder_cell=LSTMCellConfig()
    ),
    "mixed-tanh": AttentionRNNConfig(
        **TINY, decoder_cell=LSTMCellConfig(), readout=TanhConfig(), tied_embeddings="all"
    ),
    "lstm-residual": LSTMConfig(**TINY, cell=NormedGRUCellConfig(), num_layers=3, joint=RESIDUAL),
    "bahdanau-general-residual": AttentionRNNConfig(
        **TINY, attention=GeneralConfig(), encoder_layers=3, bidirectional_layers=1, decoder_layers=2, joint=RESIDUAL
    ),
    "luong-dot": AttentionRNNConfig(
        **TINY, **NORMED, decoder="luong", attention=DotConfig(), bidirectional_layers=0, readout=TanhConfig()
    ),
    "luong-concat-normed": AttentionRNNConfig(
        **TINY,
        decoder="luong",
        attention=ConcatConfig(),
        decoder_layers=2,
        joint=PlainJointConfig(norm_layer=RMSNormConfig()),
    ),
    "input-feeding": AttentionRNNConfig(
        **TINY,
        decoder="input_feeding",
        attention=GeneralConfig(),
        decoder_layers=3,
        joint=RESIDUAL,
        readout=TanhConfig(),
    ),
    "bahdanau-local": AttentionRNNConfig(**TINY, attention=LocalConfig(window=1)),
    "input-feeding-lstm": AttentionRNNConfig(**TINY, **NORMED, decoder="input_feeding", tied_embeddings="all"),
}
SENTENCES = [[5, 6, 7, 3], [4, 3], [9, 8, 10, 5, 3]]
TARGETS = [[BOS, 4, 5], [BOS, 6, 7, 8], [BOS]]

every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def make(config, dtype=torch.float64):
    torch.manual_seed(0)
    return config.build(VOCAB, VOCAB).to(dtype).eval()


def pad(rows, *, left=0, right=0, noise=PAD):
    longest = max(map(len, rows))
    ids = torch.full((len(rows), left + longest + right), noise)
    real = torch.zeros_like(ids, dtype=torch.bool)
    for ids_row, real_row, row in zip(ids, real, rows, strict=True):
        ids_row[left : left + len(row)] = torch.tensor(row)
        real_row[left : left + len(row)] = True
    return ids, real, (real.cumsum(1) - 1).clamp(min=0)


def source(rows, **padding):
    return Source(*pad(rows, **padding))


def target(rows, **padding):
    return Target(*pad(rows, **padding))


@every_config
def test_steps_give_what_the_whole_sentence_gives(config):
    model, tgt = make(config), target(TARGETS)
    with torch.inference_mode():
        whole = model.hidden(source(SENTENCES), tgt)
        state = model.start(source(SENTENCES))
        for t in range(tgt.ids.size(1)):
            hidden, state, _ = model.step(tgt.ids[:, t], state)
            here = tgt.real[:, t]
            assert_close(hidden[here], whole[:, t][here])


@every_config
def test_training_and_inference_compute_the_same(config):
    model = make(config)
    with torch.inference_mode():
        expected = model.hidden(source(SENTENCES), target(TARGETS))
    assert_close(model.hidden(source(SENTENCES), target(TARGETS)).detach(), expected)


@every_config
def test_padding_and_batch_mates_change_nothing(config):
    model = make(config)
    with torch.inference_mode():
        alone = [model.hidden(source([s]), target([t]))[0] for s, t in zip(SENTENCES, TARGETS, strict=True)]
        for padding in ({}, {"left": 2}, {"right": 3, "noise": 7}, {"left": 1, "right": 1}):
            tgt = target(TARGETS, **padding)
            together = model.hidden(source(SENTENCES, **padding), tgt)
            for i, expected in enumerate(alone):
                assert_close(together[i][tgt.real[i]], expected)


@every_config
def test_hypotheses_of_a_sentence_share_its_row_of_memory(config):
    model, width = make(config), 3
    tokens = torch.arange(4, 4 + width).repeat(len(SENTENCES))
    with torch.inference_mode():
        state = model.start(source(SENTENCES))
        bos = torch.full((len(SENTENCES),), BOS)
        _, state, _ = model.step(bos, state)
        repeated = state.select_rows(torch.arange(len(SENTENCES)).repeat_interleave(width))
        assert repeated.memory is state.memory
        step = model.step(tokens, repeated)
        logits, attention = step.logits(), step.attention
        for w in range(width):
            step = model.step(tokens[w::width], state)
            single, weights = step.logits(), step.attention
            assert_close(logits[w::width], single)
            if weights is not None:
                assert_close(attention[w::width], weights)


@every_config
def test_sentences_that_stay_do_not_notice_those_that_leave(config):
    model = make(config)
    token = torch.tensor([4, 5, 6])
    kept = torch.tensor([2, 0])
    with torch.inference_mode():
        state = model.start(source(SENTENCES))
        _, state, _ = model.step(token, state)
        expected = model.step(token, state).logits()
        wide = state.select_rows(torch.tensor([0, 0, 1, 1, 2, 2])).keep_sentences(kept)
        step = model.step(token[kept].repeat_interleave(2), wide)
        found, after = step.logits(), step.state
    assert (after.num_sentences, after.num_rows) == (2, 4)
    assert_close(found, expected[kept].repeat_interleave(2, 0))


@every_config
def test_a_shortlist_narrows_the_logits(config):
    model, columns = make(config), torch.tensor([3, 7, 4])
    token = torch.full((len(SENTENCES),), BOS)
    with torch.inference_mode():
        all_pieces = model.step(token, model.start(source(SENTENCES))).logits()
        narrow = model.step(token, model.start(source(SENTENCES), columns)).logits()
    assert_close(narrow, all_pieces[:, columns])


@every_config
def test_an_empty_batch_and_a_source_without_tokens_are_fine(config):
    model = make(config)
    empty = torch.zeros(0, 2, dtype=torch.int64)
    hidden = model.hidden(Source(empty, empty.bool(), empty), Target(empty, empty.bool(), empty))
    assert hidden.shape == (0, 2, 4)
    hidden.sum().backward()
    ids = torch.zeros(1, 2, dtype=torch.int64)
    blind = Source(ids, torch.zeros(1, 2, dtype=torch.bool), ids)
    assert model.hidden(blind, target([[BOS, 4]])).isfinite().all()


@every_config
def test_gradients_are_those_of_finite_differences(config):
    model = make(config)
    names = [name for name, _ in model.named_parameters()]
    inputs = source(SENTENCES, left=1), target(TARGETS, right=1)

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self):
            return model.hidden(*inputs)[inputs[1].real]

    def outputs(*parameters):
        weights = {f"model.{name}": parameter for name, parameter in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Hidden(), weights, ())

    parameters = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    assert torch.autograd.gradcheck(outputs, parameters, fast_mode=True)


@every_config
def test_bf16_is_near_float32(config):
    model = make(config, torch.float32)
    expected = model.hidden(source(SENTENCES), target(TARGETS))
    with torch.autocast("cpu", torch.bfloat16):
        found = model.hidden(source(SENTENCES), target(TARGETS))
        found.float().square().sum().backward()
    assert_close(found.float(), expected, atol=0.05, rtol=0.05)
    assert all(p.grad is None or p.grad.dtype == torch.float32 for p in model.parameters())


def test_attention_weights_sum_to_one_over_what_is_real():
    model = make(CONFIGS["bahdanau"])
    src = source(SENTENCES, left=1)
    with torch.inference_mode():
        weights = model.step(torch.full((3,), BOS), model.start(src)).attention
    assert weights.shape == (3, 1, src.ids.size(1))
    assert_close(weights.sum(-1), torch.ones(3, 1, dtype=weights.dtype))
    assert (weights[~src.real.unsqueeze(1)] == 0).all()


def test_a_reversed_source_is_the_same_as_reversing_the_sentences():
    ahead = make(LSTMConfig(**TINY, reverse_source=False))
    back = make(LSTMConfig(**TINY, reverse_source=True))
    with torch.inference_mode():
        expected = ahead.hidden(source([s[::-1] for s in SENTENCES]), target(TARGETS))
        found = back.hidden(source(SENTENCES), target(TARGETS))
    tgt = target(TARGETS)
    assert_close(found[tgt.real], expected[tgt.real])


def test_what_is_tied_is_one_matrix():
    model = AttentionRNNConfig(**TINY, tied_embeddings="all").build(VOCAB, VOCAB)
    assert model.output.weight is model.tgt_embedding.table.weight is model.src_embedding.table.weight
    model = LSTMConfig(**TINY, tied_embeddings="none").build(VOCAB, VOCAB + 1)
    assert model.output.weight is not model.tgt_embedding.table.weight
    with pytest.raises(ValueError, match="tied_embeddings: all needs a shared vocabulary, these have 11 and 12 pieces"):
        AttentionRNNConfig(**TINY, tied_embeddings="all").build(VOCAB, VOCAB + 1)


def test_dropout_is_off_in_evaluation_and_on_in_training():
    model = make(AttentionRNNConfig(**{**TINY, "dropout": 0.5}, decoder_layers=2))
    inputs = source(SENTENCES), target(TARGETS)
    assert_close(model.hidden(*inputs), model.hidden(*inputs))
    model.train()
    assert not torch.equal(model.hidden(*inputs), model.hidden(*inputs))


def test_what_is_fed_matters_and_only_where_it_is_fed():
    for decoder, expected in (("input_feeding", True), ("luong", False)):
        model = make(AttentionRNNConfig(**TINY, decoder=decoder))
        first, second = ([p for n, p in model.named_parameters() if n.endswith("readout.linear.weight")] * 2)[:2]
        assert first is second
        states = []
        with torch.inference_mode():
            for _ in range(2):
                state = model.start(source(SENTENCES))
                for token in (BOS, 5):
                    _, state, _ = model.step(torch.full((3,), token), state)
                states.append(state.cache.layers[0].h)
                first.data.mul_(-1)
        assert torch.equal(*states) != expected


@pytest.mark.parametrize("decoder", ["bahdanau", "luong", "input_feeding"])
def test_variational_dropout_is_off_in_evaluation_and_drops_states_in_training(decoder):
    masks = VariationalConfig(state=0.5)
    model = make(AttentionRNNConfig(**TINY, decoder=decoder, decoder_layers=2, dropout_masks=masks))
    inputs = source(SENTENCES), target(TARGETS)
    assert_close(model.hidden(*inputs), model.hidden(*inputs))
    model.train()
    assert not torch.equal(model.hidden(*inputs), model.hidden(*inputs))


REFUSED = [
    ({"attention": DotConfig()}, "attention.kind: dot multiplies states of width 6 with annotations of width 12"),
    ({"attention": LocalConfig(score=DotConfig())}, "attention.score.kind: dot multiplies states of width 6"),
    ({"bidirectional_layers": 2}, "bidirectional_layers: 2 of 1 encoder layers"),
    ({"joint": RESIDUAL}, "joint.kind: residual .* raise encoder_layers or decoder_layers"),
    ({"joint": RESIDUAL, "encoder_layers": 2, "bidirectional_layers": 1}, "joint.kind: residual"),
]


@pytest.mark.parametrize(("keys", "message"), REFUSED)
def test_what_cannot_work_is_refused_by_key(keys, message):
    with pytest.raises(ValueError, match=message):
        AttentionRNNConfig(**TINY, **keys)


def test_residual_connections_need_a_layer_to_go_around():
    with pytest.raises(ValueError, match=r"joint.kind: residual .* raise num_layers"):
        LSTMConfig(**TINY, num_layers=1, joint=RESIDUAL)
