"""`mtkit keys`: list the keys of a recipe."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.cli.options import complete_key


def keys(
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="PREFIX", help="Path or name of a key, such as training.optimiser.", autocompletion=complete_key
        ),
    ] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all keys as Markdown.")] = False,
) -> None:
    """List recipe keys with types, defaults and reasons."""
    from mtkit.cli.printing import print_lines
    from mtkit.errors import UsageError
    from mtkit.recipe.reference import as_markdown, as_text, key_groups, select
    from mtkit.recipe.sections import Recipe
    from mtkit.recipe.suggestions import suggest, suggest_key
    from mtkit.recipe.type_hints import key_paths

    groups = key_groups(Recipe)
    if markdown and prefix:
        raise UsageError(f"keys: --markdown prints all keys; omit {prefix}")
    if markdown:
        print_lines(as_markdown(groups).rstrip("\n").split("\n"))
        return
    paths = key_paths(Recipe)
    selected = select(groups, prefix) or [each for path in paths.get(prefix, ()) for each in select(groups, path)]
    if not selected:
        known = [*(path for same_name in paths.values() for path in same_name), *paths]
        hint = suggest(prefix, known) if "." in prefix else suggest_key(prefix, Recipe, {}, known, "", in_file=True)
        raise UsageError(f"keys: {prefix}: no such key{hint.partition('; known here')[0]}")
    print_lines(as_text(selected))
