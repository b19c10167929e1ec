"""docs/evidence.md: every claim with its verdict and numbers, generated from claims and results.

The page begins with what holds, what does not and what is open, a line for each claim. How claims are tested, the
benchmarks of time and memory, and the numbers of each claim follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from mtkit.evidence.claim import THEMES, CheckConfig, ClaimConfig, claim_names, read_config
from mtkit.evidence.effect import Verdict
from mtkit.evidence.results import CheckResult, ClaimResult, read_result
from mtkit.io.table import Table, TableFormat

NOT_RUN, NOT_TESTABLE, FULL = "not run", "not testable here", "full training"
_SCALES = (FULL, "adequate", "one rate", "one epoch", "floor")  # from the best
_GROUPS: dict[str, Sequence[str]] = {
    "What holds": [Verdict.confirmed],
    "What does not hold": [Verdict.partly, Verdict.contrary, Verdict.smaller],
    "What is open": [Verdict.undecided, NOT_TESTABLE],
}


@dataclass(frozen=True)
class ReadClaim:
    """A claim with its result.

    Attributes:
        result: None if the claim was not tested as its file says now.
        larger: name of the claim that tested the same sentence at a larger scale; None if there is none, or not yet.
    """

    name: str
    config: ClaimConfig
    result: ClaimResult | None
    larger: str | None

    @property
    def word(self) -> str:
        """The verdict, without its scale: that of full trainings, else that of the test."""
        full = self.config.full_training
        if full is not None and full.verdict is not None:
            return full.verdict
        if self.config.scale == "too small":
            return NOT_TESTABLE
        return NOT_RUN if self.result is None else self.result.verdict.value

    @property
    def scale(self) -> str:
        """Meaning of the word, as a sentence."""
        full = self.config.full_training
        return FULL if full is not None and full.verdict is not None else self.config.scale

    @property
    def verdict_text(self) -> str:
        """Verdict with its scale, in one cell."""
        if self.larger is not None:
            return f"see {self.larger}"
        return self.word if self.word in (NOT_RUN, NOT_TESTABLE) else f"{self.word} ({self.scale})"


def read_claims(folder: Path) -> dict[str, ReadClaim]:
    """All claims by name, in the order of the themes.

    Raises:
        DataError, RecipeError: a result or a claim is invalid.
    """
    by_name = dict(read_config(name) for name in claim_names())
    results = {name: read_result(folder, name, config) for name, config in by_name.items()}
    claims = (
        ReadClaim(name, config, results[name], config.tested_by if results.get(config.tested_by or "") else None)
        for theme in THEMES
        for name, config in by_name.items()
        if config.theme == theme
    )
    return {claim.name: claim for claim in claims}


def evidence_markdown(folder: Path) -> str:
    """The page as Markdown.

    Raises:
        DataError, RecipeError: a result or a claim is invalid.
    """
    claims = read_claims(folder)
    current = [claim for claim in claims.values() if claim.larger is None]
    parts = [_text("introduction"), _overview(current)]
    parts += [_group(heading, current) for heading in _GROUPS]
    if waiting := [f"`{claim.name}`" for claim in current if claim.word == NOT_RUN]:
        parts.append(f"Not run yet: {', '.join(waiting)}.")
    parts += [_text("method"), _text("benchmarks")]
    for theme, title in THEMES.items():
        tested = [each for each in claims.values() if each.config.theme == theme and each.result is not None]
        parts += [f"## {title}", *map(_section, tested)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _text(name: str) -> str:
    """A part of the page that does not depend on claims."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")


def _overview(claims: Sequence[ReadClaim]) -> str:
    """Number of claims by verdict and scale."""
    words = [*(word for group in _GROUPS.values() for word in group), NOT_RUN]
    rows = [["verdict", *_SCALES, "all"]]
    for word in words:
        of_word = [claim.scale for claim in claims if claim.word == word]
        has_scale = word not in (NOT_RUN, NOT_TESTABLE)
        rows.append([word, *(str(of_word.count(scale)) if has_scale else "" for scale in _SCALES), str(len(of_word))])
    return _markdown_table(rows, text=["verdict"])


