"""`mtkit evaluate --run` with options: each test set is scored as files are, and the run's own report stays."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.evaluation.config import METRICS as ALL_METRICS
from tests.toy.runs import RECIPE, run, sentences, write_all, write_pair
from tests.toy.sampling import sampled

Evaluate = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with two test sets."""
    folder = tmp_path_factory.mktemp("finished")
    write_all(folder)
    write_pair(folder, "other", sentences(40, 3))
    tests = "toy: {src: test.en, tgt: test.de}"
    assert tests in RECIPE
    (folder / "toy.yaml").write_text(RECIPE.replace(tests, f"{tests}\n    other: {{src: other.en, tgt: other.de}}"))
    run(folder, kind="transformer")
    return folder


@pytest.fixture
def evaluate(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Evaluate:
    """Evaluate a copy of the run, `run` in the current folder."""
    shutil.copytree(finished / "run", tmp_path / "run")
    monkeypatch.chdir(tmp_path)

    def execute(*words: str) -> tuple[int, str, str]:
        code = entry.execute(["evaluate", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return execute


def test_options_print_other_scores_and_keep_the_report(evaluate: Evaluate, finished: Path) -> None:
    before = Path("run/report.json").read_bytes()
    options = ("--metrics", "chrf++,bleu", "--by-length", "--tokenize", "char", "--json", "scores.json")
    code, out, _ = evaluate("--run", "run", *options)
    assert code == 0
    assert "±" in out
    assert "TER" not in out
    scores = json.loads(Path("scores.json").read_text())["test"]
    assert list(scores) == ["toy", "other"]
    assert "|tok:char|" in scores["toy"]["bleu_signature"]
    assert scores["other"]["groups"]["length 0-9"]["lines"] == 40
    assert Path("run/report.json").read_bytes() == before

    for name, files in (("toy", "test"), ("other", "other")):  # the same numbers as for the files
        src, ref = (str(finished / f"{files}.{lang}") for lang in ("en", "de"))
        words = (f"run/hyps/{name}.txt", "--ref", ref, "--src", src, *options[:-1], "files.json")
        assert evaluate(*words)[0] == 0
        of_files = json.loads(Path("files.json").read_text())
        assert of_files.keys() == {hyp := f"run/hyps/{name}.txt"}
        assert len(of_files[hyp].pop("line_scores")["bleu"]) == len(Path(hyp).read_text().splitlines())
        assert of_files[hyp] == scores[name]


def test_metrics_that_are_omitted_are_those_of_the_run(evaluate: Evaluate) -> None:
    report = json.loads(Path("run/report.json").read_text())["test"]
    code, out, _ = evaluate("run", "--no-intervals", "--json", "scores.json")
    assert evaluate("--run", "run", "--no-intervals")[1] == out
    assert code == 0
    assert "±" not in out
    assert "  hyp " not in out  # no examples: this is not the summary of the run
    scores = json.loads(Path("scores.json").read_text())["test"]
    for name, values in scores.items():
        assert values == {key: report[name][key] for key in values}
        assert ("bleu_moses_lc" in values) == ALL_METRICS["moses"].is_installed()


def test_an_outdated_report_is_made_first_with_the_metrics_of_the_recipe(evaluate: Evaluate) -> None:
    before = json.loads(Path("run/report.json").read_text())["test"]
    Path("run/hyps/toy.txt").unlink()
    code, _, err = evaluate("--run", "run", "--metrics", "bleu", "--no-intervals")
    assert (code, "translate toy: 7 lines" in err) == (0, True)
    after = json.loads(Path("run/report.json").read_text())["test"]
    assert all(after[name]["chrf"] == before[name]["chrf"] for name in ("toy", "other"))
    assert after["toy"].keys() == before["toy"].keys()
    assert "translate" not in evaluate("--run", "run", "--metrics", "bleu", "--no-intervals")[2]


def test_documents_belong_to_one_test_set(evaluate: Evaluate) -> None:
    Path("docs").write_text("a\nb\n" * 3 + "a\n")
    code, out, err = evaluate("--run", "run", "--docid", "docs")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--docid: docs belongs to one test set, but run has 2: toy, other; score one alone: " in err
    words = shlex.split(err.partition("score one alone: mtkit evaluate ")[2])
    code, out, _ = evaluate(*words)  # the command of the message
    assert (code, re.search(r"^a +4 ", out, re.MULTILINE) is not None) == (0, True)


def test_documents_of_the_only_test_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_all(tmp_path)
    run(tmp_path, kind="rnn")
    (tmp_path / "docs").write_text("a\nb\n" * 3 + "a\n")
    words = ["evaluate", "--run", str(tmp_path / "run"), "--docid", str(tmp_path / "docs")]
    assert entry.execute([*words, "--json", str(tmp_path / "scores")]) == 0
    assert json.loads((tmp_path / "scores").read_text())["test"]["toy"]["groups"]["a"]["lines"] == 4
    (tmp_path / "docs").write_text("a\n")
    shutil.rmtree(tmp_path / "run/hyps")
    capsys.readouterr()
    assert entry.execute(words) == 65
    assert "docs has 1 line, but the test set 7; write one name per line" in capsys.readouterr().err
    assert not (tmp_path / "run/hyps").exists()  # refused before translating


def test_a_test_set_that_no_metric_suits_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_all(tmp_path)
    tests, thai = "toy: {src: test.en, tgt: test.de}", "thai: {src: test.en, tgt: test.th, tgt_lang: th}"
    (tmp_path / "test.th").write_text("สวัสดีชาวโลก\n" * 7)
    (tmp_path / "toy.yaml").write_text(RECIPE.replace(tests, f"{thai}\n    {tests}"))
    run(tmp_path, kind="rnn")
    words = ["evaluate", "--run", str(tmp_path / "run"), "--metrics"]
    capsys.readouterr()
    assert entry.execute([*words, "ter", "--json", str(tmp_path / "scores")]) == 0
    assert list(json.loads((tmp_path / "scores").read_text())["test"]) == ["toy"]
    assert "no metric is left for thai" in capsys.readouterr().err
    (tmp_path / "toy.yaml").write_text(RECIPE.replace(tests, thai))
    run(tmp_path, kind="rnn")
    capsys.readouterr()
    assert entry.execute([*words, "ter"]) == 65
    assert "thai: TER is left out, since it counts words by spaces and " in (err := capsys.readouterr().err)
    assert "choose another of --metrics" in err


def test_the_report_of_the_run_is_no_output_file(evaluate: Evaluate) -> None:
    code, _, err = evaluate("--run", "run", "--json", "run/report.json")
    assert (code, "--json run/report.json would overwrite a file of the run folder" in err) == (2, True)


METRICS = ("bleu", "chrf", "chrf++", "ter")
STRANGE = ("", ",", "bleu,bleu", "BLEU", "rouge", "bleu ter", "\x1b[2J", "-1", "../x", "run", "ü" * 300)


def words_of(rng: random.Random) -> list[str]:
    """Options of `evaluate`; two in three have a value that is wrong or odd."""
    words = {
        "--metrics": ",".join(rng.sample(METRICS, rng.randint(1, 4))),
        "--tokenize": rng.choice(("13a", "char", "intl", "none")),
    }
    if rng.random() < 0.5:
        del words["--tokenize"]
    if rng.random() < 2 / 3:
        words[rng.choice(("--metrics", "--tokenize", "--docid", "--src", "--format"))] = rng.choice(STRANGE)
    options = [word for option in words.items() for word in option]
    return [*options, "--no-intervals", *["--by-length"] * (rng.random() < 0.3)]


def test_json_on_stdout_is_one_object_or_nothing_for_any_options(evaluate: Evaluate, finished: Path) -> None:
    rng, ends = random.Random(7), {"used": 0, "refused": 0}
    count = sampled(200)
    for _ in range(count):
        words = words_of(rng)
        code, out, err = evaluate("run", *words, "--json", "-")
        assert code in (0, 2, 65, 66, 74, 78), (words, code, err)
        ends["refused" if code else "used"] += 1
        if code:
            assert (out, bool(err)) == ("", True), words
            continue
        scores = json.loads(out)["test"]  # fails if anything else stands before or after
        if ends["used"] % 3:  # one in three is compared with the files
            continue
        name, files = rng.choice((("toy", "test"), ("other", "other")))
        hyp, src, ref = f"run/hyps/{name}.txt", *(str(finished / f"{files}.{lang}") for lang in ("en", "de"))
        code, out, err = evaluate(hyp, "--ref", ref, "--src", src, *words, "--json", "-")
        of_files = json.loads(out)
        assert of_files[hyp].pop("line_scores"), words
        assert (code, of_files) == (0, {hyp: scores[name]}), (words, err)
    assert min(ends.values()) >= 0.15 * count, ends
