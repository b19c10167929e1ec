"""`mtkit score`: what translate says of its own translations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.models.rnn.attention_config import AttentionRNNConfig
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.models.transformer.config import TransformerConfig

MODELS = [
    TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2),
    AttentionRNNConfig(d_model=16, d_embedding=12, d_attention=8),
    LSTMConfig(d_model=16, d_embedding=12),
]
pytestmark = pytest.mark.usefixtures("_own_signals")


def lines_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert entry.execute(words) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.split("\n")[:-1]


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.kind)
@pytest.mark.parametrize("beam_size", ["1", "3"])
def test_scores_of_translations_are_those_of_translate(config, beam_size, toy_model, text, capsys) -> None:
    model = str(toy_model(config))
    options = ["--compute-type", "float32"]
    said = lines_of(capsys, "translate", model, str(text), "--jsonl", "--beam-size", beam_size, *options)
    found = [json.loads(line) for line in said]
    (text.parent / "found.jsonl").write_text("".join(f"{line}\n" for line in said))
    (text.parent / "hyps.txt").write_text("".join(f"{each['hyp']}\n" for each in found))
    for given in (["--ref", str(text.parent / "hyps.txt")], ["--hyps", str(text.parent / "found.jsonl")]):
        scored = lines_of(capsys, "score", model, "--src", str(text), *given, *options, "--jsonl")
        plain = lines_of(capsys, "score", model, "--src", str(text), *given, *options)
        assert len(scored) == len(plain) == len(found)
        compared = 0
        for mine, number, own in zip(map(json.loads, scored), plain, found, strict=True):
            assert float(number) == pytest.approx(mine["log_prob"], abs=1e-5)
            if mine["pieces"] != own["pieces"]:  # an untrained model has its own ways to write a text
                assert given[0] == "--ref"
                continue
            compared += 1
            assert mine["log_prob"] == pytest.approx(own["log_prob"], abs=1e-4 * max(1, abs(own["log_prob"])))
            assert mine["piece_log_probs"] == pytest.approx(own["piece_log_probs"], abs=1e-4)
        assert compared >= (2 if given[0] == "--ref" else len(found))
        assert [json.loads(line)["log_prob"] for line in scored[-2:]] == [0, 0]  # blank lines


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("a\nb\n", 65, "text.txt:3: line has no partner"),
        ('{"hyp": "x"}\n' * 12, 65, "hyps:1: not what mtkit translate --jsonl writes: a mapping with a list of pieces"),
        ("x\n" * 12, 65, "hyps:1: not what mtkit translate --jsonl writes"),
        ('{"pieces": [1]}\n' * 12, 65, "hyps:1: not what mtkit translate --jsonl writes"),
        ('{"pieces": ["nowhere"]}\n' * 12, 65, "'nowhere' is no piece of this model's vocabulary"),
    ],
)
def test_faults_of_the_translations(content, code, said, toy_model, text, capsys) -> None:
    hyps: Path = text.parent / "hyps"
    hyps.write_text(content)
    assert entry.execute(["score", str(toy_model(MODELS[2])), "--src", str(text), "--hyps", str(hyps)]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_one_of_two_files(capsys) -> None:
    assert entry.execute(["score", "m", "--src", "a"]) == 2
    assert "score: takes either --ref FILE or --hyps FILE" in capsys.readouterr().err
