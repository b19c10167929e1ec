"""Configuration of a study: variants of a recipe and how they are compared."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated

from mtkit.config import Limits, config
from mtkit.recipe.located import LocatedValue, Origin

VariantName = Annotated[str, Limits(pattern=r"^\w[\w.+=-]*\Z")]  # name of a folder
Seed = Annotated[int, Limits(ge=0, lt=2**63)]
NumWords = Annotated[int, Limits(gt=0)]
LearningRate = Annotated[float, Limits(gt=0)]


def empty() -> LocatedValue:
    """Empty partial recipe."""
    return LocatedValue({}, Origin("", Path(), from_file=False))


@config
class StudyConfig:
    """Variants of one recipe, each trained from every seed.

    `common` and each variant are partial recipes. The recipe of a variant is base, then `common`, then the variant,
    merged like a recipe and its `base:`.
    """

    name: VariantName  # name of the folder, runs/NAME
    base: str  # recipe: a file, relative to this one, or the name of a built-in recipe
    common: LocatedValue = field(default_factory=empty)  # partial recipe that all variants share
    variants: dict[VariantName, LocatedValue] = field(default_factory=dict)  # partial recipes by name
    # more variants: recipes of their own, files or names of built-in recipes; `common` and `grid` change them too
    recipes: dict[VariantName, str] = field(default_factory=dict)
    # values by the path of their key; every combination is a variant
    grid: dict[str, Annotated[list[LocatedValue], Limits(min_length=1)]] = field(default_factory=dict)
    # variant: the variant whose trained model it is initialised from
    init_from_variant: dict[str, str] = field(default_factory=dict)
    # variant whose objective is distillation: the variant whose trained model is its teacher
    teacher_variant: dict[str, str] = field(default_factory=dict)
    # variant: learning rates to try with the first seed; the one with the lowest loss on valid is that of the variant
    learning_rates: dict[str, Annotated[list[LearningRate], Limits(min_length=1)]] = field(default_factory=dict)
    # three seeds are enough for a standard deviation
    seeds: Annotated[list[Seed], Limits(min_length=1)] = field(default_factory=lambda: [1, 2, 3])
    # test sets of the comparison; null: the recipe's first. The table has the first; claims have the lines of all
    test: str | list[str] | None = None
    baseline: str | None = None  # variant that the others are tested against; null: the first
    # also report BLEU by source length: maximum number of words of each group; longer sources are a group of their own
    bleu_by_length: list[NumWords] = field(default_factory=list)
    exposure_bias: bool = False  # also measure free-running loss and repetition

    def __post_init__(self) -> None:
        if not self.variants and not self.grid and not self.recipes:
            raise ValueError("variants: nothing to compare; add variants or a grid")
        for seed in self.seeds:
            if self.seeds.count(seed) > 1:
                raise ValueError(f"seeds: {seed} occurs twice; equal seeds give equal runs")
        for variant in self.variants.keys() & self.recipes.keys():
            raise ValueError(f"recipes: {variant} is one of variants too; give it another name")
        if any(above <= below for below, above in zip(self.bleu_by_length, self.bleu_by_length[1:], strict=False)):
            raise ValueError(f"bleu_by_length: {self.bleu_by_length} is not ascending; sort the limits")
