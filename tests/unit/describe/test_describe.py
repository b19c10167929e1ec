import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mtkit.build.skip_init import META, Undrawn
from mtkit.cli import entry
from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.dummy_batch import made_up_batch
from mtkit.describe import cost as cost_module
from mtkit.describe.cost import measure
from mtkit.describe.describe import Architecture, describe, find
from mtkit.describe.parts import Part, part_of
from mtkit.describe.table import merged, si
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.attention.sliding_window import WindowAttentionConfig
from mtkit.layers.attention.ssru import SSRUConfig
from mtkit.layers.feed_forward.mixture_of_experts import ExpertsConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.text.vocab import Vocab
from mtkit.training.chunked_loss import label_smoothed_loss

VOCAB, LENGTH = 20, 7
TINY = {"d_model": 8, "d_ff": 12, "num_heads": 2, "dropout": 0.0}
CONFIGS = {
    "transformer": TransformerConfig(**TINY, encoder_layers=2, decoder_layers=1, num_kv_heads=1),
    "relative": TransformerConfig(**TINY, encoder_positions=TransformerXLConfig(), decoder_positions=DeBERTaConfig()),
    "window": TransformerConfig(
        **TINY,
        encoder_attention=WindowAttentionConfig(),
        encoder_positions=T5BiasConfig(),
        decoder_positions=LearnedConfig(),
    ),
    "linear": TransformerConfig(
        **TINY,
        encoder_attention=PerformerConfig(),
        decoder_attention=SSRUConfig(),
        decoder_positions=NoPositionConfig(),
    ),
    "decoder_only": DecoderOnlyConfig(**TINY, decoder_positions=RoPEConfig()),
    "attention_rnn": AttentionRNNConfig(d_model=6, d_embedding=4, d_attention=5, decoder_layers=2, dropout=0.0),
    "input_feeding": AttentionRNNConfig(d_model=6, d_embedding=4, d_attention=5, decoder="input_feeding", dropout=0.0),
    "lstm": LSTMConfig(d_model=6, d_embedding=4, dropout=0.0),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def without_weights(config):
    with Undrawn(META):
        return config.build(VOCAB, VOCAB)


def batch(monkeypatch) -> Batch:
    monkeypatch.setattr(cost_module, "BATCH", 3 * LENGTH)
    vocab = Vocab(size=VOCAB, pad=0, unk=1, bos=2, eos=3)
    return made_up_batch(max(1, cost_module.BATCH // LENGTH), LENGTH, vocab, vocab)


@every_config
def test_operations_are_those_that_torch_counts_with_numbers(config, monkeypatch):
    given, model = batch(monkeypatch), config.build(VOCAB, VOCAB)
    found = measure(without_weights(config), VOCAB, VOCAB, length=LENGTH)
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        model.eval().output(model.hidden(given.source, given.target))
    assert sum(found.forward.values()) * 3 * LENGTH == pytest.approx(counted.get_total_flops())
    with FlopCounterMode(display=False) as counted:
        hidden = model.train().hidden(given.source, given.target).flatten(0, 1)
        label_smoothed_loss(
            hidden, model.output.weight, model.output.bias, given.labels.flatten(), smoothing=0.1
        ).backward()
    assert found.training * 3 * LENGTH == pytest.approx(counted.get_total_flops())


@every_config
def test_what_is_kept_is_what_training_keeps_with_numbers(config, monkeypatch):
    given, model = batch(monkeypatch), config.build(VOCAB, VOCAB).train()
    found = measure(without_weights(config), VOCAB, VOCAB, length=LENGTH)
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.setdefault(x.untyped_storage().data_ptr(), x) is None or x, lambda x: x
    ):
        model.hidden(given.source, given.target)
    for p in model.parameters():
        kept.pop(p.untyped_storage().data_ptr(), None)
    size = sum(x.untyped_storage().nbytes() for x in kept.values())
    assert sum(found.activations.values()) * 3 * LENGTH == pytest.approx(size, rel=0.02)


def test_bytes_of_decoding():
    def decoding(config):
        return measure(without_weights(config), VOCAB, VOCAB, length=LENGTH).decoding

    cached = decoding(TransformerConfig(**TINY, decoder_layers=3, num_kv_heads=1))
    assert (cached.cache_per_token, cached.cache_fixed) == (3 * 2 * 4 * 4, 0)  # layers, key and value, head, bytes
    assert cached.memory_per_token == 3 * 2 * 4 * 4
    recurrent = decoding(CONFIGS["lstm"])
    assert (recurrent.cache_per_token, recurrent.cache_fixed) == (0, 2 * 2 * 6 * 4)  # layers, h and c, width, bytes
    assert recurrent.memory_per_token == 0
    attending = decoding(CONFIGS["attention_rnn"])
    assert (attending.cache_per_token, attending.cache_fixed) == (0, 2 * 6 * 4)
    assert attending.memory_per_token == (12 + 5) * 4  # annotation and key
    assert decoding(CONFIGS["linear"]).cache_per_token == 0


@every_config
def test_parameters_are_those_of_the_model(config):
    found = describe(Architecture("x", config, VOCAB, VOCAB), length=LENGTH)
    assert found.model.parameters == sum(p.numel() for p in config.build(VOCAB, VOCAB).parameters())
    assert found.model.flops == pytest.approx(sum(found.cost.forward.values()))

    def check(part: Part):
        assert part.parameters / part.count >= sum(inner.parameters for inner in part.parts)
        assert part.flops / part.count >= sum(inner.flops for inner in part.parts) * 0.999999  # rounding of sums
        for inner in part.parts:
            check(inner)

    check(found.model)


def test_experts_are_taken_to_be_evenly_busy():
    dense = TransformerConfig(**TINY, encoder_layers=1, decoder_layers=1)
    experts = TransformerConfig(
        **TINY, encoder_layers=1, decoder_layers=1, feed_forward=ExpertsConfig(every=1, num_experts=3, routing="top2")
    )
    one, other = (describe(Architecture("x", config, VOCAB, VOCAB), length=LENGTH) for config in (dense, experts))
    feed_forward, router = 2 * 2 * 8 * 12, 2 * 8 * 3
    assert other.model.flops - one.model.flops == pytest.approx(2 * (feed_forward + router))  # in either layer


def test_layers_that_are_alike_stand_once():
    config = TransformerConfig(**TINY, encoder_layers=3, decoder_layers=2)
    model = without_weights(config)
    tree = part_of(model, measure(model, VOCAB, VOCAB, length=LENGTH), "x")
    stack = next(part for part in tree.parts if part.name == "encoder")
    assert [(part.name, part.count, part.kind, part.key) for part in stack.parts] == [
        ("0–2", 3, "EncoderLayer", "encoder.#0")
    ]
    assert stack.parts[0].parameters == stack.parameters == 3 * sum(part.parameters for part in stack.parts[0].parts)


def test_rows_of_two_models_are_merged_in_order():
    assert merged(["a", "b", "d"], ["a", "c", "d", "e"]) == ["a", "c", "b", "d", "e"]
    assert merged([], ["x"]) == ["x"]


def test_sizes_in_words():
    assert [si(0, "B"), si(999.4, "B"), si(1536), si(2.25e6), si(1.29e9)] == [
        "0 B",
        "999 B",
        "1.54 k",
        "2.25 M",
        "1.29 G",
    ]


def test_the_command_prints_plain_text_and_marks_what_differs(capsys, tmp_path):
    figures = tmp_path / "figures.json"
    words = ["describe", "multi30k-transformer", "model.d_ff=128", "--compare", "multi30k-transformer"]
    assert entry.execute([*words, "--json", str(figures)]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    marked = [line for line in text.split("\n") if line.rstrip().endswith("≠")]
    assert any("feed_forward" in line for line in marked)
    assert not any("query" in line for line in marked)
    one, other = json.loads(figures.read_text())
    assert one["parameters"] < other["parameters"]
    assert one["parts"]["parameters"] == one["parameters"]


def test_what_cannot_be_described(capsys, tmp_path):
    assert entry.execute(["describe", "multi30k-transfomer"]) == 66
    assert "multi30k-transformer" in capsys.readouterr().err
    assert entry.execute(["describe", str(tmp_path), "model.d_ff=512"]) == 2
    assert "is a model; describe its recipe" in capsys.readouterr().err
    assert entry.execute(["describe", "multi30k-transformer", "tokenizer.shared=false"]) == 78


def test_a_recipe_is_described_with_the_vocabulary_it_asks_for():
    found = find("multi30k-lstm", ["tokenizer.vocab_size=500"])
    assert (found.name, found.src_vocab, found.tgt_vocab) == ("multi30k-lstm", 500, 500)
