"""What the machine says of its memory, read from files like those of Linux."""

import sys

import torch

from mtkit import hardware

CPU = torch.device("cpu")


def machine(monkeypatch, folder, *, available=None, limit=None, used=0):
    (folder / "meminfo").write_text("MemTotal: 16 kB\n" + (f"MemAvailable:   {available} kB\n" if available else ""))
    if limit is not None:
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
    monkeypatch.setattr(hardware, "MEMINFO", folder / "meminfo")
    monkeypatch.setattr(hardware, "CGROUP", folder)


def test_what_is_available(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path, available=1000, limit="max")
    assert hardware.free_memory(CPU) == 1000 * 1024


def test_a_container_may_have_less(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path, available=1000, limit=500_000, used=200_000)
    assert hardware.free_memory(CPU) == 300_000


def test_where_nobody_says_it_is_half_of_all(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path)
    assert 0 < hardware.free_memory(CPU) < sys.maxsize


def test_the_most_so_far_never_falls():
    before = hardware.peak_memory(CPU)
    block = torch.ones(20_000_000)  # 80 MB
    after = hardware.peak_memory(CPU)
    del block
    assert 0 < before <= after <= hardware.peak_memory(CPU)
