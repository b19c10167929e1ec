"""A new kind is one new file, a configuration, and one entry in a union.

Each test copies the package, adds kinds from tests/toy/new_kinds in exactly this way, and runs all stages, translation
and the commands that list or describe a recipe. A kind that had to be named anywhere else would fail here.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toy.runs import sentences, write_all, write_pair

PACKAGE = Path(__file__).parents[3] / "mtkit"
NEW_KINDS = Path(__file__).parents[2] / "toy" / "new_kinds"


def add_to_union(package: Path, union: str, config: str, *, after: str) -> None:
    """Add a configuration to a union, after another one."""
    text = (package / union).read_text()
    assert text.count(f"| {after}") == 1, f"{union}: no entry {after}"
    (package / union).write_text(text.replace(f"| {after}", f"| {after} | {config}"))


def add_import(package: Path, file: str, module: str, config: str) -> None:
    """Import a configuration where the union stands."""
    text = (package / file).read_text()
    first = text.index("\nfrom mtkit.")
    (package / file).write_text(f"{text[:first]}\nfrom {module} import {config}{text[first:]}")


def add_config(package: Path, file: str, config: str, *, before: str) -> None:
    """Copy a configuration from tests/toy/new_kinds/configs.py to `file`, before the line that begins with `before`."""
    source = (NEW_KINDS / "configs.py").read_text()
    (node,) = (each for each in ast.parse(source).body if isinstance(each, ast.ClassDef) and each.name == config)
    written = "\n".join(source.splitlines()[node.decorator_list[0].lineno - 1 : node.end_lineno])
    text = (package / file).read_text()
    at = text.index(f"\n{before}")
    (package / file).write_text(f"{text[:at]}\n{written}\n\n{text[at:]}")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of mtkit, and a toy corpus in the test's folder."""
    shutil.copytree(PACKAGE, tmp_path / "source" / "mtkit")
    write_all(tmp_path)
    return tmp_path / "source" / "mtkit"


