"""A model folder whose translations differ from line to line: random weights with a sharp output distribution."""

from __future__ import annotations

from pathlib import Path

import torch

from mtkit.model_folder.folder import read_model, write_model
from mtkit.training.weights import weights


def write_sharp_model(source: str, target: str) -> int:
    """Write the model of `source` with other weights to `target`."""
    loaded = read_model(Path(source))
    torch.manual_seed(2)
    size = loaded.tokenizers.src.vocab.size
    model = loaded.metadata.model.build(size, size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
        model.output.weight.mul_(2)
    lexicon = Path(source) / "lexicon.safetensors"
    write_model(Path(target), weights(model), loaded.metadata, loaded.tokenizers, card="a toy\n", lexicon=lexicon)
    return 0