def _group(heading: str, claims: Sequence[ReadClaim]) -> str:
    """A line for each claim of a group, those with the best scale first."""
    of_group = [claim for word in _GROUPS[heading] for claim in claims if claim.word == word]
    order = [*_SCALES, "too small"]
    rows = [["claim", "verdict", "effect"]]
    for claim in sorted(of_group, key=lambda claim: order.index(claim.scale)):
        sentence = claim.config.claim if claim.result is None else f"[{claim.config.claim}](#{claim.name})"
        rows.append([sentence, f"**{claim.verdict_text}**", _reason(claim)])
    return f"## {heading}\n\n{_markdown_table(rows, text=rows[0])}"


def _reason(claim: ReadClaim) -> str:
    """The reasons of a claim's verdict: each part, if there are several verdicts or one is open.

    Systems are named where a claim compares more than two.
    """
    if claim.scale == FULL and claim.config.full_training is not None:
        return claim.config.full_training.text
    if claim.result is None or claim.word == NOT_TESTABLE:
        return ""
    parts = claim.result.checks
    is_plain = {each.verdict for each in parts} <= {parts[0].verdict} - {Verdict.undecided}
    has_names = len({(each.check.of, each.check.against) for each in parts}) > 1
    return "; ".join(
        (f"`{each.check.of}` against `{each.check.against}`: " if has_names else "")
        + effect_text(each)
        + ("" if is_plain else f": {each.verdict_text}")
        for each in parts
    )


def _section(claim: ReadClaim) -> str:
    """Numbers of a claim below its heading; the first words are the last word about it."""
    if claim.result is None:
        return ""
    tested = f"{claim.result.verdict.value} ({claim.config.scale})"
    full = claim.config.full_training
    if claim.larger is not None:
        first = f"**See [{claim.larger}](#{claim.larger})**, a larger test. This one: {tested}."
    elif full is not None:
        last = f"**{full.verdict.capitalize()} (full training).** " if full.verdict is not None else ""
        first = f"{last}{full.text} This test: {NOT_TESTABLE if claim.config.scale == 'too small' else tested}."
    elif claim.config.scale == "too small":
        first = f"**{NOT_TESTABLE.capitalize()}** (too small)."
    else:
        first = f"**{tested.capitalize()}.**"
    return f"### {claim.name}\n{first} {claim_section(claim.config, claim.result)}"


def claims_table(folder: Path) -> Table:
    """All claims with source, verdict, and expected time."""
    rows = []
    for claim in read_claims(folder).values():
        config = claim.config
        rows.append([claim.name, config.source, claim.verdict_text, f"{config.minutes:g}", config.claim])
    headings = ["claim", "source", "verdict", "minutes", "statement"]
    return Table(headings, rows, text=[heading for heading in headings if heading != "minutes"])


def result_lines(config: ClaimConfig, result: ClaimResult) -> Iterator[str]:
    """Statement, verdict, and one line for each comparison."""
    yield f"{result.name}: {config.claim} ({config.source})"
    for each in result.checks:
        check = each.check
        yield f"  {check.of} against {check.against}, expected {check.expect}: {effect_text(each)}: {each.verdict_text}"
    yield f"{result.name}: {result.verdict.value} ({config.scale})"


_DIGITS = {  # of values that do not have three
    "tokens_per_second": 0,
    "lines_per_second": 0,
    "train_seconds": 0,
    "bleu": 1,
    "perplexity": 2,
    "repetition": 1,
    "rare_words": 1,
    "unseen_words": 1,
    "seconds_to_bleu": 1,
    "positional_head": 1,
}


