import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mtkit.cli import entry
from mtkit.corpus.order.batch import Batch, dummy_batch
from mtkit.describe import cost as cost_module
from mtkit.describe.cost import count_cost
from mtkit.describe.describe import (
    Architecture,
    ModuleNode,
    describe,
    format_si,
    load_architecture,
    merge_aligned,
    module_tree,
)
from mtkit.layers.config import LearnedConfig, NoPositionConfig, RoPEConfig
from mtkit.layers.variants.config import (
    DeBERTaConfig,
    MixtureOfExpertsConfig,
    PerformerConfig,
    SSRUConfig,
    T5BiasConfig,
    TransformerXLConfig,
    WindowAttentionConfig,
)
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.skip_init import META_DEVICE, SkipInit
from mtkit.models.transformer.config import TransformerConfig
from mtkit.text.vocab import Vocab
from mtkit.training.chunked_loss import label_smoothed_loss

VOCAB, LENGTH = 20, 7
TINY = {"d_model": 8, "d_ff": 12, "num_heads": 2, "dropout": 0.0}
ONE = {**TINY, "encoder_layers": 1, "decoder_layers": 1}
CONFIGS = {
    "transformer": TransformerConfig(**TINY, encoder_layers=2, decoder_layers=1, num_kv_heads=1),
    "relative": TransformerConfig(**ONE, encoder_positions=TransformerXLConfig(), decoder_positions=DeBERTaConfig()),
    "window": TransformerConfig(
        **ONE,
        encoder_attention=WindowAttentionConfig(),
        encoder_positions=T5BiasConfig(),
        decoder_positions=LearnedConfig(),
    ),
    "linear": TransformerConfig(
        **ONE,
        encoder_attention=PerformerConfig(),
        decoder_attention=SSRUConfig(),
        decoder_positions=NoPositionConfig(),
    ),
    "decoder_only": DecoderOnlyConfig(**TINY, decoder_layers=1, decoder_positions=RoPEConfig()),
    "attention_rnn": AttentionRNNConfig(d_model=6, d_embed=4, d_attention=5, decoder_layers=2, dropout=0.0),
    "input_feeding": AttentionRNNConfig(d_model=6, d_embed=4, d_attention=5, decoder="input_feeding", dropout=0.0),
    "lstm": Seq2SeqRNNConfig(d_model=6, d_embed=4, dropout=0.0),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def build_on_meta(config):
    with SkipInit(META_DEVICE):
        return config.build(VOCAB, VOCAB)


def batch(monkeypatch) -> Batch:
    monkeypatch.setattr(cost_module, "BATCH_TOKENS", 3 * LENGTH)
    vocab = Vocab(size=VOCAB, pad=0, unk=1, bos=2, eos=3)
    return dummy_batch(max(1, cost_module.BATCH_TOKENS // LENGTH), LENGTH, vocab, vocab)


@pytest.mark.whole
@every_config
def test_flops_equal_those_of_the_flop_counter_of_torch(config, monkeypatch):
    examples, model = batch(monkeypatch), config.build(VOCAB, VOCAB)
    cost = count_cost(build_on_meta(config), VOCAB, VOCAB, length=LENGTH)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval().output(model.decode_states(examples.source, examples.target))
    assert sum(cost.forward.values()) * 3 * LENGTH == pytest.approx(counter.get_total_flops())
    with FlopCounterMode(display=False) as counter:
        hidden = model.train().decode_states(examples.source, examples.target).flatten(0, 1)
        label_smoothed_loss(
            hidden, model.output.weight, model.output.bias, examples.labels.flatten(), smoothing=0.1
        ).backward()
    assert cost.training * 3 * LENGTH == pytest.approx(counter.get_total_flops())


@pytest.mark.whole
@every_config
def test_activations_equal_the_bytes_saved_by_a_real_training_pass(config, monkeypatch):
    examples, model = batch(monkeypatch), config.build(VOCAB, VOCAB).train()
    cost = count_cost(build_on_meta(config), VOCAB, VOCAB, length=LENGTH)
    saved = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: saved.setdefault(x.untyped_storage().data_ptr(), x) is None or x, lambda x: x
    ):
        model.decode_states(examples.source, examples.target)
    for p in model.parameters():
        saved.pop(p.untyped_storage().data_ptr(), None)
    size = sum(x.untyped_storage().nbytes() for x in saved.values())
    assert sum(cost.activations.values()) * 3 * LENGTH == pytest.approx(size, rel=0.02)


@pytest.mark.whole
def test_decoder_cache_and_encoder_memory_in_bytes():
    def decoding(config):
        return count_cost(build_on_meta(config), VOCAB, VOCAB, length=LENGTH).decoding

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
def test_parameters_and_flops_of_the_tree_add_up(config):
    description = describe(Architecture("x", config, VOCAB, VOCAB), length=LENGTH)
    assert description.tree.parameters == sum(p.numel() for p in config.build(VOCAB, VOCAB).parameters())
    assert description.tree.flops == pytest.approx(sum(description.cost.forward.values()))

    def check(node: ModuleNode):
        assert node.parameters / node.count >= sum(child.parameters for child in node.children)
        assert node.flops / node.count >= sum(child.flops for child in node.children) * 0.999999  # rounding of sums
        for child in node.children:
            check(child)

    check(description.tree)


@pytest.mark.whole
def test_tokens_are_assumed_to_be_distributed_uniformly_over_experts():
    dense = TransformerConfig(**TINY, encoder_layers=1, decoder_layers=1)
    experts = TransformerConfig(
        **TINY,
        encoder_layers=1,
        decoder_layers=1,
        feed_forward=MixtureOfExpertsConfig(moe_every=1, num_experts=3, routing="top2"),
    )
    one, other = (describe(Architecture("x", config, VOCAB, VOCAB), length=LENGTH) for config in (dense, experts))
    feed_forward, router = 2 * 2 * 8 * 12, 2 * 8 * 3
    assert other.tree.flops - one.tree.flops == pytest.approx(2 * (feed_forward + router))  # in either layer


@pytest.mark.whole
def test_equal_layers_are_collapsed():
    config = TransformerConfig(**TINY, encoder_layers=3, decoder_layers=2)
    model = build_on_meta(config)
    tree = module_tree(model, count_cost(model, VOCAB, VOCAB, length=LENGTH), "x")
    stack = next(node for node in tree.children if node.name == "encoder")
    assert [(node.name, node.count, node.class_name, node.key) for node in stack.children] == [
        ("0–2", 3, "EncoderLayer", "encoder.#0")
    ]
    assert (
        stack.children[0].parameters
        == stack.parameters
        == 3 * sum(node.parameters for node in stack.children[0].children)
    )


def test_merge_aligned_keeps_the_order_of_both():
    assert merge_aligned(["a", "b", "d"], ["a", "c", "d", "e"]) == ["a", "c", "b", "d", "e"]
    assert merge_aligned([], ["x"]) == ["x"]


def test_format_si():
    assert [format_si(0, "B"), format_si(999.4, "B"), format_si(1536), format_si(2.25e6), format_si(1.29e9)] == [
        "0 B",
        "999 B",
        "1.54 k",
        "2.25 M",
        "1.29 G",
    ]


@pytest.mark.whole
def test_comparison_is_plain_text_and_marks_differences(capsys, tmp_path):
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
    assert one["modules"]["parameters"] == one["parameters"]


def test_errors_of_the_describe_command(capsys, tmp_path):
    assert entry.execute(["describe", "multi30k-transfomer"]) == 66
    assert "multi30k-transformer" in capsys.readouterr().err
    assert entry.execute(["describe", str(tmp_path), "model.d_ff=512"]) == 2
    assert "is a model; describe its recipe" in capsys.readouterr().err
    assert entry.execute(["describe", "multi30k-transformer", "tokenizer.shared=false"]) == 78


def test_vocabulary_sizes_of_a_recipe_are_the_requested_ones():
    architecture = load_architecture("multi30k-lstm", ["tokenizer.vocab_size=500"])
    assert (architecture.name, architecture.src_vocab, architecture.tgt_vocab) == ("multi30k-lstm", 500, 500)
