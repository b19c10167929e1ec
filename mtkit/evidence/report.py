"""docs/evidence.md: every claim with its verdict and numbers, generated from claims and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from mtkit.evidence.claim import CheckConfig, ClaimConfig, claim_names, read_config
from mtkit.evidence.results import CheckResult, ClaimResult, read_result
from mtkit.evidence.verdict import Verdict, missing_data

NOT_RUN = "not run"
INTRODUCTION = Path(__file__).with_name("introduction.md")


def evidence_markdown(folder: Path) -> str:
    """The page as Markdown.

    Args:
        folder: of the results.

    Raises:
        DataError, RecipeError: a result or a claim is invalid.
    """
    configs = dict(read_config(name) for name in claim_names())
    results = {name: result for name in configs if (result := current_result(folder, name, configs[name])) is not None}
    tested = [_section(name, configs[name], result) for name, result in results.items()]
    parts = [INTRODUCTION.read_text(encoding="utf-8"), _summary(configs, results), "## Tested claims", *tested]
    waiting = [name for name in configs if name not in results]
    if waiting:
        parts += ["## Not run", _waiting([(name, configs[name]) for name in waiting])]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def current_result(folder: Path, name: str, config: ClaimConfig) -> ClaimResult | None:
    """Result of a claim; None if it was not tested, or with other checks than those of its file."""
    result = read_result(folder, name)
    return result if result is not None and result.is_of(config) else None


def verdict_text(result: ClaimResult | None) -> str:
    """Verdict, or `not run`."""
    return result.verdict.value if result else NOT_RUN


def _table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    rule = ["---:" if column in right else "---" for column in range(len(rows[0]))]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in [rows[0], rule, *rows[1:]]
    )


def _summary(configs: Mapping[str, ClaimConfig], results: Mapping[str, ClaimResult]) -> str:
    counts = {verdict: sum(result.verdict == verdict for result in results.values()) for verdict in Verdict}
    text = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    rows = [["claim", "source", "verdict"]]
    rows += [
        [
            f"[`{name}`](#{name})" if name in results else f"`{name}`",
            f"[{config.source}]({config.url})",
            f"**{verdict_text(results.get(name))}**",
        ]
        for name, config in configs.items()
    ]
    return f"{len(configs)} claims: {text}, {len(configs) - len(results)} not run.\n\n{_table(rows)}"


def _section(name: str, config: ClaimConfig, result: ClaimResult) -> str:
    rows = [["comparison", "expected", "metric", "values", "effect", "95% interval", "by seed", "verdict"]]
    rows += [_row(check) for check in result.checks]
    paragraphs = [
        f"### {name}",
        f"**{result.verdict.value.capitalize()}.** {config.claim} ([{config.source}]({config.url}))",
        _table(rows, right=(4,)),
        _conditions(config, result),
    ]
    observation = f"*After the test:* {config.observation}" if config.observation else ""
    return "\n\n".join(part for part in [*paragraphs, config.note, observation] if part)


def _row(result: CheckResult) -> list[str]:
    check, effect = result.check, result.effect
    digits = _digits(check)
    values = ", ".join(f"{fmean(side.values()):.{_value_digits(check)}f}" for side in (result.of, result.against))
    values += " (all lines)" if check.longer_than else ""  # the effect is that of the long lines minus the others
    interval = "one seed" if effect.low is None else f"{effect.low:+.{digits}f} to {effect.high:+.{digits}f}"
    by_seed = ", ".join(f"{value:+.{digits}f}" for value in result.differences.values())
    length = f", sources over {check.longer_than} words minus the others" if check.longer_than else ""
    unit = f" ({check.unit})" if check.unit and check.unit != "BLEU" else ""
    metric = ("BLEU" if check.metric == "bleu" else check.metric.replace("_", " ")) + unit + length
    expected = (
        f"equal within {check.margin:g}" if check.expect == "equal" else f"{check.expect} (margin {check.margin:g})"
    )
    verdict = result.verdict.value
    factor = missing_data(check, effect)
    if result.verdict == Verdict.undecided and factor is not None:
        verdict += f", needs {factor} times the data"
    return [
        f"`{check.of}` against `{check.against}`",
        expected,
        metric,
        values,
        f"{effect.mean:+.{digits}f}",
        interval,
        by_seed,
        verdict,
    ]


def _digits(check: CheckConfig) -> int:
    return 1 if check.ratio else 2 if check.metric in ("bleu", "perplexity", "repetition", "rare_words") else 3


def _value_digits(check: CheckConfig) -> int:
    return {
        "tokens_per_second": 0,
        "lines_per_second": 0,
        "train_seconds": 0,
        "bleu": 1,
        "perplexity": 2,
        "repetition": 1,
        "rare_words": 1,
    }.get(check.metric, 3)


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


def _waiting(configs: Sequence[tuple[str, ClaimConfig]]) -> str:
    rows = [["claim", "statement", "minutes on one core"]]
    rows += [[f"`{name}`", config.claim, f"{config.minutes:g}"] for name, config in configs]
    return _table(rows, right=(2,))
