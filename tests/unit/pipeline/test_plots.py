"""Groups of lines by length for the plot of BLEU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import DataError
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline import plots
from mtkit.pipeline.plots import LENGTH_GROUPS, _attention_title, _equal_groups, draw_plots


@given(st.lists(st.integers(0, 60), min_size=1))
def test_each_line_is_in_the_group_of_its_length(lengths: list[int]) -> None:
    groups = _equal_groups(lengths)
    assert 1 <= len(groups) <= LENGTH_GROUPS
    assert sorted(line for lines in groups.values() for line in lines) == list(range(len(lengths)))
    for name, lines in groups.items():
        low, high = int(name.partition("-")[0]), int(name.rpartition("-")[2])
        assert name == (str(low) if low == high else f"{low}-{high}")
        assert all(low <= lengths[line] <= high for line in lines)


def test_groups_are_about_equal() -> None:
    groups = _equal_groups(list(range(1, 101)))
    assert list(groups) == ["1-20", "21-40", "41-60", "61-80", "81-100"]
    assert all(len(lines) == 20 for lines in groups.values())


@pytest.mark.parametrize(
    ("is_installed", "message"),
    [(False, "not drawn; pip install 'mtkit[plot]'"), (True, "not drawn: numpy.core.multiarray failed to import")],
)
def test_a_missing_or_broken_matplotlib_is_reported(monkeypatch, is_installed, message) -> None:
    def plot_curves(*_: object) -> None:
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr(plots, "is_installed", lambda: is_installed)
    monkeypatch.setattr(plots, "plot_curves", plot_curves)
    notes: list[tuple[str, str]] = []
    folder = SimpleNamespace(path=Path("run"))
    draw_plots(SimpleNamespace(folder=folder, notify=lambda *words: notes.append(words)))  # type: ignore[arg-type]
    assert notes == [("plots", message)]


def test_a_plot_that_cannot_be_drawn_does_not_prevent_the_others(monkeypatch) -> None:
    drawn: list[str] = []

    def fail(run: object) -> None:
        raise DataError("log.jsonl: no updates to draw")

    monkeypatch.setattr(plots, "is_installed", lambda: True)
    monkeypatch.setattr(plots, "_draw_learning_curve", fail)
    monkeypatch.setattr(plots, "_draw_bleu_by_length", lambda run: drawn.append("bleu"))
    monkeypatch.setattr(plots, "_draw_attention", lambda run: drawn.append("attention"))
    notes: list[tuple[str, str]] = []
    draw_plots(SimpleNamespace(notify=lambda *words: notes.append(words)))  # type: ignore[arg-type]
    assert notes == [("plots", "log.jsonl: no updates to draw")]
    assert drawn == ["bleu", "attention"]


@pytest.mark.parametrize(
    ("alignment_head", "title"),
    [
        (None, "Attention of decoder layer 2, mean of its heads"),
        ([2, 0], "Attention of decoder layer 3, head 1"),
    ],
)
def test_the_title_names_the_heads_that_are_drawn(alignment_head: list[int] | None, title: str) -> None:
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 3}
    config = TransformerConfig(**sizes, alignment_head=alignment_head)  # type: ignore[arg-type]
    loaded = SimpleNamespace(model=config.build(9, 9), metadata=SimpleNamespace(model=config))
    assert _attention_title(loaded) == title  # type: ignore[arg-type]
