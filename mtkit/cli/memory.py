"""Out-of-memory errors in one sentence, with the options of the command that reduce memory use."""

from __future__ import annotations

import resource

from mtkit.errors import ComputeError, describe_oom

MIN_ADDRESS_SPACE = 800 << 20  # measured: importing torch, numpy and sentencepiece takes 700 MiB

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


def require_address_space() -> None:
    """Check the limit of the address space (ulimit -v): torch ends the process if memory runs out while it loads.

    Raises:
        ComputeError: the limit is below MIN_ADDRESS_SPACE.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < MIN_ADDRESS_SPACE:
        raise ComputeError(
            f"out of memory: the address space is limited to {limit >> 20:,} MiB (ulimit -v); loading the libraries "
            f"takes {MIN_ADDRESS_SPACE >> 20:,} MiB"
        )


def explain_oom(error: BaseException, command: str) -> str:
    """The message for an out-of-memory error: how much was requested, if known, and what helps in this command."""
    return f"{describe_oom(error)}; {_HINTS.get(command, _DEFAULT_HINT)}"
