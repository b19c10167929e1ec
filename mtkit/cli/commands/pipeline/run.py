"""`mtkit run`: all stages of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.commands.translation.options import Encoding
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
            metavar="RECIPE|SRC TGT|FILE",
            help="YAML file or built-in name; two text files, line by line; or one with both sides, such as .tmx.",
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
    encoding: Encoding = None,
    mono: Annotated[
        Path | None,
        typer.Option(
            "--mono", metavar="FILE", help="Further text in the target language, translated back; kept if valid gains."
        ),
    ] = None,
    allow_commands: AllowCommands = False,
) -> None:
    """Run all stages for a RECIPE or a parallel text.

    A text is two files SRC TGT, or one FILE with both sides. For a text the recipe is written first, as by `mtkit
    new`, with whose options (--output to --test); also for --dry-run, and kept when the command is repeated. A
    training that was started keeps its text: once lines were added, --fresh begins another one. With --mono a
    system of the other direction is trained too and translates FILE, and the better one of two systems is kept: of
    the pairs alone, or with that text.

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
    has_options = any((output, src_lang, tgt_lang, docid, valid, test, encoding, mono))
    # before torch is imported, so that errors appear at once
    texts = _texts(recipe, words, (src_lang or "", tgt_lang or ""), has_options=has_options)
    draft = None if texts else read(recipe, words)
    words = words[len(texts[1:]) :]

    from mtkit.cli.printing import is_terminal, print_notes

    text = " and ".join(map(str, texts)) if draft is None else f"the training text of {draft.recipe.name}"
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
        options = NewRecipeOptions(src_lang, tgt_lang, docid, valid, test, output, encoding=encoding)
        if mono is not None:
            require_regular_file(mono)
        if draft is None:
            path = _write_recipe(texts, words, options, run_dir, fresh=fresh and not dry_run)
            draft = read(str(path), words)
        monolingual = None
        if mono is not None:
            read_with = partial(_read_with, read, str(path), words)
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


def _texts(first: str, words: list[str], langs: tuple[str, str], *, has_options: bool) -> list[Path]:
    """The texts that the arguments begin with: one with both sides, or two; none if they begin with a recipe.

    Args:
        langs: stated languages; empty: unknown.
        has_options: options of texts are given.

    Raises:
        UsageError: there is one text of lines, or there are three texts; or a recipe, with options of texts.
        RecipeError: an override is invalid.
    """
    from mtkit.documents.pairs import is_parallel
    from mtkit.errors import UsageError
    from mtkit.recipe.paths import RECIPE_SUFFIXES, builtin_files
    from mtkit.recipe.recipe import check_overrides

    if Path(first).suffix in RECIPE_SUFFIXES or first in builtin_files("recipe"):
        if has_options:
            raise UsageError(f"run: --output to --mono are of texts; {first} is a recipe: override its keys")
        return []
    has_second = bool(words) and ("=" not in words[0] or Path(words[0]).is_file())
    if is_parallel(Path(first), langs):
        if has_second:
            raise UsageError(f"{first}: has both sides; give it alone, or two files of lines, or a pattern in quotes")
        check_overrides(words)
        return [Path(first)]
    if not has_second:
        if Path(first).is_file():
            raise UsageError(
                f"{first}: not a recipe (.yaml); for text give two files: mtkit run SRC TGT, or one with both sides"
            )
        return []
    second, rest = words[0], words[1:]
    if rest and "=" not in rest[0] and Path(rest[0]).is_file():
        raise UsageError(
            f"{rest[0]}: a third text; for a test set of your own: mtkit run {first} {second} --test SRC TGT"
        )
    check_overrides(rest)  # before anything is written
    return [Path(first), Path(second)]


def _write_recipe(
    texts: list[Path], overrides: list[str], options: NewRecipeOptions, run_dir: Path | None, *, fresh: bool
) -> Path:
    """Write the recipe of a parallel text, unless it exists; return its path."""
    from mtkit.cli.printing import print_notes
    from mtkit.pipeline.new_recipe import plan_recipe

    plan = plan_recipe(texts, options, lambda text: print_notes([text]))
    plan.forbid_overwrite(overrides, run_dir, fresh=fresh)
    print_notes(plan.write())
    return plan.output
