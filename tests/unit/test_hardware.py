"""Free and peak memory, read from files in the format of Linux."""

import platform
import subprocess
import sys

import pytest
import torch

from mtkit import hardware
from mtkit.errors import UsageError

CPU = torch.device("cpu")


def machine(monkeypatch, folder, *, available=None, limit=None, used=0):
    (folder / "meminfo").write_text("MemTotal: 16 kB\n" + (f"MemAvailable:   {available} kB\n" if available else ""))
    if limit is not None:
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
    monkeypatch.setattr(hardware, "MEMINFO", folder / "meminfo")
    monkeypatch.setattr(hardware, "CGROUP", folder)


def test_free_memory_is_mem_available(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path, available=1000, limit="max")
    assert hardware.free_memory(CPU) == 1000 * 1024


def test_free_memory_respects_the_limit_of_a_container(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path, available=1000, limit=500_000, used=200_000)
    assert hardware.free_memory(CPU) == 300_000


def test_unknown_free_memory_is_half_of_the_ram(monkeypatch, tmp_path):
    machine(monkeypatch, tmp_path)
    assert 0 < hardware.free_memory(CPU) < sys.maxsize


def test_shared_memory_of_processes_counts_once(monkeypatch, tmp_path):
    for pid, private in ((7, 100), (8, 50)):
        (tmp_path / str(pid)).mkdir()
        values = {"Rss": 300, "Pss": 200, "Private_Clean": 20, "Private_Dirty": private - 20}
        lines = ["00400000-7ffe ---p 00000000 00:00 0 [rollup]", *(f"{k}:   {v:>8} kB" for k, v in values.items())]
        (tmp_path / str(pid) / "smaps_rollup").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(hardware, "PROCESSES", tmp_path)
    assert hardware.memory_of([7]) == 300 * 1024
    assert hardware.memory_of([7, 8]) == (100 + 50 + 250) * 1024


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cpu:3", "device cpu:3: the CPU has no number; write cpu"),
        ("cuda:99", "device cuda:99: not available; this machine has cpu"),
        ("tpu", "device tpu: not available; this machine has cpu"),
        ("meta", "device meta: cannot compute; this machine has cpu"),
        ("", "device '': not available; this machine has cpu"),
    ],
)
def test_devices_that_do_not_exist(name, reason):
    with pytest.raises(UsageError, match=reason):
        hardware.parse_device(name)
    assert hardware.parse_device(None) == hardware.default_device()


def test_peak_memory_never_decreases():
    before = hardware.peak_memory(CPU)
    block = torch.ones(20_000_000)  # 80 MB
    after = hardware.peak_memory(CPU)
    del block
    assert 0 < before <= after <= hardware.peak_memory(CPU)


ALLOCATE_AND_FREE = """
import resource
import torch
from mtkit.hardware import tune_malloc

assert tune_malloc()
for repeat in range(12):
    if repeat == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(1 << 20) for _ in range(16)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.whole
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_reused_without_page_faults():
    done = subprocess.run([sys.executable, "-c", ALLOCATE_AND_FREE], check=True, capture_output=True)
    assert int(done.stdout) < 16 * (4 << 20) // 4096 // 2  # half the pages of one repeat


LEAVE_HOLES = """
import torch
from mtkit.hardware import trim_malloc, tune_malloc

def own_memory():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1])

tune_malloc()  # otherwise large blocks go back at once
blocks = [torch.ones(1 << 16) for _ in range(400)]  # 100 MB
del blocks[:-1]
before = own_memory()
assert trim_malloc()
print(before - own_memory())
"""


@pytest.mark.whole
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_between_used_blocks_is_returned_to_the_system():
    done = subprocess.run([sys.executable, "-c", LEAVE_HOLES], check=True, capture_output=True)
    assert int(done.stdout) > 90_000  # kB
