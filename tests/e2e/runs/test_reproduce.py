"""`mtkit reproduce` from the claim to the result, with two updates of tiny models in separate processes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mtkit.analysis.attention import analyse_attention
from mtkit.cli import entry
from mtkit.evidence.results import read_lines_by_name
from mtkit.translate.reference_text import read_reference_text
from tests.toy.studies import toy_corpus

ROOT = Path(__file__).parents[3]
CLAIM = """\
claim: Pre-norm is better than post-norm.
source: a test
url: https://example.org
scale: adequate
study: study.yaml
minutes: 1
systems:
  beam: {variant: pre, search: [search.beam_size=3]}
checks:
  - {of: beam, against: pre, expect: higher}
  - {of: pre, against: pre, expect: equal, metric: free_running_gap, margin: 0.1}
  - {of: pre, against: pre, expect: equal, metric: positional_head}
"""


SYSTEMS = """\
claim: A changed model is another system.
source: a test
url: https://example.org
scale: adequate
study: study.yaml
minutes: 1
systems:
  int4: {variant: pre, compress: {to: int4}}
  half: {variant: pre, compress: {to: heads, fraction: 0.5}}
  other_half: {variant: pre, compress: {to: heads, fraction: 0.5, most_important: true}}
  unscaled: {variant: pre, model: [model.scaled_attention=false]}
checks:
  - {of: int4, against: pre, expect: lower}
  - {of: half, against: pre, expect: lower}
  - {of: other_half, against: pre, expect: lower}
  - {of: unscaled, against: pre, expect: lower}
"""


@pytest.mark.whole
def test_a_claim_trains_only_its_variants_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_corpus(tmp_path)
    (tmp_path / "pre-norm.yaml").write_text(CLAIM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = ["reproduce", "pre-norm.yaml", "seeds=[1]", "training.max_updates=2"]

    assert entry.execute([*command, "--measure-only"]) == 65
    assert "no finished run; run mtkit reproduce first" in capsys.readouterr().err

    assert entry.execute(command) == 0
    captured = capsys.readouterr()
    assert "pre, seed 1: done" in captured.err
    assert "pre-norm: undecided" in captured.out  # one seed decides nothing
    runs = tmp_path / "runs" / "evidence"
    assert [path.name for path in (runs / "norms").iterdir() if path.is_dir()] == ["pre"]
    assert [*read_lines_by_name(runs / "results" / "trainings" / "norms.jsonl")] == ["pre-seed-1"]
    assert [*(runs / "norms" / "pre" / "seed-1" / "evidence").glob("*/test.hyp")]
    stored = read_lines_by_name(runs / "results" / "study.jsonl")["pre-norm"]
    report = json.loads((runs / "norms" / "pre" / "seed-1" / "report.json").read_text())
    beam, gap, head = stored["checks"]
    assert beam["against"]["1"] == pytest.approx(report["test"]["toy"]["bleu"], abs=1e-3)
    assert gap["of"] == gap["against"]
    rows = analyse_attention(
        runs / "norms" / "pre" / "seed-1", read_reference_text(Path("valid.en"), Path("valid.de"))
    ).rows
    shares = [share for row in rows if row.module.startswith("encoder.") for share in (row.previous, row.next)]
    assert head["of"]["1"] == pytest.approx(100 * max(share or 0.0 for share in shares), abs=1e-3)
    assert stored["overrides"] == ["seeds=[1]", "training.max_updates=2"]
    assert stored["environment"]["training_precision"] == "float32"

    (tmp_path / "systems.yaml").write_text(SYSTEMS)
    assert entry.execute(["reproduce", "systems.yaml", *command[2:]]) == 0
    assert "started" not in capsys.readouterr().err
    configs = [json.loads(path.read_text()) for path in runs.glob("norms/pre/seed-1/evidence/*/model/config.json")]
    models = [(each["storage"], each["model"]) for each in configs]
    changed = [(storage, model.get("decoder_heads"), model["scaled_attention"]) for storage, model in models]
    pruned = ("float32", [1], True)
    assert sorted(changed, key=str) == [("float32", None, False), pruned, pruned, ("int4", None, True)]
    weights = {path.read_bytes() for path in runs.glob("norms/pre/seed-1/evidence/*/model/model.safetensors")}
    assert len(weights) == 3  # int4 leaves matrices as small as these alone, as unscaled does; heads differ
    assert len([*runs.glob("norms/pre/seed-1/evidence/*/test.hyp")]) == 5

    (tmp_path / "systems.yaml").write_text(SYSTEMS.replace("scaled_attention=false", "d_ff=9"))
    assert entry.execute(["reproduce", "systems.yaml", *command[2:]]) == 65
    assert "the weights do not match the model" in capsys.readouterr().err

    assert entry.execute([*command, "-o", "elsewhere"]) == 0
    assert "started" not in capsys.readouterr().err
    assert [*read_lines_by_name(tmp_path / "elsewhere" / "study.jsonl")] == ["pre-norm"]


RATES = """\
claim: Pre-norm is better than post-norm.
source: a test
url: https://example.org
scale: adequate
study: study.yaml
minutes: 1
systems:
  mean: {variant: pre, average: 2}
checks:
  - {of: mean, against: pre, expect: higher}
"""


@pytest.mark.whole
def test_the_learning_rate_of_a_variant_is_the_best_on_valid_and_records_replace_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_corpus(tmp_path)
    (tmp_path / "rates.yaml").write_text(RATES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    rates = "learning_rates={pre: [1e-4, 1e-2]}"
    command = ["reproduce", "rates.yaml", rates, "training.max_updates=4", "training.keep={last: 2}"]
    assert entry.execute(command) == 0
    assert "started" in capsys.readouterr().err
    runs = tmp_path / "runs" / "evidence"
    folders = sorted(str(path.parent.relative_to(runs / "norms")) for path in runs.glob("norms/*/*/report.json"))
    assert folders == ["pre@0.0001/seed-1", "pre@0.01/seed-1", "pre@0.01/seed-2"]
    records = read_lines_by_name(runs / "results" / "trainings" / "norms.jsonl")
    assert records["pre@0.01-seed-1"]["values"]["loss"] < records["pre@0.0001-seed-1"]["values"]["loss"]
    stored = read_lines_by_name(runs / "results" / "study.jsonl")["rates"]
    assert stored["rates"] == {"pre": [0.01, 0.0001]}
    assert stored["checks"][0]["against"].keys() == {"1", "2"}

    shutil.rmtree(runs / "norms")
    assert entry.execute(command) == 0
    assert "started" not in capsys.readouterr().err
    assert read_lines_by_name(runs / "results" / "study.jsonl")["rates"] == stored
