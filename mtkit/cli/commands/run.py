"""`mtkit run`: all stages of a recipe."""

from __future__ import annotations

from mtkit.cli.options import Budget, DryRun, Fresh, Overrides, Recipe, RunDir


def run(
    recipe: Recipe,
    overrides: Overrides = None,
    run_dir: RunDir = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    budget: Budget = None,
) -> None:
    """Run all stages of a recipe, from raw text to scores.

    The stages are tokenizer, corpus, training, translation of the test sets, and scores. Stages whose inputs are
    unchanged are skipped and reported.
    """
    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines
    from mtkit.pipeline import stages
    from mtkit.pipeline.dry_run import dry_run_report
    from mtkit.pipeline.setup.choices import load_run_recipe
    from mtkit.recipe.recipe import describe_choices

    loaded = load_run_recipe(recipe, overrides or [], run_dir=run_dir, fresh=fresh, budget=budget)
    if dry_run:
        print_lines([*describe_choices(loaded), dry_run_report(loaded)])
        return
    with open_display() as display:
        report = stages.run(loaded, run_dir=run_dir, fresh=fresh, display=display)
    print_lines(report.lines)
