"""Claims: what a publication reports, the study that tests it, and the expected results."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal

from pydantic import Field

from mtkit.errors import RecipeError
from mtkit.recipe.builtin import builtin_files, resolve_recipe_path
from mtkit.recipe.schema import build, summarise_errors
from mtkit.recipe.suggestions import suggest
from mtkit.recipe.yaml_reader import read_yaml_file
from mtkit.study.load import Study, read_study

Expectation = Literal["higher", "lower", "equal", "not_lower"]
MetricKey = Literal[
    "bleu", "loss", "perplexity", "token_accuracy", "ece", "free_running_gap", "repetition", "train_seconds",
    "tokens_per_second", "lines_per_second",
]  # fmt: skip
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class SystemConfig:
    """Models of a variant that translate the test set with other settings."""

    variant: str  # of the study
    search: list[str]  # overrides, as search.beam_size=5


@dataclass(frozen=True, kw_only=True)
class CheckConfig:
    """One comparison of two systems, paired by seed."""

    of: str  # system: a variant of the study, or one of `systems`
    against: str
    expect: Expectation  # of `of` relative to `against`
    metric: MetricKey = "bleu"
    # smallest difference of interest, in the metric's unit: BLEU points, nats, or percent with ratio
    margin: Annotated[float, Field(gt=0)] = 0.5
    ratio: bool = False  # compare by 100 · ln(of / against), about the difference in percent
    # the effect on sources of more words, minus the effect on the other lines; BLEU only
    longer_than: Annotated[int, Field(gt=0)] | None = None

    def __post_init__(self) -> None:
        if self.longer_than is not None and (self.metric != "bleu" or self.ratio):
            raise ValueError("longer_than: only differences of BLEU are computed by length; remove metric and ratio")

    @property
    def unit(self) -> str:
        """Unit of the effect."""
        return "%" if self.ratio else {"bleu": "BLEU", "loss": "nats", "free_running_gap": "nats"}.get(self.metric, "")


@dataclass(frozen=True, kw_only=True)
class ClaimConfig:
    """A claim, its source and its test: all keys but `observation` are written before the scores are seen."""

    claim: Text  # one sentence
    source: Text  # publication and section, table or figure
    url: Text
    study: str  # built-in study, or a file
    checks: Annotated[list[CheckConfig], Field(min_length=1)]
    minutes: Annotated[float, Field(gt=0)]  # expected time on one core
    systems: dict[str, SystemConfig] = field(default_factory=dict)
    note: str = ""  # what the test does not show
    observation: str = ""  # written after the test; it does not change the verdict


@dataclass(frozen=True)
class Claim:
    """A checked claim.

    Attributes:
        name: of its file.
        study: with the variants that the checks need, and those that initialise them.
    """

    name: str
    config: ClaimConfig
    study: Study

    def variant_of(self, system: str) -> str:
        """Variant whose models a system uses."""
        return self.config.systems[system].variant if system in self.config.systems else system

    def system_names(self) -> list[str]:
        """Systems that occur in the checks, in their order."""
        return list(dict.fromkeys(name for check in self.config.checks for name in (check.of, check.against)))


def claim_names() -> list[str]:
    """Names of the built-in claims."""
    return list(builtin_files("claim"))


def read_config(name_or_path: str) -> tuple[str, ClaimConfig]:
    """Name and content of a claim's file, without its study.

    Raises:
        MissingInputError: no such claim.
        RecipeError: the file is invalid.
    """
    path = resolve_recipe_path("claim", name_or_path)
    errors: list[str] = []
    tree = read_yaml_file(path, errors)
    if not isinstance(tree.value, dict):
        known = ", ".join(each.name for each in fields(ClaimConfig))
        raise RecipeError(f"{tree.origin.location}: a claim is a mapping with the keys {known}")
    config: ClaimConfig = build(ClaimConfig, tree, errors)
    return path.stem, config


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
    study = read_study(config.study, overrides)
    claim = Claim(name, config, study)
    named = [*claim.system_names(), *config.systems]
    variants = list(study.recipes)
    unknown = [each for each in dict.fromkeys(map(claim.variant_of, named)) if each not in variants]
    if unknown:
        raise RecipeError(
            summarise_errors(
                [f"{name}: {each}: no such variant in {config.study}{suggest(each, variants)}" for each in unknown]
            )
        )
    return Claim(name, config, _reduced(study, {claim.variant_of(each) for each in named}))


def _reduced(study: Study, variants: set[str]) -> Study:
    sources = {study.config.init_from_variant[each] for each in variants if each in study.config.init_from_variant}
    needed = {name: recipe for name, recipe in study.recipes.items() if name in variants | sources}
    return Study(study.config, needed, next(iter(needed)), study.test)
