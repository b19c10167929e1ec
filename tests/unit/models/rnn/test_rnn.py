"""Properties of all recurrent models: steps, padding, batches, gradients, configuration."""

import pytest
import torch
from torch.testing import assert_close

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.config import LayerNormConfig, RMSNormConfig
from mtkit.layers.recurrent.config import (
    ConcatConfig,
    DotConfig,
    GeneralConfig,
    GRUCellConfig,
    LayerNormGRUCellConfig,
    LayerNormLSTMCellConfig,
    LocalConfig,
    LSTMCellConfig,
    PlainConnectionConfig,
    ResidualConnectionConfig,
    TanhReadoutConfig,
    VariationalDropoutConfig,
)
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig

VOCAB, PAD, BOS = 11, 0, 2
TINY = {"d_model": 6, "d_embed": 4, "dropout": 0.0}
BEFORE = GRUCellConfig(reset_gate="before")
LAYER_NORM = {"encoder_cell": LayerNormLSTMCellConfig(), "decoder_cell": LayerNormLSTMCellConfig()}
RESIDUAL = ResidualConnectionConfig(norm=LayerNormConfig())
CONFIGS = {
    "rnn": Seq2SeqRNNConfig(**TINY),
    "rnn-gru-forward": Seq2SeqRNNConfig(**TINY, cell=GRUCellConfig(), reverse_source=False, num_layers=1),
    "bahdanau": AttentionRNNConfig(**TINY, d_attention=5),
    "bahdanau-paper": AttentionRNNConfig(**TINY, encoder_cell=BEFORE, decoder_cell=BEFORE, tied_embeddings="none"),
    "deep": AttentionRNNConfig(
        **TINY, encoder_layers=2, decoder_layers=3, encoder_cell=LSTMCellConfig(), decoder_cell=LSTMCellConfig()
    ),
    "mixed-tanh": AttentionRNNConfig(
        **TINY, decoder_cell=LSTMCellConfig(), readout=TanhReadoutConfig(), tied_embeddings="all"
    ),
    "rnn-residual": Seq2SeqRNNConfig(**TINY, cell=LayerNormGRUCellConfig(), num_layers=3, connection=RESIDUAL),
    "bahdanau-general-residual": AttentionRNNConfig(
        **TINY,
        attention=GeneralConfig(),
        encoder_layers=3,
        bidirectional_layers=1,
        decoder_layers=2,
        connection=RESIDUAL,
    ),
    "luong-dot": AttentionRNNConfig(
        **TINY,
        **LAYER_NORM,
        decoder="luong",
        attention=DotConfig(),
        bidirectional_layers=0,
        readout=TanhReadoutConfig(),
    ),
    "luong-concat-norm": AttentionRNNConfig(
        **TINY,
        decoder="luong",
        attention=ConcatConfig(),
        decoder_layers=2,
        connection=PlainConnectionConfig(norm=RMSNormConfig()),
    ),
    "input-feeding": AttentionRNNConfig(
        **TINY,
        decoder="input_feeding",
        attention=GeneralConfig(),
        decoder_layers=3,
        connection=RESIDUAL,
        readout=TanhReadoutConfig(),
    ),
    "bahdanau-local": AttentionRNNConfig(**TINY, attention=LocalConfig(window=1)),
    "input-feeding-lstm": AttentionRNNConfig(**TINY, **LAYER_NORM, decoder="input_feeding", tied_embeddings="all"),
}
SENTENCES = [[5, 6, 7, 3], [4, 3], [9, 8, 10, 5, 3]]
TARGETS = [[BOS, 4, 5], [BOS, 6, 7, 8], [BOS]]

IN_SAMPLE = ("rnn-gru-forward", "bahdanau", "luong-dot")  # a model with attention and one without, and the other order
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def make(config, dtype=torch.float64):
    torch.manual_seed(0)
    return config.build(VOCAB, VOCAB).to(dtype).eval()


def pad(rows, *, left=0, right=0, noise=PAD):
    max_length = max(map(len, rows))
    ids = torch.full((len(rows), left + max_length + right), noise)
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
def test_steps_equal_the_whole_sentence(config):
    model, tgt = make(config), target(TARGETS)
    with torch.inference_mode():
        whole = model.decode_states(source(SENTENCES), tgt)
        state = model.start(source(SENTENCES))
        for t in range(tgt.ids.size(1)):
            hidden, state, _ = model.step(tgt.ids[:, t], state)
            real = tgt.real[:, t]
            assert_close(hidden[real], whole[:, t][real])


@every_config
def test_training_equals_inference(config):
    model = make(config)
    with torch.inference_mode():
        expected = model.decode_states(source(SENTENCES), target(TARGETS))
    assert_close(model.decode_states(source(SENTENCES), target(TARGETS)).detach(), expected)


@every_config
def test_padding_and_other_sentences_of_the_batch_do_not_matter(config):
    model = make(config)
    with torch.inference_mode():
        alone = [model.decode_states(source([s]), target([t]))[0] for s, t in zip(SENTENCES, TARGETS, strict=True)]
        for padding in ({}, {"left": 2}, {"right": 3, "noise": 7}, {"left": 1, "right": 1}):
            tgt = target(TARGETS, **padding)
            together = model.decode_states(source(SENTENCES, **padding), tgt)
            for i, expected in enumerate(alone):
                assert_close(together[i][tgt.real[i]], expected)


