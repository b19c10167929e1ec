"""Rules for training: objective, batch size, learning rate, updates, validation, patience, averaging."""

from __future__ import annotations

import math

from mtkit.recipe.defaults.facts import Choice, Facts, Values

SMALL_CORPUS = 3_000_000  # tokens; a model learns it by heart before the end of training
TINY_CORPUS = 200_000  # tokens; larger batches would leave too few updates
GUIDED_CORPUS = 200_000  # tokens; with 127,241 guided alignment was better to the end of a long training
GPU_BATCH, CPU_BATCH, TINY_BATCH = 16_384, 4096, 2048
EPOCHS_MARGIN = 2  # limit of updates, relative to the estimate for `max_epochs`
FILL = 0.9  # of a micro-batch are tokens, the rest is padding
EPOCHS_OF_A_MILLION = 50  # tokens; 55 epochs suit Multi30k (0.4 million tokens)
EPOCH_EXPONENT = 0.3  # epochs fall with tokens to this power: 17 for WMT 2014 (Vaswani et al. 2017)
MIN_EPOCHS, MAX_EPOCHS = 3, 60
MIN_UPDATES, MAX_UPDATES = 1500, 300_000
RATE_TIMES_WIDTH = 0.512  # 4e-3 for width 128, 2e-3 for 256, 1e-3 for 512
VALIDATIONS = 15  # of a whole training
SHORT_BUDGET = 1.0  # hours
SHORT_VALIDATIONS = 5  # within a short budget: each of 15 would take the time of 50 updates
VALIDATION_SENTENCES, SHORT_VALIDATION_SENTENCES = 200, 50  # that are decoded
MIN_BETWEEN_VALIDATIONS = 100  # updates
PATIENCE = 5  # validations: a third of VALIDATIONS
WARMUP_SHARE, MAX_WARMUP = 0.1, 4000
EMA_SHARE = 1 / 13  # of the updates is the horizon of the average: 500 of 6,500


def batch_tokens(facts: Facts, values: Values) -> Choice:
    """Small batches for small corpora: more updates (Sennrich and Zhang 2019, sec. 4.1), large ones for GPUs."""
    tokens = facts.corpus.tokens
    choice = Choice(CPU_BATCH, f"{tokens:,} tokens")
    if tokens < TINY_CORPUS:
        choice = Choice(TINY_BATCH, f"{tokens:,} tokens")
    elif facts.has_gpu and tokens >= SMALL_CORPUS:
        choice = Choice(GPU_BATCH, f"a GPU and {tokens:,} tokens")
    limit = facts.limits.batch_tokens
    if limit is not None and limit < choice.value:
        return Choice(limit, f"more updates within {facts.limits.words}")
    return choice


def epochs_of(tokens: int) -> float:
    """Return the number of epochs for a corpus of this size."""
    epochs = EPOCHS_OF_A_MILLION * math.pow(max(tokens, 1) / 1e6, -EPOCH_EXPONENT)
    return min(max(epochs, MIN_EPOCHS), MAX_EPOCHS)


def updates_of_epochs(epochs: float, tokens: int, batch: int) -> int:
    """Estimate the updates of a number of epochs.

    Args:
        tokens: of the corpus, mean of both sides.
        batch: tokens of an update, padding included.
    """
    return max(1, round(epochs * tokens / (FILL * batch)))


def _update_tokens(values: Values) -> int:
    batch = values["training.batch_tokens"]
    return CPU_BATCH if batch == "auto" else int(batch * values["training.micro_batches"])


def _expected_updates(facts: Facts, values: Values) -> int:
    """Return `max_updates`, or the estimated updates of `max_epochs` or of the budget if they are fewer."""
    updates, epochs = int(values["training.max_updates"]), values["training.max_epochs"]
    updates = min(updates, values.get("training.budget_updates") or updates)
    if epochs is None:
        return updates
    return min(updates, updates_of_epochs(epochs, facts.corpus.tokens, _update_tokens(values)))


def expected_epochs(facts: Facts, values: Values) -> float:
    """Return the passes over the corpus until the end of the training."""
    return _expected_updates(facts, values) * FILL * _update_tokens(values) / max(facts.corpus.tokens, 1)


