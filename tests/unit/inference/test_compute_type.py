"""The compute type `auto` on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from mtkit.inference import support
from mtkit.inference.prepare import resolve_compute_type
from mtkit.inference.support import cpu_compute_type


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no cpuinfo")
@pytest.mark.parametrize(
    ("flags", "native", "expected"),
    [
        ("avx2 avx512_bf16", "", "bf16"),
        ("avx2 avx512_bf16", "1", "bf16"),
        ("avx2 avx512_bf16", "avx512-bf16", "bf16"),
        ("avx2 avx512_bf16", "avx2", "float32"),
        ("avx2", "", "float32"),
    ],
)
def test_auto_is_bf16_where_the_processor_and_the_library_have_instructions_for_it(
    flags: str, native: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags : {flags}\n")
    monkeypatch.setattr(support, "CPUINFO", cpuinfo)
    monkeypatch.setenv("MTKIT_NATIVE", native)
    assert cpu_compute_type("auto") == expected
    dtype = resolve_compute_type("auto", torch.device("cpu"))
    assert dtype == (torch.bfloat16 if expected == "bf16" else torch.float32)


def test_a_type_that_is_asked_for_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTKIT_NATIVE", "avx2")
    assert cpu_compute_type("bf16") == "bf16"
