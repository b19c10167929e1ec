"""`mtkit run`: all stages of a recipe."""

from __future__ import annotations

from pathlib import Path

from mtkit.cli.options import Budget, Device, DryRun, Fresh, Overrides, Recipe, RunDir


def run(
    recipe: Recipe,
    overrides: Overrides = None,
    run_dir: RunDir = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    budget: Budget = None,
    device: Device = None,
) -> None:
    """Run all stages for a RECIPE or for two files SRC TGT.

    For two text files the recipe is written first, as by `mtkit new`, also for --dry-run, and kept when the command is
    repeated. A training that was started keeps its text: once lines were added, --fresh begins another one.

    The stages are tokenizer, corpus, training, translation of the test sets, and scores. Stages whose inputs are
    unchanged are skipped and reported.
    """
    from mtkit.cli.openmp import limit_spinning

    limit_spinning()

    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines
    from mtkit.hardware import on_device, tune_malloc
    from mtkit.pipeline import stages
    from mtkit.pipeline.dry_run import dry_run_report
    from mtkit.pipeline.prepare_corpus import check_existing_inputs
    from mtkit.pipeline.setup.choices import check_budget, load_run_recipe
    from mtkit.recipe.recipe import describe_choices

    if budget is not None:
        check_budget(budget, overrides or [])  # before a recipe is written
    tune_malloc()
    with on_device(device):
        recipe, overrides = _recipe_of_files(recipe, overrides or [], run_dir, fresh=fresh and not dry_run)
        loaded = load_run_recipe(recipe, overrides, run_dir=run_dir, fresh=fresh, budget=budget)
        if dry_run:
            print_lines([*describe_choices(loaded), dry_run_report(loaded)])
            check_existing_inputs(loaded)
            return
        with open_display() as display:
            report = stages.run(loaded, run_dir=run_dir, fresh=fresh, display=display)
        print_lines(report.lines)


def _recipe_of_files(first: str, overrides: list[str], run_dir: Path | None, *, fresh: bool) -> tuple[str, list[str]]:
    """Write the recipe of two text files, if the first arguments are not a recipe; return recipe and overrides."""
    from mtkit.cli.printing import print_notes
    from mtkit.errors import UsageError
    from mtkit.pipeline.setup.choices import check_overrides
    from mtkit.pipeline.setup.new_recipe import plan_recipe
    from mtkit.recipe.builtin import RECIPE_SUFFIXES, builtin_files

    if Path(first).suffix in RECIPE_SUFFIXES or first in builtin_files("recipe"):
        return first, overrides
    if not overrides or ("=" in overrides[0] and not Path(overrides[0]).is_file()):
        if Path(first).is_file():
            raise UsageError(f"{first}: not a recipe (.yaml); for text give two files: mtkit run SRC TGT")
        return first, overrides
    second, rest = overrides[0], overrides[1:]
    if rest and "=" not in rest[0] and Path(rest[0]).is_file():
        raise UsageError(
            f"{rest[0]}: a third text; for a test set of your own: mtkit new {first} {second} --test SRC TGT"
        )
    check_overrides(rest)  # before anything is written
    plan = plan_recipe(Path(first), Path(second))
    plan.forbid_overwrite(rest, run_dir, fresh=fresh)
    recipe = plan.write()
    print_notes(recipe.notes)
    return str(recipe.path), rest
