"""Choice of the keys that a recipe leaves out: the table of rules, and their application to a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mtkit.corpus.config import has_training_text, training_text
from mtkit.errors import RecipeError
from mtkit.models.transformer.config import TransformerConfig
from mtkit.recipe.defaults import model_size, schedule
from mtkit.recipe.defaults.facts import (
    NO_LIMITS,
    BudgetLimits,
    Choice,
    CorpusStatistics,
    Facts,
    Values,
    corpus_statistics,
)
from mtkit.recipe.located import LocatedValue
from mtkit.recipe.paths import to_plain
from mtkit.recipe.rules import broken_rules
from mtkit.recipe.schema import Checker
from mtkit.recipe.sections import Recipe, flatten
from mtkit.recipe.tree import with_values
from mtkit.recipe.type_hints import dataclass_members, field_types, kind_of


@dataclass(frozen=True)
class DefaultRule:
    """Rule for a key that a recipe leaves out.

    Attributes:
        choose: value and reason, from the facts and the values decided so far. It is a pure function.
        applies: whether the recipe has the key at all: the kind of its section may be another.
    """

    key: str
    choose: Callable[[Facts, Values], Choice]
    applies: Callable[[Recipe], bool] = lambda recipe: True


def _has_chosen_sizes(recipe: Recipe) -> bool:
    return recipe.model.has_chosen_sizes


def _has_valid(recipe: Recipe) -> bool:
    return recipe.corpus.valid is not None


def _is_full_attention(recipe: Recipe) -> bool:
    model = recipe.model
    if not isinstance(model, TransformerConfig):
        return False
    return model.encoder_attention.attends_to_all and model.decoder_attention.attends_to_all


def _can_be_guided(recipe: Recipe) -> bool:
    """Return whether guided alignment is possible: pairs of sentences, and a decoder that reads the true tokens."""
    is_parallel = recipe.corpus.noise is None and not recipe.corpus.is_language_model
    return is_parallel and _has_chosen_sizes(recipe) and recipe.training.decoder_input.reads_truth


RULES = (  # in this order: a rule may use the values of those before it
    DefaultRule("tokenizer.shared", model_size.shared_vocabulary),
    DefaultRule("tokenizer.vocab_size", model_size.vocab_size),
    DefaultRule("model.tied_embeddings", model_size.tied_embeddings, _has_chosen_sizes),
    DefaultRule("model.d_model", model_size.d_model, _has_chosen_sizes),
    DefaultRule("model.d_ff", model_size.d_ff, _has_chosen_sizes),
    DefaultRule("model.num_heads", model_size.num_heads, _has_chosen_sizes),
    DefaultRule("model.encoder_layers", model_size.encoder_layers, _has_chosen_sizes),
    DefaultRule("model.decoder_layers", model_size.decoder_layers, _has_chosen_sizes),
    DefaultRule("model.encoder_positions", model_size.positions, _is_full_attention),
    DefaultRule("model.decoder_positions", model_size.positions, _is_full_attention),
    DefaultRule("training.objective", schedule.objective, _can_be_guided),
    DefaultRule("training.batch_tokens", schedule.batch_tokens),
    DefaultRule("training.max_updates", schedule.max_updates),
    DefaultRule("training.budget_updates", schedule.budget_updates),
    DefaultRule("model.dropout", model_size.dropout, _has_chosen_sizes),
    DefaultRule("model.attention_dropout", model_size.inner_dropout, _has_chosen_sizes),
    DefaultRule("model.activation_dropout", model_size.inner_dropout, _has_chosen_sizes),
    DefaultRule("training.budget_hours", schedule.budget_hours),
    DefaultRule("training.validate_every", schedule.validate_every, _has_valid),
    DefaultRule("training.checkpoint_every", schedule.checkpoint_every),
    DefaultRule("training.validation.sentences", schedule.validation_sentences, _has_valid),
    DefaultRule("training.patience", schedule.patience),
    DefaultRule(
        "training.optimiser.learning_rate",
        schedule.learning_rate,
        lambda recipe: _has_chosen_sizes(recipe) and recipe.training.optimiser.has_chosen_rate,
    ),
    DefaultRule(
        "training.schedule.warmup",
        schedule.warmup,
        lambda recipe: recipe.training.schedule.has_chosen_warmup,
    ),
    DefaultRule("training.ema.decay", schedule.ema_decay, lambda recipe: recipe.training.ema is not None),
)


@dataclass(frozen=True)
class Draft:
    """A checked recipe before values are chosen for the keys that it leaves out.

    Attributes:
        recipe: with the fixed defaults for these keys.
        stated: the tree of stated values.
    """

    recipe: Recipe
    stated: LocatedValue

    @cached_property
    def statistics(self) -> CorpusStatistics:
        """Statistics of the training text, which is read; errors as `corpus_statistics`."""
        return corpus_statistics(*zip(*map(training_text, self.recipe.corpus.train), strict=True))

    @cached_property
    def rules(self) -> list[DefaultRule]:
        """The rules for the omitted keys that apply to the recipe.

        A model to start from brings its own tokenizer and sizes, and its training continues one: no rule applies then.
        An existing tokenizer has its own vocabulary.
        """
        if self.recipe.defaults == "fixed" or self.recipe.training.init_from_list:
            return []
        rules = [rule for rule in RULES if not self.stated.states(rule.key) and rule.applies(self.recipe)]
        has_tokenizer = self.recipe.tokenizer.model is not None
        return [rule for rule in rules if not (has_tokenizer and rule.key.startswith("tokenizer."))]


def choose(draft: Draft, limits: BudgetLimits = NO_LIMITS) -> Recipe:
    """Choose values for the keys that a recipe leaves out, from its training text and the machine.

    Without the text, the recipe keeps the fixed defaults.

    Raises:
        RecipeError: a value does not suit stated ones.
        DataError: the training text cannot be read.
    """
    if not draft.rules or not has_training_text(draft.recipe.corpus):
        return draft.recipe
    from mtkit.hardware import has_gpu  # imports torch, which takes longer than reading a recipe

    facts = Facts(draft.statistics, has_gpu(), draft.recipe.corpus.valid is not None, limits)
    values = dict(flatten(to_plain(draft.recipe)))
    is_undecided = any(rule.key == "model.tied_embeddings" for rule in draft.rules)
    values["model.tied_embeddings"] = "undecided" if is_undecided else draft.recipe.model.tied_embeddings
    choices: dict[str, Choice] = {}
    for rule in draft.rules:  # each sees the values of those before it
        choices[rule.key] = choice = rule.choose(facts, values)
        values[rule.key] = choice.value
    chosen = {key: choice.value for key, choice in choices.items()}
    return _with_choices(draft, chosen, {key: choice.reason for key, choice in choices.items()})


def keep_choices(draft: Draft, decided: Recipe) -> Recipe:
    """Give the keys that a recipe leaves out the values of the saved recipe of a training that was started.

    Keys that the saved recipe does not have, since a section of it is of another kind, get the fixed defaults.

    Raises:
        RecipeError: a value does not suit stated ones.
    """
    values: dict[str, Any] = {}
    for rule in draft.rules:
        *sections, name = rule.key.split(".")
        section: Any = decided
        for each in sections:
            section = getattr(section, each)
        if hasattr(section, name):
            values[rule.key] = getattr(section, name)
    reasons = {key: reason for key, reason in decided.chosen.items() if key in values}
    recipe = _with_choices(draft, values, reasons) if values else draft.recipe
    for message in broken_rules(recipe):  # such as a chosen patience, without the validation set of before
        raise _refusal(draft, values, message, "")
    return recipe


def _with_choices(draft: Draft, values: Mapping[str, Any], reasons: dict[str, str]) -> Recipe:
    """Return the recipe of a draft with other values for keys that it leaves out.

    Raises:
        RecipeError: a value does not suit a stated one; the message has the location of that.
    """
    changes: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        inner = changes
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    try:
        recipe: Recipe = _changed(draft.recipe, changes, "")
    except _ConflictError as conflict:
        raise _refusal(draft, values, *conflict.args) from conflict
    return replace(recipe, chosen=reasons)


class _ConflictError(Exception):
    """Values that a dataclass refuses together: its message, "key: problem; remedy", and the path of the dataclass."""


def _refusal(draft: Draft, values: Mapping[str, Any], message: str, path: str) -> RecipeError:
    """Return the error about a key of the dataclass at a path, with the location of the key."""
    tree = with_values(draft.stated, dict.fromkeys(values))
    checker = Checker(Recipe, tree)
    checker.cross_field_error(message, tree.at(path) or tree, path)
    return RecipeError(*checker.errors)


def _changed(section: Any, changes: Mapping[str, Any], path: str) -> Any:
    """Return a dataclass with other values; a mapping changes a section, or selects another kind of it."""
    values = dict(changes)
    for name, change in changes.items():
        if isinstance(change, dict) and "kind" in change:
            cls: Any = type(section)
            members = dataclass_members(field_types(cls)[name])
            values[name] = next(member for member in members if kind_of(member) == change["kind"])()
        elif isinstance(change, dict):
            values[name] = _changed(getattr(section, name), change, f"{path}.{name}".lstrip("."))
    try:
        return replace(section, **values)
    except ValueError as error:
        raise _ConflictError(str(error), path) from error
