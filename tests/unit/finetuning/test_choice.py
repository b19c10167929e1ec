"""The choice between base and fine-tuned model: noise keeps the base, a gain the fine-tuned model."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtkit.corpus.config import ParallelFiles
from mtkit.evaluation.config import EvaluationConfig
from mtkit.finetuning import choice

VOCABULARY = [f"w{number}" for number in range(300)]
SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 100))]


def corrupted(line: str, rate: float, rng: random.Random) -> str:
    return " ".join(rng.choice(VOCABULARY) if rng.random() < rate else word for word in line.split())


def choose(tmp_path: Path, monkeypatch, rates: tuple[float, float], seed: int, count: int = 100) -> choice.ModelChoice:
    """The choice between translations that have these shares of wrong words."""
    rng = random.Random(seed)
    lines = [" ".join(rng.choices(VOCABULARY, k=rng.randint(4, 20))) for _ in range(count)]
    files = ParallelFiles(src=tmp_path / "src", tgt=tmp_path / "tgt")
    for path in (files.src, files.tgt):
        path.write_text("".join(f"{line}\n" for line in lines))
    remaining = iter(rates)

    class FakeTranslator:
        rate: float

        def __init__(self) -> None:
            self.rate = next(remaining)

        def with_source_prefix(self, prefix: object) -> FakeTranslator:
            return self

        def translate_lines(self, lines: list[str]) -> list[str]:
            return [corrupted(line, self.rate, rng) for line in lines]

    monkeypatch.setattr(choice, "load_translator", lambda *_, **__: FakeTranslator())
    corpus = SimpleNamespace(valid_sets=[files], language_of_target=lambda files: "de")
    recipe = SimpleNamespace(corpus=corpus, search=None, evaluation=EvaluationConfig())
    run = SimpleNamespace(recipe=recipe, folder=SimpleNamespace(model=tmp_path))
    return choice._compare(run, tmp_path, "")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gain_is_kept(tmp_path, monkeypatch, seed):
    result = choose(tmp_path, monkeypatch, (0.5, 0.35), seed)
    assert result.after > result.before
    assert not result.keeps_base


def test_noise_keeps_the_base(tmp_path, monkeypatch):
    kept = [choose(tmp_path, monkeypatch, (rate, rate), seed).keeps_base for seed in range(5) for rate in (0.3, 0.9)]
    assert sum(kept) >= 9  # 1 in 40 is expected to pass, or fewer


@pytest.mark.slow
def test_noise_passes_in_one_of_forty(tmp_path, monkeypatch):
    kept = [choose(tmp_path, monkeypatch, (0.5, 0.5), seed).keeps_base for seed in range(200)]
    assert sum(kept) >= 188  # of 200, with 195 expected


def test_a_loss_keeps_the_base(tmp_path, monkeypatch):
    assert choose(tmp_path, monkeypatch, (0.3, 0.6), 0).keeps_base


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_few_lines_show_nothing(tmp_path, monkeypatch, count):
    assert choose(tmp_path, monkeypatch, (0.9, 0.0), 0, count).keeps_base
