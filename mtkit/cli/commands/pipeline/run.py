"""`mtkit run`: all stages of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.options import (
    AllowCommands,
    Budget,
    Device,
    DocId,
    DryRun,
    Fresh,
    Overrides,
    RecipeFile,
    RunDir,
    SrcLang,
    TestFiles,
    TgtLang,
    ValidFiles,
    complete_recipe,
)

if TYPE_CHECKING:
    from mtkit.pipeline.new_recipe import NewRecipeOptions
    from mtkit.recipe.defaults.choose import Draft


def run(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|SRC TGT",
            help="YAML file or built-in name; or two text files, line by line.",
            autocompletion=complete_recipe,
        ),
    ],
    overrides: Overrides = None,
    run_dir: RunDir = None,
    fresh: Fresh = False,
    dry_run: DryRun = False,
    budget: Budget = None,
    device: Device = None,
    output: RecipeFile = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    docid: DocId = None,
    valid: ValidFiles = None,
    test: TestFiles = None,
    mono: Annotated[
        Path | None,
        typer.Option(
            "--mono", metavar="FILE", help="Further text in the target language, translated back; kept if valid gains."
        ),
    ] = None,
    allow_commands: AllowCommands = False,
) -> None:
    """Run all stages for a RECIPE or for two files SRC TGT.

    For two text files the recipe is written first, as by `mtkit new`, with whose options (--output to --test); also for
    --dry-run, and kept when the command is repeated. A training that was started keeps its text: once lines were added,
    --fresh begins another one. With --mono a system of the other direction is trained too and translates FILE, and the
    better one of two systems is kept: of SRC and TGT alone, or with that text.

    The stages are tokenizer, corpus, training, translation of the test sets, and scores. Stages whose inputs are
    unchanged are skipped and reported.
    """
    from mtkit.hardware import limit_spinning
    from mtkit.recipe.defaults.facts import check_budget
    from mtkit.recipe.recipe import read_recipe

    limit_spinning()
    words = overrides or []
    limits = check_budget(budget, words)
    read = partial(read_recipe, allow_commands=allow_commands or dry_run)
    has_options = any((output, src_lang, tgt_lang, docid, valid, test, mono))
    # before torch is imported, so that errors appear at once
    draft = None if _are_texts(recipe, words, has_options) else read(recipe, words)

    from mtkit.cli.printing import is_terminal, print_notes

    text = f"{recipe} and {words[0]}" if draft is None else f"the training text of {draft.recipe.name}"
    if is_terminal():
        print_notes([f"reading {text} ..."])  # before what takes seconds

    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines, print_results
    from mtkit.finetuning.choice import choose_back_translation
    from mtkit.hardware import on_device, tune_malloc
    from mtkit.io.files import require_regular_file
    from mtkit.pipeline import stages
    from mtkit.pipeline.choices import choose_for_run
    from mtkit.pipeline.estimate import dry_run_report
    from mtkit.pipeline.monolingual import MonolingualText
    from mtkit.pipeline.new_recipe import NewRecipeOptions
    from mtkit.pipeline.prepare_corpus import check_existing_inputs
    from mtkit.recipe.sections import describe_choices

    def notify(sentence: str) -> None:
        print_notes([sentence])

    tune_malloc()
    with on_device(device):
        options = NewRecipeOptions(src_lang, tgt_lang, docid, valid, test, output)
        if mono is not None:
            require_regular_file(mono)
        if draft is None:
            path = _write_recipe(Path(recipe), words, options, run_dir, fresh=fresh and not dry_run)
            draft = read(str(path), words[1:])
        monolingual = None
        if mono is not None:
            read_with = partial(_read_with, read, str(path), words[1:])
            monolingual = MonolingualText(text=mono, read=read_with, choose=choose_back_translation)
            draft = monolingual.draft(run_dir)
        if budget is not None and is_terminal():
            print_notes([f"--budget {budget}: short trainings measure the speed of this machine ..."])
        if monolingual is not None and not dry_run:
            with open_display() as display:
                report = monolingual.run(limits, run_dir=run_dir, fresh=fresh, display=display, notify=notify)
            print_results([], notes=report.lines)
            return
        chosen = choose_for_run(draft, limits, run_dir=run_dir, fresh=fresh, dry_run=dry_run, notify=notify)
        if dry_run:
            print_lines([*describe_choices(chosen), dry_run_report(chosen)])
            print_notes(check_existing_inputs(chosen))
            return
        with open_display() as display:
            report = stages.run_stages(chosen, run_dir=run_dir, fresh=fresh, display=display, started=limits.started)
        print_results([], notes=report.lines)


def _read_with(read: Callable[..., Draft], path: str, overrides: list[str], more: Sequence[str]) -> Draft:
    return read(path, [*overrides, *more])


def _are_texts(first: str, words: list[str], has_options: bool) -> bool:
    """Return whether the arguments begin with two text files instead of a recipe; the others are then overrides.

    Raises:
        UsageError: there is one text, or there are three; or a recipe, with options of texts.
        RecipeError: an override is invalid.
    """
    from mtkit.errors import UsageError
    from mtkit.recipe.paths import RECIPE_SUFFIXES, builtin_files
    from mtkit.recipe.recipe import check_overrides

    if Path(first).suffix in RECIPE_SUFFIXES or first in builtin_files("recipe"):
        if has_options:
            raise UsageError(
                f"run: --output to --test are of two texts SRC TGT; {first} is a recipe: override its keys"
            )
        return False
    if not words or ("=" in words[0] and not Path(words[0]).is_file()):
        if Path(first).is_file():
            raise UsageError(f"{first}: not a recipe (.yaml); for text give two files: mtkit run SRC TGT")
        return False
    second, rest = words[0], words[1:]
    if rest and "=" not in rest[0] and Path(rest[0]).is_file():
        raise UsageError(
            f"{rest[0]}: a third text; for a test set of your own: mtkit run {first} {second} --test SRC TGT"
        )
    check_overrides(rest)  # before anything is written
    return True


def _write_recipe(src: Path, words: list[str], options: NewRecipeOptions, run_dir: Path | None, *, fresh: bool) -> Path:
    """Write the recipe of two text files, unless it exists; return its path."""
    from mtkit.cli.printing import print_notes
    from mtkit.pipeline.new_recipe import plan_recipe

    tgt, *overrides = words
    plan = plan_recipe(src, Path(tgt), options)
    plan.forbid_overwrite(overrides, run_dir, fresh=fresh)
    print_notes(plan.write())
    return plan.output
