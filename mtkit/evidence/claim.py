"""Claims: what a publication reports, the study that tests it, and the expected results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from mtkit.compression.compress import Target
from mtkit.config import Limits, config
from mtkit.errors import RecipeError
from mtkit.recipe.located import LocatedValue
from mtkit.recipe.paths import builtin_files, resolve_recipe_path
from mtkit.recipe.schema import build
from mtkit.recipe.suggestions import suggest
from mtkit.recipe.yaml_reader import read_yaml_file
from mtkit.study.load import Study, read_study
from mtkit.text.source_prefix import TagName

Expectation = Literal["higher", "lower", "equal", "not_lower"]
MetricKey = Literal[
    "bleu", "loss", "perplexity", "token_accuracy", "ece", "free_running_gap", "repetition", "rare_words",
    "unseen_words", "train_seconds", "seconds_to_bleu", "tokens_per_second", "lines_per_second", "positional_head",
]  # fmt: skip
METRICS_OF_TRANSLATIONS = ("bleu", "repetition", "rare_words", "unseen_words")  # the others are those of trained models
Scale = Literal["adequate", "short", "unequal", "floor", "too small"]  # what a test can say
SCALES: dict[Scale, str] = {
    "adequate": "trained long enough to show what is better for models and text of this size",
    "short": "shows what learns faster, not what ends better",
    "unequal": "the sides differ in more than the claim says: in updates, text, positions or a third of the weights",
    "floor": "a side learned too little for the claim to show",
    "too small": "training too short, or models or text too small for the claim to hold or to fail",
}
Text = Annotated[str, Limits(min_length=1)]


@config
class CompressionConfig:
    """Compression of the models of a system, as by `mtkit compress`; heads are chosen by the valid set."""

    to: Target
    # of weights, heads or units; null: that of the command
    fraction: Annotated[float, Limits(gt=0, lt=1)] | None = None
    most_important: bool = False  # remove the most important heads instead of the least

    def __post_init__(self) -> None:
        if self.most_important and self.to != "heads":
            raise ValueError(f"most_important: has no effect with to: {self.to}; remove it")

    def description(self) -> str:
        """The command as text."""
        share = "" if self.fraction is None else f" --fraction {self.fraction:g}"
        return f"mtkit compress --to {self.to}{share}" + (", the most important ones" if self.most_important else "")


@config
class SystemConfig:
    """Models of a variant that translate the test set in another way: changed after training, or by another search."""

    variant: str  # of the study
    search: list[str] = field(default_factory=list)  # overrides, as search.beam_size=5
    compress: CompressionConfig | None = None
    # overrides that keep the weights, as model.decoder_positions.scaling={kind: ntk}
    model: list[str] = field(default_factory=list)
    tag: TagName | None = None  # before each source instead of the tag of the test set
    average: Annotated[int, Limits(gt=1)] | None = None  # the mean of this many last checkpoints

    def __post_init__(self) -> None:
        if (self.compress is not None) + bool(self.model) + (self.average is not None) > 1:
            raise ValueError("compress, model and average: each makes another model; keep one of them")

    def description(self) -> str:
        """The settings as text."""
        settings = [*self.search, *self.model]
        if self.compress is not None:
            settings.append(self.compress.description())
        if self.tag is not None:
            settings.append(f"--tag {self.tag}")
        if self.average is not None:
            settings.append(f"mtkit average of the last {self.average} checkpoints")
        return " ".join(settings)


@config
class CheckConfig:
    """One comparison of two systems."""

    of: str  # system: a variant of the study, or one of `systems`
    against: str
    expect: Expectation  # of `of` relative to `against`
    metric: MetricKey = "bleu"
    # smallest difference of interest, in the metric's unit: BLEU points, nats, or percent with ratio
    margin: Annotated[float, Limits(gt=0)] = 0.5
    published: Annotated[float, Limits(gt=0)] | None = None  # effect in the source, same unit; null: it gives none
    paired: bool = False  # the variants share their training, and differ only in what is made of its weights
    ratio: bool = False  # compare by 100 · ln(of / against), about the difference in percent
    # the effect on sources of more words, minus the effect on the other lines; BLEU only
    longer_than: Annotated[int, Limits(gt=0)] | None = None
    # least and largest number of words of the sources that are compared; BLEU only
    words: Annotated[list[Annotated[int, Limits(gt=0)]], Limits(min_length=2, max_length=2)] | None = None
    goal: Annotated[float, Limits(gt=0, lt=100)] | None = None  # BLEU of the valid set that seconds_to_bleu waits for

    def __post_init__(self) -> None:
        if self.published is not None and self.margin > self.published / 2:
            raise ValueError(f"margin: {self.margin:g} is more than half of the published effect; lower it")
        for key, value in (("longer_than", self.longer_than), ("words", self.words)):
            if value is not None and (self.metric != "bleu" or self.ratio):
                raise ValueError(f"{key}: only differences of BLEU are computed by length; remove metric and ratio")
        if self.words is not None and self.longer_than is not None:
            raise ValueError("words: selects sources, and longer_than compares two selections; remove one of them")
        if self.words is not None and self.words[0] > self.words[1]:
            raise ValueError(f"words: {self.words} is not ascending; give the least and the largest number")
        if (self.goal is None) == (self.metric == "seconds_to_bleu"):
            raise ValueError("goal: belongs to metric: seconds_to_bleu, and to no other; add or remove it")

    @property
    def unit(self) -> str:
        """Unit of the effect."""
        units = {"bleu": "BLEU", "loss": "nats", "free_running_gap": "nats", "positional_head": "%"}
        return "%" if self.ratio else units.get(self.metric, "")


@config
class ClaimConfig:
    """A claim, its source and its test.

    All keys but the last four are written before the scores are seen.
    """

    claim: Text  # one sentence
    source: Text  # publication and section, table or figure
    url: Text
    scale: Scale
    study: str  # built-in study, or a file
    checks: Annotated[list[CheckConfig], Limits(min_length=1)]
    minutes: Annotated[float, Limits(gt=0)]  # expected time on one core
    systems: dict[str, SystemConfig] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)  # of the study, as seeds=[4, 5, 6]
    note: str = ""  # what the test does not show
    observation: str = ""  # written after the test; it does not change the verdict
    compared: str = ""  # both sides of a short training in plain words: its row of docs/evidence.md
    limit: str = ""  # what keeps the result from saying more, and what other tests say: on its row too
    tested_by: str | None = None  # claim whose test of the same sentence is larger; it replaces this one once it ran

    def __post_init__(self) -> None:
        for check in self.checks:
            changed = [name for name in (check.of, check.against) if name in self.systems]
            if changed and check.metric not in METRICS_OF_TRANSLATIONS:
                raise ValueError(
                    f"checks: {check.metric} is that of the trained models, not of {changed[0]}; compare "
                    f"{', '.join(METRICS_OF_TRANSLATIONS)}, or a variant"
                )

    def variant_of(self, system: str) -> str:
        """Variant whose models a system uses."""
        return self.systems[system].variant if system in self.systems else system

    def is_paired(self, check: CheckConfig) -> bool:
        """Return whether a check compares models that share their training."""
        return check.paired or self.variant_of(check.of) == self.variant_of(check.against)

    def system_names(self) -> list[str]:
        """Systems that occur in the checks, in their order."""
        return list(dict.fromkeys(name for check in self.checks for name in (check.of, check.against)))


@dataclass(frozen=True)
class Claim:
    """A checked claim.

    Attributes:
        study: with the variants that the checks need, and those that initialise or teach them.
    """

    name: str
    config: ClaimConfig
    study: Study
    overrides: Sequence[str]


def claim_names() -> list[str]:
    """Names of the built-in claims."""
    return list(builtin_files("claim"))


def read_config(name_or_path: str) -> tuple[str, ClaimConfig]:
    """Name and content of a claim, without its study.

    Args:
        name_or_path: a YAML file with the keys of a claim, or the name of a built-in one.

    Raises:
        MissingInputError: no such claim.
        RecipeError: the file is invalid.
    """
    path = resolve_recipe_path("claim", name_or_path)
    errors: list[str] = []
    is_file = path == Path(name_or_path)
    tree = read_yaml_file(path, errors) if is_file else _read_topic(path).value[name_or_path]
    if not isinstance(tree.value, dict):
        known = ", ".join(each.name for each in fields(ClaimConfig))
        raise RecipeError(f"{tree.origin.location}: a claim is a mapping with the keys {known}")
    config: ClaimConfig = build(ClaimConfig, tree, errors)
    return path.stem if is_file else name_or_path, config


@cache
def _read_topic(path: Path) -> LocatedValue:
    """Built-in claims of a topic, by name."""
    errors: list[str] = []
    tree = read_yaml_file(path, errors)
    if errors:
        raise RecipeError("\n".join(errors))
    return tree


def read_claim(name_or_path: str, overrides: list[str]) -> Claim:
    """Read a claim and the part of its study that it needs.

    Args:
        name_or_path: a YAML file, or the name of a built-in claim.
        overrides: `key=value` each, as for a study.

    Raises:
        MissingInputError: no such claim or study.
        RecipeError: the claim or the study is invalid, or a system does not exist.
    """
    name, config = read_config(name_or_path)
    study = read_study(config.study, [*config.overrides, *overrides])
    variants, known = dict.fromkeys(map(config.variant_of, [*config.system_names(), *config.systems])), study.recipes
    unknown = [each for each in variants if each not in known]
    if unknown:
        place = f"no such variant in {config.study}"
        raise RecipeError("\n".join([f"{name}: {each}: {place}{suggest(each, list(known))}" for each in unknown]))
    dependencies = (study.config.init_from_variant, study.config.teacher_variant)
    sources = {source_of[each] for source_of in dependencies for each in variants if each in source_of}
    needed = {variant: recipe for variant, recipe in known.items() if variant in variants or variant in sources}
    return Claim(name, config, replace(study, recipes=needed, baseline=next(iter(needed))), overrides)
