"""What a notebook shows of the public names: short representations, and tables whose text is escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mtkit
from mtkit.pipeline.stages import Report
from mtkit.translate.translation import Alternative, Translation

MARKUP = "<b>&"


def shown() -> dict[str, Any]:
    nbest = (Alternative(hyp=MARKUP, score=-0.5, log_prob=-1.0), Alternative(hyp="b", score=-0.7, log_prob=-1.4))
    content = {"test": {MARKUP: {"bleu": 100.00000000000004, "bleu_signature": "x"}}}
    return {
        "Translation": Translation(line=1, hyp=MARKUP, nbest=nbest, flags=("limit",)),
        "Scores": mtkit.evaluate(["a b c d"], [["a b c d"]]),
        "Report": Report(Path.cwd() / "runs" / MARKUP, [], content),
        "Recipe": mtkit.load_recipe("quickstart"),
    }


@pytest.mark.parametrize("name", ["Translation", "Scores", "Report", "Recipe"])
def test_representations_are_short_and_html_is_escaped(name: str) -> None:
    value = shown()[name]
    assert repr(value).startswith(f"{name}(")
    assert len(repr(value)) <= 120
    assert "0000000" not in repr(value)
    page = value._repr_html_()
    assert page.count("<") == page.count(">") > 2
    assert MARKUP not in page
    assert "object at 0x" not in page


def test_values_of_the_representations() -> None:
    values = shown()
    assert repr(values["Translation"]) == f"Translation({MARKUP!r}, flags=('limit',))"
    assert repr(values["Scores"]) == "Scores(BLEU 100.00, chrF2 100.00, TER 0.00)"
    assert repr(values["Scores"].bleu) == "Score(100.00)"
    assert repr(values["Report"]) == f"Report(runs/{MARKUP}, {MARKUP} BLEU 100.00)"
    assert repr(values["Recipe"]).startswith("Recipe('quickstart', en to de, transformer, ")
    assert "training.schedule.kind: " in values["Recipe"]._repr_html_()


def test_an_error_of_the_user_has_no_traceback() -> None:
    with pytest.raises(mtkit.MtkitError) as caught:
        mtkit.load_recipe("quickstart", ["training.lr=3"])
    name, error = caught.type.__name__, caught.value
    assert error._render_traceback_() == [f"{name}: {error}"]
