"""`mtkit describe`: the architecture of a model and its cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Format, JsonFile, Overrides, complete_recipe, forbid_overwriting_input


def describe(
    model: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|MODEL", help="Recipe, model folder or run folder.", autocompletion=complete_recipe
        ),
    ],
    overrides: Overrides = None,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="OTHER", help="Compare with this recipe or model.")
    ] = None,
    length: Annotated[
        int, typer.Option("--length", min=1, help="Sentence length in tokens per side, including the end of sentence.")
    ] = 30,
    json_file: JsonFile = None,
    form: Format = None,
) -> None:
    """Show a model's modules, parameters, FLOPs and memory.

    Needs neither a corpus nor trained weights; figures are per token.
    """
    from mtkit.cli.printing import print_results
    from mtkit.describe import describe as library
    from mtkit.describe.describe import comparison_table, legend, module_table, summary_table

    forbid_overwriting_input("describe", json_file, [Path(name) for name in (model, compare) if name is not None])
    names = [(model, overrides or []), *([(compare, [])] if compare is not None else [])]
    described = [library.describe(library.load_architecture(name, changes), length=length) for name, changes in names]
    tree = comparison_table(*described) if compare is not None else module_table(described[0])
    content = [each.as_dict() for each in described]
    print_results(
        [tree, summary_table(*described)],
        form,
        notes=legend(length),
        content=content if compare is not None else content[0],
        json_file=json_file,
    )
