"""Module tree and cost of the model of a recipe or a model folder, without a corpus and without weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from torch import nn

from mtkit.describe.cost import ModelCost, count_cost
from mtkit.display import Table
from mtkit.errors import RecipeError, UsageError
from mtkit.layers.positions import Position
from mtkit.model_folder.config_file import verified
from mtkit.model_folder.folder import find_model, read_metadata, read_tokenizers
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.skip_init import build_on_meta
from mtkit.recipe.recipe import load_recipe
from mtkit.text.subword.import_tokenizer import planned_vocab_sizes

DEFAULT_LENGTH = 30  # tokens per side with the end of sentence; typical of news


@dataclass(frozen=True)
class Architecture:
    """Configuration of a model with the sizes of its vocabularies."""

    name: str
    config: ModelConfigBase
    src_vocab: int
    tgt_vocab: int


@dataclass(frozen=True)
class ModelDescription:
    """Architecture with its module tree and its cost."""

    architecture: Architecture
    tree: ModuleNode
    cost: ModelCost

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON values; FLOPs and bytes (float32) are per token of a sentence pair."""
        return {
            "name": self.architecture.name,
            "kind": self.architecture.config.kind,
            "vocabulary": {"src": self.architecture.src_vocab, "tgt": self.architecture.tgt_vocab},
            "parameters": self.tree.parameters,
            "sentence_length": self.cost.length,
            "flops_forward": self.tree.flops,
            "flops_training": self.cost.training,
            "activation_bytes": self.tree.activations,
            "decoding_bytes": asdict(self.cost.decoding),
            "modules": asdict(self.tree, dict_factory=_with_kind),
        }


