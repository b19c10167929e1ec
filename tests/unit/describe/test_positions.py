import math

import numpy as np
import pytest
import torch

from mtkit.cli import entry
from mtkit.describe.plots import MAX_DISTANCE, DistanceScores, picture_of_scores, score_by_distance
from mtkit.layers.config import RoPEConfig
from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import ALiBiConfig, ShawConfig, T5BiasConfig
from mtkit.plot.figure import EncodingPanel, draw

HEADS = Heads(num_heads=4, num_kv_heads=2, head_dim=8)


def build_panel(config, *, causal=True):
    torch.manual_seed(0)
    position = config.build(32, HEADS, layers=1, causal=causal).layers[0]
    return position, score_by_distance(position, HEADS, causal=causal)


def test_biases_do_not_depend_on_the_content():
    _, panel = build_panel(ALiBiConfig(), causal=False)
    assert panel.distance.tolist() == list(range(-MAX_DISTANCE, MAX_DISTANCE + 1))
    for head in range(4):
        assert panel.mean[head] == pytest.approx(-abs(panel.distance) * 2.0 ** (-2 * (head + 1)), abs=1e-5)
    assert panel.std.max() < 1e-5
    position, panel = build_panel(T5BiasConfig())
    nearest = position.table.weight[:3].detach().numpy().T  # one bucket a distance
    assert panel.mean[:, :3] == pytest.approx(nearest, abs=1e-5)


def test_rope_reduces_the_score_of_equal_vectors_by_the_cosines_of_its_angles():
    position, panel = build_panel(RoPEConfig())
    assert panel.distance.tolist() == list(range(MAX_DISTANCE + 1))
    angles = position.frequency.numpy() * panel.distance[:, None]  # [N, K/2]
    expected = 2 * (np.cos(angles) - 1).sum(1) / math.sqrt(8)  # of contents from N(0, 1)
    assert panel.mean[0] == pytest.approx(expected, abs=0.3 * abs(expected).max())
    assert panel.mean[0] == pytest.approx(panel.mean[3])
    assert panel.mean[:, 0] == pytest.approx(np.zeros(4), abs=1e-5)


def test_content_dependent_scores_have_a_standard_deviation():
    position, panel = build_panel(ShawConfig(max_distance=4))
    row = position.key.weight[4].detach()  # distance 0
    assert panel.std[0, 0] == pytest.approx(float(row.norm()) / math.sqrt(8), rel=0.3)
    assert np.ptp(panel.std[:, 4:], axis=1) == pytest.approx(np.zeros(4), abs=1e-6)  # clipped


def test_panels_are_drawn_side_by_side(tmp_path):
    line = np.zeros((2, 3))
    picture = picture_of_scores("two", DistanceScores(np.arange(3), line, line + 1))
    assert [each.name for each in picture.curves] == ["all heads"]
    draw([EncodingPanel("one", np.zeros((4, 6))), picture], tmp_path / "positions.png")
    header = (tmp_path / "positions.png").read_bytes()[:24]
    assert int.from_bytes(header[16:20]) == 2 * 6 * 120  # inches, dots per inch


@pytest.mark.parametrize("recipe", ["multi30k-transformer-pre-norm", "multi30k-decoder-only"])
def test_plot_positions_command(recipe, tmp_path, capsys):
    output = tmp_path / "positions.png"
    assert entry.execute(["plot", recipe, "--positions", "-o", str(output)]) == 0
    assert output.is_file()
    assert capsys.readouterr().out == f"{output}\n"


def test_errors_of_the_plot_positions_command(tmp_path, capsys):
    words = ["--positions", "-o", str(tmp_path / "x.png")]
    assert entry.execute(["plot", "multi30k-lstm", *words]) == 2
    assert "multi30k-lstm: the model has no position encodings to draw" in capsys.readouterr().err
    assert entry.execute(["plot", "multi30k-lstm", "multi30k-transformer", *words]) == 2
    assert "--positions takes one RECIPE or MODEL" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
