"""Damage in a run folder: damaged files are named, and made again where nothing is lost by it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.errors import DamagedError, RecipeError
from mtkit.io.records import Json, read_record
from mtkit.model_folder import config_file
from mtkit.model_folder.config_file import CONFIG, MODEL_CARD, verify_model
from mtkit.model_folder.folder import read_metadata
from mtkit.pipeline import stages
from tests.toy.runs import RecordingDisplay, toy, write_all

RECORDS = [
    "version.json",
    "report.json",
    "fingerprints.json",
    "tokenizer/fingerprint.json",
    "tokenizer/tokenizer.json",
    "corpus/train.0/manifest.json",
    "corpus/valid/manifest.json",
    "corpus/lexicon.json",
]
OTHERS = ["tokenizer/spm.model", "corpus/train.0/src.ids.bin", "corpus/lexicon.safetensors", "hyps/toy.txt"]
OF_MODEL = ["model/config.json", "model/README.md", "model/spm.model", "model/model.safetensors"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with its recipe; a finished run, one that was stopped after half of its updates, and one of a seed."""
    folder = tmp_path_factory.mktemp("damage")
    write_all(folder)
    stages.run(toy(folder), run_dir=folder / "whole")
    stages.run(toy(folder, "training.seed=2"), run_dir=folder / "seed")
    stages.train(toy(folder, "training.max_updates=2"), run_dir=folder / "half")
    shutil.rmtree(folder / "half" / "model")  # as if it had been killed after its checkpoint
    (folder / "half" / "report.json").unlink()
    return folder


def run(folder: Path, run_dir: Path, *overrides: str) -> RecordingDisplay:
    display = RecordingDisplay()
    stages.run(toy(folder, *overrides), run_dir=run_dir, display=display)
    return display


@pytest.fixture
def finished(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder / "whole", tmp_path / "run"))


@pytest.fixture
def unfinished(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder / "half", tmp_path / "run"))


