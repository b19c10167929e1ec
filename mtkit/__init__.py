"""mtkit: machine translation, from two text files to a measured, deployable system.

The public Python API; everything else may change between versions. Names are imported on first use, so `import mtkit`
is fast and does not import torch.

Translating:
    load_model      load a model folder, a finished run or an ensemble as a Translator
    Translator      its methods `translate` and `translate_lines` translate lines of text
    Translation     the translation of a line, with scores and alternatives if requested
Training:
    load_recipe     read and check a recipe, with overrides
    Recipe          everything about a run: corpus, tokenizer, model, training, search and evaluation
    train           train the model of a recipe
    run             run all stages of a recipe, from text files to scores
    Report          the result of `train`, `run` and `evaluate_run`
Evaluating:
    evaluate        BLEU, chrF and TER of translations
    Scores          its result
    evaluate_run    translate and score the test sets of a finished run
Errors:
    MtkitError      base class of all errors that a user can cause; see errors.py

Example:
    >>> import mtkit
    >>> report = mtkit.run(mtkit.load_recipe("quickstart", ["training.max_updates=500"]))
    >>> report.content["test"]["embedded"]["bleu"]
    >>> translator = mtkit.load_model(report.run_dir)
    >>> hyps = translator.translate_lines(["The dog runs .", "A cat sleeps ."])
    >>> mtkit.evaluate(hyps, [["Der Hund rennt .", "Eine Katze schläft ."]]).bleu.value

Recipes can also be built in Python from the configuration classes; see `train`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, whose import would take most of the time until signals are handled
if TYPE_CHECKING:
    from typing import Any

    from mtkit.errors import MtkitError
    from mtkit.evaluation.score import Scores
    from mtkit.evaluation.score import score as evaluate
    from mtkit.pipeline.stages import Report, evaluate_run, run, train
    from mtkit.recipe.recipe import load_recipe
    from mtkit.recipe.sections import Recipe
    from mtkit.translate.load import load_translator as load_model
    from mtkit.translate.translator import Translation, Translator

__version__ = "0.2.0"

_LOCATIONS = {
    "MtkitError": "mtkit.errors:MtkitError",
    "Recipe": "mtkit.recipe.sections:Recipe",
    "Report": "mtkit.pipeline.stages:Report",
    "Scores": "mtkit.evaluation.score:Scores",
    "Translation": "mtkit.translate.translator:Translation",
    "Translator": "mtkit.translate.translator:Translator",
    "evaluate": "mtkit.evaluation.score:score",
    "evaluate_run": "mtkit.pipeline.stages:evaluate_run",
    "load_model": "mtkit.translate.load:load_translator",
    "load_recipe": "mtkit.recipe.recipe:load_recipe",
    "run": "mtkit.pipeline.stages:run",
    "train": "mtkit.pipeline.stages:train",
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
    """Import a public name on first access (PEP 562)."""
    import importlib

    if name not in _LOCATIONS:
        raise AttributeError(f"module mtkit has no attribute {name!r}")
    module, _, attribute = _LOCATIONS[name].partition(":")
    return vars(importlib.import_module(module))[attribute]


def __dir__() -> list[str]:
    return sorted(__all__)
