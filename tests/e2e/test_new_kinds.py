"""A new kind is one new file and one entry in a union.

Each test copies the package, adds a kind of every part in exactly this way, and runs all stages, translation and the
commands that list or describe a recipe. A kind that had to be named anywhere else would fail here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toy.runs import write_all

PACKAGE = Path(__file__).parents[2] / "mtkit"

POSITION = '''"""ALiBi whose slopes are scaled by a learned factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from mtkit.layers.heads import Heads
from mtkit.layers.positions.alibi import ALiBi
from mtkit.layers.positions.base import PositionConfigBase, StackPositions, shared_across_layers


class ScaledALiBi(ALiBi):
    """ALiBi times a learned factor."""

    def __init__(self, num_heads: int, start: float) -> None:
        super().__init__(num_heads)
        self.factor = nn.Parameter(torch.full((1,), start))

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        return self.factor * super().bias(q, k, q_pos, k_pos)


@dataclass(frozen=True, kw_only=True)
class ScaledALiBiConfig(PositionConfigBase):
    """Linear biases with a learned factor."""

    kind: Literal["scaled_alibi"] = "scaled_alibi"
    start: float = 1.0  # the factor's initial value; 1 is ALiBi

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build one module for all layers."""
        return shared_across_layers(ScaledALiBi(heads.num_heads, self.start), layers)
'''

KERNEL = '''"""Attention in which every visible key has the same weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from mtkit.layers.attention.kernel import AttentionConfigBase, AttentionKernel
from mtkit.layers.attention.masks import causal
from mtkit.layers.attention.multi_head import SelfAttention, SelfAttentionParts
from mtkit.layers.cache.kv_cache import KVCache


class UniformAttention(AttentionKernel[KVCache]):
    """The mean of the visible values, whatever the queries."""

    def forward(self, q: Tensor, new: KVCache, past: KVCache | None) -> tuple[Tensor, KVCache]:
        """See AttentionKernel."""
        cache = new if past is None else past.append(new)
        visible = cache.visible(causal, new.pos)  # [B, 1, T, S]
        weights = torch.ones_like(cache.scores(q))  # [B, H, T, S]
        if visible is not None:
            weights = weights * visible
        return cache.weighted_sum(weights / weights.sum(-1, keepdim=True).clamp(min=1)), cache


@dataclass(frozen=True, kw_only=True)
class UniformAttentionConfig(AttentionConfigBase):
    """Uniform attention (see UniformAttention)."""

    kind: Literal["uniform"] = "uniform"

    is_encoder_capable: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """Build the sublayer."""
        return parts.with_kernel(UniformAttention())
'''

OPTIMISER = '''"""Signs of the gradient, without a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from mtkit.training.optimisers.torch_optimisers import OptimiserTraits, PositiveFloat, weight_decay_groups


class SignSGD(torch.optim.Optimizer):
    """w <- w - lr sign(g)."""

    def __init__(self, params: Any, *, lr: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.add_(weight.grad.sign(), alpha=-group["lr"])


@dataclass(frozen=True, kw_only=True)
class SignSGDConfig(OptimiserTraits):
    """Signs of the gradient (see SignSGD)."""

    bytes_per_weight: ClassVar[int] = 0

    kind: Literal["sign_sgd"] = "sign_sgd"
    learning_rate: PositiveFloat = 1e-3  # at the schedule's peak

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Build the optimiser."""
        return SignSGD(weight_decay_groups(model, 0.0, self.learning_rate), lr=self.learning_rate)
'''

SEARCH = '''"""Greedy search under another name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from mtkit.search.run import Search, SearchParts
from mtkit.search.single_path import SinglePathSearch


@dataclass(frozen=True, kw_only=True)
class PlainGreedy:
    """The most probable token at every step."""

    kind: Literal["plain_greedy"] = "plain_greedy"

    num_hypotheses_key: ClassVar[str] = "beam_size"
    seed: ClassVar[None] = None
    ignored_keys: ClassVar[frozenset[str]] = frozenset()
    ctranslate2_unsupported_key: ClassVar[str] = "method.kind"

    def check(self, beam_size: int) -> None:
        """See SearchMethod."""

    def num_hypotheses(self, beam_size: int) -> int:
        """See SearchMethod."""
        return 1

    def build(self, parts: SearchParts) -> Search:
        """See SearchMethod."""
        return SinglePathSearch(parts)

    def ctranslate2_options(self) -> dict[str, Any]:
        """See SearchMethod."""
        return {}
'''

MODEL = '''"""A sequence-to-sequence RNN as a family of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mtkit.models.rnn.config import Seq2SeqRNNConfig


