import json
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.errors import DataError, MissingExtraError, MissingInputError
from mtkit.evaluation import tokenizer_choice
from mtkit.evaluation.comparison import score_table, signature_lines
from mtkit.evaluation.config import EvaluationConfig, MetricInfo
from mtkit.evaluation.metrics import moses_tokens
from mtkit.evaluation.score import evaluate, read_texts, score

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


def score_files(hyps, refs, metrics=("bleu", "chrf", "ter"), src=None):
    texts = read_texts(hyps, refs, src)
    references, source = [texts[path] for path in refs], None if src is None else texts[src]
    return {str(hyp): score(texts[hyp], references, metrics, src=source) for hyp in hyps}


def sacrebleu(*arguments):
    command = [sys.executable, "-m", "sacrebleu", *map(str, arguments), "--format", "json", "--width", "12"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_lower_cased_scores_equal_those_of_the_sacrebleu_command_and_say_so(tmp_path):
    hyp, ref = write(tmp_path, "hyp", HYP), write(tmp_path, "ref", REF)
    ours = score(HYP, [REF], ["bleu"], lowercase=True)
    theirs = sacrebleu(ref, "-i", hyp, "-m", "bleu", "-lc")
    assert ours.bleu.value == pytest.approx(theirs["score"])
    assert "case:lc" in ours.bleu.signature
    assert any(note.startswith("scores are lower-cased") for note in ours.notes)
    upper = [line.upper() for line in HYP]
    for name in ("bleu", "chrf", "chrf++", "ter"):
        assert score(upper, [REF], [name], lowercase=True).values == score(HYP, [REF], [name], lowercase=True).values
        assert "case:lc" in next(iter(score(HYP, [REF], [name], lowercase=True).values.values())).signature


def test_scores_equal_those_of_the_sacrebleu_command(tmp_path):
    hyp, ref, second = write(tmp_path, "hyp", HYP), write(tmp_path, "ref", REF), write(tmp_path, "ref2", WORSE)
    for refs in ([ref], [ref, second]):
        (ours,) = score_files([hyp], refs).values()
        for theirs in sacrebleu(*refs, "-i", hyp, "-m", "bleu", "chrf", "ter"):
            name = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}[theirs["name"]]
            assert ours.values[name].value == pytest.approx(theirs["score"], abs=1e-9)
            assert ours.values[name].signature == theirs["signature"]


@pytest.mark.parametrize(
    ("hyp", "ref", "words"),
    [
        (["今天天气很好。", "我们去散步"], ["今天天气不好。", "我们去公园散步"], "each Chinese character as a word"),
        (["これは猫です。", "散歩に行きます"], ["これは本です。", "散歩に行きましょう"], "each run of kana"),
    ],
)
def test_ter_of_chinese_and_japanese_equals_sacrebleus_options_for_them(tmp_path, hyp, ref, words):
    paths = write(tmp_path, "ref", ref), "-i", write(tmp_path, "hyp", hyp)
    theirs = sacrebleu(*paths, "-m", "ter", "--ter-normalized", "--ter-asian-support")
    ours = score(hyp, [ref], ["ter"])
    assert ours.ter is not None
    assert ours.ter.value == pytest.approx(theirs["score"], abs=1e-9)
    assert ours.ter.signature == theirs["signature"]
    assert score(hyp, [ref], ["ter"], tgt_lang="de") == ours  # the text decides
    assert [words in note for note in ours.notes] == [True]
    assert score(HYP, [REF], ["ter"]).notes == ()


def test_moses_is_bleu_on_lower_cased_moses_tokens(tmp_path):
    ours = score(HYP, [REF], ["moses"], tgt_lang="de")
    tokens = [moses_tokens(lines, "de") for lines in (HYP, REF)]
    hyp, ref = write(tmp_path, "hyp", tokens[0]), write(tmp_path, "ref", tokens[1])
    theirs = sacrebleu(ref, "-i", hyp, "--tokenize", "none", "-lc")
    assert ours.bleu_moses_lc is not None
    assert ours.bleu_moses_lc.value == pytest.approx(theirs["score"], abs=1e-9)
    assert ours.bleu_moses_lc.signature == theirs["signature"]
    assert tokens[1][1] == "Zwei Männer , 3 Frauen & ein Kind ."
    assert list(ours.values) == ["bleu_moses_lc"]


def test_moses_without_sacremoses(monkeypatch):
    assert evaluate(HYP, REF, EvaluationConfig(), tgt_lang="de").bleu_moses_lc is not None
    monkeypatch.setattr(MetricInfo, "is_installed", lambda info: not info.package)
    assert evaluate(HYP, REF, EvaluationConfig(), tgt_lang="de").bleu_moses_lc is None
    with pytest.raises(MissingExtraError, match=r"sacremoses: pip install 'mtkit\[moses\]'"):
        evaluate(HYP, REF, EvaluationConfig(metrics=["moses"]), tgt_lang="de")


def test_as_dict_has_the_documented_keys():
    report = score(HYP, [REF], ["ter", "moses", "bleu", "chrf"], tgt_lang="de").as_dict()
    assert list(report)[::2] == ["bleu", "bleu_moses_lc", "chrf", "ter"]
    assert list(report)[1::2] == [f"{name}_signature" for name in list(report)[::2]]
    json.dumps(report, allow_nan=False)


