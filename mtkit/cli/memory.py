"""Out-of-memory errors in one sentence, with the options of the command that reduce memory use."""

from __future__ import annotations

import re

# torch has an exception class for GPU memory only; its CPU allocator and some kernels raise plain RuntimeErrors
_OOM_MESSAGE = re.compile(
    r"can't allocate memory|out of memory|not enough memory|std::bad_alloc|_ALLOC_FAILED", re.IGNORECASE
)
_REQUESTED = re.compile(r"allocate (\d+) bytes|allocate ([\d.]+ [KMGT]iB)")

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
    "bench": f"{_TRANSLATION_HINT} or --beam-size",
}
_DEFAULT_HINT = "end other programs, or use a machine with more memory"


def is_oom(error: BaseException) -> bool:
    """Whether torch, numpy or Python reports with this error that CPU or GPU memory ran out."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_OOM_MESSAGE.search(str(error))))


def explain_oom(error: BaseException, command: str) -> str:
    """The message for an out-of-memory error: how much was requested, if known, and what helps in this command."""
    match = _REQUESTED.search(str(error))
    requested = "" if match is None else f" (tried to allocate {_amount(match)} more)"
    return f"out of memory{requested}; {_HINTS.get(command, _DEFAULT_HINT)}"


def _amount(match: re.Match[str]) -> str:
    return match[2] if match[1] is None else f"{int(match[1]) / 2**30:,.1f} GiB"
