"""Smaller and faster models made from a trained one.

Distillation is an objective of training (training/objectives/distillation.py); number formats of weights on disk are in
model_folder/weights_file.py.
"""

from typing import Literal

Target = Literal["bf16", "int8", "int4", "sparse", "heads", "ffn", "half-depth", "vocabulary"]  # `mtkit compress --to`