def max_updates(facts: Facts, values: Values) -> Choice:
    """Updates of a number of epochs that falls with the size of the corpus.

    If the recipe states the epochs, these end the training, and the updates are a limit above them: their number is
    known only after segmentation.
    """
    tokens, batch, epochs = facts.corpus.tokens, _update_tokens(values), values["training.max_epochs"]
    if epochs is None:
        needed = min(max(epochs_of(tokens) * tokens / (FILL * batch), MIN_UPDATES), MAX_UPDATES)
        needed = max(100, 100 * round(needed / 100))
        return Choice(needed, f"about {needed * FILL * batch / max(tokens, 1):,.0f} epochs of {tokens:,} tokens")
    updates = 100 * math.ceil(EPOCHS_MARGIN * updates_of_epochs(epochs, tokens, batch) / 100)
    return Choice(updates, f"a limit above max_epochs {epochs:g} of {tokens:,} tokens")


def budget_updates(facts: Facts, values: Values) -> Choice:
    """Updates that fit into the budget on free cores, unless the whole training does."""
    limit, needed = facts.limits.updates, _expected_updates(facts, values)
    return (
        Choice(None, "no limit")
        if limit is None or limit >= needed
        else Choice(max(limit, 1), f"{facts.limits.words} of training")
    )


def needed_updates(max_updates: int, max_epochs: float | None) -> int:
    """Estimate the updates of a training with a chosen `max_updates`, which is a limit above those of stated epochs."""
    return max_updates if max_epochs is None else max_updates // EPOCHS_MARGIN


def budget_hours(facts: Facts, values: Values) -> Choice:
    """Time from the start of the command to the written model."""
    hours = facts.limits.budget_hours
    return Choice(hours, "no budget" if hours is None else f"--budget {facts.limits.words}")


def validate_every(facts: Facts, values: Values) -> Choice:
    """A fixed number of validations in a training, fewer in a short one: each takes the time of many updates."""
    return _every(facts, values, "validations")


def checkpoint_every(facts: Facts, values: Values) -> Choice:
    """As many checkpoints as the rule gives validations, with which they coincide."""
    every = _every(facts, values, "validations")
    is_validated = facts.has_valid and values["training.validate_every"] == every.value
    return every if is_validated else _every(facts, values, "checkpoints")


def _every(facts: Facts, values: Values, events: str) -> Choice:
    updates, count = _expected_updates(facts, values), SHORT_VALIDATIONS if is_short(facts) else VALIDATIONS
    if updates // count < MIN_BETWEEN_VALIDATIONS:
        return Choice(min(MIN_BETWEEN_VALIDATIONS, updates), f"{updates:,} updates")
    return Choice(updates // count, f"{count} {events}")


def is_short(facts: Facts) -> bool:
    """Return whether there is a budget of less than an hour."""
    return facts.limits.hours is not None and facts.limits.hours < SHORT_BUDGET


def objective(facts: Facts, values: Values) -> Choice:
    """A lexicon guides the attention in few updates or on little text: a decoder finds out late where to look."""
    if is_short(facts):
        return Choice({"kind": "guided_alignment"}, f"{facts.limits.words} of training")
    tokens = facts.corpus.tokens
    return Choice({"kind": "guided_alignment" if tokens < GUIDED_CORPUS else "cross_entropy"}, f"{tokens:,} tokens")


def validation_sentences(facts: Facts, values: Values) -> Choice:
    """Fewer sentences are decoded within a short budget: a model that is not trained yet writes the longest ones."""
    if is_short(facts):
        return Choice(SHORT_VALIDATION_SENTENCES, f"{facts.limits.words} of training")
    return Choice(VALIDATION_SENTENCES, "no short budget")


def patience(facts: Facts, values: Values) -> Choice:
    """Training ends after five validations without improvement of their metric: by default a third of the updates."""
    if not facts.has_valid:
        return Choice(None, "no validation set")
    count = _expected_updates(facts, values) // values["training.validate_every"]
    if count <= PATIENCE:
        return Choice(None, "too few validations")
    return Choice(PATIENCE, f"{PATIENCE} of {count} validations")


def learning_rate(facts: Facts, values: Values) -> Choice:
    """Peak rate of Adam, in inverse proportion to the width."""
    width = values["model.d_model"]
    return Choice(round(RATE_TIMES_WIDTH / width, 6), f"d_model {width}")


def warmup(facts: Facts, values: Values) -> Choice:
    """A tenth of the updates."""
    updates = _expected_updates(facts, values)
    return Choice(min(round(WARMUP_SHARE * updates), MAX_WARMUP), f"a tenth of {updates:,} updates")


def ema_decay(facts: Facts, values: Values) -> Choice:
    """Horizon of the averaged weights, in proportion to the updates."""
    horizon = max(20, round(EMA_SHARE * _expected_updates(facts, values)))
    return Choice(round(1 - 1 / horizon, 5), f"a horizon of {horizon:,} updates")