@dataclass(frozen=True, kw_only=True)
class SmallRNNConfig(Seq2SeqRNNConfig):
    """A recurrent model of one layer."""

    kind: Literal["small_rnn"] = "small_rnn"  # type: ignore[assignment]
    num_layers: int = 1  # of the encoder and of the decoder
'''


def add(package: Path, file: str, source: str, *, config: str, union: str, after: str) -> None:
    """Write a file, import its configuration where the union stands, and add it to the union."""
    (package / file).write_text(source)
    module = "mtkit." + file.removesuffix(".py").replace("/", ".")
    text = (package / union).read_text()
    assert text.count(f"| {after}") == 1, f"{union}: no entry {after}"
    text = text.replace(f"| {after}", f"| {after} | {config}")
    first_import = text.index("\nfrom mtkit.")
    (package / union).write_text(f"{text[:first_import]}\nfrom {module} import {config}{text[first_import:]}")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of mtkit, and a toy corpus in the test's folder."""
    shutil.copytree(PACKAGE, tmp_path / "source" / "mtkit", ignore=shutil.ignore_patterns("__pycache__"))
    write_all(tmp_path)
    return tmp_path / "source" / "mtkit"


def mtkit(package: Path, *words: str) -> str:
    """Run a command of the copied package; return its standard output."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "mtkit", *words], cwd=package.parents[1], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_everywhere(package: Path, *overrides: str) -> None:
    """Run all stages of the toy recipe, resume it, translate, describe and list keys."""
    folder = package.parents[1]
    assert "parameters" in mtkit(package, "run", "toy.yaml", *overrides, "--dry-run")
    mtkit(package, "run", "toy.yaml", *overrides, "--run-dir", "run")
    report = json.loads((folder / "run" / "report.json").read_text())
    assert report["train"]["updates"] == 4
    mtkit(package, "run", "toy.yaml", *overrides, "--run-dir", "run")  # its saved recipe is read again
    lines = (folder / "test.en").read_text()
    (folder / "input").write_text(lines)
    assert mtkit(package, "translate", "run", "input").count("\n") == lines.count("\n")
    assert "parameters" in mtkit(package, "describe", "run")


def test_new_kinds_of_transformer_parts(package: Path) -> None:
    positions, attention = "layers/positions/__init__.py", "layers/attention/__init__.py"
    add(
        package,
        "layers/positions/scaled_alibi.py",
        POSITION,
        config="ScaledALiBiConfig",
        union=positions,
        after="ALiBiConfig",
    )
    add(
        package,
        "layers/attention/uniform.py",
        KERNEL,
        config="UniformAttentionConfig",
        union=attention,
        after="SSRUConfig",
    )
    add(
        package,
        "training/optimisers/sign_sgd.py",
        OPTIMISER,
        config="SignSGDConfig",
        union="training/optimisers/__init__.py",
        after="LionConfig",
    )
    add(package, "search/plain_greedy.py", SEARCH, config="PlainGreedy", union="search/config.py", after="Sampling")
    model = (
        "{kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1, "
        "encoder_positions: {kind: scaled_alibi, start: 0.5}, decoder_attention: {kind: uniform}}"
    )
    run_everywhere(
        package, f"model={model}", "training.optimiser={kind: sign_sgd}", "search.method={kind: plain_greedy}"
    )
    assert "scaled_alibi" in mtkit(package, "keys", "model")


def test_a_new_model_family(package: Path) -> None:
    add(
        package,
        "models/small_rnn.py",
        MODEL,
        config="SmallRNNConfig",
        union="models/__init__.py",
        after="AttentionRNNConfig",
    )
    run_everywhere(package, "model={kind: small_rnn, d_model: 8, d_embed: 8}")
    assert "small_rnn" in mtkit(package, "keys", "model")
