"""`mtkit preprocess`: clean and binarise the corpus."""

from __future__ import annotations

from mtkit.cli.options import Overrides, Recipe, RunDir


def preprocess(recipe: Recipe, overrides: Overrides = None, run_dir: RunDir = None) -> None:
    """Clean and binarise the recipe's corpus, first learning the tokenizer if it is missing."""
    from mtkit import pipeline
    from mtkit.cli.display import display
    from mtkit.cli.printing import print_lines
    from mtkit.recipe.recipe import load_recipe

    checked = load_recipe(recipe, overrides or [])
    with display() as shown:
        report = pipeline.preprocess(checked, run_dir=run_dir, display=shown)
    print_lines(report.lines)