@settings(max_examples=30)
@given(lines=st.lists(st.text(st.sampled_from("ab c.,\t\u2028ß"), max_size=12), min_size=1, max_size=4))
def test_any_lines_can_be_scored(lines):
    scores = score(lines, [lines[::-1]], ["bleu", "chrf", "ter", "moses"])
    assert all(score.value >= 0 for score in scores.values.values())


def test_unequal_line_counts_are_rejected_with_all_counts(tmp_path):
    ref, good = write(tmp_path, "ref", REF), write(tmp_path, "good", HYP)
    short, long = write(tmp_path, "short", HYP[:1]), write(tmp_path, "long", HYP * 2)
    with pytest.raises(DataError) as caught:
        score_files([good, short, long], [ref])
    assert str(caught.value) == (
        f"{ref} has 3 lines, but {short} has 1, {long} has 6; translations, references and source "
        "must have equally many lines"
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


@pytest.mark.parametrize(
    ("ref", "hyp", "tokenizer"),
    [
        ("今天天气很好，我们去公园散步。", "今天天气很好，我们去散步。", "zh"),
        ("これは本です。", "これは 本です 。", "char"),
        ("วันนี้อากาศดีมาก", "วันนี้อากาศดี", "char"),
        ("오늘은 날씨가 아주 좋습니다 정말로", "오늘은 날씨가 아주 좋습니다", "13a"),
    ],
)
def test_bleu_of_other_scripts_is_never_nearly_zero_without_a_word(ref, hyp, tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer_choice, "is_tokenizer_installed", lambda name: name in ("13a", "zh", "char"))
    for lang in (None, "en"):
        scores = score([hyp, ref], [[ref, ref]], ["bleu", "ter", "moses"], tgt_lang=lang)
        assert scores.bleu is not None
        assert scores.bleu.value > 40
        assert f"tok:{tokenizer}|" in scores.bleu.signature
        assert f"tokenizer {tokenizer}" in scores.notes[0]
    explicit = score([hyp, ref], [[ref, ref]], ["bleu"], tokenize="13a")
    assert explicit.bleu is not None
    assert "tok:13a|" in explicit.bleu.signature
    assert [note for note in explicit.notes if "13a counts words by spaces" in note] == (
        [] if tokenizer == "13a" else list(explicit.notes)
    )


def test_metrics_that_need_words_are_left_out_of_scripts_without_spaces():
    thai = score(["วันนี้อากาศดี"], [["วันนี้อากาศดีมาก"]], ["bleu", "chrf", "ter", "moses"])
    assert list(thai.values) == ["bleu", "chrf"]
    assert [note.partition(" is left out")[0] for note in thai.notes[1:]] == ["TER", "BLEU on Moses tokens"]
    chinese = score(["今天天气很好"], [["今天天气不好"]], ["ter", "moses"])
    assert list(chinese.values) == ["ter"]
    assert chinese.ter is not None
    assert chinese.ter.value == pytest.approx(100 / 6)  # one character of six, not one sentence of one
    assert "asian:yes" in chinese.ter.signature
    assert evaluate(["今天"], ["今天"], EvaluationConfig(), tgt_lang="zh").bleu_moses_lc is None


def test_implausible_files_are_reported(tmp_path):
    ref, src, hyp = write(tmp_path, "ref", REF), write(tmp_path, "src", WORSE), write(tmp_path, "hyp", HYP)
    blank = write(tmp_path, "blank", [HYP[0], "", " "])
    scores = score_files([hyp, ref, src, blank], [ref], ["bleu"], src=src)
    assert scores[str(hyp)].notes == ()
    assert "equal to a reference" in scores[str(ref)].notes[0]
    assert "equal to the source" in scores[str(src)].notes[0]
    assert scores[str(blank)].notes == ("2 of 3 translations are blank where the reference is not",)
    with pytest.raises(DataError, match="src has 2"):
        score_files([hyp], [ref], src=write(tmp_path, "src", WORSE[:2]))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([*HYP, ""], "hyp has 4 (the last is blank);"),
        ([*HYP, "", " "], "hyp has 5 (the last 2 are blank);"),
        (["\r".join(HYP)], r"hyp has 1 (with \r inside lines: convert line ends, for example with tr '\r' '\n');"),
        ([*HYP, "x"], "hyp has 4;"),
        (HYP[:2], "hyp has 2;"),
    ],
)
def test_unequal_numbers_of_lines_are_explained(tmp_path, lines, reason):
    ref, hyp = write(tmp_path, "ref", REF), write(tmp_path, "hyp", lines)
    with pytest.raises(DataError, match=f"ref has 3 lines, but .*{re.escape(reason)} translations, references and"):
        score_files([hyp], [ref])


def test_table_shows_every_system_and_signature(tmp_path):
    ref = write(tmp_path, "ref", REF)
    rows = score_files([write(tmp_path, "one", HYP), write(tmp_path, "two", REF)], [ref], ["bleu", "ter"])
    output = "\n".join(score_table(rows).lines())
    assert "100.00" in output
    assert "one" in output
    assert "chrF2" not in output
    assert [line.partition(":")[0] for line in signature_lines(rows)] == ["BLEU", "TER"]
