"""`mtkit preprocess`: clean, tokenize and binarise a corpus."""

from __future__ import annotations

from mtkit.cli.options import Overrides, Recipe, RunDir


def preprocess(recipe: Recipe, overrides: Overrides = None, run_dir: RunDir = None) -> None:
    """Clean, tokenize and binarise the corpus of a recipe.

    The tokenizer is trained first if it is missing.
    """
    from mtkit.recipe.recipe import read_recipe

    # before torch is imported, so that errors appear at once; commands run in trainings alone
    draft = read_recipe(recipe, overrides or [], allow_commands=True)

    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_notes, print_results
    from mtkit.pipeline import stages
    from mtkit.pipeline.choices import choose_for_run

    with open_display() as display:
        report = stages.preprocess(
            choose_for_run(draft, run_dir=run_dir, notify=lambda text: print_notes([text])),
            run_dir=run_dir,
            display=display,
        )
    print_results([], notes=report.lines)
