"""`corpus.filters` of a recipe: the pairs that preprocessing leaves out, and what makes the corpus anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.corpus.store import Store
from mtkit.errors import MissingInputError, RecipeError
from mtkit.pipeline import stages
from tests.toy.runs import RecordingDisplay, toy, write_all

HELD_OUT = {"en": "the cat sees and sees", "de": "der Kater sieht und sieht"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The toy corpus, with a copy on line 61 and a line of the test set on line 62 of its training text."""
    write_all(tmp_path)
    for side, line in HELD_OUT.items():
        with (tmp_path / f"train.{side}").open("a") as file:
            file.write(f"the big dog\n{line}\n")
        (tmp_path / f"test.{side}").write_text(f"{line}\n")
    return tmp_path


def preprocess(folder: Path, *overrides: str) -> tuple[set[int], str]:
    """The lines that are in the training corpus, and what was said of it."""
    display = RecordingDisplay()
    stages.preprocess(toy(folder, *overrides), run_dir=folder / "run", display=display)
    store = Store(folder / "run" / "corpus" / "train.0")
    return {store.line(row) for row in range(len(store))}, display.results["train.0"]


def test_pairs_with_faults_are_left_out(folder: Path) -> None:
    copies, both = "corpus.filters=[{kind: copies}]", "corpus.filters=[{kind: copies}, {kind: leak}]"
    everything = set(range(1, 63))
    assert preprocess(folder)[0] == everything
    lines, result = preprocess(folder, copies)
    assert lines == everything - {61}
    assert "61 of 62 pairs kept; 1 dropped because corpus.filters found a fault: line 61" in result
    assert preprocess(folder, copies) == (lines, "unchanged, kept")
    assert preprocess(folder, both)[0] == everything - {61, 62}
    assert preprocess(folder, both, "corpus.train.0.limit=31")[0] == set(range(2, 62, 2))
    for side in HELD_OUT:
        (folder / f"test.{side}").write_text("another line of the test\n")
    assert preprocess(folder, both)[0] == everything - {61}
    assert preprocess(folder, "corpus.filters=[{kind: copies, weight: 1}]")[0] == everything
    assert preprocess(folder)[0] == everything


def test_filters_that_training_cannot_apply(folder: Path) -> None:
    with pytest.raises(RecipeError, match=r"corpus\.filters\.1\.weight: 0\.5, and training applies 0 and 1; "):
        preprocess(folder, "corpus.filters=[{kind: copies}, {kind: numbers, weight: 0.5}]")
    with pytest.raises(MissingInputError, match="no-model"):
        preprocess(folder, "corpus.filters=[{kind: dual_cross_entropy, forward: no-model, backward: no-model}]")
    assert not (folder / "run").exists()
