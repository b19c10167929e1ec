"""Demands on translations: read, refused where they cannot be met, and always met."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from mtkit.errors import DataError
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import LengthLimit, MaxLength, SearchConfig
from mtkit.search.sampling import SamplingConfig
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate.constraints import ConstrainedLine, with_constraints
from mtkit.translate.engines.interface import OwnEngine
from mtkit.translate.translator import TranslationOptions, Translator

WORDS = ["the", "a", "dog", "cat", "man", "woman", "sees", "finds", "big", "red", "house", "and"]


def sentences(count: int, seed: int = 3) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> TokenizerPair:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("\n".join(sentences(200)) + "\n", encoding="utf-8")
    train_pair([text], [text], folder, TokenizerConfig(vocab_size=130))
    return TokenizerPair.load(folder)


@pytest.fixture(scope="module")
def engine(tokenizers) -> OwnEngine:
    torch.manual_seed(0)
    size = tokenizers.src.vocab.size
    model = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1).build(size, size)
    with torch.no_grad():
        model.output.weight.mul_(3)
    return OwnEngine([model.eval()], compute_type="float32")


def drawn(count: int) -> list[ConstrainedLine]:
    rng = random.Random(1)
    lines = []
    for text in sentences(count):
        words = rng.sample(WORDS, 6)
        lines.append(
            ConstrainedLine(
                text=text,
                prefix=" ".join(words[: rng.randint(0, 2)]),
                include=tuple(words[2 : 2 + rng.randint(0, 2)]),
                exclude=tuple(word for word in words[4:] if not any(word in other for other in words[:4])),
            )
        )
    return lines


@pytest.mark.parametrize(
    "changes", [{"beam_size": 1}, {"beam_size": 4, "n_best": 2}, {"method": SamplingConfig(samples=2), "n_best": 2}]
)
def test_demands_are_always_met(tokenizers, engine, changes):
    lines = drawn(25)
    config = SearchConfig(max_length=MaxLength(a=1.0, b=2), **changes)
    free = Translator(engine, tokenizers, config)
    some = [line if i % 3 else line.text for i, line in enumerate(lines)]
    for line, found in zip(some, free.translate(some), strict=True):
        if isinstance(line, str):
            continue
        for hyp in [alternative.hyp for alternative in found.nbest]:
            assert hyp.startswith(line.prefix)
            assert all(text in hyp for text in line.include)
            assert not any(text in hyp for text in line.exclude)
    assert [t.hyp for t in free.translate(some)][::3] == free.translate_lines([line.text for line in lines])[::3]


@pytest.mark.parametrize("changes", [{"beam_size": 1}, {"beam_size": 3}, {"no_repeat_ngram": 2}])
def test_a_prefix_that_repeats_itself_is_kept(tokenizers, engine, changes):
    line = ConstrainedLine(text="a dog", prefix="red " * 19 + "house", include=("the red",))
    found = next(Translator(engine, tokenizers, SearchConfig(**changes)).translate([line]))
    assert found.hyp.startswith(line.prefix)
    assert line.include[0] in found.hyp


def test_batches_do_not_matter(tokenizers, engine):
    lines = drawn(12)
    config = SearchConfig(beam_size=3, max_length=MaxLength(a=1.0, b=4))
    alone = Translator(engine, tokenizers, config, options=TranslationOptions(batch_tokens=1))
    assert alone.translate_lines(lines) == Translator(engine, tokenizers, config).translate_lines(lines)


def test_long_lines_with_demands_stay_whole(tokenizers, engine):
    line = ConstrainedLine(text="the dog sees a cat. " * 3, include=("woman",))
    found = next(Translator(engine, tokenizers, SearchConfig(), longest_source=5).translate([line]))
    assert found.flags[0] == "long"
    assert "split" not in found.flags
    assert "woman" in found.hyp


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (ConstrainedLine(text="a", include=("red dog",), exclude=("dog",)), "line 2: 'red dog' is demanded and 'dog'"),
        (ConstrainedLine(text="a", prefix="\u4e00"), "line 2: '\u4e00' has characters that the vocabulary lacks"),
    ],
)
def test_impossible_demands(tokenizers, engine, line, said):
    with pytest.raises(DataError, match=said):
        Translator(engine, tokenizers, SearchConfig()).translate_lines(["a", line])


def test_reading(tmp_path):
    path = tmp_path / "constraints.jsonl"
    path.write_text('{"prefix": "the", "exclude": ["dog"]}\n\n{"include": ["a", "b"]}\n', encoding="utf-8")
    assert list(with_constraints(["x", "y", "z"], path)) == [
        ConstrainedLine(text="x", prefix="the", exclude=("dog",)),
        "y",
        ConstrainedLine(text="z", include=("a", "b")),
    ]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{}\n", "ends at line 1, the text does not"),
        ("{}\n{}\n{}\n", "has more lines than the text, which has 2"),
        ("{}\n{\n", ":2: not JSON"),
        ('{"prefix": "\\ud800"}\n\n', ":1: not JSON"),
        ("[" * 100_000 + "\n\n", ":1: not JSON"),
        ("[]\n\n", ":1: the keys are prefix, include, exclude, as in .*, not \\[\\]"),
        ('{"includes": []}\n\n', ":1: the keys are prefix"),
        ('{"include": "a"}\n\n', ":1: prefix must be a text"),
        ('{"include": [""]}\n\n', ":1: prefix must be a text"),
        ('{"prefix": 1}\n\n', ":1: prefix must be a text"),
    ],
)
def test_bad_files(tmp_path, written, said):
    path = tmp_path / "constraints.jsonl"
    path.write_text(written, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        list(with_constraints(["x", "y"], path))


def test_what_is_excluded_is_met_by_whatever_pieces(tokenizers, engine):
    lines = [ConstrainedLine(text=text, exclude=("a", "d s", "e")) for text in sentences(10)]
    config = SearchConfig(beam_size=3, n_best=3, max_length=MaxLength(a=2.0, b=5))
    for found in Translator(engine, tokenizers, config).translate(lines):
        assert not any(text in each.hyp for each in found.nbest for text in ("a", "d s", "e"))
        assert "excluded" not in found.flags


def test_pieces_that_must_come_can_spell_what_is_excluded_and_that_is_said(tokenizers, engine):
    line = ConstrainedLine(text="a dog", prefix="the", include=("man",), exclude=("the man",))
    tight = SearchConfig(max_length=MaxLength(a=0, b=2))
    (found,) = Translator(engine, tokenizers, tight).translate([line])
    assert (found.hyp, "excluded" in found.flags) == ("the man", True)
    (found,) = Translator(engine, tokenizers, SearchConfig()).translate([line])
    assert ("the man" in found.hyp, "man" in found.hyp, "excluded" in found.flags) == (False, True, False)


def test_what_cannot_be_demanded_is_said_after_the_translations_before(tokenizers, engine):
    lines = ["a", "dog", ConstrainedLine(text="", prefix="\u4e00")]
    stream = Translator(engine, tokenizers, SearchConfig()).translate(lines)
    assert [next(stream).line, next(stream).line] == [1, 2]
    with pytest.raises(DataError, match="line 3"):
        next(stream)


def test_translations_end_where_the_learned_positions_do(tokenizers):
    size = tokenizers.src.vocab.size
    short = LearnedConfig(max_length=6)
    config = TransformerConfig(d_model=8, num_heads=2, encoder_layers=1, decoder_layers=1, decoder_positions=short)
    engine = OwnEngine([config.build(size, size).eval()], compute_type="float32")
    line = "the big red dog sees a cat and a man"
    with pytest.raises(DataError, match="is longer than the 6 learned positions"):
        Translator(engine, tokenizers, SearchConfig(min_length=LengthLimit(b=9))).translate_lines([line])
    within = SearchConfig(min_length=LengthLimit(b=9)).within(config.longest_target())
    (found,) = Translator(engine, tokenizers, within).translate([line])
    assert (len(found.pieces), found.flags) == (5, ("limit",))
    assert (SearchConfig().within(9).within(8).within(None)).max_length.most == 7
