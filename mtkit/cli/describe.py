"""`mtkit describe`: the architecture of a model and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Overrides


def describe(
    model: Annotated[str, typer.Argument(metavar="RECIPE|MODEL", help="A recipe, a model folder or a run folder.")],
    overrides: Overrides = None,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="OTHER", help="Put this recipe or model beside it.")
    ] = None,
    length: Annotated[
        int, typer.Option("--length", min=1, help="Tokens of either side of a sentence, its end included.")
    ] = 30,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here too.")
    ] = None,
) -> None:
    """Print the parts of a model with shapes, parameters, operations and memory for each token; needs no corpus."""
    from mtkit.cli.output import check_json
    from mtkit.cli.printing import print_lines, print_table
    from mtkit.describe import describe as library
    from mtkit.describe.table import comparison, figures, legend, tree
    from mtkit.io.files import write_json

    check_json(json_file, [Path(name) for name in (model, compare) if name is not None], "describe")
    names = [(model, overrides or []), *([(compare, [])] if compare is not None else [])]
    found = [library.describe(library.find(name, changes), length=length) for name, changes in names]
    print_table(comparison(*found) if compare is not None else tree(found[0]))
    print_lines([""])
    print_table(figures(*found))
    print_lines(["", *legend(length)])
    if json_file is not None:
        write_json(json_file, [each.as_dict() for each in found] if compare is not None else found[0].as_dict())
