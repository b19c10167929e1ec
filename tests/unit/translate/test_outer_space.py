"""White space at the ends of references, prefixes and included texts changes nothing; a blank constraint is refused."""

from __future__ import annotations

import random

import pytest

from mtkit.errors import DataError
from mtkit.pipeline.score_summary import ScoreSummary
from mtkit.text.normalise import speaker_dash
from mtkit.translate.lines import ConstrainedLine
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.score import score_lines
from tests.unit.translate.toy_translator import WORDS, sentences, transformer, translator

SPACES = [chr(code) for code in range(0x3100) if chr(code).isspace() and chr(code) != "\n"]


def engine(model):
    return ModelEngine([model], compute_type="float32", rewrite=False)


def outer_spaces(count: int) -> list[tuple[str, str]]:
    """Pairs of white space: each kind alone before, after and around a text, then random mixtures."""
    rng = random.Random(4)
    single = [pair for space in SPACES for pair in ((space, ""), ("", space), (space, space))]
    mixed = [tuple("".join(rng.choices(SPACES, k=rng.randint(0, 4))) for _ in range(2)) for _ in range(count)]
    return [*single, *mixed][:count]


def test_a_reference_is_scored_without_the_space_at_its_ends(tokenizers):
    model, lines = transformer(tokenizers), sentences(20)
    pairs = list(zip(lines, lines[::-1], strict=True))
    expected = [score.log_prob for score in score_lines(engine(model), tokenizers, pairs)]
    odd = [
        (f"{before}{pairs[i % 20][0]}{after}", f"{after}{pairs[i % 20][1]}{before}")
        for i, (before, after) in enumerate(outer_spaces(300))
    ]
    found = [score.log_prob for score in score_lines(engine(model), tokenizers, odd)]
    assert found == pytest.approx([expected[i % 20] for i in range(300)], abs=1e-4)


def test_the_tokens_of_a_translation_are_scored_as_they_are(tokenizers):
    model, line = transformer(tokenizers), " the dog "
    (translation,) = translator(tokenizers, model).translate([line])
    (score,) = score_lines(engine(model), tokenizers, [(line, translation.tokens)])
    assert score.log_prob == pytest.approx(translation.log_prob, abs=1e-4)


def test_a_prefix_and_included_texts_are_those_without_the_space_at_their_ends(tokenizers):
    rng, translate = random.Random(5), translator(tokenizers, beam_size=2).translate
    plain, odd = [], []
    for i, (before, after) in enumerate(outer_spaces(200)):
        first, second = rng.sample(WORDS, 2)
        key = {"prefix": f"{first} {second}"} if i % 2 else {"include": (second,)}
        spaced = {"prefix": f"{before}{first} {second}{after}"} if i % 2 else {"include": (before + second + after,)}
        plain.append(ConstrainedLine(text="the dog", **key))
        odd.append(ConstrainedLine(text="the dog", **spaced))
    hyps = [one.hyp for one in translate(odd)]
    assert hyps == [one.hyp for one in translate(plain)]
    assert all(hyp.startswith(line.prefix) and not hyp.startswith(" ") for hyp, line in zip(hyps, plain, strict=True))


@pytest.mark.parametrize("blank", ["", " ", "\u3000\t", "\u2028"])
@pytest.mark.parametrize("key", ["prefix", "include", "exclude"])
def test_blank_constraints_are_refused(tokenizers, key, blank):
    line = ConstrainedLine(text="a", **{key: blank if key == "prefix" else ("dog", blank)})
    translations = translator(tokenizers).translate(["the dog", line])
    assert next(translations).line == 1
    if key == "prefix" and not blank:
        assert next(translations).line == 2
        return
    with pytest.raises(DataError, match="line 2: a blank text in prefix, include or exclude; omit it"):
        next(translations)


def test_perplexity_of_blank_lines_is_unknown(tokenizers):
    summary = ScoreSummary()
    scores = score_lines([transformer(tokenizers)], tokenizers, [("", ""), (" ", "\u3000")])
    assert [score.log_prob for score in summary.of(scores)] == [0, 0]
    assert summary.line() == "2 lines, no tokens: all are blank, and there is nothing to score"
    content = summary.as_dict()
    assert (content.pop("lines"), content.pop("tokens")) == (2, 0)
    assert set(content.values()) == {None}


@pytest.mark.whole
@pytest.mark.parametrize("dash", ["- ", "– ", "—", "— "])
def test_the_dash_of_a_speaker_stays_before_its_line(tokenizers, dash):
    translate = translator(tokenizers, transformer(tokenizers)).translate
    lines = [line for line in sentences(20) if speaker_dash(f"- {line}")]
    assert len(lines) > 5
    hyps = [one.hyp for one in translate(lines)]
    assert [one.hyp for one in translate([f"{dash}{line}" for line in lines])] == [f"{dash}{hyp}" for hyp in hyps]


@pytest.mark.parametrize("line", ["-v the dog", "- 5", "--the", "-", "the - dog", "-5 the"])
def test_other_hyphens_are_no_dashes(line):
    assert speaker_dash(line) == ""
