"""Validation text is cleaned and counted like training text: no blank pair counts as right, no long one takes hours."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from mtkit.corpus.store import Store
from mtkit.errors import ComputeError, DataError
from mtkit.pipeline import stages
from mtkit.pipeline.validator import TranslationValidator
from mtkit.translate.translator import Translator
from tests.toy.runs import WORDS, RecordingDisplay, run, toy, write_all
from tests.toy.sampling import sampled

LIMIT = "corpus.cleaning={max_length: 12, max_ratio: 3, min_length_for_ratio: 4}"
ALL_WORDS = "tokenizer.vocab_size=116"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


def write_valid(folder: Path, pairs: list[tuple[str, str]]) -> None:
    for lang, side in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (folder / f"valid.{lang}").write_text("".join(f"{line}\n" for line in side))


def line(rng: random.Random, words: list[str]) -> str:
    return rng.choice(["", " ", "\t "]) if rng.random() < 0.3 else " ".join(rng.choices(words, k=rng.randint(1, 16)))


def is_kept(src: str, tgt: str) -> bool:
    lengths = sorted((len(src.split()), len(tgt.split())))
    return lengths[0] > 0 and lengths[1] <= 12 and not (lengths[1] > 4 and lengths[1] > 3 * lengths[0])


@pytest.mark.whole
def test_pairs_are_left_out_by_the_rules_of_training(folder: Path) -> None:
    rng, recipe = random.Random(3), toy(folder, LIMIT, ALL_WORDS)
    for _ in range(sampled(200)):
        pairs = [(line(rng, list(WORDS)), line(rng, list(WORDS.values()))) for _ in range(rng.randint(1, 8))]
        write_valid(folder, pairs)
        kept, display = [pair for pair in pairs if is_kept(*pair)], RecordingDisplay()
        if not kept:
            with pytest.raises(DataError, match="no pairs are left after cleaning"):
                stages.preprocess(recipe, run_dir=folder / "run", display=display)
            continue
        stages.preprocess(recipe, run_dir=folder / "run", display=display)
        store = Store(folder / "run" / "corpus" / "valid")
        assert [(store.text("src", i), store.text("tgt", i)) for i in range(len(store))] == kept
        assert display.results["valid"].startswith(("unchanged", f"{len(kept)} of {len(pairs)} pair"))


def test_a_blank_and_a_long_pair_change_no_validation(folder: Path) -> None:
    plain, _ = run(folder)
    valid = [(folder / f"valid.{lang}").read_text().splitlines() for lang in ("en", "de")]
    pairs = [*zip(*valid, strict=True), ("", "  "), ("", "Hund"), ("the dog " * 500, "der Hund " * 500)]
    write_valid(folder, pairs)
    report, display = run(folder, fresh=True)
    assert report.content["train"]["best_update"] == plain.content["train"]["best_update"]
    assert display.results["valid"].startswith(
        "6 of 9 pairs kept; 2 dropped because one side is empty: line 7, 8; "
        "1 dropped because one side exceeds cleaning.max_length: line 9"
    )


def test_memory_that_runs_out_in_validation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(TranslationValidator, "_validate", fail)
    with pytest.raises(ComputeError) as error:
        run(folder)
    assert str(error.value).startswith("validation ran out of memory; the longest line has 4 tokens (")
    assert "valid.en:3): shorten it, lower corpus.cleaning.max_length" in str(error.value)
    assert torch.is_grad_enabled()


def test_translations_of_a_validation_have_a_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def translate_lines(self: Translator, lines: list[str]) -> list[str]:
        hyps = translate(self, lines)
        lengths.extend(len(hyp.split()) for hyp in hyps)
        return hyps

    translate = Translator.translate_lines
    monkeypatch.setattr(Translator, "translate_lines", translate_lines)
    never_ends = "search={beam_size: 1, max_length: {factor: 50, offset: 500}, min_length: {offset: 400}}"
    stages.train(toy(folder, never_ends, "training.validation.beam_size=1"), run_dir=folder / "run")
    longest = max(len(line.split()) for line in (folder / "valid.de").read_text().splitlines())
    assert lengths
    assert max(lengths) <= 2 * longest + 10