def flip(path: Path, bit: int | None = None) -> None:
    """Flip a bit of a file, by default in the middle."""
    content = bytearray(path.read_bytes())
    bit = 8 * (len(content) // 2) if bit is None else bit
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def same_files(run_dir: Path, folder: Path) -> list[str]:
    """Files whose content is that of the uninterrupted run; the report has times."""
    names = [name for name in [*RECORDS, *OTHERS, *OF_MODEL] if name != "report.json"]
    return [name for name in names if (run_dir / name).read_bytes() == (folder / "whole" / name).read_bytes()]


def bleu(run_dir: Path) -> float:
    return float(read_record(run_dir / "report.json", remedy="")["test"]["toy"]["bleu"])


def damage_and_repair(folder: Path, run_dir: Path, name: str, damage: Callable[[Path], None]) -> list[str]:
    """Damage a file and run; return the messages after checking that all is as before."""
    updates = read_record(run_dir / "report.json", remedy="")["train"]["updates"]
    score = bleu(run_dir)
    damage(run_dir / name)
    display = run(folder, run_dir)
    assert [each for each in RECORDS if not (run_dir / each).is_file()] == []
    assert len(same_files(run_dir, folder)) == len([*RECORDS, *OTHERS, *OF_MODEL]) - 1, display.damaged
    assert (bleu(run_dir), updates) == (score, 4)
    assert read_record(run_dir / "report.json", remedy="")["train"]["updates"] == updates
    verify_model(run_dir / "model")
    again = run(folder, run_dir)
    assert again.damaged == []
    assert set(again.results.values()) == {"unchanged, kept"}
    return display.damaged


@pytest.mark.parametrize("number", range(24))
def test_a_flipped_bit_is_named_and_repaired(folder: Path, finished: Path, number: int) -> None:
    rng = random.Random(number)
    files = [*RECORDS, *OTHERS, *OF_MODEL]
    name = files[number % len(files)]
    bit = rng.randrange(8 * (finished / name).stat().st_size)
    messages = damage_and_repair(folder, finished, name, lambda path: flip(path, bit))
    if name != "hyps/toy.txt":  # translated again
        assert messages
        assert all(Path(name).name in message and "made again" in message for message in messages)
    assert "--fresh" not in "".join(messages)


@pytest.mark.whole
@pytest.mark.parametrize("name", [*RECORDS, *OTHERS, *OF_MODEL, "log.jsonl", "tokenizer", "corpus"])
def test_a_deleted_file_is_made_again(folder: Path, finished: Path, name: str) -> None:
    messages = damage_and_repair(
        folder, finished, name, lambda path: shutil.rmtree(path) if path.is_dir() else path.unlink()
    )
    assert "--fresh" not in "".join(messages)


@pytest.mark.whole
@pytest.mark.usefixtures("with_report")
def test_a_log_with_flipped_bits_changes_nothing(folder: Path, finished: Path) -> None:
    rng = random.Random(1)
    size = (finished / "log.jsonl").stat().st_size
    for _ in range(2):
        damage_and_repair(folder, finished, "log.jsonl", lambda path: flip(path, rng.randrange(8 * size)))
        assert entry.execute(["watch", str(finished)]) == 0


@pytest.mark.whole
@pytest.mark.parametrize("name", [name for name in RECORDS if name not in ("report.json", "fingerprints.json")])
@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_a_resumed_training_after_damage_ends_with_the_same_bits(
    folder: Path, unfinished: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(unfinished / name)
    display = run(folder, unfinished)
    assert "resume" in display.names
    assert [each for each in (*OF_MODEL, *RECORDS) if each not in same_files(unfinished, folder)] == ["report.json"]


def test_files_of_another_model_are_damage(folder: Path, finished: Path) -> None:
    for name in OF_MODEL:
        other = folder / "seed" / name
        if other.read_bytes() == (folder / "whole" / name).read_bytes():
            continue
        shutil.copy(other, finished / name)
        named = "README.md, model.safetensors" if name == "model/config.json" else Path(name).name
        with pytest.raises(DamagedError, match=f"model: damaged: .*{named.split(',')[0]}.* not as written"):
            verify_model(finished / "model")
        assert run(folder, finished).damaged
        verify_model(finished / "model")
        assert (finished / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_a_changed_text_is_noticed_without_fingerprint(folder: Path, unfinished: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    write_all(texts)
    first, *others = (texts / "train.en").read_text().splitlines(keepends=True)
    (texts / "train.en").write_text("".join([*others, first]))
    flip(unfinished / "tokenizer" / "fingerprint.json")
    with pytest.raises(RecipeError, match=r"run: [^,]*train\.en changed since"):
        run(texts, unfinished)
    assert "resume" in run(folder, unfinished).names


def test_another_tokenizer_never_takes_the_place_of_a_damaged_one(folder: Path, unfinished: Path) -> None:
    flip(unfinished / "tokenizer" / "spm.model")
    flip(unfinished / "tokenizer" / "fingerprint.json")
    whole = Path(shutil.copytree(unfinished, unfinished.with_name("copy")))
    assert "resume" in run(folder, unfinished).names  # the corpora name the hash of the right one
    assert same_files(unfinished, folder).count("tokenizer/spm.model") == 1
    shutil.rmtree(whole / "corpus")
    with pytest.raises(DamagedError, match=r"tokenizer: damaged, and making .* another one .*; restore this folder"):
        run(folder, whole)
    assert len(list((whole / "checkpoints").iterdir())) == 1


def test_a_tokenizer_of_a_model_that_was_deleted_is_kept(folder: Path, finished: Path, tmp_path: Path) -> None:
    key = f"training.init_from={finished}"
    stages.train(toy(folder, key, "training.max_updates=2"), run_dir=tmp_path / "tuned")
    shutil.rmtree(finished)
    before = (tmp_path / "tuned" / "tokenizer" / "fingerprint.json").read_bytes()
    flip(tmp_path / "tuned" / "tokenizer" / "fingerprint.json")
    assert "resume" in run(folder, tmp_path / "tuned", key).names
    assert (tmp_path / "tuned" / "tokenizer" / "fingerprint.json").read_bytes() == before


@pytest.mark.whole
def test_a_model_without_checkpoints_is_never_trained_again(folder: Path, finished: Path) -> None:
    shutil.rmtree(finished / "checkpoints")
    damage_and_repair(folder, finished, "model/README.md", flip)
    damage_and_repair(folder, finished, "fingerprints.json", flip)
    damage_and_repair(folder, finished, "report.json", Path.unlink)
    whole = Path(shutil.copytree(finished, finished.with_name("copy")))
    for name in ("model/config.json", "model/model.safetensors"):
        flip(finished / name)
        with pytest.raises(DamagedError, match=rf"{Path(name).name}.*; restore it from a copy; there is no checkpoint"):
            run(folder, finished)
        shutil.copy(whole / name, finished / name)
    (finished / "report.json").unlink()
    (finished / "log.jsonl").unlink()
    with pytest.raises(DamagedError, match=r"report\.json: no training statistics, .*; restore it or log\.jsonl"):
        run(folder, finished)
    verify_model(finished / "model")


def test_a_process_killed_while_it_replaces_model_files_leaves_nothing_that_run_cannot_repair(
    folder: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(finished / "checkpoints")  # nothing to make the model again from
    (finished / "model" / MODEL_CARD).write_text("a card without scores\n")
    with monkeypatch.context() as killed:
        killed.setattr(config_file, "update_fields", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            config_file.update_model_card(finished / "model", "a card with other scores\n")
    damaged = run(folder, finished).damaged
    assert damaged == [f"{finished}/model: damaged: {MODEL_CARD} not as written; it is made again"]
    verify_model(finished / "model")
    (finished / "model").rename(finished / ".model.old")
    (finished / "tokenizer").rename(finished / ".tokenizer.old")
    assert set(run(folder, finished).results.values()) == {"unchanged, kept"}
    (finished / "model").rename(finished / ".model.old")
    stages.train(toy(folder, "training.seed=3"), run_dir=finished, fresh=True)
    verify_model(finished / "model")
    assert not (finished / ".model.old").exists()


def test_a_changed_search_is_one_write_of_an_intact_model(
    folder: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write = [], config_file.write_record

    def record(path: Path, content: Json) -> None:
        written.append(path.name)
        write(path, content)

    monkeypatch.setattr(config_file, "write_record", record)
    stages.train(toy(folder, "search.beam_size=3"), run_dir=finished)
    assert written == [CONFIG]
    verify_model(finished / "model")
    assert read_metadata(finished / "model").search.beam_size == 3


def test_commands_refuse_damage_in_one_sentence(
    folder: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, text = finished / "model" / CONFIG, str(folder / "test.en")
    intact = config.read_text()
    config.write_text(intact.replace('"beam_size": 2', '"beam_size": 1'))
    for command in (["translate", str(finished), text], ["describe", str(finished)], ["bench", str(finished), text]):
        assert entry.execute(command) == 65, command
        assert f"{config}: damaged, or edited by hand" in capsys.readouterr().err
    config.unlink()
    assert entry.execute(["translate", str(finished), text]) == 65
    assert f"{config}: no such file, but a model has one; mtkit train makes" in capsys.readouterr().err
    config.write_text(intact)
    saved = finished / "recipe.yaml"
    saved.write_text(saved.read_text().replace("seed: 1", "seed: 3"))
    for command in ("run", "train"):
        assert entry.execute([command, str(saved), "--run-dir", str(finished)]) == 65
        assert "checksum; undo the change; make changes with KEY=VALUE, or in" in capsys.readouterr().err
    again = ["run", str(folder / "toy.yaml"), "--run-dir", str(finished)]
    for command in (["evaluate", "--run", str(finished)], again):
        assert entry.execute(command) == 65
        assert f"{saved}: damaged, or edited by hand: it does not match" in capsys.readouterr().err
