"""Settings of generation of the package transformers as a search of mtkit that gives the same translations.

The rules are the same for: beam search whose hypotheses compete with the ends, scores divided by the length with the
end to the power of `length_penalty`, and `early_stopping`, of which "never" is patience without end. They differ where
a translation reaches the maximum length: there transformers forces the end at no cost.
"""

from __future__ import annotations

from typing import Any

from mtkit.errors import DataError
from mtkit.importers.foreign_folder import Fields, shown
from mtkit.search.config import LengthLimit, MaxLength, SearchConfig
from mtkit.text.vocab import Vocab

FIXED_TOKENS = 2  # that their maximum length counts and ours does not: the first one of the decoder, and the end
EXACT_PATIENCE = 1e6  # hypotheses per beam: the search ends when the bound says so
DEFAULT_MAX_LENGTH = 20  # of transformers
# settings that change translations, which mtkit does not have, and their values without effect
LEFT_OUT = {
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "min_new_tokens": 0,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "force_words_ids": [],
    "sequence_bias": {},
}


def search_config(model: Fields, generation: Fields, vocab: Vocab) -> tuple[SearchConfig, list[str]]:
    """The search that a model's settings describe, and a sentence about each setting that is left out.

    Args:
        model: of config.json, where older versions of transformers wrote the settings.
        generation: of generation_config.json.
        vocab: of the target side.

    Raises:
        DataError: a setting has a value that mtkit does not compute.
    """

    def get(key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        return generation.get(key, kind, model.get(key, kind, default))

    never = never_generated(model, generation)
    alpha = float(get("length_penalty", (int, float), 1.0))
    if alpha < 0:
        raise DataError(f"{generation.path}: length_penalty: {alpha}; mtkit has none below 0, set it to 0")
    if (beams := int(get("num_beams", int, 1))) < 1:
        raise DataError(f"{generation.path}: num_beams: {beams}; a number above 0 is expected")
    early = get("early_stopping", (bool, str), False)
    notes = []
    if len(never) < len(get("bad_words_ids", list, [])):
        notes.append("bad_words_ids: sequences of several tokens may be generated")
    for key, neutral in LEFT_OUT.items():
        value = generation.values.get(key, model.values.get(key))
        if value is not None and value != neutral:
            notes.append(f"{key}: {shown(value)} has no effect; translations may differ")
    repetition = float(get("repetition_penalty", (int, float), 1.0))
    if repetition < 1:
        notes.append(f"repetition_penalty: {repetition} has no effect; mtkit has none below 1")
    if get("do_sample", bool, False):
        notes.append("do_sample: the search is a beam search; set search.method.kind to sampling")
    longest, shortest = int(get("max_length", int, DEFAULT_MAX_LENGTH)), int(get("min_length", int, 0))
    search = SearchConfig(
        beam_size=beams,
        length_penalty=alpha,
        early_stopping=early is not False,
        patience=EXACT_PATIENCE if early == "never" else 1.0,
        max_length=MaxLength(factor=0.0, offset=max(0, longest - FIXED_TOKENS)),
        min_length=LengthLimit(offset=max(0, shortest - 1)),
        no_repeat_ngram=int(get("no_repeat_ngram_size", int, 0)),
        repetition_penalty=max(1.0, repetition),
        allow_unknown=vocab.unk not in never,
        retry_loops=False,
    )
    return search, notes


def never_generated(model: Fields, generation: Fields) -> set[int]:
    """The ids of tokens that the settings exclude from translations; arguments as of `search_config`."""
    excluded = generation.get("bad_words_ids", list, model.get("bad_words_ids", list, []))
    return {each[0] for each in excluded if isinstance(each, list) and len(each) == 1 and type(each[0]) is int}
