"""`mtkit score` gives translations the log-probabilities that `mtkit translate` gave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig

MODELS = [
    TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2),
    AttentionRNNConfig(d_model=16, d_embed=12, d_attention=8),
    Seq2SeqRNNConfig(d_model=16, d_embed=12),
]


def lines_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert entry.execute(words) == 0
    captured = capsys.readouterr()
    assert captured.err == "" or (words[0] == "translate" and "lines are flagged" in captured.err)
    return captured.out.split("\n")[:-1]


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.kind)
@pytest.mark.parametrize("beam_size", ["1", "3"])
def test_scores_of_translations_are_those_of_translate(config, beam_size, toy_model, text, capsys) -> None:
    model = str(toy_model(config))
    options = ["--compute-type", "float32"]
    output = lines_of(capsys, "translate", model, str(text), "--jsonl", "--beam-size", beam_size, *options)
    translations = [json.loads(line) for line in output]
    (text.parent / "translations.jsonl").write_text("".join(f"{line}\n" for line in output))
    (text.parent / "hyps.txt").write_text("".join(f"{each['hyp']}\n" for each in translations))
    for hyps in (["--ref", str(text.parent / "hyps.txt")], ["--hyps", str(text.parent / "translations.jsonl")]):
        jsonl = lines_of(capsys, "score", model, "--src", str(text), *hyps, *options, "--jsonl")
        plain = lines_of(capsys, "score", model, "--src", str(text), *hyps, *options)
        assert len(jsonl) == len(plain) == len(translations)
        compared = 0
        for scored, number, own in zip(map(json.loads, jsonl), plain, translations, strict=True):
            assert float(number) == pytest.approx(scored["log_prob"], abs=1e-5)
            if scored["tokens"] != own["tokens"]:  # an untrained model generates other segmentations of a text
                assert hyps[0] == "--ref"
                continue
            compared += 1
            assert scored["log_prob"] == pytest.approx(own["log_prob"], abs=1e-4 * max(1, abs(own["log_prob"])))
            assert scored["token_log_probs"] == pytest.approx(own["token_log_probs"], abs=1e-4)
        assert compared >= (2 if hyps[0] == "--ref" else len(translations))
        assert [json.loads(line)["log_prob"] for line in jsonl[-2:]] == [0, 0]  # blank lines


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("a\nb\n", 65, "text.txt:3: line has no partner"),
        ('{"hyp": "x"}\n' * 12, 65, "hyps:1: not output of mtkit translate --jsonl: expected an object with a list of"),
        ("x\n" * 12, 65, "hyps:1: not output of mtkit translate --jsonl"),
        ('{"tokens": [1]}\n' * 12, 65, "hyps:1: not output of mtkit translate --jsonl"),
        ('{"tokens": []}\n' + '{"tokens": ["nowhere"]}\n' * 11, 65, "line 2: 'nowhere' is no token of this model's"),
    ],
)
def test_errors_in_the_translations(content, code, message, toy_model, text, capsys) -> None:
    hyps: Path = text.parent / "hyps"
    hyps.write_text(content)
    assert entry.execute(["score", str(toy_model(MODELS[2])), "--src", str(text), "--hyps", str(hyps)]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_one_of_two_files(capsys) -> None:
    assert entry.execute(["score", "m", "--src", "a"]) == 2
    assert "score: give either --ref FILE, --hyps FILE or --contrastive FILE" in capsys.readouterr().err


def test_the_summary_has_perplexity_accuracy_and_calibration(toy_model, text, tmp_path, capsys) -> None:
    model, path = toy_model(MODELS[0]), tmp_path / "summary.json"
    words = ["score", str(model), "--src", str(text), "--ref", str(text), "--jsonl"]
    assert entry.execute([*words, "--json", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out.split("\n")[:-1] == lines_of(capsys, *words)
    scores = [json.loads(line) for line in captured.out.split("\n")[:-1]]
    summary = json.loads(path.read_text())
    tokens = sum(len(score["token_log_probs"]) for score in scores)
    assert (summary["lines"], summary["tokens"]) == (12, tokens)
    assert summary["nll"] == pytest.approx(-sum(score["log_prob"] for score in scores) / tokens)
    assert 0 <= summary["token_accuracy"] <= 1
    assert sum(row["tokens"] for row in summary["reliability"]) == tokens
    gaps = [row["tokens"] * abs(row["accuracy"] - row["confidence"]) for row in summary["reliability"]]
    assert summary["ece"] == pytest.approx(sum(gaps) / tokens)
    assert f"12 lines, {tokens:,} tokens: perplexity" in captured.err
    assert captured.err.count("\n") == 1
    assert entry.execute([*words, "--json", str(text)]) == 2
