"""Conditions across the sections of a recipe: a table of rules over the capabilities of its parts.

A new kind states its capabilities (see ModelConfigBase, ObjectiveConfigBase) and needs no change here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mtkit.corpus.config import MonolingualFile
from mtkit.models.capabilities import ONE_TABLE
from mtkit.recipe.located import COMMAND_LINE, LocatedValue
from mtkit.recipe.sections import Recipe

# keys of `tokenizer` that only the training of a tokenizer reads
TOKENIZER_TRAINING = (
    "model_type",
    "vocab_size",
    "byte_fallback",
    "character_coverage",
    "split_digits",
    "max_lines",
    "min_frequency",
)
NEEDS_VALID = "needs a validation set; set corpus.valid, or change this key"


@dataclass(frozen=True)
class Rule:
    """A condition that every recipe meets.

    Attributes:
        is_broken: whether a recipe violates the rule.
        message: problem and remedy; a format string over the sections of the recipe.
    """

    key: str
    is_broken: Callable[[Recipe], bool]
    message: str


RULES = (
    Rule(
        "tokenizer.model",
        lambda r: r.tokenizer.model is not None and r.training.tokenizer_from is not None,
        "training.init_from gives the tokenizer too; remove this key, or set tokenizer: false there",
    ),
    Rule(
        "model.tied_embeddings",
        # two tokenizers of another program's model may have one vocabulary
        lambda r: r.model.tied_embeddings in ONE_TABLE and not r.tokenizer.shared and r.training.tokenizer_from is None,
        "{model.tied_embeddings} needs one vocabulary for both sides; set it to target, or tokenizer.shared to true",
    ),
    Rule(
        "search.coverage_penalty",
        lambda r: r.search.coverage_penalty > 0 and not r.model.has_attention,
        "needs attention over the source; model.kind {model.kind} has none. Set it to 0",
    ),
    Rule(
        "training.adapter.kind",
        lambda r: (
            r.training.adapter is not None and r.training.adapter.needs_low_rank and not r.model.has_low_rank_updates
        ),
        "{training.adapter.kind} needs a Transformer; a model of kind {model.kind} can train kind bias or norm",
    ),
    Rule(
        "training.compile",
        lambda r: r.training.compile and r.model.has_data_dependent_steps,
        "this {model.kind} model runs a data-dependent number of steps (recurrent layers and mixtures of experts do), "
        "and torch would recompile it for every new number; set it to false",
    ),
    Rule(
        "training.parallel",
        lambda r: r.training.parallel == "fsdp" and r.model.skips_layers,
        "FSDP requires every process to run the same layers, but model.layerdrop skips random ones per process; set "
        "model.layerdrop to 0, or parallel to ddp",
    ),
    Rule(
        "training.objective.kind",
        lambda r: (
            r.training.objective.trains_encoder_only
            != (r.corpus.noise is not None and r.corpus.noise.trains_encoder_only)
        ),
        "masked_lm and corpus.noise.kind mlm need each other; set both or neither",
    ),
    Rule(
        "model.kind",
        lambda r: r.training.objective.trains_encoder_only and not r.model.has_encoder,
        "training.objective.kind {training.objective.kind} needs a model with an encoder; {model.kind} has none. Use "
        "kind: transformer, or another corpus.noise.kind",
    ),
    Rule(
        "training.objective.kind",
        lambda r: r.training.objective.predicts_source and not r.model.predicts_source,
        "{training.objective.kind} predicts each source token from the preceding ones; it needs model.kind "
        "decoder_only with source_visibility: causal. Otherwise use cross_entropy",
    ),
    Rule(
        "training.objective.kind",
        lambda r: r.training.objective.predicts_source and r.model.tied_embeddings != "all",
        "{training.objective.kind} needs model.tied_embeddings: all (one output projection for both sides)",
    ),
    Rule(
        "training.objective.kind",
        lambda r: r.training.objective.predicts_source and r.corpus.is_language_model,
        "{training.objective.kind} predicts the source, and a language model has none. Use cross_entropy",
    ),
    Rule(
        "training.objective.kind",
        lambda r: r.training.objective.predicts_source and not r.training.decoder_input.reads_truth,
        "{training.objective.kind} needs training.decoder_input.kind teacher_forcing",
    ),
    Rule(
        "training.objective.kind",
        lambda r: r.training.objective.needs_teacher_forcing and not r.training.decoder_input.reads_truth,
        "{training.objective.kind} needs training.decoder_input.kind teacher_forcing",
    ),
    Rule(
        "training.objective.kind",
        lambda r: r.training.objective.needs_attention and not r.model.has_attention_of_all_steps,
        "{training.objective.kind} needs the attention of all target tokens over the source at once; {model.kind} has "
        "none. Use cross_entropy, or model.kind transformer",
    ),
    Rule(
        "tokenizer.shared",
        lambda r: r.corpus.noise is not None and not r.tokenizer.shared,
        "monolingual text is both source and target, which needs one vocabulary; set it to true",
    ),
    Rule(
        "training.validation.metric",
        lambda r: (
            any(isinstance(files, MonolingualFile) for files in r.corpus.valid_sets)
            and (r.training.validation.metric != "nll" or r.training.validation.command is not None)
        ),
        "monolingual text has no translations to score; set it to nll, and omit command",
    ),
    Rule(
        "training.validation.command",
        lambda r: r.training.validation.command is not None and r.corpus.valid is None,
        NEEDS_VALID,
    ),
    Rule("training.patience", lambda r: r.training.patience is not None and r.corpus.valid is None, NEEDS_VALID),
    Rule(
        "training.checkpoint_average.which",
        lambda r: (
            r.corpus.valid is None
            and r.training.checkpoint_average is not None
            and r.training.checkpoint_average.which == "best"
        ),
        NEEDS_VALID,
    ),
    Rule(
        "training.schedule.kind",
        lambda r: r.corpus.valid is None and r.training.schedule.depends_on_validation,
        NEEDS_VALID,
    ),
)


def broken_rules(recipe: Recipe, *, stated: LocatedValue | None = None) -> list[str]:
    """Check a recipe across its sections.

    Args:
        stated: the tree that a user wrote, in which keys without effect are mistakes; None: every key is stated.

    Returns:
        "key: message" for the first rule that it violates, or for each key without effect.
    """
    broken = [f"{rule.key}: {rule.message.format(**vars(recipe))}" for rule in RULES if rule.is_broken(recipe)]
    needed = recipe.corpus.cleaning.max_length + 1  # with the end of sentence
    broken += [
        f"model.{key}: there are {max_length} positions, and training sentences may have {needed} tokens, end of "
        "sentence included; raise it, or lower corpus.cleaning.max_length"
        for key, max_length in recipe.model.max_lengths().items()
        if max_length < needed
    ]
    if broken or stated is None or (recipe.tokenizer.model is None and recipe.training.tokenizer_from is None):
        return broken[:1]
    # keys of the tokenizer's training beside or above the key that names an existing tokenizer; those of a base recipe
    # below it are no mistake
    source = "tokenizer.model" if recipe.tokenizer.model is not None else "training.init_from"
    section, name = source.split(".")
    existing = _layer(stated.value[section].value[name], stated)
    tokenizer = stated.value["tokenizer"].value if "tokenizer" in stated.value else {}
    layers = {key: _layer(tokenizer[key], stated) for key in TOKENIZER_TRAINING if key in tokenizer}
    return [
        f"tokenizer.{key}: has no effect, since {source} names an existing tokenizer; remove one of them"
        for key, layer in layers.items()
        if layer == existing or layer[0] < existing[0]
    ]


def _layer(value: LocatedValue, tree: LocatedValue) -> tuple[int, str]:
    """Return the layer of a value, 0 for the command line, 1 for the recipe and 2 for a base of it, and its file."""
    if value.origin.location == COMMAND_LINE:
        return 0, ""
    file, own = (each.origin.location.rpartition(":")[0] for each in (value, tree))
    return (1, file) if file == own else (2, file)
