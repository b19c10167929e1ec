"""What a study file says: recipes that differ in what is studied, and how they are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mtkit.recipe.yaml_reader import Origin, Stated

Name = Annotated[str, Field(pattern=r"^\w[\w.+=-]*$")]  # it names a folder
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Words = Annotated[int, Field(gt=0)]


def nothing() -> Stated:
    """A part of a recipe that states nothing."""
    return Stated({}, Origin("", Path(), from_file=False))


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """Variants of one recipe, each trained from every seed.

    A variant is a part of a recipe in the recipe's own form. It is stated on top of the budget, and that on top of the
    base, by the rules of `base:` in a recipe.
    """

    name: Name  # names the folder, runs/NAME
    base: str  # a recipe: a file, relative to this one, or the name of a shipped one
    budget: Stated = field(default_factory=nothing)  # a part of a recipe: what all variants have in common
    variants: dict[Name, Stated] = field(default_factory=dict)  # a part of a recipe each
    grid: dict[str, Annotated[list[Stated], Field(min_length=1)]] = field(default_factory=dict)  # values by their path
    begin_from: dict[str, str] = field(default_factory=dict)  # a variant that goes on from another's model: that other
    seeds: Annotated[list[Seed], Field(min_length=1)] = field(default_factory=lambda: [1, 2, 3])  # three show a spread
    test: str | None = None  # the test set to compare by; null: the recipe's first
    baseline: str | None = None  # the variant that the others are tested against; null: the first
    by_length: list[Words] = field(default_factory=list)  # BLEU too of sources with up to so many words, and of longer
    exposure_bias: bool = False  # measure the loss without the truth to read, and repetition

    def __post_init__(self) -> None:
        if not self.variants and not self.grid:
            raise ValueError("variants: there is nothing to compare; name variants, or values in grid")
        for seed in self.seeds:
            if self.seeds.count(seed) > 1:
                raise ValueError(f"seeds: {seed} is there twice; equal seeds give equal runs")
        if any(above <= below for below, above in zip(self.by_length, self.by_length[1:], strict=False)):
            raise ValueError(f"by_length: {self.by_length} does not rise; state the limits from short to long")