def run_python(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copied package."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=package.parents[1], env=environment, capture_output=True, text=True)


def run_everywhere(package: Path, *overrides: str) -> str:
    """Run all stages of the toy recipe, resume it, translate, describe and list keys of models, which are returned."""
    folder = package.parents[1]
    run = ["run", "toy.yaml", *overrides]
    commands = {
        "dry_run": [*run, "--dry-run"],
        "trained": [*run, "--run-dir", "run"],
        "again": [*run, "--run-dir", "run"],  # its saved recipe is read again
        "hyps": ["translate", "run", "test.en"],
        "description": ["describe", "run"],
        "keys": ["keys", "model"],
    }
    program = (
        "import json, os, sys; from mtkit.cli import entry\n"
        "for name, words in json.load(open('commands.json')).items():\n"
        "    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), 1)\n"
        "    code = entry.execute(words)\n"
        "    sys.stdout.flush()\n"
        "    assert code == 0, name\n"
    )
    (folder / "commands.json").write_text(json.dumps(commands))
    done = run_python(package, "-c", program)
    assert done.returncode == 0, done.stderr
    printed = {name: (folder / name).read_text() for name in commands}
    assert json.loads((folder / "run" / "report.json").read_text())["train"]["updates"] == 4
    assert "parameters" in printed["dry_run"]
    assert "parameters" in printed["description"]
    assert printed["hyps"].count("\n") == (folder / "test.en").read_text().count("\n")
    return printed["keys"]


@pytest.mark.whole
def test_new_kinds_of_transformer_parts(package: Path) -> None:
    for file, config, after in (
        ("scaled_alibi.py", "ScaledALiBiConfig", "ALiBiConfig"),
        ("uniform.py", "UniformAttentionConfig", "SSRUConfig"),
    ):
        shutil.copy(NEW_KINDS / file, package / "layers/variants")
        add_config(package, "layers/variants/config.py", config, before="@config")
        add_import(package, "layers/kinds.py", "mtkit.layers.variants.config", config)
        add_to_union(package, "layers/kinds.py", config, after=after)

    shutil.copy(NEW_KINDS / "sign_sgd.py", package / "training/optimisers")
    add_config(package, "training/optimisers/config.py", "SignSGDConfig", before="OptimiserConfig =")
    add_to_union(package, "training/optimisers/config.py", "SignSGDConfig", after="LionConfig")

    add_config(package, "search/config.py", "PlainGreedy", before="SearchMethodConfig =")
    add_to_union(package, "search/config.py", "PlainGreedy", after="DiverseBeamConfig")
    model = (
        "{kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1, "
        "encoder_positions: {kind: scaled_alibi, start: 0.5}, decoder_attention: {kind: uniform}}"
    )
    keys = run_everywhere(
        package, f"model={model}", "training.optimiser={kind: sign_sgd}", "search.method={kind: plain_greedy}"
    )
    assert re.search(r"\bscaled_alibi\b", keys)
    assert re.search(r"\buniform\b", keys)


@pytest.mark.whole
def test_a_new_model_family(package: Path) -> None:
    shutil.copytree(NEW_KINDS / "bag_of_words", package / "models" / "bag_of_words")
    add_import(package, "models/config.py", "mtkit.models.bag_of_words.config", "BagOfWordsConfig")
    add_to_union(package, "models/config.py", "BagOfWordsConfig", after="AttentionRNNConfig")
    keys = run_everywhere(package, "model={kind: bag_of_words, d_model: 8}")
    assert re.search(r"\bbag_of_words\b", keys)


@pytest.mark.whole
def test_a_new_metric_is_a_module_and_a_row(package: Path) -> None:
    """Scores, intervals, tests, tables, report, model card, help and keys have it by its row alone."""
    shutil.copy(NEW_KINDS / "line_accuracy.py", package / "evaluation")
    row = '"wrong": MetricInfo("lines", "wrong lines", "evaluation.line_accuracy:WrongLines", higher_is_better=False),'
    table, after = package / "evaluation/config.py", "METRICS: dict[str, MetricInfo] = {\n"
    text = table.read_text()
    assert after in text
    table.write_text(text.replace(after, f"{after}    {row}\n"))
    folder = package.parents[1]
    run_everywhere(package, "evaluation.metrics=[wrong, bleu]")
    assert "list of wrong or bleu or chrf" in run_python(package, "-m", "mtkit", "keys", "evaluation").stdout
    report = json.loads((folder / "run/report.json").read_text())["test"]
    assert all(0 <= scores["lines"] <= 100 and scores["lines_signature"] == "lines" for scores in report.values())
    assert "| wrong lines |" in (folder / "run/model/README.md").read_text()
    (folder / "ref").write_text("a\nb\nc\nd\n" * 10)
    (folder / "good").write_text("a\nb\nc\nx\n" * 10)
    (folder / "bad").write_text("x\nx\nc\nx\n" * 10)
    (folder / "ids").write_text("one\n" * 20 + "two\n" * 20)
    words = ["evaluate", "good", "bad", "--ref", "ref", "--metrics", "wrong", "--docid", "ids"]
    done = run_python(package, "-m", "mtkit", *words, "--json", "scores.json")
    assert done.returncode == 0, done.stderr
    assert re.search(r"wrong lines +good +\* 25\.00 +± \d+\.\d\d\n", done.stdout)
    assert "wrong lines good" in done.stdout
    assert "wrong lines: lines|bs:1000" in done.stdout
    bad = json.loads((folder / "scores.json").read_text())["bad"]
    assert bad["lines"] == 75
    assert bad["lines_p_bootstrap"] < 0.01
    assert bad["lines_p_randomisation"] < 0.01
    assert "wrong, bleu, chrf, chrf++, ter, moses" in run_python(package, "-m", "mtkit", "evaluate", "--help").stdout
    program = "import mtkit; print(mtkit.evaluate(['a', 'b'], [['a', 'c']], ['wrong']).lines.value)"
    assert run_python(package, "-c", program).stdout == "50.0\n"


@pytest.mark.whole
def test_a_changed_valid_set_is_noticed_under_a_copy_of_a_kind(package: Path) -> None:
    """The learning rate depends on the validation set by a capability of the schedule, not by its name."""
    schedules = package / "training/optimisers/schedule.py"
    text = schedules.read_text()
    start = text.index("@config\nclass PlateauConfig")
    end = text.index("ScheduleConfig = ")
    copied = text[start:end].replace("PlateauConfig", "StairsConfig").replace('"plateau"', '"stairs"')
    schedules.write_text(text[:end] + copied + text[end:])
    add_to_union(package, "training/optimisers/schedule.py", "StairsConfig", after="PlateauConfig")
    train = ("train", "toy.yaml", "training.schedule={kind: stairs}", "--run-dir", "run")
    done = run_python(package, "-m", "mtkit", *train)
    assert done.returncode == 0, done.stderr
    write_pair(package.parents[1], "valid", sentences(5, 3))
    done = run_python(package, "-m", "mtkit", *train)
    assert done.returncode != 0
    assert "the validation set, which the learning rate depends on (training.schedule), changed since" in done.stderr
