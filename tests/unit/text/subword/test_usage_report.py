"""Usage of a subword model against counts by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mtkit.text.config import TokenizerConfig
from mtkit.text.subword import usage_report
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.subword.usage_report import language_of, measure_usage, usage_lines
from mtkit.text.train_tokenizer import train_tokenizer

EN, DE = ["the dog", "the big dog"], ["der Hund", "der große Hund ß語"]


@pytest.mark.parametrize(
    ("name", "label"),
    [("train.de", "de"), ("a/train.de.gz", "de"), ("train.tok.en.zst", "en"), ("corpus", "corpus"), ("x.txt", "x.txt")],
)
def test_language_is_the_ending_of_the_name(name, label) -> None:
    assert language_of(Path(name)) == label


def test_counts(tmp_path, monkeypatch) -> None:
    (tmp_path / "train.en").write_text("".join(f"{line}\n" for line in EN))
    (tmp_path / "train.de.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in DE).encode()))
    (tmp_path / "more.en").write_text("dog\n")
    train_tokenizer([tmp_path / "train.en"], tmp_path / "spm", TokenizerConfig(model_type="char", vocab_size=111))
    tokenizer = Tokenizer.load(tmp_path / "spm.model")
    en, de = measure_usage(tokenizer, [tmp_path / "train.en", tmp_path / "train.de.gz", tmp_path / "more.en"])
    assert (en.label, en.lines, en.words, en.characters, en.unknown) == ("en", 3, 6, 18, 0)
    assert en.num_tokens == 18 + 6  # characters, and a mark before each word
    assert en.fertility == 4
    assert de.unknown == sum(ids.count(tokenizer.vocab.unk) for ids in tokenizer.encode(DE)) > 0
    (line,) = usage_lines([en], tokenizer)
    assert line.startswith("en: 4.00 tokens per word, 0.75 characters per token, 0.000%")
    assert line.endswith("100.0% of the vocabulary used (in 3 lines)")
    monkeypatch.setattr(usage_report, "MAX_LINES", 1)
    assert measure_usage(tokenizer, [tmp_path / "train.en"])[0].lines == 1
