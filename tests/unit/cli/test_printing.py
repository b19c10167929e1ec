"""What a command prints of names that its user chose."""

from __future__ import annotations

import pytest
from rich.table import Table

from mtkit.cli.printing import print_table


@pytest.mark.parametrize("name", ["hyp[de].txt", "a[/b]", ":smile:", "long/" * 60])
def test_a_name_in_a_table_is_whole(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_column("", no_wrap=True)
    table.add_column("BLEU")
    table.add_row(name, "31.40")
    print_table(table)
    row = next(line for line in capsys.readouterr().out.splitlines() if "31.40" in line)
    assert name in row
