"""Recipe of a command with choices for its omitted keys: kept once training was started, fitted to a time budget."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mtkit.errors import UsageError
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline.dry_run import format_duration, seconds_per_update
from mtkit.pipeline.open_run import run_folder_path
from mtkit.pipeline.run_folder import RunFolder
from mtkit.recipe.defaults.facts import NO_LIMITS, Limits
from mtkit.recipe.defaults.model_size import NARROWEST, SHALLOW, SIZES
from mtkit.recipe.defaults.schedule import MIN_UPDATES, needed_updates
from mtkit.recipe.overrides import apply_overrides
from mtkit.recipe.recipe import Recipe, build_recipe, load_recipe, with_location

MIN_HOURS, MAX_HOURS = 1 / 60, 240_000.0  # of a budget
TRAINING_SHARE = 0.85  # of a budget; the rest is for the tokenizer, the corpus and validations
UPDATE_OVERHEAD = 1.2  # of a measured update: optimiser, average, data; 1.03 to 1.20 in short budgets (defaults.md)
MIN_SMALL_UPDATES = 2000  # of the smaller batches of a whole model; fewer layers are better than fewer of them
NEARLY_ALL = 0.9  # of the updates of a whole training; no smaller model is taken for the rest
MIN_BATCH = 1024  # tokens; smaller batches take more time for each token
_UNITS = {"m": 1 / 60, "h": 1.0, "d": 24.0}


def parse_budget(text: str) -> Limits:
    """Parse `30m`, `2h`, `1d` or `best`.

    Raises:
        UsageError: it is none of these, or not from MIN_HOURS to MAX_HOURS.
    """
    if text == "best":
        return Limits(words="best")
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([mhd])", text)
    hours = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not MIN_HOURS <= hours <= MAX_HOURS:
        raise UsageError(
            f"--budget {text}: not a time from 1m to {MAX_HOURS / 24:.0f}d; write 30m, 2h, 1d, or best for no limit"
        )
    return Limits(hours=hours, words=text)


def check_budget(budget: str, overrides: Sequence[str]) -> Limits:
    """Parse a budget, and check that no override decides what the budget decides.

    Raises:
        UsageError: as `parse_budget`; or an override states the updates, the hours, or that nothing is chosen.
    """
    limits = parse_budget(budget)
    for override in overrides:
        if override.partition("=")[0] in ("training.max_updates", "training.budget_hours", "defaults"):
            raise UsageError(f"--budget {budget} and {override} contradict each other; give one of them")
    return limits


def load_run_recipe(
    name_or_path: str,
    overrides: Sequence[str] = (),
    *,
    run_dir: Path | None = None,
    fresh: bool = False,
    budget: str | None = None,
) -> Recipe:
    """Read a recipe for a run, with the choices of the training that was started in its run folder, if there is one.

    Args:
        name_or_path: see `load_recipe`.
        overrides: see `load_recipe`.
        run_dir: the run folder; None: `runs/NAME`.
        fresh: the training of the folder will be deleted.
        budget: see `parse_budget`; None: no limit except that of the machine.

    Raises:
        UsageError: as `check_budget`; the recipe leaves nothing to choose that the budget could limit; or the training
            of the folder was started with another budget.
        RecipeError, MissingInputError, DataError: as `load_recipe`.
    """
    limits = NO_LIMITS if budget is None else check_budget(budget, overrides)
    recipe = load_recipe(name_or_path, overrides, limits=limits)
    if budget is not None and "training.max_updates" not in recipe.chosen:
        stated = "has defaults: fixed" if recipe.defaults == "fixed" else "states training.max_updates"
        raise UsageError(
            f"--budget {budget}: {recipe.name} {stated}, so that nothing is fitted to a time; remove the key from a "
            "copy of the recipe, or omit --budget"
        )
    folder = RunFolder(run_folder_path(recipe, run_dir))
    if recipe.chosen and folder.has_training() and not fresh:
        decided = folder.load_recipe()
        if budget is not None and decided.training.budget_hours != recipe.training.budget_hours:
            raise UsageError(
                f"--budget {budget}: the training in {folder.path} was planned {_plan_of(decided)}; omit --budget to "
                "continue it, choose another --run-dir, or start over with --fresh"
            )
        return load_recipe(name_or_path, overrides, decided=decided)
    return recipe if limits.hours is None else _fit(recipe, name_or_path, overrides, limits)


def _plan_of(recipe: Recipe) -> str:
    """Return the budget of a training in words."""
    hours = recipe.training.budget_hours
    if hours is None:
        return "without a budget"
    reason = recipe.chosen.get("training.budget_hours", "")  # "90% of 30m"
    return f"for {reason.rpartition(' ')[2] or format_duration(3600 * hours)}"


def check_overrides(overrides: Sequence[str]) -> None:
    """Check overrides of a recipe that is not written yet, with files and languages alone.

    Raises:
        RecipeError: a key does not exist, or a value is invalid.
    """
    errors: list[str] = []
    files = {"src": "src", "tgt": "tgt"}
    corpus = {"src_lang": "src", "tgt_lang": "tgt", "train": [files], "valid": files, "test": {"test": files}}
    tree = with_location({"name": "new", "corpus": corpus}, "recipe", Path.cwd())
    build_recipe(apply_overrides(tree, overrides, Path.cwd(), errors), errors)


def _fit(recipe: Recipe, name_or_path: str, overrides: Sequence[str], limits: Limits) -> Recipe:
    """Limit updates, then the width of the model, the batch and the layers, so that training takes TRAINING_SHARE.

    The rate is measured on this machine for each recipe that is tried. A narrower model is better than too few updates,
    and so are smaller batches and then fewer layers.
    """
    seconds = TRAINING_SHARE * 3600 * (limits.hours or 0) / UPDATE_OVERHEAD
    for limited, enough in _plans(recipe, limits):
        recipe = load_recipe(name_or_path, overrides, limits=limited)
        updates = int(seconds / seconds_per_update(recipe))
        needed = needed_updates(recipe.training.max_updates, recipe.training.max_epochs)
        if updates >= needed:
            return recipe
        enough = min(enough, round(NEARLY_ALL * needed))
        is_wide = (limited.size or 0) > NARROWEST
        if updates >= (max(enough, needed // 3) if is_wide else enough):
            break
    return load_recipe(name_or_path, overrides, limits=replace(limited, updates=updates))


def _plans(recipe: Recipe, limits: Limits) -> Iterator[tuple[Limits, int]]:
    """Yield limits that make training cheaper and cheaper, each with the updates that are enough for it."""
    start = max((index for index, size in enumerate(SIZES) if size.d_model == recipe.model.d_model), default=0)
    for size in range(max(start, NARROWEST), NARROWEST - 1, -1):
        limited = replace(limits, size=size)
        yield limited, MIN_UPDATES
    batch = recipe.training.batch_tokens
    while isinstance(batch, int) and _may_halve(recipe, batch):
        batch //= 2
        limited = replace(limited, batch_tokens=batch)
        yield limited, MIN_SMALL_UPDATES
    for size in range(NARROWEST - 1, -1, -1) if _may_be_shallow(recipe) else ():
        yield replace(limited, size=size), MIN_UPDATES


def _may_be_shallow(recipe: Recipe) -> bool:
    """Return whether fewer layers can be chosen: all layers are alike, and no key depends on their number."""
    model = recipe.model
    return (
        isinstance(model, TransformerConfig)
        and {"model.encoder_layers", "model.decoder_layers"} <= recipe.chosen.keys()
        and ("model.d_model" in recipe.chosen or model.d_model == SHALLOW[0].d_model)
        and model.encoder_sharing.kind == model.decoder_sharing.kind == "none"
        and model.feed_forward.kind != "moe"
    )


def _may_halve(recipe: Recipe, batch: int) -> bool:
    """Return whether the batch size was chosen and is above the smallest."""
    return "training.batch_tokens" in recipe.chosen and batch > MIN_BATCH
