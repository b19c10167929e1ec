"""`mtkit explain`: probabilities are those of `score`, occlusion is a difference of scores, and the page is text."""

from __future__ import annotations

import json
import re

import pytest

from mtkit.cli import entry
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig

MODELS = [
    TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1),
    AttentionRNNConfig(d_model=16, d_embed=12, d_attention=8),
    DecoderOnlyConfig(d_model=16, d_ff=32, num_heads=2, decoder_layers=1),
]
SENTENCE = ["the", "dog", "sees", "a", "house"]
INSTEAD = "der Hund sieht"


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.kind)
def test_numbers_are_those_of_score(config, toy_model, tmp_path, capsys) -> None:
    model = str(toy_model(config))
    words = ["explain", model, " ".join(SENTENCE), "--instead", INSTEAD, "--json", str(tmp_path / "j")]
    assert entry.execute(words) == 0
    out = capsys.readouterr().out
    content = json.loads((tmp_path / "j").read_text())
    sources = [SENTENCE, *(SENTENCE[:n] + SENTENCE[n + 1 :] for n in range(len(SENTENCE)))]
    (tmp_path / "src").write_text("".join(f"{' '.join(words)}\n" for words in sources))
    for key in ("translation", "instead"):
        text = content[key]["text"]
        (tmp_path / "ref").write_text(f"{text}\n" * len(sources))
        options = ["--src", str(tmp_path / "src"), "--ref", str(tmp_path / "ref"), "--compute-type", "float32"]
        assert entry.execute(["score", model, *options]) == 0
        whole, *without = [float(line) for line in capsys.readouterr().out.split()]
        explained = content[key]["words"]
        assert sum(word["log_prob"] for word in explained) == pytest.approx(whole, abs=1e-3)
        for column, other in enumerate(without):
            lost = sum(word["influence"][column] for word in explained)
            assert lost == pytest.approx(whole - other, abs=1e-3)
        assert [word["word"] for word in explained] == [*text.split(), "(end)"]
    difference = abs(sum(w["log_prob"] for w in content["translation"]["words"]) - whole)
    assert f"{difference:.2f} nats" in out


def test_page_is_text_and_errors_are_a_sentence(toy_model, tmp_path, capsys) -> None:
    model = str(toy_model(MODELS[0]))
    page = tmp_path / "p.html"
    words = ["explain", model, "the <script>alert(1)</script> dog \x1b]52;c;x\x07", "--instead", "<img src=x>"]
    assert entry.execute([*words, "--html", str(page)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert not re.search("<script|<img|\x1b", page.read_text())
    assert "&lt;img" in page.read_text()
    for wrong in ([""], ["a", "--instead", " "]):
        assert entry.execute(["explain", model, *wrong]) == 2
        assert "empty" in capsys.readouterr().err
