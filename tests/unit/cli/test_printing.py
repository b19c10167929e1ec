"""Tables on stdout with names chosen by the user."""

from __future__ import annotations

import pytest
from rich.table import Table

from mtkit.cli.printing import print_table


@pytest.mark.parametrize("name", ["hyp[de].txt", "a[/b]", ":smile:", "long/" * 60])
def test_names_in_tables_are_neither_cut_nor_parsed_as_markup(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_column("", no_wrap=True)
    table.add_column("BLEU")
    table.add_row(name, "31.40")
    print_table(table)
    row = next(line for line in capsys.readouterr().out.splitlines() if "31.40" in line)
    assert name in row
