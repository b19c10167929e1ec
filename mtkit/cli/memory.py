"""Out-of-memory errors in one sentence, with the options of the command that reduce memory use."""

from __future__ import annotations

import re
import resource

from mtkit.errors import ComputeError

MIN_ADDRESS_SPACE = 800 << 20  # measured: importing torch, numpy and sentencepiece takes 700 MiB

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
    match = _REQUESTED.search(str(error))
    requested = "" if match is None else f" (tried to allocate {_amount(match)} more)"
    return f"out of memory{requested}; {_HINTS.get(command, _DEFAULT_HINT)}"


def _amount(match: re.Match[str]) -> str:
    return match[2] if match[1] is None else f"{int(match[1]) / 2**30:,.1f} GiB"
