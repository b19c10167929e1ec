"""docs/evidence.md: what holds for small models and what learns faster, generated from claims and results.

A row for each claim whose test can say something, the numbers of these, and the names of the others with the reason
why they have no row. The text around it is in introduction.md, method.md and benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mtkit.display import Table, TableFormat
from mtkit.evidence.claim import SCALES, CheckConfig, ClaimConfig, claim_names, read_config
from mtkit.evidence.effect import Effect, Verdict
from mtkit.evidence.results import CheckResult, ClaimResult, difference, pooled, read_result

NOT_RUN, NOT_DECIDED, REPLACED, LEVEL = "not run", "not decided here", "replaced", "level"
_HOLDS, _FAILS = "Holds here", "Holds in part or not at all here"
_OPEN, _FASTER = "Undecided here", "What learns faster"
_PLACES = {Verdict.confirmed: _HOLDS, Verdict.undecided: _OPEN}  # of an adequate test; of other verdicts: _FAILS
_LEFT_OUT: dict[str, str] = {
    LEVEL: "no difference was found after a short training, which does not show that the sides are equal",
    **{scale: meaning for scale, meaning in SCALES.items() if scale not in ("adequate", "short")},
    REPLACED: "tested again at a larger scale",
    NOT_RUN: "not run yet",
}
_TIMES = ("train_seconds", "seconds_to_bleu", "tokens_per_second", "lines_per_second")  # differ between machines
_LOWER_IS_BETTER = ("loss", "perplexity", "ece", "free_running_gap", "repetition", "train_seconds", "seconds_to_bleu")


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
    def verdict_text(self) -> str:
        """Verdict with its scale, in one cell."""
        if self.larger is not None:
            return f"see {self.larger}"
        return NOT_RUN if self.result is None else _conclusion(self.config, self.result.verdict)

    @property
    def place(self) -> str:
        """Table of the page, or reason to be in none."""
        if self.larger is not None:
            return REPLACED
        if self.result is None:
            return NOT_RUN
        if self.config.scale == "short":
            return _FASTER if any(_is_apart(each.effect) for each in self.result.checks) else LEVEL
        if self.config.scale != "adequate":
            return self.config.scale
        return _PLACES.get(self.result.verdict, _FAILS)


def _conclusion(config: ClaimConfig, verdict: Verdict) -> str:
    """Verdict of a test with its scale; a test that can say nothing about the claim has none."""
    word = verdict.value if config.scale in ("adequate", "short") else NOT_DECIDED
    return f"{word} ({config.scale})"


def _is_apart(effect: Effect) -> bool:
    return effect.interval is not None and not effect.interval[0] <= 0 <= effect.interval[1]


def read_claims(folder: Path) -> dict[str, ReadClaim]:
    """All claims by name, in the order of the topics.

    Raises:
        DataError, RecipeError: a result or a claim is invalid.
    """
    configs = dict(read_config(name) for name in claim_names())
    results = {name: read_result(folder, name, config) for name, config in configs.items()}
    return {
        name: ReadClaim(name, config, results[name], config.tested_by if results.get(config.tested_by or "") else None)
        for name, config in configs.items()
    }


def evidence_markdown(folder: Path) -> str:
    """The page as Markdown.

    Raises:
        DataError, RecipeError: a result or a claim is invalid.
    """
    claims = list(read_claims(folder).values())
    rows = [claim for claim in claims if claim.place not in _LEFT_OUT]
    introduction, benchmarks, method = (
        Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
        for name in ("introduction", "benchmarks", "method")
    )
    left_out = [["reason", "claims"]]
    for place, reason in _LEFT_OUT.items():
        names = [f"`{claim.name}`" for claim in claims if claim.place == place]
        left_out.append([f"{reason[0].upper()}{reason[1:]}", ", ".join(names)])
    parts = [introduction, *(_table(place, rows) for place in (_HOLDS, _FAILS, _OPEN, _FASTER))]
    parts += [f"## Without a row\n\n{_markdown_table(left_out)}", benchmarks, method]
    parts += [_section(claim, claim.result) for claim in rows if claim.result is not None]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _table(place: str, claims: Sequence[ReadClaim]) -> str:
    """A line for each claim of a table."""
    rows = [["compared", "result"]] if place == _FASTER else [["claim", "verdict", "effect"]]
    for claim in claims:
        if claim.place != place or claim.result is None:
            continue
        text = claim.config.compared if place == _FASTER else claim.config.claim
        verdict = [] if place == _FASTER else [f"**{claim.result.verdict.value}**"]
        result = "; ".join([_effects(claim.result, claim.config.scale), _training(claim.config, claim.result)])
        rows.append([f"[{text}](#{claim.name})", *verdict, " ".join(filter(None, [f"{result}.", claim.config.limit]))])
    return f"## {place}\n\n{_markdown_table(rows)}"


def _effects(result: ClaimResult, scale: str) -> str:
    """Effect of each comparison; after a short training with the side that is ahead."""
    texts, before = [], ""
    for each in result.checks:
        relation = "against"
        if scale == "short":
            is_ahead = (each.effect.mean > 0) != (each.check.metric in _LOWER_IS_BETTER)
            relation = ("ahead of" if is_ahead else "behind") if _is_apart(each.effect) else "not told apart from"
        names = f"`{each.check.of}` {relation} `{each.check.against}`: "
        has_names = scale == "short" or len({(every.check.of, every.check.against) for every in result.checks}) > 1
        word = f": {each.verdict.value}" if scale != "short" and len(result.checks) > 1 else ""
        if scale != "short" and each.check.expect in ("equal", "not_lower"):  # what "as good" and "no loss" mean here
            word = f", expected {_expectation(each.check)}{word}"
        texts.append(f"{names if has_names and names != before else ''}{effect_text(each)}{word}")
        before = names
    return "; ".join(texts)


def _training(config: ClaimConfig, result: ClaimResult) -> str:
    """Study, seeds, sizes that differ by more than 5%, and learning rates at the end of what was tried."""
    seeds = sorted({len(side) for each in result.checks for side in (each.of, each.against)})
    text = f"`{config.study}`, {' to '.join(map(str, seeds))} seeds"
    sizes = sorted(result.parameters.get(config.variant_of(name), 0) for name in config.system_names())
    if sizes[-1] > 1.05 * sizes[0]:
        text += f", {sizes[0] / 1e6:.2f} to {sizes[-1] / 1e6:.2f} million weights"
    grids = {name: rates for name, rates in result.rates.items() if len(rates) > 1}
    edges = {name: rates for name, rates in grids.items() if rates[0] in (min(rates), max(rates))}
    if not edges:
        return text
    ends = {f"{'highest' if rates[0] == max(rates) else 'lowest'} of {len(rates)}" for rates in edges.values()}
    of = "" if len(edges) == len(grids) else " of " + ", ".join(f"`{name}`" for name in edges)
    return f"{text}, rate{of} the {' or '.join(sorted(ends))} tried"


def _section(claim: ReadClaim, result: ClaimResult) -> str:
    """Numbers of a claim below its heading; the first line is the last word about it."""
    config, source = claim.config, f"[{claim.config.source}]({claim.config.url})"
    if config.scale == "adequate":
        first = [f"**{result.verdict.value.capitalize()} here.** {source}"]
    else:
        first = [f"**After a short training.** {config.limit}".rstrip(), f"The claim: {config.claim} ({source})"]
    # number of models, time, machine, precision, date and sizes, then what each system is
    about = {key: _listed(value) for key, value in result.environment.items()}
    sizes = ", ".join(dict.fromkeys(f"{count:,}" for count in result.parameters.values()))
    precision, translated = about["training_precision"], about["translation_precision"]
    conditions = (
        f"{result.runs} models, {result.seconds / 60:.0f} minutes, {about['processor']}, {precision}"
        f"{'' if translated == precision else f', translation in {translated}'}, {result.date}; {sizes} weights."
    )
    for name, each in config.systems.items():
        conditions += f" `{name}`: models of `{each.variant}` with `{each.description()}`."
    lines = [
        *first,
        *(_comparison(each, is_judged=config.scale == "adequate") for each in result.checks),
        f"{config.note} {conditions}".lstrip(),
    ]
    return f"### {claim.name}\n" + "<br>".join(lines)


def claims_table(folder: Path) -> Table:
    """All claims with source, verdict, and expected time."""
    rows = []
    for claim in read_claims(folder).values():
        config = claim.config
        rows.append([claim.name, config.source, claim.verdict_text, f"{config.minutes:g}", config.claim])
    headings = ["claim", "source", "verdict", "minutes", "statement"]
    return Table(headings, rows, text=[heading for heading in headings if heading != "minutes"])


def result_lines(config: ClaimConfig, result: ClaimResult, stored: ClaimResult | None) -> Iterator[str]:
    """Statement, each comparison beside the stored one and both together, verdict, and what the scale means.

    Args:
        stored: result that comes with mtkit; None for other claims, and if the claim was not tested.
    """
    yield f"{result.name}: {config.claim} ({config.source})"
    same_settings = stored is not None and _settings(stored) == _settings(result)
    for index, each in enumerate(result.checks):
        check = each.check
        yield f"  {check.of} against {check.against}, expected {check.expect}: {effect_text(each)}: {each.verdict_text}"
        if stored is not None:
            yield from _beside(stored.checks[index], each, is_comparable=same_settings)
    yield f"{result.name}: {_conclusion(config, result.verdict)}"
    if stored is not None:
        yield f"{result.name}, stored: {_conclusion(config, stored.verdict)}"
    yield f"  {config.scale}: {SCALES[config.scale]}{f'. {config.limit}' if config.limit else ''}"


def _beside(stored: CheckResult, new: CheckResult, *, is_comparable: bool) -> Iterator[str]:
    yield f"    stored: {effect_text(stored)}: {stored.verdict_text}"
    if not is_comparable:
        yield "    both: not compared, since the stored test has other settings"
        return
    if new.check.metric in _TIMES:
        yield "    both: not compared, since times are those of a machine"
        return
    both = pooled(stored, new)
    if (len(both.of), len(both.against)) == (len(stored.of), len(stored.against)):
        yield "    both: the stored trainings again"
        return
    seeds = " and ".join(map(str, dict.fromkeys((len(both.of), len(both.against)))))
    yield f"    both, {seeds} trainings of a side: {effect_text(both)}: {both.verdict_text}"
    yield f"    new minus stored: {_interval_text(difference(stored, new), _effect_digits(new.check))}"


def _settings(result: ClaimResult) -> set[str]:
    """Overrides that change what is compared; seeds and rates do not."""
    return {each for each in result.overrides if not each.startswith(("seeds=", "learning_rates="))}


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


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(Table(rows[0], rows[1:], text=rows[0]).format(TableFormat.markdown))


def effect_text(result: CheckResult) -> str:
    """Text of metric, effect and interval, as `BLEU +1.20 (+0.30 to +2.10)`."""
    check = result.check
    unit = f" ({check.unit})" if check.unit and check.unit != "BLEU" else ""
    metric = ("BLEU" if check.metric == "bleu" else check.metric.replace("_", " ")) + unit
    if check.goal is not None:
        metric = f"seconds to BLEU {check.goal:g}" + (" (%)" if check.ratio else "")
    elif check.words is not None:
        metric += f", sources of {check.words[0]} to {check.words[1]} words"
    elif check.longer_than:
        metric += f", sources over {check.longer_than} words minus the others"
    return f"{metric} {_interval_text(result.effect, _effect_digits(check))}"


def _interval_text(effect: Effect, digits: int) -> str:
    interval = effect.interval
    between = "one seed" if interval is None else f"{interval[0]:+.{digits}f} to {interval[1]:+.{digits}f}"
    return f"{effect.mean:+.{digits}f} ({between})"


def _comparison(result: CheckResult, *, is_judged: bool) -> str:
    check = result.check
    values = " against ".join(_values(check, side) for side in (result.of, result.against))
    pairs = ", pairs" if result.paired else ""
    text = f"`{check.of}` against `{check.against}`: {effect_text(result)}; {values}{pairs}"
    if not is_judged:
        return f"{text}."
    published = "" if check.published is None else f"; published {check.published:g}"
    return f"{text}; expected {_expectation(check)}{published}: **{result.verdict_text}**."


def _expectation(check: CheckConfig) -> str:
    of = {"equal": "equal within", "not_lower": "not lower by"}.get(check.expect, f"{check.expect}, margin")
    return f"{of} {check.margin:g}"


def _values(check: CheckConfig, by_seed: Mapping[int, float]) -> str:
    digits, values = _DIGITS.get(check.metric, 3), list(by_seed.values())
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{deviation}"


def _effect_digits(check: CheckConfig) -> int:
    if check.ratio or check.metric in ("seconds_to_bleu", "positional_head"):
        return 1
    return 2 if check.metric in ("bleu", "perplexity", "repetition", "rare_words", "unseen_words") else 3


def _listed(value: Any) -> str:
    return " and ".join(map(_listed, value)) if isinstance(value, list) else str(value)
