"""Checks of a device against the CPU: losses, gradients, translations, resuming. Each yields its rows one by one.

The reference is the CPU in float64. The bound of an error is derived from the error of the CPU in the same number
format: a device adds in another order, which may cost FACTOR times as much, but not more. A wrong kernel is off by
orders of magnitude.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, collate
from mtkit.models.interface import TranslationModel
from mtkit.pipeline.builders import build_architecture, build_objective
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import Recipe
from mtkit.search.config import SearchConfig
from mtkit.search.hypothesis import Hypothesis, SpecialIds
from mtkit.search.interface import SearchRequest
from mtkit.text.vocab import Vocab
from mtkit.training.decoder_inputs.interface import TargetVocabIds
from mtkit.training.learner import build_learner

VOCAB = Vocab(size=300, pad=0, unk=1, bos=2, eos=3)
VOCAB_IDS = TargetVocabIds(size=VOCAB.size, first_text_id=4, end_text_id=VOCAB.size, pad=0, unk=1, bos=2, eos=3)
FACTOR = 8.0
LEAST_ERROR = {"float32": 2.0**-23, "bf16": 2.0**-12}  # the CPU's own error of a loss may be small by chance
NEAR_TIE = 1e-4  # two hypotheses whose scores differ by less may change places
SMALL = "d_model: 32, dropout: 0.0"
STACK = f"{SMALL}, d_ff: 64, num_heads: 4, encoder_layers: 2, decoder_layers: 2"
POSITIONS = ("sinusoidal", "rope", "alibi", "t5", "shaw", "transformer_xl", "deberta")
MODELS = {
    **{
        f"transformer, {kind}": f"{{kind: transformer, {STACK}, encoder_positions: {{kind: {kind}}}, "
        f"decoder_positions: {{kind: {kind}}}}}"
        for kind in POSITIONS
    },
    "transformer, 2 key heads": f"{{kind: transformer, {STACK}, num_kv_heads: 2}}",
    "decoder-only": f"{{kind: decoder_only, {SMALL}, d_ff: 64, num_heads: 4, decoder_layers: 2}}",
    "LSTM": "{kind: rnn, d_model: 32, d_embed: 32, dropout: 0.0}",
    "Bahdanau": "{kind: attention_rnn, d_model: 32, d_embed: 32, d_attention: 32, dropout: 0.0}",
}


@dataclass(frozen=True)
class Row:
    """The result of a check.

    Attributes:
        check: its name and the case.
        passed: whether the device agrees with the CPU.
        detail: the numbers.
    """

    check: str
    passed: bool
    detail: str

    def __str__(self) -> str:
        """The row as it is printed."""
        return f"{'ok    ' if self.passed else 'FAILED'}  {self.check:<44}  {self.detail}"


@dataclass
class Outcome:
    """Loss and gradients of a batch, on the CPU in float64."""

    loss: Tensor
    gradients: dict[str, Tensor] = field(default_factory=dict)

    def error(self, reference: Outcome) -> tuple[float, float]:
        """Relative error of the loss, and of the gradients as one vector."""
        squares = [(g - reference.gradients[name]).square().sum() for name, g in self.gradients.items()]
        norm = torch.stack([g.square().sum() for g in reference.gradients.values()]).sum().sqrt()
        loss = abs(float(self.loss - reference.loss)) / abs(float(reference.loss))
        return loss, float(torch.stack(squares).sum().sqrt() / norm)


def small_recipe(model: str, precision: str = "float32") -> Recipe:
    """The quickstart with another model."""
    return load_recipe("quickstart", [f"model={model}", f"training.precision={precision}"])


def make_batch(sentences: int = 12) -> Batch:
    """Sentences of 3 to 26 random tokens."""
    generator = torch.Generator().manual_seed(0)

    def tokens(number: int) -> list[int]:
        count = 3 + (number * 7) % 24
        return torch.randint(4, VOCAB.size, (count,), generator=generator).tolist()

    src, tgt = ([tokens(number + shift) for number in range(sentences)] for shift in (0, 1))
    return collate(src, tgt, list(range(sentences)), VOCAB, VOCAB)


def build(recipe: Recipe) -> TranslationModel:
    """The model of a recipe with the same random weights in every call."""
    torch.manual_seed(1)
    return build_architecture(recipe, (VOCAB.size, VOCAB.size))


def outcome(recipe: Recipe, model: TranslationModel, batch: Batch) -> Outcome:
    """Loss and gradients of the recipe's objective, computed where the model is."""
    objective = build_objective(recipe.training, VOCAB_IDS, None)  # type: ignore[arg-type]  # samples nothing
    learner = build_learner(model, objective, config=recipe.training)
    model.train()
    learner.start_update(1)
    (losses,) = learner.losses([batch], 1)
    loss = losses.sum / losses.tokens
    learner.backward(loss)
    gradients = {n: p.grad.detach().cpu().double() for n, p in model.named_parameters() if p.grad is not None}
    return Outcome(loss.detach().cpu().double(), gradients)


