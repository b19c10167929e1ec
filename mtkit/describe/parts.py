"""The parts of a model as a tree, with what each holds, computes and keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from torch import nn

from mtkit.describe.cost import Cost
from mtkit.layers.positions.base import Position


@dataclass(frozen=True)
class Part:
    """A part and those inside it; figures are of both together.

    Attributes:
        name: its attribute's name; `0–5` for parts in a row that are alike.
        key: where it stands, the same for parts of two models that correspond.
        kind: its class.
        shape: of its weights.
        count: how many alike stand here; figures are of all of them, those of `parts` of one of them.
        parameters: those that no part before it holds too.
        flops: floating-point operations of a forward pass for each token.
        activations: bytes kept for the gradient for each token.
    """

    name: str
    key: str
    kind: str
    shape: str
    count: int
    parameters: int
    flops: float
    activations: float
    parts: tuple[Part, ...]

    @property
    def figures(self) -> tuple[float, float, float]:
        """Parameters, operations and bytes."""
        return self.parameters, self.flops, self.activations

    @property
    def alike(self) -> tuple[object, ...]:
        """What is the same of two parts that are alike; what both are given is kept by the first alone."""
        inner = ((part.name, part.alike) for part in self.parts)
        return self.kind, self.shape, self.count, self.parameters, round(self.flops), *inner


def part_of(model: nn.Module, cost: Cost, name: str) -> Part:
    """The tree of a model; parts without weights that compute nothing are left out."""
    seen: set[int] = set()

    def grow(module: nn.Module, path: str, name: str) -> Part:
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        seen.update(id(p) for p in own)
        inner = [grow(child, _join(path, each), each) for each, child in module.named_children()]
        parts = tuple(part for part in inner if _matters(part))
        return Part(
            name=name,
            key="",
            kind=type(module).__name__,
            shape=_shape(module),
            count=1,
            parameters=sum(p.numel() for p in own) + sum(part.parameters for part in inner),
            flops=cost.forward.get(path, 0.0) + sum(part.flops for part in inner),
            activations=cost.activations.get(path, 0.0) + sum(part.activations for part in inner),
            parts=parts,
        )

    return _keyed(_folded(grow(model, "", name)), "")


POSITIONS = {cls.__name__ for cls in Position.__subclasses__()}


def _matters(part: Part) -> bool:
    return bool(part.parts or part.parameters or part.flops or part.shape or part.kind in POSITIONS)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shape(module: nn.Module) -> str:
    return " + ".join("×".join(map(str, p.shape)) for p in module.parameters(recurse=False))


def _folded(part: Part) -> Part:
    """The same with parts in a row that are alike as one, and without those that only wrap another."""
    inner = [_folded(each) for each in part.parts]
    rows = groupby(inner, key=lambda each: each.alike if each.name.isdigit() else each.name)
    parts = [_together(list(row)) for _, row in rows]
    if len(parts) == 1 and parts[0].count == 1 and not part.shape and parts[0].figures == part.figures:
        kind = parts[0].kind if part.kind == nn.ModuleList.__name__ else f"{part.kind}: {parts[0].kind}"
        return replace(parts[0], name=part.name, kind=kind)
    return replace(part, parts=tuple(parts))


def _together(row: list[Part]) -> Part:
    first = row[0]
    if len(row) == 1:
        return first
    sums = (sum(figures) for figures in zip(*(each.figures for each in row), strict=True))
    parameters, flops, activations = sums
    return replace(
        first,
        name=f"{first.name}–{row[-1].name}",
        count=len(row),
        parameters=int(parameters),
        flops=flops,
        activations=activations,
    )


def _keyed(part: Part, key: str) -> Part:
    """The same with keys: of numbered parts which row of alike ones it is, of others the name."""
    keys = [each.name if not each.name[0].isdigit() else f"#{number}" for number, each in enumerate(part.parts)]
    inner = (_keyed(each, _join(key, own)) for each, own in zip(part.parts, keys, strict=True))
    return replace(part, key=key, parts=tuple(inner))