def _with_kind(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a ModuleNode by their keys in JSON."""
    return {"kind" if key == "class_name" else key: value for key, value in items}


def load_architecture(name_or_path: str, overrides: Sequence[str] = ()) -> Architecture:
    """Read the architecture of a recipe, a model folder or a run folder.

    For a recipe, both vocabularies are assumed to have the size that the recipe requests.

    Raises:
        MissingInputError, RecipeError, DataError: there is no such recipe or model, or it is invalid.
        UsageError: overrides were given for a model folder.
    """
    path = Path(name_or_path)
    if not path.is_dir():
        recipe = load_recipe(name_or_path, overrides, allow_commands=True)
        return Architecture(recipe.name, recipe.model, *planned_vocab_sizes(recipe.tokenizer))
    if overrides:
        raise UsageError(f"{overrides[0]}: overrides apply to recipes, but {path} is a model; describe its recipe")
    folder = find_model(path)
    with verified(folder):
        metadata = read_metadata(folder)
        tokenizers = read_tokenizers(folder, metadata)
    return Architecture(path.resolve().name, metadata.model, tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)


def describe(architecture: Architecture, *, length: int = DEFAULT_LENGTH) -> ModelDescription:
    """Build the model on the meta device and count its parameters, FLOPs and memory.

    Args:
        architecture: see `load_architecture`.
        length: tokens per side of each sentence, including the end of sentence.

    Raises:
        RecipeError: model and vocabularies do not match.
        DataError: the model does not support sentences of this length.
    """
    src_vocab, tgt_vocab = architecture.src_vocab, architecture.tgt_vocab
    try:
        model = build_on_meta(lambda: architecture.config.build(src_vocab, tgt_vocab))
    except ValueError as error:
        raise RecipeError(f"model.{error}") from error
    cost = count_cost(model, src_vocab, tgt_vocab, length=length)
    return ModelDescription(architecture, module_tree(model, cost, architecture.name), cost)


@dataclass(frozen=True)
class ModuleNode:
    """A module with its children; figures include those of the children.

    Attributes:
        name: attribute name; `0–5` for consecutive equal layers.
        key: path that is the same for corresponding modules of two models.
        class_name: of torch or mtkit, `kind` in JSON; `Outer: Inner` for a module that only wraps another one.
        count: number of consecutive equal modules. Figures sum over all of them, those of `children` are of one.
        parameters: number of parameters; tied ones count where they appear first.
        activations: bytes saved for the gradient per token.
    """

    name: str
    key: str
    class_name: str
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
        return self.class_name, self.shape, self.count, self.parameters, round(self.flops), *children


def module_tree(model: nn.Module, cost: ModelCost, name: str) -> ModuleNode:
    """Build the tree of a model without modules that have neither parameters nor FLOPs, such as dropout."""
    seen: set[int] = set()

    def visit(module: nn.Module, path: str, name: str) -> ModuleNode:
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        seen.update(id(p) for p in own)
        children = [(child, visit(child, _join(path, each), each)) for each, child in module.named_children()]
        relevant = [
            node
            for child, node in children
            if (node.children or node.parameters or node.flops or node.shape)
            or (isinstance(child, Position) and type(child) is not Position)
        ]
        return ModuleNode(
            name=name,
            key="",
            class_name=type(module).__name__,
            shape=" + ".join("×".join(map(str, p.shape)) for p in module.parameters(recurse=False)),
            count=1,
            parameters=sum(p.numel() for p in own) + sum(node.parameters for _, node in children),
            flops=cost.forward.get(path, 0.0) + sum(node.flops for _, node in children),
            activations=cost.activations.get(path, 0.0) + sum(node.activations for _, node in children),
            children=tuple(relevant),
        )

    return _with_keys(_collapse_repeats(visit(model, "", name)), "")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _collapse_repeats(node: ModuleNode) -> ModuleNode:
    """Merge consecutive equal layers into one node, and drop modules that only wrap another one."""
    children = [_collapse_repeats(child) for child in node.children]
    # only numbered modules (layers of a stack) are merged; named ones have different roles even if they are equal
    groups = groupby(children, key=lambda child: child.signature if child.name.isdigit() else child.name)
    merged = []
    for _, group in groups:
        first, *others = group
        if others:
            figures = zip(*(node.figures for node in (first, *others)), strict=True)
            parameters, flops, activations = map(sum, figures)
            first = replace(
                first,
                name=f"{first.name}–{others[-1].name}",
                count=1 + len(others),
                parameters=int(parameters),
                flops=flops,
                activations=activations,
            )
        merged.append(first)
    if len(merged) == 1 and merged[0].count == 1 and not node.shape and merged[0].figures == node.figures:
        inner = merged[0].class_name
        outer = "" if node.class_name == nn.ModuleList.__name__ else f"{node.class_name}: "
        return replace(merged[0], name=node.name, class_name=outer + inner)
    return replace(node, children=tuple(merged))


def _with_keys(node: ModuleNode, key: str) -> ModuleNode:
    """Set the keys: names, or `#index` for layers, because models of different depth correspond by group."""
    names = [child.name if not child.name[0].isdigit() else f"#{index}" for index, child in enumerate(node.children)]
    children = (_with_keys(child, _join(key, name)) for child, name in zip(node.children, names, strict=True))
    return replace(node, key=key, children=tuple(children))


DIFFERS = "≠"


@dataclass(frozen=True)
class TreeRow:
    """A module in the printed tree; `guide` holds the branches drawn before its name."""

    guide: str
    node: ModuleNode

    @property
    def name(self) -> str:
        """The module's name behind its branches."""
        return f"{self.guide}{self.node.name}"

    @property
    def label(self) -> str:
        """Class name, with the number of equal layers if there are several."""
        return f"{self.node.count} × {self.node.class_name}" if self.node.count > 1 else self.node.class_name


def tree_rows(node: ModuleNode, guide: str = "", child_guide: str = "") -> Iterator[TreeRow]:
    """Rows of a module and all its descendants, from the top."""
    yield TreeRow(guide, node)
    for number, child in enumerate(node.children):
        is_last = number == len(node.children) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from tree_rows(child, child_guide + branch, child_guide + trunk)


def module_table(description: ModelDescription) -> Table:
    """The module tree with weights, parameters, FLOPs and saved activations."""
    rows = []
    for row in tree_rows(description.tree):
        _, flops, activations = row.node.figures
        figures = (
            _parameters(row.node),
            format_si(flops) if flops else "",
            format_si(activations, "B") if activations else "",
        )
        rows.append([row.name, row.label, row.node.shape, *figures])
    headings = ("module", "class", "weights", "parameters", "FLOP/token", "saved/token")
    return Table(headings, rows, text=headings[:3])


def summary(description: ModelDescription) -> list[tuple[str, str]]:
    """Names and values of the figures of the whole model."""
    cost, architecture = description.cost, description.architecture
    return [
        ("kind", architecture.config.kind),
        ("vocabulary", f"{architecture.src_vocab:,} source, {architecture.tgt_vocab:,} target tokens"),
        ("parameters", f"{description.tree.parameters:,}"),
        ("forward", f"{format_si(description.tree.flops)}FLOP/token"),
        ("training", f"{format_si(cost.training)}FLOP/token"),
        ("saved for the gradient", f"{format_si(description.tree.activations, 'B')}/token"),
        ("decoder cache, growth", f"{format_si(cost.decoding.cache_per_token, 'B')}/output token"),
        ("decoder cache, fixed", format_si(cost.decoding.cache_fixed, "B")),
        ("encoder memory", f"{format_si(cost.decoding.memory_per_token, 'B')}/source token"),
    ]


def summary_table(*descriptions: ModelDescription) -> Table:
    """The summary of one description, or of two side by side with a mark where they differ."""
    names = [description.architecture.name for description in descriptions]
    rows = []
    for lines in zip(*map(summary, descriptions), strict=True):
        values = [value for _, value in lines]
        rows.append([lines[0][0], *values, *([DIFFERS if values[0] != values[-1] else ""] if len(values) > 1 else [])])
    headings = ["figure", *names, *(["differs"] if len(names) > 1 else [])]
    return Table(headings, rows, text=headings)


def comparison_table(first: ModelDescription, second: ModelDescription) -> Table:
    """The modules of two models side by side; corresponding modules share a row."""
    left, right = ({row.node.key: row for row in tree_rows(each.tree)} for each in (first, second))
    rows = []
    for key in merge_aligned(list(left), list(right)):
        sides = left.get(key), right.get(key)
        present = next(row for row in sides if row is not None)
        cells = [_cells(row) for row in sides]
        rows.append([present.name, *cells[0], *cells[1], DIFFERS if cells[0] != cells[1] else ""])
    names = [each.architecture.name for each in (first, second)]
    headings = ["module", names[0], f"parameters of {names[0]}", names[1], f"parameters of {names[1]}", "differs"]
    return Table(headings, rows, text=("module", *names))


def merge_aligned(left: list[str], right: list[str]) -> list[str]:
    """Merge two lists so that common items appear once: `a b d` and `a c d` give `a c b d`.

    Items of `right` that `left` lacks are inserted after their predecessor in `right`.
    """
    merged = list(left)
    index = 0
    for key in right:
        if key in merged:
            index = merged.index(key) + 1
        else:
            merged.insert(index, key)
            index += 1
    return merged


def legend(length: int) -> list[str]:
    """Notes that explain the figures."""
    return [
        f"Figures are per token of a sentence pair with {length} tokens on each side: encoder cost per source token "
        "plus decoder cost per target token.",
        "FLOP: multiplications and additions of matrix products only; training: forward and backward.",
        "Saved: float32 activations that training keeps for the gradient, with PyTorch's dropout masks, without "
        "weights and without the loss (computed in chunks).",
        "Decoder cache and encoder memory: float32, one hypothesis.",
        "A row 'n ×' sums n equal layers; the rows below it describe one of them.",
    ]


def format_si(number: float, unit: str = "") -> str:
    """Format a number with an SI prefix (1.54 k, 2.25 M) and three digits; below 1000 it is rounded to an integer."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    return f"{number:.0f} {unit}"


def _cells(row: TreeRow | None) -> tuple[str, str]:
    if row is None:
        return "–", ""
    label = f"{row.label} {row.node.shape}".strip() if row.node.key else row.node.class_name
    return label, _parameters(row.node)


def _parameters(node: ModuleNode) -> str:
    """The number of parameters; "tied" for weights that are counted at another module."""
    return f"{node.parameters:,}" if node.parameters else ("tied" if node.shape else "")
