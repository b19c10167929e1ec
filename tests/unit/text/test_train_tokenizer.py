import os
import re
import sys

import pytest

from mtkit.errors import DataError
from mtkit.text import train_tokenizer as train_module
from mtkit.text.config import TokenizerConfig
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.train_tokenizer import train_tokenizer

TEXT = ["the quick brown fox jumps over the lazy dog", "a quicker fox overjumps lazier dogs"] * 20


def learn(folder, lines, **settings):
    path = folder / "text"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    report = train_tokenizer([path], folder / "spm", TokenizerConfig(normaliser="none", **settings))
    return report, (folder / "spm.model").read_bytes()


def test_report_counts_skipped_lines_and_replaced_characters(tmp_path):
    lines = [*TEXT, "", "", "x" * 4192, "x" * 4193, "ä" * 2097, "a \u2581 b"]
    report, _ = learn(tmp_path, lines, vocab_size=160)
    assert (report.lines, report.trained_on) == (46, 42)
    assert (report.empty, report.too_long, report.replaced_chars, report.not_sampled) == (2, 2, 1, 0)
    assert report.describe() == (
        "160 tokens from 42 of 46 lines; 2 empty; 2 over 4,192 bytes; 1 unrepresentable characters replaced"
    )


def test_characters_that_sentencepiece_rejects_round_trip(tmp_path):
    _, model = learn(tmp_path, [*TEXT, "tab\there", "nul\0", "\u2585\u2585", "<sep>"], vocab_size=150)
    tokenizer = Tokenizer(model)
    for line in ("\t", "a\0", "\u2585", "<>", "<sep>"):
        ids = tokenizer.encode([line])[0]
        assert tokenizer.vocab.unk not in ids
        assert tokenizer.decode([ids]) == [line]


def test_max_lines_samples_the_text_evenly(tmp_path):
    report, _ = learn(tmp_path, [f"{line} {i % 10}" for i, line in enumerate(TEXT * 5)], vocab_size=150, max_lines=50)
    assert (report.trained_on, report.not_sampled) == (50, 150)


def test_sample_is_bounded_in_bytes_and_said(tmp_path, monkeypatch):
    lines = [f"{line} {i % 10}" for i, line in enumerate(TEXT * 5)]
    size = sum(len(line) + 1 for line in lines)
    monkeypatch.setattr(train_module, "MAX_SAMPLE_BYTES", size // 4)
    report, model = learn(tmp_path, lines, vocab_size=150)
    assert (report.trained_on, report.not_sampled) == (50, 150)
    assert "; 150 not in the sample" in report.describe()
    assert learn(tmp_path, lines, vocab_size=150)[1] == model


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_equal_text_gives_identical_models_without_paths(tmp_path, kind):
    models = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        with pytest.raises(DataError) as caught:
            learn(tmp_path / name, TEXT, vocab_size=10_000, model_type=kind)
        size = int(str(caught.value).rpartition(" ")[2])
        models.append(learn(tmp_path / name, TEXT, vocab_size=size, model_type=kind)[1])
    assert models[0] == models[1]
    assert os.fsencode(tmp_path) not in models[0]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_too_large_vocab_size_names_the_maximum(tmp_path, kind):
    with pytest.raises(
        DataError, match=r"vocab_size: 9000 is too large .* maximum for model_type \w+ is \d+$"
    ) as caught:
        learn(tmp_path, TEXT, vocab_size=9000, model_type=kind)
    size = int(str(caught.value).rpartition(" ")[2])
    assert learn(tmp_path, TEXT, vocab_size=size, model_type=kind)[0].vocab_size == size
    with pytest.raises(DataError, match=f"is {size}$"):
        learn(tmp_path, TEXT, vocab_size=size + 1, model_type=kind)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
@pytest.mark.parametrize("size", [2, 102, 103])
def test_too_small_vocab_size_names_the_minimum(tmp_path, size, kind):
    if size == 103 and kind in ("word", "char"):
        return  # characters that they lack become unk
    with pytest.raises(DataError, match=f"vocab_size: {size} is too small: the 102 reserved tokens") as caught:
        learn(tmp_path, TEXT, vocab_size=size, model_type=kind)
    min_size = int(re.search(r"need at least (\d+)", str(caught.value))[1])
    assert learn(tmp_path, TEXT, vocab_size=min_size, model_type=kind)[0].vocab_size == min_size


def test_vocab_size_errors_name_the_text_and_the_reserved_tokens(tmp_path):
    with pytest.raises(DataError, match=r"is too large for the text of .*text; the maximum"):
        learn(tmp_path, TEXT, vocab_size=9000)
    with pytest.raises(DataError, match=r"the 358 reserved tokens and the characters of .*text need at least"):
        learn(tmp_path, TEXT, vocab_size=200, byte_fallback=True)


def test_minimum_character_coverage_trains(tmp_path):
    assert learn(tmp_path, TEXT, vocab_size=150, character_coverage=0.98)[0].vocab_size == 150


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_empty_text_is_rejected(tmp_path, lines):
    with pytest.raises(DataError, match="no text to train a tokenizer on"):
        learn(tmp_path, lines)


def test_invalid_utf8_is_reported_with_its_location(tmp_path):
    path = tmp_path / "latin1"
    path.write_bytes(b"gut\n\xe4\n")
    with pytest.raises(DataError, match="latin1:2: byte 1 "):
        train_tokenizer([path], tmp_path / "spm", TokenizerConfig())


def test_training_prints_nothing(tmp_path, capfd):
    learn(tmp_path, TEXT, vocab_size=150)
    sys.stderr.flush()
    assert capfd.readouterr() == ("", "")


def test_frequent_characters_within_the_coverage(tmp_path):
    lines = [*TEXT, "ä ö ü ß", "ä ö ü ß"]
    settings = {"model_type": "char", "vocab_size": 8000, "min_frequency": 2}
    every, most = (learn(tmp_path, lines, **settings, character_coverage=share)[0] for share in (1.0, 0.99))
    assert every.vocab_size - most.vocab_size == 4


@pytest.mark.parametrize("kind", ["bpe", "word", "char"])
def test_too_small_with_the_bytes(tmp_path, kind):
    with pytest.raises(DataError, match=r"vocab_size: 200 is too small: the 358 reserved tokens"):
        learn(tmp_path, TEXT, model_type=kind, vocab_size=200, byte_fallback=True)
