"""Intervals and paired tests against sacreBLEU's own, number by number; groups of segments; checks of the inputs."""

from __future__ import annotations

import math
import random
import unicodedata

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from mtkit.errors import DataError, UsageError
from mtkit.evaluation import comparison, resampling
from mtkit.evaluation.comparison import by_document, by_length, compare
from mtkit.evaluation.config import EvaluationConfig, ReportOptions
from mtkit.evaluation.plausibility import implausible_inputs
from tests.toy.sampling import sampled

WORDS = ["the", "a", "dog", "cat", "man", "sees", "finds", "big", "small", "red", "house", "and", "in", "of"]
RNG = random.Random(1)
REF = [" ".join(RNG.choices(WORDS, k=RNG.randint(4, 12))) for _ in range(83)]


def corrupted(share: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join("x" if rng.random() < share else word for word in line.split()) for line in REF]


SYSTEMS = {"first": corrupted(0.2, 2), "near": corrupted(0.21, 3), "far": corrupted(0.4, 4)}


def sacrebleu_metrics(refs=None):
    return {
        "bleu": BLEU(references=refs),
        "chrf": CHRF(references=refs),
        "chrf++": CHRF(word_order=2, references=refs),
        "ter": TER(references=refs),
    }


@pytest.mark.whole
@pytest.mark.parametrize("num_refs", [1, 2, 3])
def test_numbers_are_those_of_sacrebleu(monkeypatch, num_refs) -> None:
    monkeypatch.setattr(comparison, "NUM_SAMPLES", 200)
    monkeypatch.setattr(resampling.bootstrap_scores, "__defaults__", (200,))
    monkeypatch.setattr(resampling.randomisation_p_value, "__defaults__", (300,))
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", 7000)  # several blocks
    refs = [REF, corrupted(0.1, 9), corrupted(0.3, 8)][:num_refs]
    result = compare(SYSTEMS, refs, ["bleu", "chrf", "chrf++", "ter"])
    for system, hyps in SYSTEMS.items():
        for name, metric in sacrebleu_metrics().items():
            theirs = metric.corpus_score(hyps, refs, n_bootstrap=200)
            ours = result.scores[system].values[name]
            assert ours.value == pytest.approx(theirs.score, abs=1e-9)
            assert ours.interval is not None
            assert ours.interval.mean == pytest.approx(theirs._mean, abs=1e-4)  # theirs: float32
            assert ours.interval.margin == pytest.approx(theirs._ci, abs=1e-4)
            assert ours.signature == str(metric.get_signature())
    _, theirs = PairedTest(list(SYSTEMS.items()), sacrebleu_metrics(refs), None, test_type="ar", n_samples=300)()
    for name, of_sacrebleu in {"bleu": "BLEU", "chrf": "chrF2", "chrf++": "chrF2++", "ter": "TER"}.items():
        ours = list(result.p_values["randomisation"][name].values())
        expected = [each.p_value for each in theirs[of_sacrebleu][1:]]  # the same trials, without the ties
        assert all(our >= their for our, their in zip(ours, expected, strict=True))
        assert ours == expected or name == "ter"
    assert result.p_values["bootstrap"]["bleu"]["far"] < 0.05 < result.p_values["bootstrap"]["bleu"]["near"]


def test_equal_systems_do_not_differ() -> None:
    result = compare({"a": REF, "b": list(REF)}, [REF[::-1]], ["bleu"])
    assert result.p_values == {"bootstrap": {"bleu": {"b": 1.0}}, "randomisation": {"bleu": {"b": 1.0}}}


def test_best_system_of_each_metric() -> None:
    result = compare(SYSTEMS, [REF], ["bleu", "ter"], intervals=False)
    scores = {name: each.values for name, each in result.scores.items()}
    assert result.best()["bleu"] == {max(scores, key=lambda name: scores[name]["bleu"].value)}
    assert result.best()["ter"] == {min(scores, key=lambda name: scores[name]["ter"].value)}
    assert scores["far"]["bleu"].interval is None
    assert (result.p_values, result.tests) == ({}, ())
    assert compare({"a": REF}, [REF], ["bleu"]).best() == {}


def test_equal_systems_are_both_the_best_and_reported() -> None:
    result = compare({**SYSTEMS, "copy": list(SYSTEMS["first"])}, [REF], ["bleu"], intervals=False)
    assert result.best()["bleu"] == {"first", "copy"}
    sentence = "the translations are equal to those of first, line by line; are both files right?"
    assert [name for name, scores in result.scores.items() if sentence in scores.notes] == ["copy"]


@pytest.mark.parametrize(("count", "intervals", "is_reported"), [(29, True, 1), (29, False, 0), (30, True, 0)])
def test_intervals_of_few_lines_are_reported(count, intervals, is_reported) -> None:
    result = compare({"a": SYSTEMS["near"][:count]}, [REF[:count]], ["bleu"], intervals=intervals)
    sentence = "29 lines: too few for intervals and p-values; use more"
    assert (sentence in result.scores["a"].notes) == is_reported


