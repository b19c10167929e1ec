"""The choice between base and fine-tuned model: noise keeps the base, a gain the fine-tuned model."""

from __future__ import annotations

import random
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtkit.corpus.config import ParallelFiles
from mtkit.evaluation.config import EvaluationConfig
from mtkit.finetuning import choice
from mtkit.finetuning import finetune as steps
from mtkit.io.records import read_record, write_record
from mtkit.training.distributed import SINGLE_PROCESS
from mtkit.training.monitoring.meter import Stopwatch
from mtkit.training.time_budget import TimeBudget
from tests.toy.sampling import seeds
from tests.toy.training import toy_config

VOCABULARY = [f"w{number}" for number in range(300)]
SEEDS = seeds(10, 100)


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
    return choice._compare(run, tmp_path, tmp_path, choice.MAX_LINES, "")  # type: ignore[arg-type]


@pytest.mark.whole
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


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_a_budget_has_the_time_of_the_choice(tmp_path, monkeypatch, seed):
    """Timing the comparison, updates and the comparison under a made clock, with a model of any speed."""
    rng = random.Random(seed)
    budget, count = 60 * 10 ** rng.uniform(0, 2), rng.randint(2, 2000)
    loading, per_line = budget * rng.uniform(0, 0.003), budget * 10 ** rng.uniform(-7, -3.3)
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(time, "process_time", lambda: clock.now)

    def work(seconds: float) -> None:
        clock.now += seconds

    class SlowTranslator:
        def with_source_prefix(self, prefix: object) -> SlowTranslator:
            return self

        def translate_lines(self, lines: list[str]) -> list[str]:
            work(loading + per_line * len(lines))
            return lines

    labels = (choice.BEFORE, choice.AFTER)
    result = SimpleNamespace(
        scores={label: SimpleNamespace(values={"bleu": SimpleNamespace(value=0.0)}) for label in labels},
        p_values={"bootstrap": {"bleu": {choice.AFTER: 1.0}}},
    )
    monkeypatch.setattr(choice, "load_translator", lambda *_, **__: SlowTranslator())
    monkeypatch.setattr(choice, "compare", lambda *_, **__: result)
    files = ParallelFiles(src=tmp_path / "src", tgt=tmp_path / "tgt")
    for path in (files.src, files.tgt):
        path.write_text("a dog\n" * count)
    corpus = SimpleNamespace(valid_sets=[files], language_of_target=lambda files: "de")
    recipe = SimpleNamespace(corpus=corpus, search=None, evaluation=EvaluationConfig())
    run = SimpleNamespace(recipe=recipe, folder=SimpleNamespace(model=tmp_path))
    write_record(tmp_path / steps.RECORD, {})
    record = steps._Steps.record.__get__(SimpleNamespace(run=tmp_path))
    this = SimpleNamespace(run=tmp_path, before=tmp_path, record=record)
    hours = steps._Steps._hours_of_training(this, run, budget / 3600)  # type: ignore[arg-type]
    lines = read_record(tmp_path / steps.RECORD, remedy="")[steps.COMPARED]
    config = toy_config(max_updates=100_000, budget_hours=hours, budget_updates=1000)
    since_start = Stopwatch(clock.now)
    left = TimeBudget(config, None, since_start=since_start, watch=Stopwatch(), ranks=SINGLE_PROCESS)
    update = 0
    while not left.is_spent:
        update += 1
        left.begin_update(update, validation_seconds=0.0, saving_seconds=0.0)
        work(budget / 1000)
        left.finish_update(update)
    compared = choice._compare(run, tmp_path, tmp_path, lines, "")  # type: ignore[arg-type]
    assert compared.lines == min(lines, count)
    assert 0.95 < clock.now / budget < 1.05
    assert lines >= min(count, choice.FIRST_LINES)


@pytest.mark.parametrize("left", [["finetune.lock"], ["finetune.lock", ".finetune.json.vm.1.tmp"]])
def test_a_call_that_was_killed_before_its_record_is_repeated(tmp_path, left):
    folder = tmp_path / "tuned"
    folder.mkdir()
    for name in left:
        (folder / name).touch()
    with steps._locked(folder):
        (folder / "notes.txt").touch()
    with pytest.raises(steps.UsageError, match="is no fine-tuning"), steps._locked(folder):
        pass
