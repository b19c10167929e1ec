"""Paragraph of docs/evidence.md about one tested claim: comparisons, numbers of each seed, conditions, remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from mtkit.evidence.claim import CheckConfig, ClaimConfig
from mtkit.evidence.results import CheckResult, ClaimResult

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


def markdown_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table in Markdown.

    Args:
        rows: the first one is the heading.
        right: columns that are aligned at the right.
    """
    rule = ["---:" if column in right else "---" for column in range(len(rows[0]))]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in [rows[0], rule, *rows[1:]]
    )


def claim_section(config: ClaimConfig, result: ClaimResult) -> str:
    """The paragraph below the claim's heading, one line: verdict and claim, comparisons, conditions and remarks."""
    comparisons = [_comparison(each) for each in result.checks]
    remarks = f"{config.note} {f'*After the test:* {config.observation}' if config.observation else ''}"
    return "<br>".join(
        [
            f"{config.claim} ([{config.source}]({config.url}))",
            *comparisons,
            f"{remarks} {_conditions(config, result)}".strip(),
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
