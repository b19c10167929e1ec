"""Settings of generation of the package transformers as a search of mtkit that gives the same translations.

The rules are the same for: beam search whose hypotheses compete with the ends, scores divided by the length with the
end to the power of `length_penalty`, and `early_stopping`, of which "never" is patience without end. They differ where
a translation reaches the maximum length: there transformers forces the end at no cost. The opposite direction is the
column `huggingface` of mtkit/search/support.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mtkit.errors import DataError
from mtkit.importers.foreign_folder import Fields, shown
from mtkit.search.config import LengthLimit, MaxLength, SearchConfig
from mtkit.search.support import EXACT_PATIENCE, FIXED_TOKENS
from mtkit.text.subword.tokenizer import Tokenizer

DEFAULT_MAX_LENGTH = 20  # of transformers

# settings without effect on a translation, by the reason
_REASONS = {
    "output": "output_attentions output_hidden_states output_scores output_logits return_dict_in_generate",
    "memory": "use_cache cache_implementation cache_config max_cache_len low_memory prefill_chunk_size",
    "program": "_from_model_config transformers_version disable_compile compile_config use_mtp "
    "continuous_batching_config",
    "speculation": "is_assistant num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold "
    "assistant_early_exit assistant_lookbehind target_lookbehind assistant_ensemble_weight prompt_lookup_num_tokens "
    "max_matching_ngram_size speculation_type",
    "sampling, which do_sample names": "temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff",
    "vocabulary": "pad_token_id bos_token_id",
}
WITHOUT_EFFECT = frozenset(" ".join(_REASONS.values()).split())
# keys of config.json without effect on a translation: names and labels, training, the program, what others repeat
CONFIG_WITHOUT_EFFECT = frozenset({
    "_name_or_path", "_num_labels", "add_bias_logits", "architectures", "bos_token_id", "chunk_size_feed_forward",
    "classif_dropout", "classifier_dropout", "decoder_layerdrop", "decoder_vocab_size", "dtype", "encoder_layerdrop",
    "extra_pos_embeddings", "finetuning_task", "gradient_checkpointing", "id2label", "init_std",
    "initializer_factor", "initializer_range", "is_decoder_only_model", "label2id", "model_type", "n_positions",
    "name_or_path", "num_hidden_layers", "num_labels", "output_past", "problem_type", "return_dict", "sep_token_id",
    "tokenizer_class", "torch_dtype", "torchscript", "use_bfloat16", "use_return_dict",
})  # fmt: skip
# and values without effect of settings that mtkit does not have; null has none either
_NEUTRAL: dict[str, Any] = {
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "force_words_ids": [],
    "constraints": [],
    "sequence_bias": {},
    "stop_strings": [],
    "token_healing": False,
    "remove_invalid_values": False,
    "guidance_scale": 1.0,
    "penalty_alpha": 0.0,
}


class _Settings:
    """The settings of generation_config.json, and of config.json, where older versions of transformers wrote them."""

    def __init__(self, model: Fields, generation: Fields) -> None:
        self.model, self.generation = model, generation

    def get(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        return self.generation.get(key, kind, self.model.get(key, kind, default))

    def left_out(self) -> Iterator[str]:
        """A sentence about each setting, and each key of config.json, that may have an effect and was not read."""
        yield from self.model.left_out(WITHOUT_EFFECT | CONFIG_WITHOUT_EFFECT, _NEUTRAL)
        yield from self.generation.left_out(WITHOUT_EFFECT, _NEUTRAL)


def search_config(
    model: Fields, generation: Fields, tgt: Tokenizer, *, has_output_bias: bool
) -> tuple[SearchConfig, list[str]]:
    """The search that a model's settings describe, and a sentence about each setting that is left out.

    Args:
        model: of config.json, where older versions of transformers wrote the settings.
        generation: of generation_config.json.
        tgt: tokenizer of the target side.
        has_output_bias: the import excludes tokens from the softmax by a bias, see `renormalises`.

    All other keys of `model` are to be read before: those that nothing has read are among the sentences.

    Raises:
        DataError: a setting has a value that mtkit does not compute.
    """
    settings = _Settings(model, generation)
    get = settings.get
    notes: list[str] = []
    vocab, never = tgt.vocab, never_generated(model, generation)
    if len(never) < len(get("bad_words_ids", list, [])):
        notes.append("bad_words_ids: sequences of several tokens may be generated")
    alpha = float(get("length_penalty", (int, float), 1.0))
    if alpha < 0:
        raise DataError(f"{generation.path}: length_penalty: {alpha}; mtkit has none below 0, set it to 0")
    if (beams := int(get("num_beams", int, 1))) < 1:
        raise DataError(f"{generation.path}: num_beams: {beams}; a number above 0 is expected")
    returned = int(get("num_return_sequences", int, 1))
    if not 1 <= returned <= beams:
        notes.append(f"num_return_sequences: {returned} has no effect; a search returns 1 to num_beams translations")
    early = get("early_stopping", (bool, str), False)
    repetition = float(get("repetition_penalty", (int, float), 1.0))
    if repetition < 1:
        notes.append(f"repetition_penalty: {repetition} has no effect; mtkit has none below 1")
    if repetition > 1 and beams == 1:
        notes.append(
            f"repetition_penalty: {repetition} multiplies log-probabilities; transformers' greedy search logits"
        )
    if get("do_sample", bool, False):
        notes.append("do_sample: the search is a beam search; set search.method.kind to sampling")
    if (first := get("forced_bos_token_id", int, None)) is not None and not (tgt.languages or tgt.before):
        notes.append(f"forced_bos_token_id: {first} has no effect; translations may differ")
    path = model.path
    expected = {"eos_token_id": vocab.eos, "forced_eos_token_id": vocab.eos, "decoder_start_token_id": vocab.bos}
    for key, number in expected.items():
        if (value := get(key, (int, list), number)) not in (number, [number]):
            notes.append(f"{key}: {shown(value)} has no effect; it is {number} as in {path.name}")
    begin = 1 if tgt.languages else len(tgt.before)
    longest, shortest = _lengths(get, notes, begin)
    ngram = int(get("no_repeat_ngram_size", int, 0))
    if get("renormalize_logits", bool, False) and (ngram or shortest or repetition > 1 or not has_output_bias):
        among = "the tokens of bad_words_ids alone" if has_output_bias else "no tokens"
        notes.append(f"renormalize_logits: takes {among} out of the softmax; translations may differ")
    search = SearchConfig(
        beam_size=beams,
        n_best=returned if 1 <= returned <= beams else 1,
        length_penalty=alpha,
        early_stopping=early is not False,
        patience=EXACT_PATIENCE if early == "never" else 1.0,
        max_length=MaxLength(factor=0.0, offset=longest),
        min_length=LengthLimit(offset=shortest),
        no_repeat_ngram=ngram,
        repetition_penalty=max(1.0, repetition),
        allow_unknown=vocab.unk not in never,
        retry_loops=False,
    )
    return search, [*notes, *settings.left_out()]


def _lengths(get: Callable[..., Any], notes: list[str], begin: int) -> tuple[int, int]:
    """The maximum and the minimum length, without the tokens that transformers counts and mtkit does not.

    `begin`: number of tokens of its language that a translation begins with.
    """
    longest, shortest = get("max_length", int, None), int(get("min_length", int, 0)) - 1
    newest, new_least = get("max_new_tokens", int, None), get("min_new_tokens", int, None)
    if newest is not None:
        longest = newest + 1  # the decoder's first token is not new
    if longest is None:
        longest = DEFAULT_MAX_LENGTH
        notes.append(
            f"max_length: not stated, so that transformers' default of {longest} tokens cuts longer translations off; "
            "set search.max_length.offset to more"
        )
    shortest = shortest if new_least is None else new_least
    return max(0, longest - FIXED_TOKENS - begin), max(0, shortest - begin)


def renormalises(model: Fields, generation: Fields) -> bool:
    """Return whether probabilities are those among the tokens that may be generated."""
    return bool(generation.get("renormalize_logits", bool, model.get("renormalize_logits", bool, False)))


def never_generated(model: Fields, generation: Fields) -> set[int]:
    """The ids of tokens that the settings exclude from translations; arguments as of `search_config`."""
    excluded = generation.get("bad_words_ids", list, model.get("bad_words_ids", list, []))
    return {each[0] for each in excluded if isinstance(each, list) and len(each) == 1 and type(each[0]) is int}
