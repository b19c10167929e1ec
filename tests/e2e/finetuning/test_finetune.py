"""`mtkit finetune`: an existing model, text of one's own in every form, resumed, compared, mixed; bad input."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from html import escape
from pathlib import Path

import openpyxl
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from safetensors.numpy import load_file

from mtkit.cli import entry
from mtkit.documents.formats import spreadsheet
from mtkit.finetuning import choice
from mtkit.finetuning import finetune as steps
from mtkit.finetuning.choice import SHARES, TUNED
from mtkit.layers import matmul
from mtkit.model_folder.folder import read_metadata
from mtkit.text.lines import read_lines
from mtkit.translate.translator import Translator
from tests.toy.runs import WORDS, run, write_all

OWN = WORDS | {"dog": "Kater", "cat": "Hund"}  # other names for the same things
UPDATES = ["training.max_updates=40", "training.batch_tokens=256", "training.optimiser.learning_rate=0.01"]


def pairs(count: int, table: dict[str, str], seed: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    lines = {" ".join(rng.choices(list(WORDS), k=rng.randint(4, 7))) for _ in range(2 * count)}
    return [(line, " ".join(table[word] for word in line.split())) for line in sorted(lines)[:count]]


def write(folder: Path, name: str, text: list[tuple[str, str]]) -> tuple[str, str]:
    files = folder / f"{name}.en", folder / f"{name}.de"
    for file, side in zip(files, zip(*text, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in side))
    return str(files[0]), str(files[1])


def train_base(folder: Path, updates: int, *more: str) -> Path:
    write_all(folder)
    write(folder, "train", pairs(300, WORDS, 1))
    size = "d_model: 32, d_ff: 64, num_heads: 2, encoder_layers: 1, decoder_layers: 1, dropout: 0.0"
    keys = [f"max_updates={updates}", f"validate_every={updates}", "batch_tokens=512", "label_smoothing=0"]
    keys += ["optimiser={kind: adam, learning_rate: 0.01}", f"schedule={{kind: linear, warmup: {updates // 10}}}"]
    run(folder, f"model={{kind: transformer, {size}}}", *(f"training.{key}" for key in keys), *more)
    return folder / "run"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned WORDS."""
    return train_base(tmp_path_factory.mktemp("base"), 300)


