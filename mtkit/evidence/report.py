"""docs/evidence.md: every claim with its verdict and numbers, generated from claims and results.

The page begins with a table of themes and a table of the claims of each theme. How claims are tested, the benchmarks of
time and memory, and the numbers of each claim follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mtkit.evidence.claim import THEMES, ClaimConfig, Theme, claim_names, read_config
from mtkit.evidence.details import claim_section, effect_text, markdown_table
from mtkit.evidence.results import ClaimResult, read_result
from mtkit.evidence.verdict import Verdict

NOT_RUN = "not run"

Configs = Mapping[str, ClaimConfig]
Results = Mapping[str, ClaimResult]


def evidence_markdown(folder: Path) -> str:
    """The page as Markdown.

    Args:
        folder: of the results.

    Raises:
        DataError, RecipeError: a result or a claim is invalid.
    """
    by_name = dict(read_config(name) for name in claim_names())
    configs = {name: each for theme in THEMES for name, each in by_name.items() if each.theme == theme}
    results = {name: result for name in configs if (result := current_result(folder, name, configs[name])) is not None}
    parts = [_text("introduction"), _overview(configs, results)]
    parts += [_theme_section(theme, configs, results) for theme in THEMES]
    parts += [_text("method"), _text("benchmarks"), "## Numbers of each claim"]
    parts += [claim_section(name, configs[name], result) for name, result in results.items()]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def current_result(folder: Path, name: str, config: ClaimConfig) -> ClaimResult | None:
    """Result of a claim; None if it was not tested, or with other checks than those of its file."""
    result = read_result(folder, name)
    return result if result is not None and result.is_of(config) else None


def verdict_text(result: ClaimResult | None) -> str:
    """Verdict, or `not run`."""
    return result.verdict.value if result else NOT_RUN


def _text(name: str) -> str:
    """A part of the page that does not depend on claims."""
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")


def _overview(configs: Configs, results: Results) -> str:
    """Number of claims by theme and verdict."""
    verdicts = [*(verdict.value for verdict in Verdict), NOT_RUN]
    found = {theme: _verdicts(theme, configs, results) for theme in THEMES}
    rows = [["theme", "claims", *verdicts]]
    rows += [
        [f"[{THEMES[theme]}](#{_anchor(THEMES[theme])})", str(len(each)), *(str(each.count(v)) for v in verdicts)]
        for theme, each in found.items()
    ]
    every = [verdict for each in found.values() for verdict in each]
    rows.append(["all", str(len(every)), *(str(every.count(verdict)) for verdict in verdicts)])
    return markdown_table(rows, right=range(1, len(rows[0])))


def _verdicts(theme: Theme, configs: Configs, results: Results) -> list[str]:
    return [verdict_text(results.get(name)) for name, config in configs.items() if config.theme == theme]


def _theme_section(theme: Theme, configs: Configs, results: Results) -> str:
    """The claims of a theme, those that were tested with a link to their numbers."""
    rows = [["claim", "verdict", "differences (95% intervals)", "publication", "name"]]
    rows += [_claim_row(name, config, results.get(name)) for name, config in configs.items() if config.theme == theme]
    return f"## {THEMES[theme]}\n\n{markdown_table(rows)}"


def _claim_row(name: str, config: ClaimConfig, result: ClaimResult | None) -> list[str]:
    source = [f"[{config.source}]({config.url})", f"`{name}`"]
    if result is None:
        return [config.claim, f"{NOT_RUN}, {config.minutes:g} minutes", "", *source]
    effects = "; ".join(map(effect_text, result.checks))
    return [f"[{config.claim}](#{name})", f"**{result.verdict.value}**", effects, *source]


def _anchor(heading: str) -> str:
    """Anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
