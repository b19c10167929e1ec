"""Live and plain displays of training events."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from rich.console import Console

from mtkit.cli.display import LiveDisplay, open_display
from mtkit.display import format_clock
from mtkit.training.monitoring.log import NullDisplay, PlainDisplay, default_display

EVENTS: list[tuple[str, int | None, dict[str, Any]]] = [
    ("tokenizer", None, {"result": "unchanged, kept"}),
    ("begin", None, {"max_updates": 40, "precision": "bf16", "first_update": 1}),
    ("train", 10, {"loss": 2.5, "tokens_per_second": 12345.6, "seconds_left": 90.0, "learning_rate": 1e-3}),
    (
        "validation",
        10,
        {"nll": 2.0, "perplexity": 7.39, "bleu": 12.0, "sample": ["a [red] dog", "ein Hund", "ein roter Hund"]},
    ),
    ("validation", 20, {"nll": 1.9, "perplexity": 6.69, "bleu": 11.0, "sample": None}),
    ("checkpoint", 20, {"path": "runs/x/checkpoints/update-00000020"}),
    ("end", 40, {"reason": "max_updates", "finished": True}),
]


def screen_after(count: int) -> str:
    """The raw terminal output of the first `count` events."""
    stream = io.StringIO()
    live = LiveDisplay(Console(file=stream, force_terminal=True, color_system=None, width=100))
    for name, update, fields in EVENTS[:count]:
        live.event(name, update, fields)
    live.close()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "tokenizer: unchanged, kept"),
        (2, "update 0 of 40"),
        (3, "loss 2.500  12,346 tokens/s  1:30 left"),
        (3, "update 10 of 40"),
        (4, "perplexity 7.39  BLEU 12.0 (best 12.0)"),
        (4, "hyp ein Hund"),
        (4, "src a [red] dog"),
        (5, "perplexity 6.69  BLEU 11.0 (best 12.0)"),
        (6, "update 20: checkpoint"),
        (7, "update 40 of 40"),
    ],
)
def test_live_display_shows(count: int, text: str) -> None:
    assert text in " ".join(screen_after(count).replace("\n", "\n ").split(" ")).replace("hyp  ", "hyp ")


def test_an_interrupted_training_leaves_the_cursor_visible() -> None:
    assert screen_after(3).endswith("\x1b[?25h")


def test_plain_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display() as plain:
        assert isinstance(plain, PlainDisplay)
        plain.event("tokenizer", None, {"result": "unchanged, kept"})
        plain.event("train", 10, {"loss": 2.5, "tokens_per_second": 12345.6})
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        "",
        "tokenizer: unchanged, kept\nupdate 10 train loss=2.5 tokens_per_second=12346\n",
    )


def test_paths_are_relative_and_tiny_numbers_are_zero(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside, beside = tmp_path / "runs/x", tmp_path.parent / "y"
    fields = {"path": str(inside), "bleu": 4.373e-51, "learning_rate": 1e-7, "other": str(beside)}
    plain = io.StringIO()
    PlainDisplay(plain).event("checkpoint", 3, fields)
    assert plain.getvalue() == f"update 3 checkpoint path=runs/x bleu=0.0 learning_rate=1e-07 other={beside}\n"
    live = io.StringIO()
    LiveDisplay(Console(file=live, color_system=None, width=200)).event("checkpoint", 3, fields)
    assert live.getvalue().startswith("update 3: checkpoint  path runs/x  bleu 0.0  learning_rate 1e-07")


def overwritten(line: str) -> str:
    """A line as a notebook shows it: what follows a carriage return is written over the beginning."""
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown.rstrip()


def test_a_notebook_has_one_line_for_training(capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    display = default_display()
    for event in [EVENTS[2], *EVENTS]:  # the line of a training, and then a shorter one, too
        display.event(*event)
    out = capsys.readouterr().out
    assert "\rupdate 10  loss 2.500  12,346 tokens/s  90 s left" in out
    assert out.count("\n") == len(EVENTS) - 1 + 3  # all but the one of an update, and a sample
    plain = io.StringIO()
    for event in (each for each in EVENTS if each[0] != "train"):
        PlainDisplay(plain).event(*event)
    assert [overwritten(line) for line in out.split("\n")] == plain.getvalue().split("\n")
    monkeypatch.delitem(sys.modules, "ipykernel")
    assert isinstance(default_display(), NullDisplay)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (9.6, "0:10"), (90, "1:30"), (3700, "1:01:40")])
def test_format_clock(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


def test_the_shell_of_a_notebook_has_no_lines_that_are_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal of `!mtkit run` in a cell: its output knows carriage returns, but no movement of the cursor."""
    stream = io.StringIO()
    monkeypatch.setattr("mtkit.cli.display.is_terminal", lambda: True)
    monkeypatch.setattr("mtkit.cli.display.terminal", lambda: stream)
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    with open_display() as display:
        for name, update, fields in EVENTS:
            display.event(name, update, fields)
    assert "\x1b" not in stream.getvalue()
    assert "\rupdate 10  loss 2.500  12,346 tokens/s  90 s left" in stream.getvalue()
