import os
import re
import sys

import pytest

from mtkit.errors import DataError
from mtkit.text.tokenizer import Tokenizer, TokenizerConfig
from mtkit.text.train_tokenizer import train_tokenizer

TEXT = ["the quick brown fox jumps over the lazy dog", "a quicker fox overjumps lazier dogs"] * 20


def learn(folder, lines, **settings):
    path = folder / "text"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    report = train_tokenizer([path], folder / "spm", TokenizerConfig(**settings))
    return report, (folder / "spm.model").read_bytes()


def test_everything_that_is_left_out_is_counted(tmp_path):
    lines = [*TEXT, "", "", "x" * 4192, "x" * 4193, "ä" * 2097, "a \u2581 b"]
    report, _ = learn(tmp_path, lines, vocab_size=160)
    assert (report.lines, report.learned_from) == (46, 42)
    assert (report.empty, report.too_long, report.replaced_characters, report.not_sampled) == (2, 2, 1, 0)
    assert report.describe() == (
        "160 pieces from 42 of 46 lines; 2 empty; 2 over 4,192 bytes; 1 characters that cannot be kept were replaced"
    )


def test_characters_that_sentencepiece_refuses_are_learned(tmp_path):
    _, model = learn(tmp_path, [*TEXT, "tab\there", "nul\0", "\u2585\u2585", "<sep>"], vocab_size=150)
    tokenizer = Tokenizer(model)
    for line in ("\t", "a\0", "\u2585", "<>", "<sep>"):
        ids = tokenizer.encode([line])[0]
        assert tokenizer.vocab.unk not in ids
        assert tokenizer.decode([ids]) == [line]


def test_long_text_is_sampled_evenly(tmp_path):
    report, _ = learn(tmp_path, [f"{line} {i % 10}" for i, line in enumerate(TEXT * 5)], vocab_size=150, max_lines=50)
    assert (report.learned_from, report.not_sampled) == (50, 150)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_equal_text_gives_equal_bytes_without_traces(tmp_path, kind):
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
def test_too_large_a_vocabulary_names_the_largest(tmp_path, kind):
    with pytest.raises(DataError, match=r"vocab_size: 9000 is more .* possible size for \w+ here is \d+$") as caught:
        learn(tmp_path, TEXT, vocab_size=9000, model_type=kind)
    size = int(str(caught.value).rpartition(" ")[2])
    assert learn(tmp_path, TEXT, vocab_size=size, model_type=kind)[0].vocab_size == size
    with pytest.raises(DataError, match=f"is {size}$"):
        learn(tmp_path, TEXT, vocab_size=size + 1, model_type=kind)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
@pytest.mark.parametrize("size", [2, 102, 103])
def test_too_small_a_vocabulary_names_the_smallest(tmp_path, size, kind):
    if size == 103 and kind in ("word", "char"):
        return  # what they lack becomes unknown
    with pytest.raises(DataError, match=f"vocab_size: {size} is too small: the 102 reserved pieces") as caught:
        learn(tmp_path, TEXT, vocab_size=size, model_type=kind)
    least = int(re.search(r"alone need (\d+)", str(caught.value))[1])
    assert learn(tmp_path, TEXT, vocab_size=least, model_type=kind)[0].vocab_size == least


def test_a_wrong_size_of_a_vocabulary_names_the_text_and_all_that_is_reserved(tmp_path):
    with pytest.raises(DataError, match=r"is more than the text of .*text can give"):
        learn(tmp_path, TEXT, vocab_size=9000)
    with pytest.raises(DataError, match=r"the 358 reserved pieces and the characters of .*text alone need"):
        learn(tmp_path, TEXT, vocab_size=200, byte_fallback=True)


def test_the_least_coverage_that_a_recipe_may_state_can_be_learned(tmp_path):
    assert learn(tmp_path, TEXT, vocab_size=150, character_coverage=0.98)[0].vocab_size == 150


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_no_text_at_all(tmp_path, lines):
    with pytest.raises(DataError, match="there is no text to learn a tokenizer from"):
        learn(tmp_path, lines)


def test_a_bad_byte_is_named_through_the_trainer(tmp_path):
    path = tmp_path / "latin1"
    path.write_bytes(b"gut\n\xe4\n")
    with pytest.raises(DataError, match="latin1:2: byte 1 "):
        train_tokenizer([path], tmp_path / "spm", TokenizerConfig())


def test_it_is_silent(tmp_path, capfd):
    learn(tmp_path, TEXT, vocab_size=150)
    sys.stderr.flush()
    assert capfd.readouterr() == ("", "")