def _markdown_table(rows: Sequence[Sequence[str]], *, text: Sequence[str]) -> str:
    return "\n".join(Table(rows[0], rows[1:], text=text).format(TableFormat.markdown))


def claim_section(config: ClaimConfig, result: ClaimResult) -> str:
    """The paragraph below the claim's heading, one line: verdict and claim, comparisons, conditions and remarks."""
    comparisons = [_comparison(each) for each in result.checks]
    after = f"*After the test:* {config.observation}" if config.observation else ""
    return "<br>".join(
        [
            f"{config.claim} ([{config.source}]({config.url}))",
            *comparisons,
            " ".join(filter(None, [config.note, after, _conditions(config, result)])),
        ]
    )


def effect_text(result: CheckResult) -> str:
    """Text of metric, effect and interval, as `BLEU +1.20 (+0.30 to +2.10)`."""
    digits, interval = _effect_digits(result.check), result.effect.interval
    between = "one seed" if interval is None else f"{interval[0]:+.{digits}f} to {interval[1]:+.{digits}f}"
    return f"{_metric(result.check)} {result.effect.mean:+.{digits}f} ({between})"


def _comparison(result: CheckResult) -> str:
    check = result.check
    expected = f"equal within {check.margin:g}" if check.expect == "equal" else f"{check.expect} by {check.margin:g}"
    if check.expect == "not_lower":
        expected = f"not lower by {check.margin:g}"
    published = "" if check.published is None else f"; published {check.published:g}"
    pairs = ", pairs" if result.paired else ""
    values = " against ".join(_values(check, side) for side in (result.of, result.against))
    return (
        f"`{check.of}` against `{check.against}`: {effect_text(result)}; {values}{pairs}; expected "
        f"{expected}{published}: **{result.verdict_text}**."
    )


def _values(check: CheckConfig, by_seed: Mapping[int, float]) -> str:
    digits = _DIGITS.get(check.metric, 3)
    each = ", ".join(f"{value:.{digits}f}" for value in by_seed.values())
    return f"{fmean(by_seed.values()):.{digits}f} ({each})"


def _metric(check: CheckConfig) -> str:
    length = f", sources over {check.longer_than} words minus the others" if check.longer_than else ""
    if check.words is not None:
        length = f", sources of {check.words[0]} to {check.words[1]} words"
    if check.goal is not None:
        return f"seconds to BLEU {check.goal:g}" + (" (%)" if check.ratio else "")
    unit = f" ({check.unit})" if check.unit and check.unit != "BLEU" else ""
    return ("BLEU" if check.metric == "bleu" else check.metric.replace("_", " ")) + unit + length


def _effect_digits(check: CheckConfig) -> int:
    if check.ratio or check.metric in ("seconds_to_bleu", "positional_head"):
        return 1
    return 2 if check.metric in ("bleu", "perplexity", "repetition", "rare_words", "unseen_words") else 3


def _conditions(config: ClaimConfig, result: ClaimResult) -> str:
    """Study, time, machine, precision, versions and sizes."""
    about = {key: _listed(value) for key, value in result.environment.items()}
    overrides = f" with `{' '.join(result.overrides)}`" if result.overrides else ""
    sizes = ", ".join(f"`{variant}` {count:,}" for variant, count in result.parameters.items())
    systems = "".join(
        f" `{name}`: models of `{each.variant}` with `{each.description()}`." for name, each in config.systems.items()
    )
    return (
        f"Study `{config.study}`{overrides}, {result.runs} models, {result.seconds / 60:.0f} minutes, "
        f"{about['processor']}, threads: {about['threads']}, {about['training_precision']}, translation in "
        f"{about['translation_precision']}, mtkit {about['mtkit']}, torch {about['torch']}, {result.date}. Parameters: "
        f"{sizes}.{systems}"
    )


def _listed(value: Any) -> str:
    return " and ".join(map(_listed, value)) if isinstance(value, list) else str(value)
