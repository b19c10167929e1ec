"""Constraints on translations: parsing, contradictions, and that they always hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from mtkit.errors import DataError
from mtkit.layers.config import LearnedConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import LengthLimit, MaxLength, SamplingConfig, SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate.lines import ConstrainedLine, with_constraints
from mtkit.translate.model_engine import ModelEngine
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
def engine(tokenizers) -> ModelEngine:
    torch.manual_seed(0)
    size = tokenizers.src.vocab.size
    model = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1).build(size, size)
    with torch.no_grad():
        model.output.weight.mul_(3)
    return ModelEngine([model.eval()], compute_type="float32")


def random_constraints(count: int) -> list[ConstrainedLine]:
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
    "changes", [{"beam_size": 1}, {"beam_size": 4, "n_best": 2}, {"method": SamplingConfig(num_samples=2), "n_best": 2}]
)
def test_constraints_always_hold(tokenizers, engine, changes):
    lines = random_constraints(25)
    config = SearchConfig(max_length=MaxLength(factor=1.0, offset=2), **changes)
    translator = Translator(engine, tokenizers, config)
    mixed = [line if i % 3 else line.text for i, line in enumerate(lines)]
    translations = list(translator.translate(mixed))
    for line, translation in zip(mixed, translations, strict=True):
        if isinstance(line, str):
            continue
        for hyp in [alternative.hyp for alternative in translation.nbest]:
            assert hyp.startswith(line.prefix)
            assert all(text in hyp for text in line.include)
            assert not any(text in hyp for text in line.exclude)
    free = translator.translate_lines([line.text for line in lines])
    assert [t.hyp for t in translations][::3] == free[::3]


@pytest.mark.whole
@pytest.mark.parametrize("changes", [{"beam_size": 1}, {"beam_size": 3}, {"no_repeat_ngram": 2}])
def test_prefix_that_repeats_itself_is_kept(tokenizers, engine, changes):
    line = ConstrainedLine(text="a dog", prefix="red " * 19 + "house", include=("the red",))
    translation = next(Translator(engine, tokenizers, SearchConfig(**changes)).translate([line]))
    assert translation.hyp.startswith(line.prefix)
    assert line.include[0] in translation.hyp


@pytest.mark.whole
def test_batches_change_nothing(tokenizers, engine):
    lines = random_constraints(12)
    config = SearchConfig(beam_size=3, max_length=MaxLength(factor=1.0, offset=4))
    alone = Translator(engine, tokenizers, config, options=TranslationOptions(batch_tokens=1))
    assert alone.translate_lines(lines) == Translator(engine, tokenizers, config).translate_lines(lines)


def test_long_lines_with_constraints_stay_whole(tokenizers, engine):
    line = ConstrainedLine(text="the dog sees a cat. " * 3, include=("woman",))
    translation = next(Translator(engine, tokenizers, SearchConfig(), max_source_length=5).translate([line]))
    assert translation.flags[0] == "long"
    assert "split" not in translation.flags
    assert "woman" in translation.hyp


def test_the_prefix_of_a_long_line_begins_its_first_part(tokenizers, engine):
    line = ConstrainedLine(text="the dog sees a cat. " * 3, prefix="woman")
    translator = Translator(engine, tokenizers, SearchConfig(), max_source_length=12)
    with_prefix, without = translator.translate([line, line.text])
    assert "split" in with_prefix.flags
    assert with_prefix.hyp.startswith("woman")
    assert with_prefix.tokens.count("</s>") == without.tokens.count("</s>") > 0
    rest = [each.tokens[each.tokens.index("</s>") :] for each in (with_prefix, without)]
    assert rest[0] == rest[1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            ConstrainedLine(text="a", include=("red dog",), exclude=("dog",)),
            "line 2: 'red dog' must appear but contains 'dog', which is excluded; omit one of them",
        ),
        (
            ConstrainedLine(text="a", prefix="\u4e00"),
            "line 2: prefix: '\u4e00' contains characters that the vocabulary lacks; write it without them, or omit it",
        ),
        (
            ConstrainedLine(text="a", prefix="red", include=("dog", "\u4e00")),
            "line 2: include: '\u4e00' contains characters that the vocabulary lacks",
        ),
    ],
)
def test_impossible_constraints_are_refused(tokenizers, engine, line, message):
    with pytest.raises(DataError, match=message):
        Translator(engine, tokenizers, SearchConfig()).translate_lines(["a", line])


def test_reading_a_file(tmp_path):
    path = tmp_path / "constraints.jsonl"
    path.write_text('{"prefix": "the", "exclude": ["dog"]}\n\n{"include": ["a", "b"]}\n', encoding="utf-8")
    assert list(with_constraints(["x", "y", "z"], path)) == [
        ConstrainedLine(text="x", prefix="the", exclude=("dog",)),
        "y",
        ConstrainedLine(text="z", include=("a", "b")),
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{}\n", "ends at line 1, before the text"),
        ("{}\n{}\n{}\n", r"has more lines than the text \(2\)"),
        ("{}\n{\n", ":2: not JSON"),
        ('{"prefix": "\\ud800"}\n\n', ":1: half of a surrogate pair"),
        ("[" * 100_000 + "\n\n", ":1: JSON that is nested too deeply"),
        ("[]\n\n", ":1: not a JSON object: \\[\\]; an example: "),
        ('{"includes": []}\n\n', ":1: the keys are prefix"),
        ('{"include": "a"}\n\n', ":1: prefix must be a string"),
        ('{"include": [""]}\n\n', ":1: prefix must be a string"),
        ('{"prefix": 1}\n\n', ":1: prefix must be a string"),
    ],
)
def test_invalid_files_are_refused(tmp_path, written, message):
    path = tmp_path / "constraints.jsonl"
    path.write_text(written, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        list(with_constraints(["x", "y"], path))


def test_excluded_texts_are_avoided_in_every_segmentation(tokenizers, engine):
    lines = [ConstrainedLine(text=text, exclude=("a", "d s", "e")) for text in sentences(10)]
    config = SearchConfig(beam_size=3, n_best=3, max_length=MaxLength(factor=2.0, offset=5))
    for translation in Translator(engine, tokenizers, config).translate(lines):
        assert not any(text in each.hyp for each in translation.nbest for text in ("a", "d s", "e"))
        assert "excluded" not in translation.flags


def test_violated_exclusion_is_flagged(tokenizers, engine):
    line = ConstrainedLine(text="a dog", prefix="the", include=("man",), exclude=("the man",))
    tight = SearchConfig(max_length=MaxLength(factor=0, offset=2))
    (translation,) = Translator(engine, tokenizers, tight).translate([line])
    assert (translation.hyp, "excluded" in translation.flags) == ("the man", True)
    (translation,) = Translator(engine, tokenizers, SearchConfig()).translate([line])
    assert ("the man" in translation.hyp, "man" in translation.hyp, "excluded" in translation.flags) == (
        False,
        True,
        False,
    )


def test_lines_before_impossible_constraints_are_translated(tokenizers, engine):
    lines = ["a", "dog", ConstrainedLine(text="", prefix="\u4e00")]
    stream = Translator(engine, tokenizers, SearchConfig()).translate(lines)
    assert [next(stream).line, next(stream).line] == [1, 2]
    with pytest.raises(DataError, match="line 3"):
        next(stream)


def test_translations_are_limited_to_the_learned_positions(tokenizers):
    size = tokenizers.src.vocab.size
    short = LearnedConfig(max_length=6)
    config = TransformerConfig(d_model=8, num_heads=2, encoder_layers=1, decoder_layers=1, decoder_positions=short)
    engine = ModelEngine([config.build(size, size).eval()], compute_type="float32")
    line = "the big red dog sees a cat and a man"
    with pytest.raises(DataError, match="is longer than the 6 learned positions"):
        Translator(engine, tokenizers, SearchConfig(min_length=LengthLimit(offset=9))).translate_lines([line])
    limited = SearchConfig(min_length=LengthLimit(offset=9)).limited_to(config.max_target_length())
    (translation,) = Translator(engine, tokenizers, limited).translate([line])
    assert (len(translation.tokens), translation.flags) == (5, ("short", "limit"))
    assert (SearchConfig().limited_to(9).limited_to(8).limited_to(None)).max_length.max == 7
