"""docs/evidence.md: every claim with its verdict and numbers, generated from claims and results.

The page begins with what holds, what does not and what is open, a line for each claim. How claims are tested, the
benchmarks of time and memory, and the numbers of each claim follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.evidence.claim import THEMES, ClaimConfig, claim_names, read_config
from mtkit.evidence.details import claim_section, effect_text, markdown_table
from mtkit.evidence.results import ClaimResult, read_result
from mtkit.evidence.verdict import Verdict

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

    Args:
        folder: of the results.

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

    Args:
        folder: of the results.

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
    return markdown_table(rows, right=range(1, len(rows[0])))


def _group(heading: str, claims: Sequence[ReadClaim]) -> str:
    """A line for each claim of a group, those with the best scale first."""
    of_group = [claim for word in _GROUPS[heading] for claim in claims if claim.word == word]
    order = [*_SCALES, "too small"]
    rows = [["claim", "verdict", "effect"]]
    for claim in sorted(of_group, key=lambda claim: order.index(claim.scale)):
        sentence = claim.config.claim if claim.result is None else f"[{claim.config.claim}](#{claim.name})"
        rows.append([sentence, f"**{claim.verdict_text}**", _reason(claim)])
    return f"## {heading}\n\n{markdown_table(rows)}"


def _reason(claim: ReadClaim) -> str:
    """The reasons of a claim's verdict: each part, if there are several verdicts or one is open."""
    if claim.scale == FULL and claim.config.full_training is not None:
        return claim.config.full_training.text
    if claim.result is None or claim.word == NOT_TESTABLE:
        return ""
    parts = claim.result.checks
    is_plain = {each.verdict for each in parts} <= {parts[0].verdict} - {Verdict.undecided}
    return "; ".join(effect_text(each) + ("" if is_plain else f": {each.verdict_text}") for each in parts)


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
