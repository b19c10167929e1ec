"""`mtkit train`: train a model, or resume an interrupted training."""

from __future__ import annotations

from mtkit.cli.options import AllowCommands, Budget, Device, DryRun, Fresh, Overrides, Recipe, RunDir


def train(
    recipe: Recipe,
    overrides: Overrides = None,
    run_dir: RunDir = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    budget: Budget = None,
    device: Device = None,
    allow_commands: AllowCommands = False,
) -> None:
    """Train a model, or resume an interrupted training.

    Tokenizer and corpus are prepared first if they are missing.
    """
    from mtkit.hardware import limit_spinning
    from mtkit.recipe.defaults.facts import check_budget
    from mtkit.recipe.recipe import read_recipe

    limit_spinning()
    limits = check_budget(budget, overrides or [])
    # before torch is imported, so that errors appear at once
    draft = read_recipe(recipe, overrides or [], allow_commands=allow_commands or dry_run)

    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines, print_notes, print_results
    from mtkit.hardware import on_device, tune_malloc
    from mtkit.pipeline import stages
    from mtkit.pipeline.choices import choose_for_run
    from mtkit.pipeline.estimate import dry_run_report
    from mtkit.pipeline.prepare_corpus import check_existing_inputs
    from mtkit.recipe.sections import describe_choices

    tune_malloc()
    with on_device(device):
        chosen = choose_for_run(
            draft, limits, run_dir=run_dir, fresh=fresh, dry_run=dry_run, notify=lambda text: print_notes([text])
        )
        if dry_run:
            print_lines([*describe_choices(chosen), dry_run_report(chosen)])
            print_notes(check_existing_inputs(chosen))
            return
        with open_display() as display:
            report = stages.train_stages(chosen, run_dir=run_dir, fresh=fresh, display=display, started=limits.started)
        print_results([], notes=report.lines)
