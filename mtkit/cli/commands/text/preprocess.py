"""`mtkit preprocess`: clean, tokenize and binarise a corpus."""

from __future__ import annotations

from mtkit.cli.options import Overrides, Recipe, RunDir


def preprocess(recipe: Recipe, overrides: Overrides = None, run_dir: RunDir = None) -> None:
    """Clean, tokenize and binarise the corpus of a recipe.

    The tokenizer is trained first if it is missing.
    """
    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines
    from mtkit.pipeline import stages
    from mtkit.pipeline.setup.choices import load_run_recipe

    loaded = load_run_recipe(recipe, overrides or [], run_dir=run_dir)
    with open_display() as display:
        report = stages.preprocess(loaded, run_dir=run_dir, display=display)
    print_lines(report.lines)
