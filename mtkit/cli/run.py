"""`mtkit run`: the whole route."""

from __future__ import annotations

from mtkit.cli.options import DryRun, Fresh, Overrides, Recipe, RunDir


def run(
    recipe: Recipe,
    overrides: Overrides = None,
    run_dir: RunDir = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
) -> None:
    """Tokenizer, corpus, training, translation, scores; what did not change is skipped, and said so."""
    from mtkit import pipeline
    from mtkit.cli.display import display
    from mtkit.cli.printing import print_lines
    from mtkit.recipe.recipe import load_recipe

    checked = load_recipe(recipe, overrides or [])
    if dry_run:
        print_lines([pipeline.dry_run(checked)])
        return
    with display() as shown:
        report = pipeline.run(checked, run_dir=run_dir, fresh=fresh, display=shown)
    print_lines(report.lines)
