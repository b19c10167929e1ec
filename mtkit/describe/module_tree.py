"""Module tree of a model with parameters, FLOPs and saved activations; repeated layers are collapsed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from torch import nn

from mtkit.describe.cost import ModelCost
from mtkit.layers.positions.base import Position


@dataclass(frozen=True)
class ModuleNode:
    """A module with its children; figures include those of the children.

    Attributes:
        name: attribute name; `0–5` for consecutive equal layers.
        key: path that is the same for corresponding modules of two models.
        kind: class name.
        shape: shapes of the module's own parameters.
        count: number of consecutive equal modules. Figures sum over all of them, those of `children` are of one.
        parameters: number of parameters; tied ones count where they appear first.
        flops: FLOPs of a forward pass per token.
        activations: bytes saved for the gradient per token.
    """

    name: str
    key: str
    kind: str
    shape: str
    count: int
    parameters: int
    flops: float
    activations: float
    children: tuple[ModuleNode, ...]

    @property
    def figures(self) -> tuple[float, float, float]:
        """Parameters, FLOPs and activations."""
        return self.parameters, self.flops, self.activations

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for equal layers; without activations, since only the first layer saves an input that they share."""
        children = ((child.name, child.signature) for child in self.children)
        return self.kind, self.shape, self.count, self.parameters, round(self.flops), *children


def module_tree(model: nn.Module, cost: ModelCost, name: str) -> ModuleNode:
    """Build the tree of a model without modules that have neither parameters nor FLOPs, such as dropout."""
    seen: set[int] = set()

    def visit(module: nn.Module, path: str, name: str) -> ModuleNode:
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        seen.update(id(p) for p in own)
        children = [(child, visit(child, _join(path, each), each)) for each, child in module.named_children()]
        return ModuleNode(
            name=name,
            key="",
            kind=type(module).__name__,
            shape=" + ".join("×".join(map(str, p.shape)) for p in module.parameters(recurse=False)),
            count=1,
            parameters=sum(p.numel() for p in own) + sum(node.parameters for _, node in children),
            flops=cost.forward.get(path, 0.0) + sum(node.flops for _, node in children),
            activations=cost.activations.get(path, 0.0) + sum(node.activations for _, node in children),
            children=tuple(node for child, node in children if _is_relevant(child, node)),
        )

    return _with_keys(_collapse_repeats(visit(model, "", name)), "")


def _is_relevant(module: nn.Module, node: ModuleNode) -> bool:
    is_position_encoding = isinstance(module, Position) and type(module) is not Position
    return bool(node.children or node.parameters or node.flops or node.shape or is_position_encoding)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _collapse_repeats(node: ModuleNode) -> ModuleNode:
    """Merge consecutive equal layers into one node, and drop modules that only wrap another one."""
    children = [_collapse_repeats(child) for child in node.children]
    # only numbered modules (layers of a stack) are merged; named ones have different roles even if they are equal
    groups = groupby(children, key=lambda child: child.signature if child.name.isdigit() else child.name)
    merged = [_merge_repeats(list(group)) for _, group in groups]
    if len(merged) == 1 and merged[0].count == 1 and not node.shape and merged[0].figures == node.figures:
        kind = merged[0].kind if node.kind == nn.ModuleList.__name__ else f"{node.kind}: {merged[0].kind}"
        return replace(merged[0], name=node.name, kind=kind)
    return replace(node, children=tuple(merged))


def _merge_repeats(group: list[ModuleNode]) -> ModuleNode:
    first = group[0]
    if len(group) == 1:
        return first
    parameters, flops, activations = (sum(figures) for figures in zip(*(node.figures for node in group), strict=True))
    return replace(
        first,
        name=f"{first.name}–{group[-1].name}",
        count=len(group),
        parameters=int(parameters),
        flops=flops,
        activations=activations,
    )


def _with_keys(node: ModuleNode, key: str) -> ModuleNode:
    """Set the keys: names, or `#index` for layers, because models of different depth correspond by group."""
    names = [child.name if not child.name[0].isdigit() else f"#{index}" for index, child in enumerate(node.children)]
    children = (_with_keys(child, _join(key, name)) for child, name in zip(node.children, names, strict=True))
    return replace(node, key=key, children=tuple(children))
