"""Out-of-memory errors in one sentence, with the options of the command that reduce memory use."""

from __future__ import annotations

from mtkit.errors import describe_oom

_TRAINING_HINT = (
    "reduce training.batch_tokens (raise training.micro_batches by the same factor to keep the size of an update) or "
    "the model; --dry-run estimates the memory that a recipe needs"
)
_TRANSLATION_HINT = "reduce --batch-tokens"
_HINTS = {
    "run": _TRAINING_HINT,
    "train": _TRAINING_HINT,
    "translate": f"{_TRANSLATION_HINT}, --beam-size or --workers",
    "score": _TRANSLATION_HINT,
    "describe": "reduce --length or the model",
    "bench": f"{_TRANSLATION_HINT} or --beam-size",
}
_DEFAULT_HINT = "end other programs, or use a machine with more memory"


def explain_oom(error: BaseException, command: str) -> str:
    """The message for an out-of-memory error: how much was requested, if known, and what helps in this command."""
    return f"{describe_oom(error)}; {_HINTS.get(command, _DEFAULT_HINT)}"
