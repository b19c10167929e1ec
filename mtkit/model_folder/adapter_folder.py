"""Adapter folders in the layout of PEFT: adapter_config.json and adapter_model.safetensors.

The tensors of LoRA are `base_model.model.MODULE.lora_A.weight` and `lora_B.weight`, those of norms
`base_model.model.MODULE.ln_tuning_layers.NAME`: the names that the package peft reads and writes. PEFT has no training
of biases alone; their folder has the same files, with a `peft_type` of our own.
https://huggingface.co/docs/peft/developer_guides/checkpoint
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtkit.display import printable
from mtkit.errors import DataError, MissingInputError
from mtkit.inference.packing import as_float32
from mtkit.io.files import atomic_folder, read_file, write_text
from mtkit.io.json_text import parse_json
from mtkit.io.safetensors_file import Arrays, map_tensors
from mtkit.model_folder.foreign_names import Part, foreign_parts
from mtkit.recipe.type_hints import misfit

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
LORA, NORM, BIAS = "LORA", "LN_TUNING", "MTKIT_BIAS"  # values of peft_type
_NORM_PART = ".ln_tuning_layers."
_COMPUTED = {  # keys of LoRA
    "alpha_pattern", "base_model_name_or_path", "lora_alpha", "lora_bias", "peft_type", "r", "rank_pattern",
    "use_rslora",
}  # fmt: skip
_WITHOUT_EFFECT = {  # on the arithmetic; any other key must be empty
    "auto_mapping", "ensure_weight_tying", "eva_config", "exclude_modules", "inference_mode", "layers_pattern",
    "layers_to_transform", "lora_dropout", "megatron_config", "megatron_core", "peft_version", "qalora_group_size",
    "revision", "runtime_config", "target_modules", "task_type",
}  # fmt: skip
_EMPTY: tuple[Any, ...] = (None, False, "none", {}, [])
_KEPT_BASE = (None, True, False, "gaussian", "orthogonal", "eva")  # init_lora_weights; others change the base's weights
_MERGE = "merge it (peft: merge_and_unload, save_pretrained) and import the result"
_LORA_TENSOR = re.compile(r"(.+)\.(lora_A\.weight|lora_B\.weight|lora_B\.bias)")


def write_lora(folder: Path, tensors: Mapping[str, Tensor], *, rank: int, alpha: float, base: str | None) -> None:
    """Write an adapter of low rank.

    Args:
        tensors: `MODULE.lora_A.weight` and `MODULE.lora_B.weight`.
        base: hash of the weights of the model that it belongs to; None: unknown.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    modules = sorted({name.rpartition(".lora_")[0] for name in tensors})
    fields = {"r": rank, "lora_alpha": alpha, "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False}
    named = {f"{PREFIX}{name}": tensor for name, tensor in tensors.items()}
    _write(folder, {"peft_type": LORA, **fields, "target_modules": modules, "modules_to_save": None}, named, base)


def write_trained(folder: Path, tensors: Mapping[str, Tensor], *, norms: bool, base: str | None) -> None:
    """Write an adapter of trained norms, or of trained biases; `tensors` are their values by name."""
    part = _NORM_PART if norms else "."
    named = {PREFIX + part.join(name.rsplit(".", 1)): tensor for name, tensor in tensors.items()}
    modules = sorted({name.rpartition(".")[0] for name in tensors})
    _write(folder, {"peft_type": NORM if norms else BIAS, "target_modules": modules}, named, base)


def _write(folder: Path, fields: Mapping[str, Any], tensors: Mapping[str, Tensor], base: str | None) -> None:
    from mtkit.training.checkpoints.tensor_file import write_tensors

    content = {
        **fields,
        "task_type": None,
        "inference_mode": True,
        "base_model_name_or_path": None if base is None else f"sha256:{base}",
    }
    with atomic_folder(folder) as temporary:
        write_tensors(temporary / TENSORS, tensors)
        write_text(temporary / CONFIG, json.dumps(content, indent=2) + "\n")


@dataclass(frozen=True)
class Adapter:
    """An adapter as it was read from a folder."""

    folder: Path
    fields: Mapping[str, Any]
    tensors: Arrays

    def check_base(self, digest: str) -> None:
        """Check that the adapter belongs to the model with this hash of its weights, if it says so.

        Raises:
            DataError: it belongs to another model.
        """
        base = self.fields.get("base_model_name_or_path")
        if isinstance(base, str) and base.startswith("sha256:") and base != f"sha256:{digest}":
            raise DataError(
                f"{self.folder}: was trained on another model; give the model that it was made from, or train it again"
            )

    def applied(self, weights: Arrays) -> dict[str, NDArray[Any]]:
        """Weights of the model with this adapter merged; those that it does not change are shared.

        Raises:
            DataError: a tensor is of no weight of the model, or has another shape.
        """
        merged, changed = dict(weights), set[str]()
        parts = foreign_parts({name.rpartition(".")[0] for name in merged})
        is_update = self.fields["peft_type"] == LORA
        values = {name.removeprefix(PREFIX).replace(_NORM_PART, "."): array for name, array in self.tensors.items()}
        for name, array in (self._updates() if is_update else values).items():
            module, _, leaf = name.rpartition(".")
            part = parts.get(module, Part(module, 0, 1)) if name not in merged else Part(module, 0, 1)
            ours = f"{part.module}.{leaf}"
            shape = merged[ours].shape if ours in merged else ()
            rows = shape[0] // part.blocks if shape else 0
            if not shape or (rows, *shape[1:]) != array.shape:
                found = f"is {[rows, *shape[1:]]} in the model" if shape else "is not in the model"
                raise DataError(
                    f"{self.folder}: {name} {list(array.shape)} {found}; it was trained on another model, or changes "
                    f"what is not applied here: {_MERGE}"
                )
            if ours not in changed:
                merged[ours] = merged[ours].astype(np.float32)  # a copy
                changed.add(ours)
            place = merged[ours][part.number * rows : (part.number + 1) * rows]
            place[...] = place + array if is_update else array
        return merged

    def _updates(self) -> dict[str, NDArray[Any]]:
        """s·B A by the name of the weight, and s times the bias of B by that of the bias."""
        found = {name: _LORA_TENSOR.fullmatch(name) for name in self.tensors}
        if bad := next((name for name, match in found.items() if match is None), None):
            raise DataError(f"{self.folder / TENSORS}: {bad} is not read; {_MERGE}")
        modules = {match[1] for match in found.values() if match is not None}
        updates = {}
        for module in sorted(modules):
            sides = [self.tensors.get(f"{module}.lora_{side}.weight") for side in "AB"]
            down, up = (None if side is None else side.astype(np.float32) for side in sides)
            if down is None or up is None or down.ndim != 2 or up.ndim != 2 or down.shape[0] != up.shape[1]:
                raise DataError(f"{self.folder / TENSORS}: {module} has no pair of lora_A and lora_B of one rank")
            scale = np.float32(self._alpha(module) / len(down) ** (0.5 if self.fields.get("use_rslora") else 1))
            updates[f"{module.removeprefix(PREFIX)}.weight"] = scale * (up @ down)
            if (bias := self.tensors.get(f"{module}.lora_B.bias")) is not None:
                updates[f"{module.removeprefix(PREFIX)}.bias"] = scale * bias.astype(np.float32)
        return updates

    def _alpha(self, module: str) -> float:
        """lora_alpha of a module, which may be that of the first name in alpha_pattern that its own ends with."""
        pattern: dict[str, float] = self.fields.get("alpha_pattern") or {}
        own = (alpha for name, alpha in pattern.items() if f".{module}".endswith(f".{name}"))
        return float(next(own, self.fields["lora_alpha"]))


def read_adapter(folder: Path) -> Adapter:
    """Read an adapter folder, of mtkit or of peft.

    Raises:
        MissingInputError: it does not exist.
        DataError: a file is damaged, or the adapter is of a kind that is not read.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; an adapter is a folder with {CONFIG} and {TENSORS}")
    text = read_file(path)
    try:
        fields = parse_json(text)
        _, tensors = map_tensors(folder / TENSORS)
    except ValueError as error:
        raise DataError(f"{folder}: damaged, or no adapter: {error}; copy it again") from error
    if not isinstance(fields, dict) or fields.get("peft_type") not in (LORA, NORM, BIAS):
        kind = fields.get("peft_type") if isinstance(fields, dict) else None
        raise DataError(f"{path}: peft_type {str(kind)[:40]!r} is not read, but {LORA}, {NORM} and {BIAS}; {_MERGE}")
    if fields["peft_type"] == LORA:
        for key, value in fields.items():
            neutral = _KEPT_BASE if key == "init_lora_weights" else _EMPTY
            if key == "init_lora_weights" and value not in neutral:
                raise DataError(
                    f"{path}: {key}: {printable(str(value), 40)} changes the weights of the model, which the adapter "
                    f"does not hold; {_MERGE}, or save it with path_initial_model_for_weight_conversion"
                )
            if key not in _COMPUTED | _WITHOUT_EFFECT and value not in neutral:
                raise DataError(f"{path}: {key}: {str(value)[:40]} is not read; {_MERGE}")
        sizes = fields.get("r"), fields.get("lora_alpha")
        if not all(isinstance(size, int | float) and size > 0 for size in sizes):
            raise DataError(f"{path}: r and lora_alpha must be numbers above 0")
        pattern = fields.get("alpha_pattern") or {}
        if misfit(pattern, dict[str, float]) is not None or not all(re.fullmatch(r"[\w.]+", each) for each in pattern):
            raise DataError(f"{path}: alpha_pattern: {str(pattern)[:40]} is not read; {_MERGE}")
    floats = (np.float32, np.float16, np.uint16)  # uint16 holds the bits of bfloat16
    if bad := next((name for name, array in tensors.items() if array.dtype not in floats), None):
        raise DataError(f"{folder / TENSORS}: {bad} is no float of 16 or 32 bits; save the adapter in float32")
    return Adapter(folder, fields, {name: as_float32(array) for name, array in tensors.items()})
