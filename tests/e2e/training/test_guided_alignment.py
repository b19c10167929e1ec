"""Guided alignment in a run: trained with its lexicon, resumed to the bit, through other kinds of layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.io.files import hash_file
from mtkit.pipeline import stages
from mtkit.pipeline.estimate import dry_run_report
from tests.toy.runs import toy, write_all

GUIDED = (
    "model={kind: transformer, d_model: 16, d_ff: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 2}",
    "training.objective={kind: guided_alignment}",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def trained(folder: Path, name: str, *overrides: str) -> list[dict[str, object]]:
    """Train the toy recipe in a folder and return the logged updates."""
    stages.train(toy(folder, *GUIDED, "training.log_every=1", *overrides), run_dir=folder / name)
    events = map(json.loads, (folder / name / "log.jsonl").read_text().rstrip("\n").split("\n"))
    return [event for event in events if event["event"] == "train"]


@pytest.mark.whole
def test_the_alignment_is_learned_and_logged(folder: Path) -> None:
    updates = trained(folder, "run", "training.max_updates=30")
    alignments = [update["alignment"] for update in updates]
    assert all(0 < value < update["loss"] for value, update in zip(alignments, updates, strict=True))
    assert alignments[-1] < alignments[0]
    assert "parameters" in dry_run_report(toy(folder, *GUIDED))


def test_a_resumed_training_ends_with_the_same_weights(folder: Path) -> None:
    trained(folder, "whole")
    trained(folder, "resumed", "training.max_hours=0.0000001")
    assert not (folder / "resumed" / "model").exists()
    trained(folder, "resumed")
    weights = [hash_file(folder / name / "model" / "model.safetensors") for name in ("whole", "resumed")]
    assert weights[0] == weights[1]


@pytest.mark.whole
@pytest.mark.parametrize(
    "key",
    [
        "training.activation_checkpointing=true",
        "training.precision=bf16",
        "model.layerdrop=0.5",
        "model.parallel_sublayers=true",
        "model.decoder_sharing={kind: sequence, distinct: 1}",
        "model.num_kv_heads=1",
    ],
)
def test_other_ways_through_the_layers(folder: Path, key: str) -> None:
    alignments = [update["alignment"] for update in trained(folder, "run", key, "training.max_updates=8")]
    assert all(value >= 0 for value in alignments)
    assert sum(value > 0 for value in alignments) >= (1 if "layerdrop" in key else 8)
