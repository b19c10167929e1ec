"""mtkit: machine translation from two text files to a measured, deployable system.

These names are what programs may rely on; they are loaded when first used, so that `import mtkit` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtkit.build.translator import load_translator as load_model
    from mtkit.errors import MtkitError
    from mtkit.evaluation.score import Scores
    from mtkit.evaluation.score import score as evaluate
    from mtkit.pipeline import Report, evaluate_run, run, train
    from mtkit.recipe.recipe import Recipe, load_recipe
    from mtkit.translate.translator import Translation, Translator

__version__ = "0.1.0"

_HOMES = {
    "MtkitError": "mtkit.errors:MtkitError",
    "Recipe": "mtkit.recipe.recipe:Recipe",
    "Report": "mtkit.pipeline:Report",
    "Scores": "mtkit.evaluation.score:Scores",
    "Translation": "mtkit.translate.translator:Translation",
    "Translator": "mtkit.translate.translator:Translator",
    "evaluate": "mtkit.evaluation.score:score",
    "evaluate_run": "mtkit.pipeline:evaluate_run",
    "load_model": "mtkit.build.training:load_translator",
    "load_recipe": "mtkit.recipe.recipe:load_recipe",
    "run": "mtkit.pipeline:run",
    "train": "mtkit.pipeline:train",
}

__all__ = [
    "MtkitError",
    "Recipe",
    "Report",
    "Scores",
    "Translation",
    "Translator",
    "__version__",
    "evaluate",
    "evaluate_run",
    "load_model",
    "load_recipe",
    "run",
    "train",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module mtkit has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return vars(importlib.import_module(module))[attribute]


def __dir__() -> list[str]:
    return sorted(__all__)
