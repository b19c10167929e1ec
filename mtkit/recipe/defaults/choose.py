"""Choice of the keys that a recipe leaves out: the table of rules, and their application to a recipe."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mtkit.recipe.defaults import model_size, schedule, vocabulary
from mtkit.recipe.defaults.facts import Choice, Facts, Values
from mtkit.recipe.yaml_reader import LocatedValue, Origin

if TYPE_CHECKING:
    from mtkit.recipe.recipe import Recipe

ORIGIN = "chosen from the corpus"  # location of a chosen value in messages


@dataclass(frozen=True)
class DefaultRule:
    """Rule for a key that a recipe leaves out.

    Attributes:
        key: path of the key.
        choose: value and reason, from the facts and the values decided so far. It is a pure function.
        applies: whether the recipe has the key at all: the kind of its section may be another.
    """

    key: str
    choose: Callable[[Facts, Values], Choice]
    applies: Callable[[Recipe], bool] = lambda recipe: True


def _is_transformer(recipe: Recipe) -> bool:
    return recipe.model.kind == "transformer"


def _is_adam(recipe: Recipe) -> bool:
    return _is_transformer(recipe) and recipe.training.optimiser.kind in ("adam", "adamw")


def _has_linear_schedule(recipe: Recipe) -> bool:
    return recipe.training.schedule.kind in ("linear", "cosine")


def _has_valid(recipe: Recipe) -> bool:
    return recipe.corpus.valid is not None


def _is_full_attention(recipe: Recipe) -> bool:
    model = recipe.model
    return model.kind == "transformer" and {model.encoder_attention.kind, model.decoder_attention.kind} == {"full"}


def _can_be_guided(recipe: Recipe) -> bool:
    """Return whether guided alignment is possible: pairs of sentences, and a decoder that reads the true tokens."""
    is_parallel = recipe.corpus.noise is None and not recipe.corpus.is_language_model
    return is_parallel and _is_transformer(recipe) and recipe.training.decoder_input.kind == "teacher_forcing"


RULES = (  # in this order: a rule may use the values of those before it
    DefaultRule("tokenizer.shared", vocabulary.shared),
    DefaultRule("tokenizer.vocab_size", vocabulary.vocab_size),
    DefaultRule("model.tied_embeddings", model_size.tied_embeddings, _is_transformer),
    DefaultRule("model.d_model", model_size.d_model, _is_transformer),
    DefaultRule("model.d_ff", model_size.d_ff, _is_transformer),
    DefaultRule("model.num_heads", model_size.num_heads, _is_transformer),
    DefaultRule("model.encoder_layers", model_size.encoder_layers, _is_transformer),
    DefaultRule("model.decoder_layers", model_size.decoder_layers, _is_transformer),
    DefaultRule("model.encoder_positions", model_size.positions, _is_full_attention),
    DefaultRule("model.decoder_positions", model_size.positions, _is_full_attention),
    DefaultRule("training.objective", schedule.objective, _can_be_guided),
    DefaultRule("training.batch_tokens", schedule.batch_tokens),
    DefaultRule("training.max_updates", schedule.max_updates),
    DefaultRule("model.dropout", model_size.dropout, _is_transformer),
    DefaultRule("model.attention_dropout", model_size.inner_dropout, _is_transformer),
    DefaultRule("model.activation_dropout", model_size.inner_dropout, _is_transformer),
    DefaultRule("training.budget_hours", schedule.budget_hours),
    DefaultRule("training.validate_every", schedule.validate_every, _has_valid),
    DefaultRule("training.checkpoint_every", schedule.checkpoint_every),
    DefaultRule("training.validation.sentences", schedule.validation_sentences, _has_valid),
    DefaultRule("training.patience", schedule.patience),
    DefaultRule("training.optimiser.learning_rate", schedule.learning_rate, _is_adam),
    DefaultRule("training.schedule.warmup", schedule.warmup, _has_linear_schedule),
    DefaultRule("training.ema.decay", schedule.ema_decay, lambda recipe: recipe.training.ema is not None),
)


def omitted_rules(tree: LocatedValue, recipe: Recipe) -> list[DefaultRule]:
    """Return the rules for the keys that a recipe leaves out and that apply to it.

    A model to start from brings its own tokenizer and sizes, and its training continues one: no rule applies then. An
    existing tokenizer has its own vocabulary.
    """
    if recipe.defaults == "fixed" or recipe.training.init_from_list:
        return []
    rules = [rule for rule in RULES if not _is_stated(tree, rule.key) and rule.applies(recipe)]
    has_tokenizer = recipe.tokenizer.model is not None
    return [rule for rule in rules if not (has_tokenizer and rule.key.startswith("tokenizer."))]


def with_implied(tree: LocatedValue) -> LocatedValue:
    """Return a tree with values that stated keys leave no choice about, unless it has `defaults: fixed`.

    Two tokenizer models are two vocabularies, and with two vocabularies the embeddings of both sides differ.
    """
    if _stated_value(tree, "defaults") == "fixed":
        return tree
    values: dict[str, Any] = {}
    if isinstance(_stated_value(tree, "tokenizer.model"), dict) and not _is_stated(tree, "tokenizer.shared"):
        values["tokenizer.shared"] = False
    has_two = values or _stated_value(tree, "tokenizer.shared") is False
    if has_two and not _is_stated(tree, "model.tied_embeddings"):
        values["model.tied_embeddings"] = "target"
    return with_values(tree, values)


def choose(rules: list[DefaultRule], recipe: Recipe, facts: Facts, plain: Mapping[str, Any]) -> dict[str, Choice]:
    """Apply rules in their order.

    Args:
        rules: from `omitted_rules`.
        recipe: with the fixed defaults for the omitted keys.
        facts: about corpus and machine.
        plain: the recipe as nested mappings.
    """
    values = dict(_flat(plain))
    if "model.tied_embeddings" in {rule.key for rule in rules} or not _is_transformer(recipe):
        values["model.tied_embeddings"] = "undecided" if _is_transformer(recipe) else recipe.model.tied_embeddings
    choices: dict[str, Choice] = {}
    for rule in rules:
        choices[rule.key] = choice = rule.choose(facts, values)
        values[rule.key] = choice.value
    return choices


def _flat(plain: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in plain.items():
        flat += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return flat


def with_values(tree: LocatedValue, values: Mapping[str, Any]) -> LocatedValue:
    """Return a tree with values for keys that it does not state."""
    for key, value in values.items():
        tree = _insert(tree, key.split("."), value)
    return tree


def _insert(tree: LocatedValue, path: list[str], value: Any) -> LocatedValue:
    origin = Origin(ORIGIN, tree.origin.folder, from_file=False)
    if not path:
        return _located(value, origin)
    items = dict(tree.value) if isinstance(tree.value, dict) else {}
    items[path[0]] = _insert(items.get(path[0], LocatedValue({}, origin)), path[1:], value)
    return LocatedValue(items, tree.origin)


def _located(value: Any, origin: Origin) -> LocatedValue:
    if isinstance(value, dict):
        return LocatedValue({key: _located(item, origin) for key, item in value.items()}, origin)
    return LocatedValue(value, origin)


def _is_stated(tree: LocatedValue, key: str) -> bool:
    """Return whether a tree has a value at a path, or another value than a mapping on the way, such as `ema: null`."""
    for part in key.split("."):
        if not isinstance(tree.value, dict):
            return True
        if part not in tree.value:
            return False
        tree = tree.value[part]
    return True


def _stated_value(tree: LocatedValue, key: str) -> Any:
    """Return the value at a path of a tree; None if it does not state the key."""
    for part in key.split("."):
        if not isinstance(tree.value, dict) or part not in tree.value:
            return None
        tree = tree.value[part]
    return tree.value


def value_at(plain: Any, key: str) -> Any:
    """Return the value at a path of nested mappings; None behind a value that is no mapping."""
    for part in key.split("."):
        plain = plain[part] if isinstance(plain, dict) else None
    return plain


def describe(reasons: Mapping[str, str], plain: Mapping[str, Any]) -> list[str]:
    """Return the values and their reasons: "tokenizer.vocab_size 4,000: 4,600 pairs".

    Neighbouring keys of a section with one reason share a line: "model.d_model 128, d_ff 256: tiny: 127,241 tokens".
    Keys whose value is null, such as `training.budget_hours` without a budget, are left out.
    """
    sections = list(dict.fromkeys(key.partition(".")[0] for key in reasons))
    present = [key for key in reasons if value_at(plain, key) is not None]
    present.sort(key=lambda key: sections.index(key.partition(".")[0]))
    lines = []
    for (section, reason), keys in itertools.groupby(present, lambda key: (key.partition(".")[0], reasons[key])):
        values = [f"{key.partition('.')[2]} {_short(value_at(plain, key))}" for key in keys]
        lines.append(f"{section}.{', '.join(values)}: {reason}")
    return lines


def _short(value: Any) -> str:
    """Return a value for a reader: a section by its kind, numbers with commas, true and false as in YAML."""
    if isinstance(value, dict):
        value = value["kind"]
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)
