"""`mtkit backtranslate`, and texts of a recipe that a model translates before the training."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtkit.cli import entry
from mtkit.corpus.config import CorpusConfig, ParallelFiles, TrainBacktranslated
from mtkit.errors import MissingInputError, UsageError
from mtkit.model_folder.folder import ModelMetadata
from mtkit.pipeline import monolingual, stages, synthetic_text
from mtkit.pipeline.synthetic_text import BLANK, DISTANCE, RECORD, with_noise
from mtkit.recipe.recipe import load_recipe
from mtkit.text.source_prefix import SourcePrefix
from mtkit.translate import teachers
from tests.toy.runs import WORDS, sentences, write_all

SWAP = "sed 's/^the/der/'"


def run(*words: str | Path) -> int:
    return entry.execute(["backtranslate", *map(str, words)])


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "mono.de"
    path.write_text("the dog\n\nthe cat\n \nthe man\ncopied\n")
    return path


def test_a_command_as_teacher(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(text, "-o", out, "--teacher-command", SWAP) == 0
    assert lines(out / "source.txt") == ["der dog", "der cat", "der man"]
    assert lines(out / "target.txt") == ["the dog", "the cat", "the man"]
    (rejected,) = map(json.loads, lines(out / "rejected.jsonl"))
    assert rejected == {"line": 6, "reason": "the same as the text", "text": "copied", "translation": "copied"}
    assert "3 pairs in" in capsys.readouterr().err
    assert run(text, "-o", out, "--teacher-command", SWAP) == 0
    assert capsys.readouterr().err == "unchanged\n"
    assert run(text, "-o", out, "--teacher-command", SWAP, "--forward") == 0  # other settings: it is made again
    assert lines(out / "source.txt") == ["the dog", "the cat", "the man"]
    (out / "source.txt").write_text("changed\n")
    assert run(text, "-o", out, "--teacher-command", SWAP, "--forward") == 0
    assert lines(out / "source.txt") == ["the dog", "the cat", "the man"]
    assert sorted(path.name for path in out.iterdir()) == [
        ".lock",
        "rejected.jsonl",
        "source.txt",
        "synthetic.json",
        "target.txt",
    ]


def test_an_interrupted_command_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, out, calls = tmp_path / "mono.de", tmp_path / "out", tmp_path / "calls"
    text.write_text("".join(f"the line {number}\n" for number in range(9000)))
    command = f"echo >> {calls}; test $(wc -l < {calls}) != 2 && {SWAP}"
    assert run(text, "-o", out, "--teacher-command", command) == 74  # the second of three windows fails
    assert not (out / "source.txt").exists()
    assert run(text, "-o", out, "--teacher-command", command) == 0
    assert len(lines(calls)) == 4  # the first window is not translated again
    assert lines(out / "source.txt") == [f"der line {number}" for number in range(9000)]


def test_shards_make_the_pairs_of_one_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, out, calls = tmp_path / "mono.de", tmp_path / "out", tmp_path / "calls"
    text.write_text("".join("\n" if number % 7 == 3 else f"the line {number}\n" for number in range(9000)))
    assert run(text, "-o", tmp_path / "one", "--teacher-command", SWAP, "--noise") == 0
    command = f"test -e {calls} || {{ touch {calls}; kill -9 $PPID; }}; {SWAP}"  # ends mtkit once
    words = [text, "-o", out, "--teacher-command", command, "--noise"]
    killed = subprocess.run([sys.executable, "-m", "mtkit", "backtranslate", *map(str, words), "--shard", "2/3"])
    assert killed.returncode == -signal.SIGKILL
    assert run(*words, "--shard", "2/3") == 0
    parts = [path for path in (out / "parts").iterdir() if "shard-2" in path.name]
    before = {path: path.stat().st_mtime_ns for path in parts}
    assert run(*words) == 2
    assert "1 of 3 shards are complete; missing: --shard 1/3, 3/3" in capsys.readouterr().err
    for index in (1, 2, 3):
        assert run(*words, "--shard", f"{index}/3") == 0
    assert {path: path.stat().st_mtime_ns for path in parts} == before
    assert run(*words) == 0
    for name in ("source.txt", "target.txt", "rejected.jsonl"):
        assert (out / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    assert not (out / "parts").exists()


def test_pairs_that_do_not_come_back_are_left_out(text: Path, tmp_path: Path) -> None:
    text.write_text("".join(f"the line {number}\n" for number in range(10)))
    back = teachers.CommandTeacher(command="sed 's/^der/the/; s/3/three times four/'")
    made = synthetic_text.SyntheticText(
        text=text,
        folder=tmp_path / "out",
        teacher=teachers.CommandTeacher(command=SWAP),
        round_trip=back,
        keep=0.9,
    )
    assert "9 pairs" in made.make()
    assert "the line 3" not in lines(tmp_path / "out" / "target.txt")
    record = json.loads(lines(tmp_path / "out" / "rejected.jsonl")[0])
    assert record == {"line": 4, "reason": synthetic_text.ROUND_TRIP, "text": "the line 3", "translation": "der line 3"}


def test_lines_of_valid_and_test_are_left_out(text: Path, tmp_path: Path) -> None:
    text.write_text("the dog runs home\nThe  Cat runs home\nthe man\n")
    held_out = tmp_path / "test.de"
    held_out.write_text("the cat runs home\nthe man\n")  # the second one is as short as a heading
    teacher = teachers.CommandTeacher(command=SWAP)
    synthetic_text.SyntheticText(text=text, folder=tmp_path / "out", teacher=teacher, held_out=[held_out]).make()
    assert lines(tmp_path / "out" / "target.txt") == ["the dog runs home", "the man"]
    (rejected,) = map(json.loads, lines(tmp_path / "out" / "rejected.jsonl"))
    assert rejected["reason"] == synthetic_text.HELD_OUT


@pytest.mark.parametrize("name", synthetic_text.FILES)
def test_files_of_others_are_not_overwritten(
    name: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine\n")
    assert run(text, "-o", out, "--teacher-command", SWAP) == 2
    assert f"{out / name}: exists, and is not synthetic text" in capsys.readouterr().err
    assert [path.read_text() for path in out.iterdir()] == ["mine\n"]


def test_another_machine_or_version_does_not_make_a_text_again(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"mtkit": "0.1", "compute_type": "bf16", "models": ["a"]}
    monkeypatch.setattr(teachers.CommandTeacher, "settings", lambda _: values)
    made = synthetic_text.SyntheticText(
        text=text, folder=tmp_path / "out", teacher=teachers.CommandTeacher(command=SWAP)
    )
    made.make()
    values.update(mtkit="0.2", compute_type="float32")
    assert made.is_current()
    values.update(models=["b"])
    assert not made.is_current()


def test_noise_drops_blanks_and_moves_words() -> None:
    rng = random.Random(1)
    words = [str(number) for number in range(1000)]
    noised = with_noise(" ".join(words), rng).split()
    assert 850 < len(noised) < 950
    assert 60 < noised.count(BLANK) < 120
    numbers = [int(word) for word in noised if word != BLANK]
    moved_before = [sum(other > number for other in numbers[:place]) for place, number in enumerate(numbers)]
    assert 0 < max(moved_before) <= DISTANCE
    assert all(with_noise("word", random.Random(seed)) for seed in range(100))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["mono.de", "-o", "out"], "give MODEL and TEXT"),
        (["model", "mono.de", "-o", "out", "--teacher-command", "cat"], "give MODEL and TEXT"),
        (["model", "mono.de", "-o", "out", "--yes"], "--yes: has no effect"),
        (["model", "mono.de", "-o", "out", "--seed", "2"], "backtranslate: --seed is the seed of sampling"),
        (["model", "mono.de", "-o", "out", "--keep", "0.5"], "--keep: has no effect"),
        (["model", "mono.de", "-o", "out", "--seed", "2"], "--seed is the seed of sampling"),
        (["mono.de", "-o", "out", "--teacher-command", "cat", "--threads", "2"], "--threads and --workers: has no"),
        (["model", "mono.de", "-o", "out", "--forward", "--noise"], "--noise: has no effect"),
        (["mono.de", "-o", "out", "--teacher-command", "cat", "--beam-size", "2"], "--beam-size, --sample and --set"),
        (["mono.de", "-o", "out", "--teacher-url", "https://h/v1"], "needs --teacher-model NAME"),
    ],
)
def test_options_without_effect(
    words: list[str], problem: str, text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(text.parent)
    assert run(*words) == 2
    assert problem in capsys.readouterr().err


def test_nothing_is_sent_without_consent(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    languages = ("--src-lang", "German", "--tgt-lang", "English")
    url = ("--teacher-url", "http://127.0.0.1:9/v1", "--teacher-model", "m")
    assert run(text, "-o", tmp_path / "out", *url, *languages) == 2
    err = capsys.readouterr().err
    assert "127.0.0.1:9 receives 4 requests with 27 bytes of text" in err
    assert "nothing was sent" in err


@pytest.mark.whole
def test_a_recipe_with_text_that_a_model_translates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(tmp_path)
    recipe = tmp_path / "toy.yaml"
    swapped = [
        "corpus.src_lang=de",
        "corpus.tgt_lang=en",
        "corpus.train.0={src: train.de, tgt: train.en}",
        "corpus.valid={src: valid.de, tgt: valid.en}",
        "corpus.test={}",
        "model={kind: transformer, d_model: 32, d_ff: 64, num_heads: 2, encoder_layers: 1, decoder_layers: 1}",
        "training.optimiser={kind: adam, learning_rate: 0.01}",
        *("training.max_updates=120", "training.validate_every=120", "training.checkpoint_every=120"),
    ]
    monkeypatch.chdir(tmp_path)
    stages.train(load_recipe(str(recipe), swapped), run_dir="reverse")
    mono = tmp_path / "mono.de"
    mono.write_text("".join(" ".join(WORDS[w] for w in line.split()) + "\n" for line in sentences(40, 5)))
    entry_of = f"corpus.train.1={{mono: {mono}, backtranslate: {tmp_path / 'reverse'}, tag: BT}}"
    both = load_recipe(str(recipe), [entry_of])
    report = stages.run(both, run_dir="both")
    folder = tmp_path / "mono.de.synthetic"
    made, kept = lines(folder / "source.txt"), lines(folder / "target.txt")
    assert len(made) == len(kept) > 0
    assert set(kept) <= set(lines(mono))
    assert "bleu" in report.content["test"]["toy"]
    content = json.loads((folder / RECORD).read_text())
    assert content["counts"]["kept"] == len(kept)
    time = (folder / RECORD).stat().st_mtime_ns
    stages.run(both, run_dir="both")
    assert (folder / RECORD).stat().st_mtime_ns == time
    assert entry.execute(["run", str(recipe), entry_of, "--dry-run"]) == 0
    shutil.rmtree(folder)
    assert entry.execute(["run", str(recipe), entry_of, "--dry-run"]) == 0
    assert not folder.exists()
    sampled = entry_of.replace("tag: BT", f"sample: 2.0, noise: true, output: {tmp_path / 'sampled'}")
    stages.train_tokenizer(load_recipe(str(recipe), [sampled]), run_dir="sampled-run")
    record = json.loads((tmp_path / "sampled" / RECORD).read_text())["inputs"]
    assert "search.method={kind: sampling, temperature: 2.0}" in record["teacher"]["search"]
    assert record["noise_seed"] == 1
    assert lines(tmp_path / "sampled" / "source.txt") != made
    wrong = load_recipe(str(recipe), [entry_of.replace("reverse", "both")])
    with pytest.raises(UsageError, match="translates from en to de, and de to en is needed"):
        stages.run(wrong, run_dir="wrong")
    missing = load_recipe(str(recipe), [entry_of, "corpus.test.other={src: no.en, tgt: no.de}"])
    with pytest.raises(MissingInputError, match=r"no\.en"):  # before the translation
        stages.run(missing, run_dir="missing")
    assert not folder.exists()


def test_two_texts_have_two_folders() -> None:
    one = TrainBacktranslated(mono=Path("mono.de"), backtranslate=Path("a"))
    two = replace(one, backtranslate=Path("b"))
    corpus = partial(CorpusConfig, src_lang="en", tgt_lang="de", valid=ParallelFiles(src=Path("v"), tgt=Path("w")))
    with pytest.raises(ValueError, match=r"^train\.1\.output: mono\.de\.synthetic is the folder of another corpus"):
        corpus(train=[one, two])
    corpus(train=[one, replace(two, output=Path("other"))])


def test_a_model_of_many_languages_gets_the_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = SimpleNamespace(languages=["de", "en", "fr"], src_lang="en", tgt_lang="de", tags=[])
    metadata.direction = partial(ModelMetadata.direction, metadata)
    monkeypatch.setattr(synthetic_text, "find_model", lambda path: path)
    monkeypatch.setattr(synthetic_text, "read_metadata", lambda path: metadata)
    prefix = synthetic_text.prefix_between(Path("model"), "fr", "en")
    assert (prefix.src_lang, prefix.tgt_lang) == ("fr", "en")
    with pytest.raises(UsageError, match="the model has the languages de, en, fr"):
        synthetic_text.prefix_between(Path("model"), "fr", "cs")
    metadata.languages = []
    assert synthetic_text.prefix_between(Path("model"), "en", "de") == SourcePrefix()
    with pytest.raises(UsageError, match="translates from en to de, and de to en is needed"):
        synthetic_text.prefix_between(Path("model"), "de", "en")


@pytest.mark.whole
def test_run_with_text_in_the_target_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_all(tmp_path)
    monkeypatch.chdir(tmp_path)
    mono = Path("mono.de")
    mono.write_text("".join(" ".join(WORDS[w] for w in line.split()) + "\n" for line in sentences(50, 4)))
    small = "model={kind: transformer, d_model: 32, d_ff: 64, num_heads: 2, encoder_layers: 1, decoder_layers: 1}"
    keys = (
        small,
        "training.max_updates=60",
        "training.validate_every=60",
        "tokenizer={model_type: word, vocab_size: 112}",
    )
    held_out = ("--valid", "valid.en", "valid.de", "--test", "test.en", "test.de")
    langs = ("--src-lang", "en", "--tgt-lang", "de")
    command = ["run", "train.en", "train.de", *keys, *langs, *held_out, "--mono", str(mono), "--run-dir", "out"]
    assert entry.execute([*command, "--dry-run"]) == 0
    assert not Path("out").exists()
    assert entry.execute(command) == 0
    out = Path("out")
    made = lines(out / "backtranslated" / "source.txt")
    assert set(" ".join(made).split()) & set(WORDS)  # English
    choice = json.loads((out / "choice.json").read_text())
    assert choice["means"] == "back-translation"
    kept = out / "pairs" / "model" if choice["keeps_base"] else out / "model"
    assert (out / "model" / "model.safetensors").read_bytes() == (kept / "model.safetensors").read_bytes()
    assert "is kept" in capsys.readouterr().err
    report = json.loads((out / "report.json").read_text())
    assert "bleu" in report["test"]["test"]
    assert entry.execute(["run", "toy.yaml", "--mono", str(mono)]) == 2
    capsys.readouterr()
    monkeypatch.setattr(monolingual, "num_processes", lambda: 2)
    assert entry.execute([*command, "--fresh"]) == 2
    assert "--mono: one process translates the text" in capsys.readouterr().err
    assert entry.execute(["run", "train.en", "train.de", "--mono", "missing.de"]) == 66
