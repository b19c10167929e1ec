import io
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mtkit.errors import DataError, MissingExtraError, MissingInputError
from mtkit.evaluation import moses
from mtkit.evaluation.config import EvaluationConfig
from mtkit.evaluation.score import evaluate, score, score_files
from mtkit.evaluation.table import score_table, signature_lines

REF = [
    "Der Hund (ein Dackel) läuft über die Straße.",
    "Zwei Männer, 3 Frauen & ein Kind.",
    "Es regnet z.B. heute nicht!",
]
HYP = [
    "Der Hund, ein Dackel, läuft über die Strasse.",
    "zwei Männer , 3 Frauen und ein Kind .",
    "Es regnet heute nicht.",
]
WORSE = ["Ein Hund läuft.", "Männer und ein Kind", ""]


def write(folder, name, lines):
    path = folder / name
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def sacrebleu(*arguments):
    command = [sys.executable, "-m", "sacrebleu", *map(str, arguments), "--format", "json", "--width", "12"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_scores_equal_those_of_the_sacrebleu_command(tmp_path):
    hyp, ref, second = write(tmp_path, "hyp", HYP), write(tmp_path, "ref", REF), write(tmp_path, "ref2", WORSE)
    for refs in ([ref], [ref, second]):
        (ours,) = score_files([hyp], refs).values()
        for theirs in sacrebleu(*refs, "-i", hyp, "-m", "bleu", "chrf", "ter"):
            name = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}[theirs["name"]]
            assert ours.by_name()[name].value == pytest.approx(theirs["score"], abs=1e-9)
            assert ours.by_name()[name].signature == theirs["signature"]


def test_moses_is_bleu_on_lower_cased_moses_tokens(tmp_path):
    ours = score(HYP, [REF], ["moses"], tgt_lang="de")
    tokens = [moses.tokenize(lines, "de") for lines in (HYP, REF)]
    hyp, ref = write(tmp_path, "hyp", tokens[0]), write(tmp_path, "ref", tokens[1])
    theirs = sacrebleu(ref, "-i", hyp, "--tokenize", "none", "-lc")
    assert ours.bleu_moses_lc is not None
    assert ours.bleu_moses_lc.value == pytest.approx(theirs["score"], abs=1e-9)
    assert ours.bleu_moses_lc.signature == theirs["signature"]
    assert tokens[1][1] == "Zwei Männer , 3 Frauen & ein Kind ."
    assert list(ours.by_name()) == ["bleu_moses_lc"]


def test_moses_without_sacremoses(monkeypatch):
    assert evaluate(HYP, REF, EvaluationConfig(), tgt_lang="de").bleu_moses_lc is not None
    monkeypatch.setattr(moses, "is_installed", lambda: False)
    assert evaluate(HYP, REF, EvaluationConfig(), tgt_lang="de").bleu_moses_lc is None
    with pytest.raises(MissingExtraError, match=r"sacremoses: pip install 'mtkit\[moses\]'"):
        evaluate(HYP, REF, EvaluationConfig(metrics=["moses"]), tgt_lang="de")


@pytest.mark.parametrize(
    ("lang", "expected"), [("de", "13a"), ("zh", "zh"), ("zh-CN", "zh"), ("ZH_tw", "zh"), ("ja", "char"), ("no", "13a")]
)
def test_sacrebleu_tokenizer_depends_on_the_language(lang, expected):
    assert EvaluationConfig().sacrebleu_tokenizer(lang) == expected
    scores = score(["これは 本です 。"], [["これは本です。"]], ["bleu"], tgt_lang=lang)
    assert scores.bleu is not None
    assert f"tok:{expected}|" in scores.bleu.signature
    assert EvaluationConfig(tokenize="intl").sacrebleu_tokenizer(lang) == "intl"


def test_as_dict_has_the_documented_keys():
    report = score(HYP, [REF], ["ter", "moses", "bleu", "chrf"], tgt_lang="de").as_dict()
    assert list(report)[::2] == ["bleu", "bleu_moses_lc", "chrf", "ter"]
    assert list(report)[1::2] == [f"{name}_signature" for name in list(report)[::2]]
    json.dumps(report, allow_nan=False)


@settings(max_examples=30, deadline=None)
@given(lines=st.lists(st.text(st.sampled_from("ab c.,\t\u2028ß"), max_size=12), min_size=1, max_size=4))
def test_any_lines_can_be_scored(lines):
    scores = score(lines, [lines[::-1]], ["bleu", "chrf", "ter", "moses"])
    assert all(score.value >= 0 for score in scores.by_name().values())


def test_unequal_line_counts_are_rejected_with_all_counts(tmp_path):
    ref, good = write(tmp_path, "ref", REF), write(tmp_path, "good", HYP)
    short, long = write(tmp_path, "short", HYP[:1]), write(tmp_path, "long", HYP * 2)
    with pytest.raises(DataError) as caught:
        score_files([good, short, long], [ref])
    assert str(caught.value) == (
        f"{ref} has 3 lines, but {short} has 1, {long} has 6; a translation must have one line for each reference line"
    )
    with pytest.raises(DataError, match="2 translations but 3 reference lines"):
        score(HYP[:2], [REF])
    with pytest.raises(DataError, match="3 translations but 3 and 1 reference lines"):
        score(HYP, [REF, REF[:1]])


def test_empty_input_is_rejected(tmp_path):
    empty = write(tmp_path, "empty", [])
    with pytest.raises(DataError, match="empty: no lines"):
        score_files([empty], [empty])
    with pytest.raises(DataError, match="no lines"):
        score([], [[]])
    with pytest.raises(MissingInputError, match="nowhere"):
        score_files([tmp_path / "nowhere"], [empty])


def test_table_shows_every_system_and_signature(tmp_path):
    ref = write(tmp_path, "ref", REF)
    rows = score_files([write(tmp_path, "one", HYP), write(tmp_path, "two", REF)], [ref], ["bleu", "ter"])
    console = Console(width=120, file=io.StringIO())
    console.print(score_table(rows))
    output = console.file.getvalue()
    assert "100.00" in output
    assert "one" in output
    assert "chrF2" not in output
    assert [line.partition(":")[0] for line in signature_lines(rows)] == ["BLEU", "TER"]
