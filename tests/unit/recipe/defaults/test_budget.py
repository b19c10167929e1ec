"""Time budgets of the command line."""

from __future__ import annotations

import pytest

from mtkit.errors import UsageError
from mtkit.recipe.defaults.facts import BudgetLimits, parse_budget


@pytest.mark.parametrize(("text", "hours"), [("30m", 0.5), ("2h", 2.0), ("1.5h", 1.5), ("1d", 24.0), ("best", None)])
def test_budgets(text: str, hours: float | None) -> None:
    assert parse_budget(text) == BudgetLimits(hours=hours, words=text)


@pytest.mark.parametrize(
    "text", ["", "30", "h", "0m", "-1h", "2 hours", "1e9h", "٣m", "0.01m", "9" * 400 + "d", "10001d"]
)
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write 30m, 2h, 1d, or best"):
        parse_budget(text)