def test_equal_references_are_reported() -> None:
    sentence = "two references are equal, line by line; are both files right?"
    assert implausible_inputs(SYSTEMS["near"], [REF, SYSTEMS["far"], list(REF)]) == [sentence]
    assert implausible_inputs(SYSTEMS["near"], [REF, SYSTEMS["far"]]) == []


def test_groups_are_scored_as_texts_of_their_own() -> None:
    groups = {**by_length(REF, characters=False), **by_document(["x", "y", "y"] * 27 + ["x", "z"], 83, "docs")}
    assert list(groups) == ["length 0-9", "length 10-19", "x", "y", "z"]
    assert sorted(groups["length 0-9"] + groups["length 10-19"]) == list(range(83))
    result = compare(SYSTEMS, [REF], ["bleu", "chrf", "ter"], intervals=False, groups=groups)
    for name, lines in groups.items():
        assert result.groups[name].lines == len(lines)
        for metric in ("bleu", "chrf", "ter"):
            hyps, refs = [SYSTEMS["near"][i] for i in lines], [[REF[i] for i in lines]]
            expected = sacrebleu_metrics()[metric].corpus_score(hyps, refs).score
            assert result.groups[name].scores[metric]["near"] == pytest.approx(expected, abs=1e-9)
    assert result.as_dict()["far"]["groups"]["z"]["lines"] == 1
    with pytest.raises(DataError, match="docs has 2 lines, but the test set 83; write one name per line"):
        by_document(["x", "y"], 83, "docs")
    with pytest.raises(DataError, match="docs:2: blank; write the name of a document on each line"):
        by_document(["x", " ", "y"], 3, "docs")


def test_lengths_of_unspaced_scripts_are_characters() -> None:
    assert by_length(["今天天气很好", "今" * 60], characters=True) == {"characters 0-9": [0], "characters 50-": [1]}


def test_copies_normal_forms_and_lost_bytes_are_reported() -> None:
    refs, src = [["Grüße an dich", "Öl und Äpfel"] * 5], ["greetings to you", "oil and apples"] * 5
    assert implausible_inputs(refs[0][::-1], refs, src) == []
    decomposed = [unicodedata.normalize("NFD", line) for line in refs[0]]
    assert "normal forms differ: the translations are decomposed" in implausible_inputs(decomposed, refs, src)[0]
    copied = [src[0], *refs[0][:0:-1]]
    assert implausible_inputs(copied, refs, src) == ["1 of 10 translations are copies of the source"]
    broken = ["Gr\ufffd\ufffde", *refs[0][1:]]
    assert "1 translations contain U+FFFD" in implausible_inputs(broken, refs, src)[0]


def test_metrics_that_all_do_not_suit_the_script() -> None:
    thai = ["สวัสดีชาวโลก", "วันนี้อากาศดี"]
    with pytest.raises(DataError, match="TER is left out") as caught:
        compare({"a": thai}, [thai], ["ter"], lowercase=True)
    assert "lower-cased" not in str(caught.value)  # there is no score


def test_the_settings_of_a_report_extend_those_of_a_recipe() -> None:
    config = EvaluationConfig(metrics=["chrf"], tokenize="intl")
    assert ReportOptions().apply(config) == config
    assert ReportOptions(moses=True).apply(config).metrics == ["chrf", "moses"]
    assert ReportOptions(metrics=["bleu", "moses"], moses=True).apply(config).metrics == ["bleu", "moses"]
    assert ReportOptions(metrics=["bleu"], tokenize="auto").apply(config).tokenize == "auto"
    with pytest.raises(UsageError, match=r"--tokenize char is .* not among the metrics \(chrf\)"):
        ReportOptions(tokenize="char").apply(config)


METRICS = ["bleu", "chrf", "chrf++", "ter"]
SMALL = ["", " ", "a", "a b", "the cat sat", "the cat sat on the mat today", "?", "x y z", "\u200b", "12"]


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(sampled(25)))
def test_any_small_or_weak_test_set_is_scored(seed) -> None:
    """Samples without a match, without text, or all alike; each result is finite and Python's own number."""
    rng = random.Random(seed)
    for _ in range(8):  # 200 test sets in all
        count = rng.randint(1, 5)
        refs = [[rng.choice(SMALL) for _ in range(count)] for _ in range(rng.randint(1, 2))]
        systems = {name: [rng.choice(SMALL) for _ in range(count)] for name in ("a", "b")[: rng.randint(1, 2)]}
        result = compare(systems, refs, METRICS)
        numbers = [value for scores in result.as_dict().values() for value in scores.values() if type(value) is not str]
        assert all(type(number) is float and math.isfinite(number) for number in numbers)
        assert len(numbers) == (3 + (2 if len(systems) > 1 else 0)) * 4 * len(systems) - (8 if len(systems) > 1 else 0)


def test_a_blank_translation_among_three() -> None:
    hyps = ["the cat sat on the mat today", "", "hello world my old friend"]
    refs = ["the cat sat on the mat today", "something is here for you", "hello world my old friend"]
    scores = compare({"a": hyps}, [refs], ["chrf"]).scores["a"]
    assert scores.chrf is not None
    assert f"{scores.chrf.value:.2f}" == "71.97"
    assert any("blank" in note for note in scores.notes)
