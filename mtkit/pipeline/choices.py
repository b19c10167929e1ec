"""Choices for the omitted keys of a run's recipe: kept once training was started, fitted to a time budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from mtkit.corpus.config import extract_lines, has_training_text, require_corpora
from mtkit.display import format_duration
from mtkit.errors import UsageError
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline.estimate import seconds_per_update
from mtkit.pipeline.open_run import run_folder_path
from mtkit.pipeline.run_folder import RunFolder
from mtkit.pipeline.synthetic_text import make_synthetic_texts
from mtkit.recipe.defaults.choose import Draft, choose, keep_choices
from mtkit.recipe.defaults.facts import NO_LIMITS, BudgetLimits
from mtkit.recipe.defaults.model_size import NARROWEST, SHALLOW, SIZES
from mtkit.recipe.defaults.schedule import MIN_UPDATES, needed_updates
from mtkit.recipe.sections import Recipe

TRAINING_SHARE = 0.85  # of a budget is expected for updates, the rest for tokenizer, corpus and validations
UPDATE_OVERHEAD = 1.2  # of a measured update: optimiser, average, data; 1.03 to 1.20 in short budgets (defaults.md)
MIN_SMALL_UPDATES = 2000  # of the smaller batches of a whole model; fewer layers are better than fewer of them
TIMING_SHARE = 0.01  # of a budget for the timings of each recipe that is tried, after the first
NEARLY_ALL = 0.9  # of the updates of a whole training; no smaller model is taken for the rest
MIN_BATCH = 1024  # tokens; smaller batches take more time for each token


def choose_for_run(
    draft: Draft,
    limits: BudgetLimits = NO_LIMITS,
    *,
    run_dir: Path | None = None,
    fresh: bool = False,
    dry_run: bool = False,
    notify: Callable[[str], None] = lambda sentence: None,
) -> Recipe:
    """Choose the omitted keys of a recipe for a run, or keep the choices of a training that was started in its folder.

    Args:
        run_dir: the run folder; None: `runs/NAME`.
        fresh: the training of the folder will be deleted.
        dry_run: text that a model makes is not made, though choices depend on it; text need not exist.
        notify: receives sentences about text that is made, or extracted from documents.

    Raises:
        UsageError: the recipe leaves nothing to choose that the budget could limit, or the training of the folder was
            started with another budget.
        RecipeError, DataError: as `choose`.
        MissingInputError, MissingExtraError, ReadWriteError, BusyError: as `make_synthetic_texts` and `extract_lines`.
    """
    omitted = {rule.key for rule in draft.rules}
    if limits.words and "training.max_updates" not in omitted:
        stated = "has defaults: fixed" if draft.recipe.defaults == "fixed" else "states training.max_updates"
        raise UsageError(
            f"--budget {limits.words}: {draft.recipe.name} {stated}, so that nothing is fitted to a time; remove the "
            "key from a copy of the recipe, or omit --budget"
        )
    if not dry_run:
        require_corpora(draft.recipe.corpus.all_files)
    extract_lines(draft.recipe.corpus.all_files, notify, only_existing=True)
    folder = RunFolder(run_folder_path(draft.recipe, run_dir))
    if draft.rules and folder.has_training() and not fresh:
        decided = folder.load_recipe()
        hours = limits.budget_hours if "training.budget_hours" in omitted else draft.recipe.training.budget_hours
        planned_hours = decided.training.budget_hours
        if limits.words and planned_hours != hours:
            reason = decided.chosen.get("training.budget_hours", "")  # "--budget 30m"
            planned = "without a budget"
            if planned_hours is not None:
                planned = f"for {reason.rpartition(' ')[2] or format_duration(3600 * planned_hours)}"
            raise UsageError(
                f"--budget {limits.words}: the training in {folder.path} was planned {planned}; omit "
                "--budget to continue it, choose another --run-dir, or start over with --fresh"
            )
        return keep_choices(draft, decided)
    if not dry_run:
        make_synthetic_texts(draft.recipe, notify)
    has_time = limits.hours is not None and has_training_text(draft.recipe.corpus)
    return _fit(draft, limits) if has_time else choose(draft, limits)


def _fit(draft: Draft, limits: BudgetLimits) -> Recipe:
    """Limit updates, then the width of the model, the batch and the layers, so that updates take TRAINING_SHARE.

    The rate on free cores is measured for each recipe that is tried: what others do in this moment does not decide on
    the model. A narrower model is better than too few updates, and so are smaller batches and then fewer layers.
    """
    seconds = 3600 * (limits.hours or 0)
    for limited, enough in _plans(choose(draft, limits), limits):
        recipe = choose(draft, limited)
        per_update = seconds_per_update(recipe, limit=TIMING_SHARE * seconds)
        updates = int(TRAINING_SHARE * seconds / UPDATE_OVERHEAD / per_update)
        needed = needed_updates(recipe.training.max_updates, recipe.training.max_epochs)
        if updates >= needed:
            return recipe
        enough = min(enough, round(NEARLY_ALL * needed))
        is_wide = (limited.size or 0) > NARROWEST
        if updates >= (max(enough, needed // 3) if is_wide else enough):
            break
    return choose(draft, replace(limited, updates=updates))


def _plans(recipe: Recipe, limits: BudgetLimits) -> Iterator[tuple[BudgetLimits, int]]:
    """Yield limits that make training cheaper and cheaper, each with the updates that are enough for it."""
    start = max((index for index, size in enumerate(SIZES) if size.d_model == recipe.model.d_model), default=0)
    for size in range(max(start, NARROWEST), NARROWEST - 1, -1):
        limited = replace(limits, size=size)
        yield limited, MIN_UPDATES
    batch = recipe.training.batch_tokens
    while isinstance(batch, int) and batch > MIN_BATCH and "training.batch_tokens" in recipe.chosen:
        batch //= 2
        limited = replace(limited, batch_tokens=batch)
        yield limited, MIN_SMALL_UPDATES
    for size in range(NARROWEST - 1, -1, -1) if _may_be_shallow(recipe) else ():
        yield replace(limited, size=size), MIN_UPDATES


def _may_be_shallow(recipe: Recipe) -> bool:
    """Return whether fewer layers can be chosen.

    All layers are alike, none is a mixture of experts, and no key depends on their number.
    """
    model = recipe.model
    return (
        isinstance(model, TransformerConfig)
        and {"model.encoder_layers", "model.decoder_layers"} <= recipe.chosen.keys()
        and ("model.d_model" in recipe.chosen or model.d_model == SHALLOW[0].d_model)
        and not (model.encoder_sharing.shares_layers or model.decoder_sharing.shares_layers)
        and not model.feed_forward.has_data_dependent_steps
    )
