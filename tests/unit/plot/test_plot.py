import os
import random
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mtkit.describe.plots import _merge_equal
from mtkit.errors import DataError, MissingExtraError, MissingInputError, ReadWriteError
from mtkit.io.records import record_line
from mtkit.plot import figure as figure_module
from mtkit.plot.curves import LearningCurves, plot_curves, read_curves, training_pictures
from mtkit.plot.figure import EncodingPanel, draw
from mtkit.study.run import mean_curves
from tests.toy.sampling import sampled

CURVES = LearningCurves("run", loss=[(1, 5.0), (2, 4.0)], nll=[(2, 3.0)], bleu=[(2, 20.0)])


def draw_curves(runs, path):
    draw(training_pictures(runs), path)


def size(path):
    """Width and height of a PNG, from its header."""
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", header[16:24])


def log_of(run, *records, end=""):
    run.mkdir()
    (run / "log.jsonl").write_bytes(b"".join(map(record_line, records)) + end.encode())
    return run


RECORDS = [
    {"time": 1, "event": "begin", "update": None, "max_updates": 4},
    {"time": 2, "event": "train", "update": 2, "loss": 6.5, "learning_rate": 0.1},
    {"time": 3, "event": "validation", "update": 2, "nll": 5.5, "bleu": None},
    {"time": 4, "event": "train", "update": 4, "loss": None},
    {"time": 5, "event": "validation", "update": 4, "nll": 4.5, "bleu": 12.0},
]


def test_curves_are_read_from_the_log(tmp_path):
    run = log_of(tmp_path / "run", *RECORDS, end='{"event": "tra')
    assert read_curves(run / "log.jsonl", "x") == LearningCurves(
        "x", loss=[(2, 6.5)], nll=[(2, 5.5), (4, 4.5)], bleu=[(4, 12.0)]
    )


def test_torn_lines_and_lines_without_numbers_are_skipped(tmp_path):
    run = log_of(
        tmp_path / "run", *RECORDS, {"event": "train", "loss": 1.0}, {"event": "train", "update": 5, "loss": "x"}
    )
    with (run / "log.jsonl").open("ab") as file:
        file.write(b"[" * 100_000 + b"\n")
        file.write('{"event": "validation", "update": 6, "sample": ["ü'.encode()[:-1])
    assert read_curves(run / "log.jsonl", "x").loss == [(2, 6.5)]


def test_the_loss_is_drawn_without_what_an_objective_adds(tmp_path):
    run = log_of(tmp_path / "run", {"event": "train", "update": 1, "loss": 6.5, "alignment": 1.5, "kl": None})
    assert read_curves(run / "log.jsonl", "x").loss == [(1, 5.0)]


def test_curves_of_several_runs_in_one_figure(tmp_path):
    runs = [log_of(tmp_path / name, *RECORDS) for name in ("one", "two")]
    plot_curves(runs, tmp_path / "curves.png")
    assert size(tmp_path / "curves.png") == (1440, 600)  # two panels, four lines of a legend
    draw_curves([LearningCurves("no bleu", loss=[(1, 1.0)])], tmp_path / "narrow.png")
    assert size(tmp_path / "narrow.png") == (720, 528)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "curves.png", "narrow.png"}


def test_equal_curves_give_identical_files(tmp_path):
    for name in ("a.png", "b.png"):
        draw_curves([CURVES], tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_missing_and_empty_logs(tmp_path):
    with pytest.raises(MissingInputError, match=r"log\.jsonl: no such file; .* is not a run folder"):
        plot_curves([tmp_path], tmp_path / "curves.png")
    with pytest.raises(DataError, match="nothing to draw yet"):
        plot_curves([log_of(tmp_path / "run", RECORDS[0])], tmp_path / "curves.png")


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_module, "is_installed", lambda: False)
    with pytest.raises(MissingExtraError, match=r"matplotlib: pip install 'mtkit\[plot\]'"):
        draw_curves([CURVES], tmp_path / "curves.png")


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(ReadWriteError, match=r"the folder .* does not exist"):
        draw_curves([CURVES], tmp_path / "no" / "curves.png")


def test_importing_does_not_import_matplotlib():
    code = "import sys, mtkit.plot.curves, mtkit.plot.figure; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_characters_without_a_font_are_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(figure_module, "_FONTS", ())
    draw_curves([replace(CURVES, label=label) for label in ("\u6f22", "\u5b57")], tmp_path / "map.png")
    assert "map.png: no installed font has \u5b57\u6f22, drawn as boxes; install one of" in capsys.readouterr().err
    draw_curves([CURVES], tmp_path / "map.png")
    assert capsys.readouterr().err == ""


FORMS = [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("x", b"\x89PNG")]


@pytest.mark.whole
@pytest.mark.parametrize(("suffix", "start"), FORMS)
def test_the_suffix_decides_the_form(tmp_path, suffix, start):
    draw_curves([CURVES], tmp_path / f"c.{suffix}")
    assert (tmp_path / f"c.{suffix}").read_bytes().startswith(start)


@pytest.mark.parametrize("seed", range(sampled(200)))
def test_names_of_runs_are_distinct_and_short(tmp_path, seed):
    rng = random.Random(seed)
    paths = list({tmp_path.joinpath(*rng.choices("abc", k=rng.randint(1, 3))) for _ in range(rng.randint(1, 5))})
    names = figure_module.distinct_names(paths)
    assert len(set(names)) == len(paths)
    assert all(str(path).endswith(name) for name, path in zip(names, paths, strict=True))


def test_equal_encodings_of_both_sides_are_one_panel():
    matrix = np.eye(3)
    panels = [EncodingPanel(f"{side}: sinusoidal", matrix.copy()) for side in ("encoder", "decoder")]
    (panel,) = _merge_equal(panels)
    assert panel.title == "encoder and decoder: sinusoidal"
    assert len(_merge_equal([panels[0], EncodingPanel("decoder: learned", 2 * matrix)])) == 2


def test_the_band_of_a_study_is_of_its_seeds():
    runs = [LearningCurves("x", nll=[(1, 4.0), (2, nll)], bleu=[(2, 10 * nll)]) for nll in (3.0, 1.0, 2.0)]
    mean = mean_curves("x", runs)
    assert (mean.nll, mean.nll_range) == ([(1, 4.0), (2, 2.0)], [(1, 4.0, 4.0), (2, 1.0, 3.0)])
    assert mean.bleu_range == [(2, 10.0, 30.0)]
    assert mean_curves("x", runs[:1]).nll_range == []


def test_a_figure_is_drawn_below_a_notebook_of_another_environment(tmp_path, monkeypatch):
    """The environment of `!mtkit run` in a cell names a package of the notebook, which matplotlib would import."""
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "matplotlib_inline" else object())
    with figure_module.figure_file(tmp_path / "a.png", width=2, height=2):
        assert "MPLBACKEND" not in os.environ
