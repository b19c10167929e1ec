"""What `training.batch_tokens: auto` comes to, settled once and kept in the run's recipe."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

from mtkit.build.training import build_training, build_untrained
from mtkit.build.training_sampler import SampledTranslations, target_pieces
from mtkit.corpus.order.dummy_batch import made_up_batch
from mtkit.corpus.store import SIDES
from mtkit.pipeline.prepare_corpus import Stores
from mtkit.pipeline.run_folder import Run
from mtkit.recipe.recipe import save_recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.robustness.batch_size_search import largest_batch


def settle_batch_tokens(run: Run, tokenizers: TokenizerPair, stores: Stores) -> Run:
    """The run with a number for `auto`: the largest micro-batch that this machine has memory for.

    Raises:
        TrainingError: not even one sentence fits.
        ReadWriteError: the recipe cannot be saved.
    """
    if run.recipe.training.batch_tokens != "auto":
        return run
    model = build_untrained(run.recipe, tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
    generation = SampledTranslations.of(run.recipe, tokenizers.tgt)
    learner = build_training(run.recipe, model, target_pieces(tokenizers.tgt), generation)
    longest = max(store.summary(side).longest for store in stores.train for side in SIDES) + 1
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # that torchrun started here
    shared = processes if learner.device.type == "cpu" else 1  # of a CPU's memory; a GPU has its own
    make = partial(made_up_batch, src=tokenizers.src.vocab, tgt=tokenizers.tgt.vocab)
    places = largest_batch(learner, longest, make, processes=shared)
    recipe = replace(run.recipe, training=replace(run.recipe.training, batch_tokens=places))
    save_recipe(recipe, run.folder.recipe)
    run.say("batch_tokens", f"{places:,}: what fits into the memory here")
    return replace(run, recipe=recipe)
