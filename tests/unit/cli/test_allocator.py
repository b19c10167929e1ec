"""Freed memory stays in the process of a training."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PAGE = 4096
BUFFER = 10_000_000  # bytes, as the logits of 512 positions
PROGRAM = f"""
import resource
from mtkit.cli.allocator import keep_freed_memory
keep_freed_memory()
import torch
def empty_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.empty({BUFFER}, dtype=torch.uint8).fill_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
empty_pages()
print(empty_pages())
"""


def empty_pages(environment: dict[str, str]) -> int:
    """Return the pages that twenty buffers, one after another, get from the system."""
    program = [sys.executable, "-c", PROGRAM]
    return int(subprocess.run(program, env=environment, capture_output=True, check=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_a_buffer_that_is_needed_again_gets_no_new_pages() -> None:
    assert empty_pages(dict(os.environ)) < BUFFER / PAGE
    # a setting of the environment that gives memory back is respected: every buffer has new pages
    assert empty_pages({**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}) > 15 * BUFFER / PAGE
