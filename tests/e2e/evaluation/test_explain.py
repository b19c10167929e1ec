"""`mtkit explain`: probabilities, occlusion, gradients and beam against scores, constraints, stdin, and the page."""

from __future__ import annotations

import io
import itertools
import json
import re

import pytest
import torch

from mtkit.analysis.explanation import Explainer, explanations_page, token_names
from mtkit.cli import entry
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.translate.load import load_translator
from mtkit.translate.reference_text import ReferenceText, batches
from mtkit.translate.translation import TranslationOptions

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
    assert (content["has_coverage"], content["dropped"], content["invented"]) == (False, [], [])
    assert "coverage     unknown: " in out
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


def explained(words: list[str], path, capsys) -> dict:
    assert entry.execute([*words, "--json", str(path)]) == 0
    return json.loads(path.read_text())


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.kind)
def test_gradients_are_the_slope_of_the_log_probability(config, toy_model, tmp_path, capsys) -> None:
    """A source embedding that becomes a little shorter changes the text's log-probability by its gradient."""
    folder, share = toy_model(config), 1e-3
    explainer = Explainer(folder)
    word = explainer.explain("dog", INSTEAD).instead
    assert word is not None
    total = sum(each.gradient[0] for each in word.words)

    def shorter(module, args, output):
        count = len(explainer.loaded.tokenizers.encode("src", ["dog"])[0])
        first = not seen
        seen.append(1)
        return torch.cat([output[:, :count] * (1 - share), output[:, count:]], 1) if first else output

    def log_prob() -> float:
        seen.clear()
        (batch,) = batches(explainer.loaded, ReferenceText(["dog"], [INSTEAD]))
        hidden = explainer.loaded.model.decode_states(batch.source, batch.target)
        log_probs = torch.log_softmax(explainer.loaded.model.output(hidden).double(), -1)
        return float(log_probs.gather(-1, batch.labels[..., None]).sum().detach())

    seen: list[int] = []
    before = log_prob()
    handle = explainer.loaded.model.get_submodule("src_embedding.table").register_forward_hook(shorter)
    slope = (before - log_prob()) / share
    handle.remove()
    assert total == pytest.approx(slope, rel=0.02, abs=0.02)


def test_the_beam_is_that_of_the_search(toy_model, tmp_path, capsys) -> None:
    """Every hypothesis that stays extends one of the step before, no dropped one is better, and the best one ended."""
    model = str(toy_model(MODELS[0]))
    content = explained(["explain", model, " ".join(SENTENCE)], tmp_path / "j", capsys)
    steps = content["beam"]
    for before, step in itertools.pairwise(steps):
        assert len(before["kept"]) == 2
        earlier = [each["tokens"] for each in before["kept"]]
        assert all(each["tokens"][:-1] in earlier for each in (*step["kept"], *step["dropped"]))
        if step["kept"]:  # the last step may leave nothing
            assert min(each["log_prob"] for each in step["kept"]) >= max(each["log_prob"] for each in step["dropped"])
    ended = {tuple(each["tokens"]): each["log_prob"] for step in steps for each in step["ended"]}
    options = TranslationOptions(with_scores=True)
    translator = load_translator(model, compute_type="float32", rewrite=False, options=options)
    (expected,) = translator.translate([" ".join(SENTENCE)])
    assert content["translation"]["text"] == expected.hyp
    assert ended[tuple(content["path"])] == pytest.approx(expected.log_prob, abs=1e-4)


def test_constraints_are_compared_with_the_translation_without_them(toy_model, tmp_path, capsys) -> None:
    model, line = str(toy_model(MODELS[0])), json.dumps({"text": "the dog", "prefix": "ein", "include": ["hund"]})
    plain = explained(["explain", model, "the dog"], tmp_path / "j", capsys)["translation"]["text"]
    capsys.readouterr()
    content = explained(["explain", model, line, "--jsonl-input"], tmp_path / "j", capsys)
    assert content["translation"]["text"].startswith("ein")
    assert "hund" in content["translation"]["text"]
    assert content["unconstrained"] == plain
    assert f"no constraint {plain} ({content['unconstrained_log_prob']:.2f} nats)\n" in capsys.readouterr().out


def test_sentences_of_stdin_are_one_page(toy_model, tmp_path, capsys, monkeypatch) -> None:
    model, page = str(toy_model(MODELS[0])), tmp_path / "p.html"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the dog\n\na cat sees the house\n")))
    content = explained(["explain", model, "--html", str(page)], tmp_path / "j", capsys)
    assert [each["source"] for each in content] == [["the", "dog"], ["a", "cat", "sees", "the", "house"]]
    text = page.read_text()
    assert re.findall("<h2>(.*?)</h2>", text) == ["the dog", "a cat sees the house"]
    assert text.count("<summary>Heads of decoder.0.cross_attention") == 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert explained(["explain", model], tmp_path / "j", capsys) == []
    for wrong in (["--src", "x"], ["a", "--src", "x", "--ref", "y"], ["--src", "x", "--ref", "y", "--html", str(page)]):
        assert entry.execute(["explain", model, *wrong]) == 2
        assert "exclude SENTENCE" in capsys.readouterr().err


def test_a_page_of_many_sentences_stays_below_two_megabytes(toy_model) -> None:
    """Of the largest usual numbers of heads and layers; what does not fit is counted."""
    config = TransformerConfig(d_model=16, d_ff=16, num_heads=8, encoder_layers=6, decoder_layers=6)
    one = Explainer(toy_model(config)).explain(" ".join(SENTENCE), INSTEAD)
    for count in (1, 60):
        text = explanations_page([one] * count)
        assert len(text.encode()) < 2_000_000
        assert text.count("By occlusion") == 4 * count  # two texts, each in a label and a caption
    assert "would make this page too large" in text


def test_words_of_maps_are_read_as_words() -> None:
    assert token_names(["\u2581Did", "\u2581hea", "vy", "?", "</s>"]) == ["Did", "hea", "-vy", "?", "(end)"]
    assert token_names(["\u4eca\u5929", "\u597d"]) == ["\u4eca\u5929", "\u597d"]
