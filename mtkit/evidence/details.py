"""Section of docs/evidence.md about one tested claim: comparisons, numbers of each seed, conditions, remarks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from mtkit.evidence.claim import CheckConfig, ClaimConfig
from mtkit.evidence.results import CheckResult, ClaimResult
from mtkit.evidence.verdict import outlook

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


def claim_section(name: str, config: ClaimConfig, result: ClaimResult) -> str:
    """The section, with the claim's name as its heading."""
    rows = [["comparison", "expected", "metric", "values", "effect", "95% interval", "by seed", "verdict"]]
    rows += [_row(check) for check in result.checks]
    paragraphs = [
        f"### {name}",
        f"**{result.verdict.value.capitalize()}.** {config.claim} ([{config.source}]({config.url}))",
        markdown_table(rows, right=(4,)),
        _conditions(config, result),
    ]
    observation = f"*After the test:* {config.observation}" if config.observation else ""
    return "\n\n".join(part for part in [*paragraphs, config.note, observation] if part)


def effect_text(result: CheckResult) -> str:
    """Text of metric, effect and interval, as `BLEU +1.20 (+0.30 to +2.10)`."""
    return f"{_metric(result.check)} {_mean(result)} ({_interval(result)})"


def _mean(result: CheckResult) -> str:
    return f"{result.effect.mean:+.{_effect_digits(result.check)}f}"


def _interval(result: CheckResult) -> str:
    effect, digits = result.effect, _effect_digits(result.check)
    return "one seed" if effect.low is None else f"{effect.low:+.{digits}f} to {effect.high:+.{digits}f}"


def _row(result: CheckResult) -> list[str]:
    check, digits = result.check, _effect_digits(result.check)
    means = (fmean(side.values()) for side in (result.of, result.against))
    values = ", ".join(f"{mean:.{_DIGITS.get(check.metric, 3)}f}" for mean in means)
    values += " (all lines)" if check.longer_than else ""  # the effect is that of the long lines minus the others
    by_seed = ", ".join(f"{value:+.{digits}f}" for value in result.differences.values())
    expected = (
        f"equal within {check.margin:g}" if check.expect == "equal" else f"{check.expect} (margin {check.margin:g})"
    )
    return [
        f"`{check.of}` against `{check.against}`",
        expected,
        _metric(check),
        values,
        _mean(result),
        _interval(result),
        by_seed,
        _verdict(result),
    ]


def _metric(check: CheckConfig) -> str:
    length = f", sources over {check.longer_than} words minus the others" if check.longer_than else ""
    if check.words is not None:
        length = f", sources of {check.words[0]} to {check.words[1]} words"
    if check.goal is not None:
        return f"seconds to BLEU {check.goal:g}" + (" (%)" if check.ratio else "")
    unit = f" ({check.unit})" if check.unit and check.unit != "BLEU" else ""
    return ("BLEU" if check.metric == "bleu" else check.metric.replace("_", " ")) + unit + length


def _verdict(result: CheckResult) -> str:
    """The verdict, and the one that more data would give."""
    expected = outlook(result.check, result.effect)
    if expected is None:
        return result.verdict.value
    return f"{result.verdict.value}; {expected.verdict.value} with {expected.factor} times the data"


def _effect_digits(check: CheckConfig) -> int:
    if check.ratio or check.metric in ("seconds_to_bleu", "positional_head"):
        return 1
    return 2 if check.metric in ("bleu", "perplexity", "repetition", "rare_words", "unseen_words") else 3


def _conditions(config: ClaimConfig, result: ClaimResult) -> str:
    """Study, time, machine, precision, versions and sizes."""
    environment = result.environment
    threads = ", ".join(map(str, environment["threads"]))
    training, translation = (" and ".join(environment[f"{stage}_precision"]) for stage in ("training", "translation"))
    overrides = f" with `{' '.join(result.overrides)}`" if result.overrides else ""
    sizes = ", ".join(f"`{variant}` {count:,}" for variant, count in result.parameters.items())
    systems = "".join(
        f" `{name}`: models of `{each.variant}` with `{each.description()}`." for name, each in config.systems.items()
    )
    return (
        f"Study `{config.study}`{overrides}, {result.runs} models, {result.seconds / 60:.0f} minutes. "
        f"{environment['processor']}, threads: {threads}, training in {training}, translation in {translation}; mtkit "
        f"{environment['mtkit']}, "
        f"torch {environment['torch']}; {result.date}. Parameters: {sizes}.{systems}"
    )
