"""Memory of engines: oneDNN's caches of kernels are bounded, and a fused language model is stored once."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from types import SimpleNamespace

import pytest

from mtkit.hardware import CPUINFO, cpu_has_bf16
from mtkit.translate.model_engine import ModelEngine
from tests.unit.translate.toy_translator import transformer

GROWTH = """
import torch
from mtkit.models.transformer.config import TransformerConfig
from mtkit.translate.model_engine import ModelEngine

def used():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

torch.set_num_threads(1)
model = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1).build(20, 20)
engine = ModelEngine([model], compute_type="bf16")
weight = torch.ones(256, 256, dtype=torch.bfloat16)
before = used()
for rows in range(1, 900):
    torch.nn.functional.linear(torch.ones(rows, 256, dtype=torch.bfloat16), weight)
print(used() - before)
"""


@pytest.mark.whole
@pytest.mark.skipif(not (sys.platform == "linux" and cpu_has_bf16(CPUINFO)), reason="no bf16 kernels of oneDNN")
def test_memory_does_not_grow_with_the_number_of_shapes() -> None:
    done = subprocess.run([sys.executable, "-c", GROWTH], check=True, capture_output=True)
    assert int(done.stdout) < 200 << 20  # 600 MB with the default capacity, 60 MB with ours


def test_a_fused_language_model_is_stored_once(tokenizers) -> None:
    loaded = SimpleNamespace(model=transformer(tokenizers), tokenizers=tokenizers)
    as_loaded = weakref.ref(loaded.model)
    engine = ModelEngine([transformer(tokenizers)], compute_type="float32", language_model=(loaded, 0.5))
    del loaded
    gc.collect()
    assert as_loaded() is None
    assert engine.stepper.empty_sources(2).ids.size(0) == 2
