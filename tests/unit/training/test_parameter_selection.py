"""Parts of models selected by name, and freezing."""

import pytest
import torch

from mtkit.config import construct
from mtkit.errors import RecipeError
from mtkit.layers.config import PreNormConfig
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.config import TrainingConfig
from mtkit.training.learner import build_learner
from mtkit.training.optimisers.config import AdamWConfig
from mtkit.training.weights import freeze, select_parameters
from tests.toy.training import VOCAB, objective_inputs_of, toy_batch, toy_config, toy_train

SHAPE = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 1}


def transformer(**keys):
    return TransformerConfig(**SHAPE, **keys).build(VOCAB, VOCAB)


def own_names(model, *starts):
    return {name for name, _ in model.named_parameters() if name.startswith(starts)}


@pytest.mark.parametrize(
    ("part", "starts"),
    [
        ("encoder", ("encoder.", "encoder_norm.")),
        ("encoder.1", ("encoder.1.",)),
        ("encoder.1.att*n", ("encoder.1.attention.",)),
        ("encoder.?.feed_forward", ("encoder.0.feed_forward.", "encoder.1.feed_forward.")),
        ("decoder.norm", ("decoder_norm.",)),
        ("decoder_norm", ("decoder_norm.",)),
        ("embeddings", ("src_embedding.", "tgt_embedding.")),
        ("embeddings.tgt", ("tgt_embedding.",)),
        ("output", ("output.",)),
        ("*", ("",)),
    ],
)
def test_a_part_is_a_module_with_everything_inside_it(part, starts):
    model = transformer(tied_embeddings="none", residual=PreNormConfig())
    selected = select_parameters(model, [part], key="training.freeze")
    assert selected.keys() == own_names(model, *starts) != set()


def test_a_tied_weight_is_selected_by_each_of_its_names():
    model = transformer(tied_embeddings="all")
    for part, name in (("embeddings.tgt", "tgt_embedding.table.weight"), ("output", "output.weight")):
        assert select_parameters(model, [part], key="k") == {"src_embedding.table.weight": name}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["encoder", "encodr.0"], "training.freeze.1: encodr.0: no part of this model; did you mean encoder.0?"),
        (["embedding"], "training.freeze.0: embedding: no part of this model; did you mean embeddings?"),
        (["xyz"], "training.freeze.0: xyz: no part of this model; its parts are embeddings, encoder, decoder"),
        (["*"], "training.freeze: no weights are left to train; remove a part from the list"),
    ],
)
def test_unknown_parts_are_refused(parts, message):
    with pytest.raises(RecipeError) as caught:
        freeze(transformer(), parts, key="training.freeze")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("model", [transformer, Seq2SeqRNNConfig(d_model=8, d_embed=8, num_layers=1)])
def test_frozen_weights_are_not_in_the_optimiser_and_do_not_change(model):
    torch.manual_seed(0)
    model = model() if model is transformer else model.build(VOCAB, VOCAB)
    count = freeze(model, ["encoder", "embeddings.src"], key="training.freeze")
    assert count == sum(p.numel() for p in model.parameters() if not p.requires_grad) > 0
    config = toy_config(freeze=["encoder", "embeddings.src"], optimiser=AdamWConfig())
    learner = build_learner(model, construct(config.objective, objective_inputs_of(config)), config=config)
    optimised = {id(p) for group in learner.optimiser.param_groups for p in group["params"]}
    assert optimised == {id(p) for p in model.parameters() if p.requires_grad}
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    learner.start_update(1)
    for losses in learner.losses([toy_batch(1, 3)], 1):
        learner.backward(losses.sum)
    learner.reduce_and_clip_gradients()
    learner.step(1)
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name, p in model.named_parameters() if p.requires_grad}


def test_resuming_with_frozen_weights_gives_the_same_bits(tmp_path):
    def learner(config: TrainingConfig):
        torch.manual_seed(config.seed)
        model = transformer()
        freeze(model, config.freeze, key="training.freeze")
        return build_learner(model, construct(config.objective, objective_inputs_of(config)), config=config)

    keys = {"freeze": ["encoder"], "max_updates": 8, "optimiser": AdamWConfig()}
    config, short = toy_config(**keys), toy_config(**keys, max_hours=1e-9)
    whole = toy_train(tmp_path / "whole", config, learner=learner(config))
    for _ in range(2):
        toy_train(tmp_path / "resumed", short, learner=learner(short))
    resumed = toy_train(tmp_path / "resumed", config, learner=learner(config))
    assert [name for name in whole.weights if not torch.equal(whole.weights[name], resumed.weights[name])] == []
