"""Memory that is used up, told in one sentence with what helps against it."""

from __future__ import annotations

import re

# torch has a class of its own for GPUs only; its allocator of CPU memory and the kernels' throw plain RuntimeErrors
_SAID = re.compile(r"can't allocate memory|out of memory|not enough memory|std::bad_alloc|_ALLOC_FAILED", re.IGNORECASE)
_WANTED = re.compile(r"allocate (\d+) bytes|allocate ([\d.]+ [KMGT]iB)")

_TRAINING = (
    "make training.batch_tokens smaller (with as much more training.micro_batches an update stays the same), or the "
    "model; --dry-run says what a recipe needs"
)
_TRANSLATION = "make --batch-tokens smaller"
_REMEDIES = {
    "run": _TRAINING,
    "train": _TRAINING,
    "translate": f"{_TRANSLATION}, or --beam-size, or take fewer --workers",
    "score": _TRANSLATION,
    "bench": f"{_TRANSLATION}, or --beam-size",
}


def is_used_up(fault: BaseException) -> bool:
    """Whether this is how torch, numpy or Python says that there is no more memory, of the machine or of a GPU."""
    return isinstance(fault, MemoryError) or (isinstance(fault, RuntimeError) and bool(_SAID.search(str(fault))))


def explain(fault: BaseException, command: str) -> str:
    """That memory is used up, how much more was asked for, and what helps in this command."""
    found = _WANTED.search(str(fault))
    wanted = "" if found is None else f" ({_amount(found)} more were asked for)"
    remedy = _REMEDIES.get(command, "end other programs, or take a machine with more")
    return f"out of memory{wanted}; {remedy}"


def _amount(found: re.Match[str]) -> str:
    return found[2] if found[1] is None else f"{int(found[1]) / 2**30:,.1f} GiB"