@pytest.fixture
def mtkit(tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`mtkit finetune BASE WORDS... -o tmp_path/tuned`: exit code, stdout, stderr."""

    def execute(*words: object) -> tuple[int, str, str]:
        code = entry.execute(["finetune", str(base), *map(str, words), "-o", str(tmp_path / "tuned")])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return execute


def bleu(hyps: Path, refs: Path) -> float:
    return BLEU().corpus_score(list(read_lines(hyps)), [list(read_lines(refs))]).score


def test_own_text_is_learned_and_general_text_watched(mtkit, tmp_path: Path, base: Path, capsys) -> None:
    own, general = write(tmp_path, "own", pairs(300, OWN, 2)), write(tmp_path, "general", pairs(200, WORDS, 3))
    updates = ["training.max_updates=80", *UPDATES[1:]]  # enough for a gain beyond noise on every processor
    code, out, err = mtkit(*own, "--general", *general, "--general-share", 0, "--keep-general", 60, *updates)
    assert code == 0, err
    tuned = tmp_path / "tuned"
    scores = json.loads((tuned / "comparison.json").read_text())["test"]
    assert list(scores) == ["own", "general"]
    for name, models in scores.items():  # sacreBLEU itself, on translations that other commands give
        ref = tuned / name / "test.de"
        assert models["before"]["bleu"] == pytest.approx(bleu(tuned / "hyps" / f"{name}.before.txt", ref))
        assert models["after"]["bleu"] == pytest.approx(bleu(tuned / "hyps" / f"{name}.txt", ref))
        assert entry.execute(["translate", str(base), str(tuned / name / "test.en")]) == 0
        assert capsys.readouterr().out == (tuned / "hyps" / f"{name}.before.txt").read_text()
    assert scores["own"]["after"]["bleu"] > scores["own"]["before"]["bleu"] + 10
    assert scores["own"]["after"]["bleu_p_bootstrap"] < 0.05
    assert [line.split()[0] for line in out.split("\n") if "chosen" in line] == [
        f"{share_of_mixture(tuned, load_file(base / 'model' / 'model.safetensors')):.2f}"
    ]
    gained = [line.split("\t") for line in (tuned / "lines.tsv").read_text().split("\n")[1:-1]]
    assert len(gained) == sum(
        first != second
        for name in scores
        for first, second in zip(
            read_lines(tuned / "hyps" / f"{name}.before.txt"), read_lines(tuned / "hyps" / f"{name}.txt"), strict=True
        )
    )
    assert "own: " in out
    assert "better" in out
    assert out.startswith("the fine-tuned model is kept: it gained on ")
    assert not (tuned / TUNED).exists()


@pytest.mark.whole
def test_a_fine_tuning_without_a_gain_keeps_the_base(mtkit, tmp_path: Path, base: Path, capsys, monkeypatch) -> None:
    own, tuned = write(tmp_path, "own", pairs(150, WORDS, 2)), tmp_path / "tuned"  # the base knows it already
    words = [*own, *UPDATES[1:], "training.max_updates=8", "training.validate_every=8", "training.ema=null"]
    write_record = choice.write_record
    with monkeypatch.context() as patched:  # killed between the copy of the fine-tuned model and that of the base
        patched.setattr(choice, "write_record", lambda *_: os.kill(os.getpid(), signal.SIGINT) or write_record(*_))
        assert mtkit(*words)[0] == 130
    code, out, err = mtkit(*words)
    assert code == 0, err
    first = out.partition("\n")[0]
    assert first.startswith("the base model is kept: fine-tuning gained no more than noise on ")
    record = json.loads((tuned / "comparison.json").read_text())
    assert record["choice"]["sentence"] == first
    assert f"Choice: {first}." in (tuned / "model" / "README.md").read_text()
    weights = [(each / "model.safetensors").read_bytes() for each in (base / "model", tuned / "model", tuned / TUNED)]
    assert weights[0] == weights[1] != weights[2]
    ref = tuned / "own" / "test.de"
    for folder, hyps, label in ((tuned, "own.txt", "before"), (tuned / TUNED, "own.after.txt", "after")):
        assert entry.execute(["translate", str(folder), str(tuned / "own" / "test.en")]) == 0
        assert capsys.readouterr().out == (tuned / "hyps" / hyps).read_text()
        assert record["test"]["own"][label]["bleu"] == pytest.approx(bleu(tuned / "hyps" / hyps, ref))
    kept = {path: path.read_bytes() for path in tuned.rglob("*") if path.is_file() and path.name != "log.jsonl"}
    monkeypatch.setattr(Translator, "translate_lines", lambda *_: pytest.fail("translated again"))
    assert mtkit(*words)[:2] == (0, out)
    assert kept == {path: path.read_bytes() for path in tuned.rglob("*") if path.is_file() and path.name != "log.jsonl"}


def share_of_mixture(tuned: Path, before: dict) -> float:
    """The share t of the mixture, from its weights: before + t (after - before)."""
    after, mixture = (load_file(tuned / name / "model.safetensors") for name in ("model", "mixture"))
    name = max(after, key=lambda each: abs(after[each] - before[each]).max())
    moved = after[name] - before[name]
    place = abs(moved).argmax()
    share = float((mixture[name] - before[name]).flat[place] / moved.flat[place])
    return min(SHARES, key=lambda each: abs(each - share))


@pytest.mark.whole
def test_a_repeated_command_keeps_everything(mtkit, tmp_path: Path, monkeypatch) -> None:
    own = write(tmp_path, "own", pairs(150, OWN, 2))
    words = [*own, *UPDATES, "training.max_updates=4"]
    assert mtkit(*words)[0] == 0
    kept = {path: path.read_bytes() for path in (tmp_path / "tuned").rglob("*") if path.is_file()}
    with monkeypatch.context() as patched:
        patched.setattr(Translator, "translate_lines", lambda *_: pytest.fail("translated again"))
        code, _, err = mtkit(*words)
    assert code == 0, err
    assert "training is already finished" in err or "unchanged" in err
    now = {path: path.read_bytes() for path in (tmp_path / "tuned").rglob("*") if path.is_file()}
    assert {path.name for path in kept if kept[path] != now.get(path)} <= {"log.jsonl"}
    write(tmp_path, "own", pairs(160, OWN, 4))
    code, _, err = mtkit(*words)
    assert (code, "text changed since this fine-tuning was started; start over with --fresh" in err) == (78, True)
    assert mtkit(*words, "--fresh")[0] == 0


@pytest.mark.whole
def test_killed_and_repeated_ends_with_the_same_bits(mtkit, tmp_path: Path, base: Path, monkeypatch) -> None:
    monkeypatch.setenv(matmul.VARIABLE, "blas")  # in both processes: on a busy machine they might measure another one
    for dtype in (torch.float32, torch.bfloat16):
        matmul.use_library("blas", dtype)
    own = write(tmp_path, "own", pairs(150, OWN, 2))
    keys = [*UPDATES[1:], "training.max_updates=30", "training.checkpoint_every=2"]
    assert mtkit(*own, *keys)[0] == 0
    expected = tuned_weights(tmp_path / "tuned")
    shutil.rmtree(tmp_path / "tuned")
    words = [sys.executable, "-m", "mtkit", "finetune", str(base), *own, *keys, "-o", str(tmp_path / "tuned")]
    killed = False
    for moment in ("own/split.json", "checkpoints/update-00000002", "checkpoints/update-00000010"):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and not (tmp_path / "tuned" / moment).exists():
                time.sleep(0.01)
            killed |= process.poll() is None
            os.kill(process.pid, signal.SIGKILL)
    assert killed
    assert mtkit(*own, *keys)[0] == 0
    assert tuned_weights(tmp_path / "tuned") == expected


def tuned_weights(run: Path) -> bytes:
    return (run / (TUNED if (run / TUNED).exists() else "model") / "model.safetensors").read_bytes()


def test_sources_that_the_model_could_read_are_still_read(mtkit, tmp_path: Path, base: Path) -> None:
    short = [(" ".join(src.split()[:4]), " ".join(tgt.split()[:4])) for src, tgt in pairs(300, OWN, 2)]
    assert mtkit(*write(tmp_path, "own", short), *UPDATES[1:], "training.max_updates=1")[0] == 0
    lengths = [read_metadata(folder).max_source_length for folder in (base / "model", tmp_path / "tuned" / TUNED)]
    assert lengths == [7, 7]


@pytest.mark.whole
def test_an_adapter_is_written_beside_the_model(mtkit, tmp_path: Path, base: Path, capsys) -> None:
    own = write(tmp_path, "own", pairs(150, OWN, 2))
    code, _, err = mtkit(*own, "--adapter", "lora", *UPDATES[1:], "training.max_updates=6", "training.adapter.rank=3")
    assert code == 0, err
    tuned, outputs = tmp_path / "tuned", []
    assert json.loads((tuned / "adapter" / "adapter_config.json").read_text())["r"] == 3
    for words in ([tuned / TUNED], [base, "--adapter", tuned / "adapter"]):
        assert entry.execute(["translate", *map(str, words), own[0], "--compute-type", "float32"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    code, _, err = mtkit(*own, *UPDATES[1:], "training.max_updates=6")
    assert (code, "--adapter changed since this fine-tuning was started" in err) == (78, True)


@pytest.mark.whole
def test_own_words_get_tokens_of_their_own(tmp_path: Path, capsys) -> None:
    (tmp_path / "base").mkdir()
    base, tuned = train_base(tmp_path / "base", 4, "tokenizer={model_type: bpe, vocab_size: 135}"), tmp_path / "tuned"
    table = {word: f"{name}lein" for word, name in WORDS.items()}
    own, general = write(tmp_path, "own", pairs(120, table, 2)), write(tmp_path, "general", pairs(120, WORDS, 3))
    words = ["finetune", str(base), *own, "--general", *general, "--keep-general", "100", *UPDATES, "-o", str(tuned)]
    words += ["training.max_updates=2", "search.max_length={factor: 1.0, offset: 1}", "--extend-tokenizer"]
    assert entry.execute([*words, "5"]) == 0, capsys.readouterr().err
    sizes = [
        len(load_file(folder / "model.safetensors")["src_embedding.table.weight"])
        for folder in (base / "model", tuned / "extended", tuned / TUNED, tuned / "mixture")
    ]
    assert [size - sizes[0] for size in sizes] == [0, 5, 5, 5]
    capsys.readouterr()
    counts = []
    for folder in (base, tuned / TUNED):
        assert entry.execute(["encode", str(folder), "--side", "tgt", own[1]]) == 0
        counts.append(len(capsys.readouterr().out.split()))
    assert counts[1] < counts[0]
    kept = (tuned / "extended" / "model.safetensors").read_bytes()
    assert entry.execute([*words, "5"]) == 0
    assert (tuned / "extended" / "model.safetensors").read_bytes() == kept
    assert entry.execute([*words, "6"]) == 78
    assert "--extend-tokenizer changed since this fine-tuning was started" in capsys.readouterr().err


@pytest.mark.whole
def test_the_rate_is_measured_once(mtkit, tmp_path: Path, monkeypatch) -> None:
    own = write(tmp_path, "own", pairs(150, OWN, 2))
    code, _, err = mtkit(*own, *UPDATES[:2])
    assert code == 0, err
    text = (tmp_path / "tuned" / "finetune.yaml").read_text()
    rates = text.partition("range test of")[2].partition("\n\n")[0]
    assert rates.count(" at ") >= 3, text
    monkeypatch.setattr(steps, "RangeTest", lambda *_, **__: pytest.fail("measured again"))
    assert mtkit(*own, *UPDATES[:2])[0] == 0


def tmx(text: list[tuple[str, str]]) -> str:
    units = (
        f'<tu><tuv xml:lang="en-GB"><seg>{escape(src)}</seg></tuv><tuv xml:lang="fr"><seg>non</seg></tuv>'
        f'<tuv xml:lang="de"><seg><bpt i="1"/>{escape(tgt)}<ept i="1"/></seg></tuv></tu>'
        for src, tgt in text
    )
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>{chr(10).join(units)}</body></tmx>'


@pytest.mark.whole
def test_every_form_gives_the_pairs_of_two_files(mtkit, tmp_path: Path) -> None:
    text = pairs(150, OWN, 2)
    files = [write(tmp_path, "own", text)]
    (tmp_path / "own.tmx").write_text(tmx(text), encoding="utf-16")
    (tmp_path / "own.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in text))
    book = openpyxl.Workbook()
    for row in [text[0], (None, None), *text[1:]]:
        book.active.append(row)
    book.save(tmp_path / "own.xlsx")
    (tmp_path / "own.csv").write_text("sep=;\n" + "".join(f"{src};{tgt}\n" for src, tgt in text), encoding="utf-16")
    files += [(str(tmp_path / f"own.{suffix}"),) for suffix in ("tmx", "tsv", "xlsx")]
    files.append((str(tmp_path / "own.csv"), "--encoding", "utf-16"))
    seen = []
    for each in files:
        code, _, err = mtkit(*each, *UPDATES[1:], "training.max_updates=1")
        assert code == 0, err
        own = tmp_path / "tuned" / "own"
        seen.append(
            [(own / f"{part}.{lang}").read_text() for part in ("train", "valid", "test") for lang in ("en", "de")]
        )
        shutil.rmtree(tmp_path / "tuned")
    assert seen[1:] == [seen[0]] * 4


@pytest.mark.whole
def test_the_model_translates_general_text_itself(mtkit, tmp_path: Path) -> None:
    own, (source, _) = write(tmp_path, "own", pairs(150, OWN, 2)), write(tmp_path, "g", pairs(150, WORDS, 3))
    code, _, err = mtkit(*own, "--general-source", source, *UPDATES[1:], "training.max_updates=2")
    assert code == 0, err
    scores = json.loads((tmp_path / "tuned" / "comparison.json").read_text())["test"]
    assert scores["general"]["before"]["bleu"] == pytest.approx(100)  # the reference is its own translation
    weights = re.findall(r"weight: (0[.]\d+)", (tmp_path / "tuned" / "recipe.yaml").read_text())
    assert [float(each) for each in weights] == [pytest.approx(0.5, abs=0.05)] * 2  # lines of equal length


def book_of(path: Path, rows: list[tuple], merged: str | None = None) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    if merged:
        book.active.merge_cells(merged)
    book.save(path)
    return path


def change_sheet(book: Path, old: bytes, new: bytes) -> None:
    with zipfile.ZipFile(book) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = members["xl/worksheets/sheet1.xml"]
    assert old in sheet
    members["xl/worksheets/sheet1.xml"] = sheet.replace(old, new)
    with zipfile.ZipFile(book, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_bad_input_is_one_sentence_and_leaves_nothing(mtkit, tmp_path: Path, base: Path, monkeypatch) -> None:
    rows, good = pairs(120, OWN, 2), tmx(pairs(120, OWN, 2))
    texts = {
        "cut.tmx": good[: len(good) // 2],
        "entity.tmx": good.replace("<tmx", '<!DOCTYPE t [<!ENTITY a "b">]><tmx', 1),
        "french.tmx": good.replace('xml:lang="de"', 'xml:lang="it"'),
        "few.tmx": tmx(rows[:20]),
        "book.xlsx": "no zip",
        "old.xls": "x",
        "one.txt": "x\n",
        "page.html": "<p>x</p>",
        "page.pdf": "%PDF-1.4",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    book_of(tmp_path / "merged.xlsx", rows, merged="A3:A4")
    book_of(tmp_path / "empty.xlsx", [(src, None) for src, _ in rows])
    monkeypatch.setattr(spreadsheet, "MAX_ROWS", 1000)
    for name, old, new in (
        ("rows.xlsx", b'<row r="120"', b'<row r="99999999999"'),
        ("wide.xlsx", b"</sheetData>", b'</sheetData><mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'),
    ):
        change_sheet(book_of(tmp_path / name, rows), old, new)
    for name, exit_code, message in (
        ("rows.xlsx", 65, "sheet 'Sheet': has a row above 1,000"),
        ("wide.xlsx", 65, "sheet 'Sheet': the cells A1:XFD1048576 are merged"),
        ("cut.tmx", 65, "cut.tmx:61: not well-formed XML"),
        ("entity.tmx", 65, "declares the entity a"),
        ("french.tmx", 65, "french.tmx: no pair of en and de; check its languages"),
        ("few.tmx", 65, "20 pairs are too few"),
        ("book.xlsx", 65, "book.xlsx: not an XLSX workbook"),
        ("merged.xlsx", 65, "sheet 'Sheet': the cells A3:A4 are merged; unmerge them"),
        ("empty.xlsx", 65, "sheet 'Sheet': column B is empty; put the source into column A"),
        ("old.xls", 2, "save it as .xlsx"),
        ("one.txt", 2, "one.txt: one text; give a source and its translation"),
        ("page.html", 2, "page.html: a document without pairs"),
        ("page.pdf", 2, "page.pdf: .pdf has no pairs that are read; take its text out, for example with pdftotext"),
        ("none.tmx", 66, "none.tmx"),
    ):
        code, _, err = mtkit(tmp_path / name)
        assert (code, message in err) == (exit_code, True), err
        assert "Traceback" not in err
        assert not (tmp_path / "tuned").exists(), name
    own = write(tmp_path, "own", rows)
    for words, exit_code, message in (
        ([own[0], own[1], own[0]], 2, "give a source and its translation"),
        ([*own, "--encoding", "cp1252"], 2, "--encoding: is of a document with both sides"),
        ([tmp_path / "few.tmx", "--encoding", "nosuch"], 2, "--encoding nosuch: unknown"),
        ([*own, "--keep-general", 1], 2, "--keep-general needs general text"),
        ([*own, "--general-test", *own], 2, "--general-test is the test set of --general"),
        ([*own, "--general", *own, "--general-source", own[0]], 2, "give one of them"),
        ([*own, "--extend-tokenizer", 5], 2, "only sentencepiece models of kind bpe, byte_bpe and unigram"),
        ([*own, "--extend-tokenizer", 5, "--adapter", "lora"], 2, "--adapter does not train the rows"),
        ([*own, "--tag", "de"], 2, "tag 'de': unknown"),
        ([*own, "training.lr=1"], 78, "training.lr: no such key"),
    ):
        code, _, err = mtkit(*words)
        assert (code, message in err) == (exit_code, True), err
        assert not (tmp_path / "tuned").exists(), words
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "mine").write_text("important")
    code, _, err = mtkit(*own)
    assert (code, "exists and is no fine-tuning of mtkit" in err) == (2, True)