@every_config
def test_hypotheses_of_a_sentence_share_its_memory(config):
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
def test_compaction_does_not_change_remaining_sentences(config):
    model = make(config)
    token = torch.tensor([4, 5, 6])
    remaining = torch.tensor([2, 0])
    with torch.inference_mode():
        state = model.start(source(SENTENCES))
        _, state, _ = model.step(token, state)
        expected = model.step(token, state).logits()
        wide = state.select_rows(torch.tensor([0, 0, 1, 1, 2, 2])).keep_sentences(remaining)
        step = model.step(token[remaining].repeat_interleave(2), wide)
        logits, after = step.logits(), step.state
    assert (after.num_sentences, after.num_rows) == (2, 4)
    assert_close(logits, expected[remaining].repeat_interleave(2, 0))


@every_config
def test_empty_batch_and_source_without_tokens(config):
    model = make(config)
    empty = torch.zeros(0, 2, dtype=torch.int64)
    hidden = model.decode_states(Source(empty, empty.bool(), empty), Target(empty, empty.bool(), empty))
    assert hidden.shape == (0, 2, 4)
    hidden.sum().backward()
    ids = torch.zeros(1, 2, dtype=torch.int64)
    empty_source = Source(ids, torch.zeros(1, 2, dtype=torch.bool), ids)
    assert model.decode_states(empty_source, target([[BOS, 4]])).isfinite().all()


@pytest.mark.parametrize(
    "config",
    [
        config if name in IN_SAMPLE else pytest.param(config, marks=pytest.mark.whole)
        for name, config in CONFIGS.items()
    ],
    ids=CONFIGS,
)
def test_gradcheck(config):
    model = make(config)
    names = [name for name, _ in model.named_parameters()]
    inputs = source(SENTENCES, left=1), target(TARGETS, right=1)

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self):
            return model.decode_states(*inputs)[inputs[1].real]

    def outputs(*parameters):
        weights = {f"model.{name}": parameter for name, parameter in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Hidden(), weights, ())

    parameters = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    assert torch.autograd.gradcheck(outputs, parameters, fast_mode=True)


@every_config
def test_bf16_is_close_to_float32(config):
    model = make(config, torch.float32)
    expected = model.decode_states(source(SENTENCES), target(TARGETS))
    with torch.autocast("cpu", torch.bfloat16):
        output = model.decode_states(source(SENTENCES), target(TARGETS))
        output.float().square().sum().backward()
    assert_close(output.float(), expected, atol=0.05, rtol=0.05)
    assert all(p.grad is None or p.grad.dtype == torch.float32 for p in model.parameters())


def test_attention_weights_sum_to_one_over_real_tokens():
    model = make(CONFIGS["bahdanau"])
    src = source(SENTENCES, left=1)
    with torch.inference_mode():
        weights = model.step(torch.full((3,), BOS), model.start(src)).attention
    assert weights.shape == (3, 1, src.ids.size(1))
    assert_close(weights.sum(-1), torch.ones(3, 1, dtype=weights.dtype))
    assert (weights[~src.real.unsqueeze(1)] == 0).all()


def test_reverse_source_equals_reversed_sentences():
    ahead = make(Seq2SeqRNNConfig(**TINY, reverse_source=False))
    back = make(Seq2SeqRNNConfig(**TINY, reverse_source=True))
    with torch.inference_mode():
        expected = ahead.decode_states(source([s[::-1] for s in SENTENCES]), target(TARGETS))
        output = back.decode_states(source(SENTENCES), target(TARGETS))
    tgt = target(TARGETS)
    assert_close(output[tgt.real], expected[tgt.real])


def test_tied_embeddings_are_one_matrix():
    model = AttentionRNNConfig(**TINY, tied_embeddings="all").build(VOCAB, VOCAB)
    assert model.output.weight is model.tgt_embedding.table.weight is model.src_embedding.table.weight
    model = Seq2SeqRNNConfig(**TINY, tied_embeddings="none").build(VOCAB, VOCAB + 1)
    assert model.output.weight is not model.tgt_embedding.table.weight
    with pytest.raises(
        ValueError,
        match="tied_embeddings: all needs a shared vocabulary, but the source has 11 tokens and the target 12",
    ):
        AttentionRNNConfig(**TINY, tied_embeddings="all").build(VOCAB, VOCAB + 1)


def test_dropout_is_off_in_evaluation_and_on_in_training():
    model = make(AttentionRNNConfig(**{**TINY, "dropout": 0.5}, decoder_layers=2))
    inputs = source(SENTENCES), target(TARGETS)
    assert_close(model.decode_states(*inputs), model.decode_states(*inputs))
    model.train()
    assert not torch.equal(model.decode_states(*inputs), model.decode_states(*inputs))


def test_readout_changes_states_only_with_input_feeding():
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
    masks = VariationalDropoutConfig(state=0.5)
    model = make(AttentionRNNConfig(**TINY, decoder=decoder, decoder_layers=2, dropout_kind=masks))
    inputs = source(SENTENCES), target(TARGETS)
    assert_close(model.decode_states(*inputs), model.decode_states(*inputs))
    model.train()
    assert not torch.equal(model.decode_states(*inputs), model.decode_states(*inputs))
