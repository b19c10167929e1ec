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
    from mtkit.recipe.suggestions import suggest, synonym_of
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
        synonym = synonym_of(prefix, Recipe, None)
        known = [*(path for same_name in paths.values() for path in same_name), *paths]
        hint = f"; did you mean {synonym}" if synonym else suggest(prefix, known).partition("; known here")[0]
        raise UsageError(f"keys: {prefix}: no such key{hint}")
    print_lines(as_text(selected))
