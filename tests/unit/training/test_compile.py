"""Compiled layers have the gradients of eager ones, and are compiled once for all shapes."""

import shutil

import pytest
import torch
from torch._dynamo.utils import counters

from mtkit.errors import RecipeError
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.recipe import load_recipe
from mtkit.training.checkpoints.checkpoint import checkpoint_path, read_checkpoint
from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing
from mtkit.training.learner import build_learner
from mtkit.training.numerics import compile_model
from mtkit.training.objectives.cross_entropy import CrossEntropy
from tests.toy.training import VOCAB, toy_batch, toy_config, toy_train

SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 12, "dropout": 0.0}
MODELS = {
    "transformer": TransformerConfig(encoder_layers=2, decoder_layers=2, **SMALL),
    "decoder_only": DecoderOnlyConfig(decoder_layers=2, **SMALL),
}
OBJECTIVE = CrossEntropy(TeacherForcing(), 0.1)
ROUNDING = {"rtol": 1e-4, "atol": 1e-4}  # of float32 sums of some 10; compiled layers call torch's softmax
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch reads it of non-leaf inputs
TRACED = "eager"  # torch's backend that traces graphs and runs them in eager mode


@pytest.fixture(autouse=True)
def reset_dynamo():
    torch._dynamo.reset()
    counters.clear()


def build(kind):
    torch.manual_seed(1)
    return MODELS[kind].build(VOCAB, VOCAB)


def learn(model, batch):
    model.zero_grad()
    losses = model(batch, OBJECTIVE)
    losses.sum.backward()
    return [losses.sum.detach(), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize(
    ("kind", "recompute"),
    [
        *(pytest.param("transformer", recompute, marks=pytest.mark.whole) for recompute in (False, True)),
        pytest.param("decoder_only", False, marks=pytest.mark.slow),
    ],
)
def test_gradients_are_the_same_and_layers_are_compiled_once(kind, recompute):
    eager, compiled = build(kind), build(kind)
    if recompute:
        compiled.checkpoint_layers()
    compiled.compile_layers(TRACED)
    graphs = []
    for number in range(12):
        batch = toy_batch(number, 3 + number % 5, 4 + number)
        torch.testing.assert_close(learn(compiled, batch), learn(eager, batch), **ROUNDING)
        graphs.append(counters["stats"]["unique_graphs"])
    # of encoder and decoder layers; from the first shapes torch infers which dimensions are dynamic
    assert 0 < graphs[-1] == graphs[2] <= 6
    assert counters["graph_break"] == {}
    compiled.eval()
    with torch.no_grad():
        compiled(toy_batch(9, 2, 30), OBJECTIVE)
    assert counters["stats"]["unique_graphs"] == graphs[-1]


@pytest.mark.whole
def test_a_training_resumes_with_compile_switched_off(tmp_path):
    for updates, is_compiled in ((2, True), (4, False)):
        config = toy_config(max_updates=updates)
        learner = build_learner(build("transformer"), OBJECTIVE, config=config)
        if is_compiled:
            learner.model.compile_layers(TRACED)
        toy_train(tmp_path / "switched", config, learner=learner)
    toy_train(tmp_path / "eager", config, learner=build_learner(build("transformer"), OBJECTIVE, config=config))
    switched, eager = (
        read_checkpoint(checkpoint_path(tmp_path / name / "checkpoints", 4)).tensors for name in ("switched", "eager")
    )
    torch.testing.assert_close(switched, eager, **ROUNDING)


def test_compile_is_refused_without_a_compiler(monkeypatch):
    def without_compiler(function):
        def fail(*args):
            raise RuntimeError("No working C++ compiler found\nmore")

        return fail

    monkeypatch.setattr(torch, "compile", without_compiler)
    with pytest.raises(RecipeError, match=r"cannot compile here \(No working C\+\+ compiler found\); install a C\+\+"):
        compile_model(build("transformer"))


RECIPE = """
name: x
corpus: {src_lang: en, tgt_lang: de, train: [{src: a, tgt: b}]}
training: {compile: true}
model: """


@pytest.mark.parametrize(
    ("model", "kind"), [("{kind: rnn}", "rnn"), ("{kind: transformer, feed_forward: {kind: moe}}", "transformer")]
)
def test_compile_is_refused_for_models_whose_graph_depends_on_the_data(tmp_path, model, kind):
    recipe = tmp_path / "x.yaml"
    recipe.write_text(RECIPE + model)
    with pytest.raises(RecipeError, match=rf"training.compile: this {kind} model runs a data-dependent number of"):
        load_recipe(str(recipe))
    assert not load_recipe(str(recipe), ["training.compile=false"]).training.compile


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_compiled_code_has_the_gradients_of_eager_mode():
    eager, compiled = build("transformer"), build("transformer")
    compile_model(compiled)
    for number in range(3):
        batch = toy_batch(number, 3 + number, 4 + number)
        torch.testing.assert_close(learn(compiled, batch), learn(eager, batch), rtol=1e-4, atol=1e-5)