def check_gradients(device: str, precisions: Sequence[str] = ("float32", "bf16")) -> Iterator[Row]:
    """Loss and gradients of every family of models, in float32 and with autocast to bf16."""
    batch = make_batch()
    for name, keys in MODELS.items():
        recipe = small_recipe(keys)
        reference = outcome(recipe, build(recipe).double(), batch)
        for precision in precisions:
            recipe = small_recipe(keys, precision)
            on_cpu = outcome(recipe, build(recipe), batch).error(reference)
            there = outcome(recipe, build(recipe).to(device), batch).error(reference)
            bounds = [FACTOR * max(error, LEAST_ERROR[precision]) for error in on_cpu]
            detail = f"loss {there[0]:.1e} (bound {bounds[0]:.1e}), gradients {there[1]:.1e} (bound {bounds[1]:.1e})"
            passed = all(error <= bound for error, bound in zip(there, bounds, strict=True))
            yield Row(f"gradients, {name}, {precision}", passed, detail)


def check_translations(device: str, sentences: int = 100) -> Iterator[Row]:
    """Greedy search and beam search with random weights: the hypotheses of the CPU, but for near-ties."""
    batch = make_batch(sentences)
    special_ids = SpecialIds(VOCAB.size, VOCAB.bos, VOCAB.eos, (VOCAB.pad, VOCAB.unk, VOCAB.bos))
    for name, keys in MODELS.items():
        on_cpu, there = (build(small_recipe(keys)).eval().to(each) for each in ("cpu", device))
        for beam_size in (1, 5):
            search = SearchConfig(beam_size=beam_size).build(special_ids)

            def translate(model: TranslationModel, device: str, search=search) -> list[Hypothesis]:  # type: ignore[no-untyped-def]
                source = batch.to(torch.device(device)).source
                limits = torch.full((sentences,), 30, device=device)
                with torch.inference_mode():
                    return [hypotheses[0] for hypotheses in search(model, SearchRequest.of(source, limits))]

            expected = translate(on_cpu, "cpu")
            found = translate(there, device)
            pairs = list(zip(expected, found, strict=True))
            other = [abs(one.score - two.score) for one, two in pairs if one.tokens != two.tokens]
            largest = max(abs(one.score - two.score) for one, two in pairs)
            detail = f"{len(other)} of {sentences} differ, largest difference of scores {largest:.1e}"
            # scores of equal hypotheses differ by rounding, those of near-ties by less than NEAR_TIE
            yield Row(f"beam {beam_size}, {name}", largest <= NEAR_TIE and len(other) <= sentences // 50, detail)


def check_resuming(device: str, updates: int = 20) -> Iterator[Row]:
    """A deterministic training that was interrupted half-way: the weights of an uninterrupted one, to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        keys = ["training.deterministic=true", "training.schedule={kind: constant}"]
        hashes = {}
        for name, stops in {"at once": (updates,), "interrupted": (updates // 2, updates)}.items():
            for stop in stops:
                interval = [f"training.{key}={updates // 2}" for key in ("validate_every", "checkpoint_every")]
                where = ("--device", device, "--run-dir", f"{folder}/{name}")
                _mtkit("train", "quickstart", *keys, *interval, f"training.max_updates={stop}", *where)
            weights = Path(folder, name, "model", "model.safetensors").read_bytes()
            hashes[name] = hashlib.sha256(weights).hexdigest()[:12]
        detail = ", ".join(f"{name} {value}" for name, value in hashes.items())
        yield Row(f"resuming after {updates // 2} of {updates} updates", len(set(hashes.values())) == 1, detail)


def check_commands(device: str, updates: int = 200) -> Iterator[Row]:
    """A short training on the device; its model translates on the CPU as there, line for line but for near-ties."""
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        keys = [f"training.max_updates={updates}", "training.schedule={kind: constant}"]
        _mtkit("train", "quickstart", *keys, "--device", device, "--run-dir", run)
        log = [json.loads(line) for line in Path(run, "log.jsonl").read_text().split("\n") if line]
        losses = [entry["loss"] for entry in log if "loss" in entry]
        yield Row(
            f"{updates} updates by the command", losses[-1] < losses[0], f"loss {losses[0]:.2f}, {losses[-1]:.2f}"
        )
        text = Path(folder, "text")
        text.write_text("".join(f"{word} old man sees the dog .\n" for word in ("The", "A", "No", "This") * 25))
        options = ("--compute-type", "float32", "--device")
        lines = [_mtkit("translate", run, str(text), *options, each).split("\n") for each in ("cpu", device)]
        differ = sum(one != two for one, two in zip(*lines, strict=True))
        yield Row("translate on the CPU and there", differ <= 1, f"{differ} of {len(lines[0]) - 1} lines differ")


def _mtkit(*arguments: str) -> str:
    """The standard output of a command that must succeed."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    command = [sys.executable, "-m", "mtkit", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"mtkit {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


CHECKS = (check_gradients, check_translations, check_resuming, check_commands)
