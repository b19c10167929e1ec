"""A copy of a model with more tokens, whose vectors are the means of those that they replace.

Gee et al. 2022, sec. 3.2, https://aclanthology.org/2022.emnlp-industry.41
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import torch
from torch import Tensor

from mtkit.display import count_of
from mtkit.finetuning.settings import OWN
from mtkit.model_folder.folder import read_model
from mtkit.model_folder.model_card import write_new_model
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.text.lines import read_lines
from mtkit.text.subword.new_pieces import Parts, PieceLearner
from mtkit.text.subword.tokenizer import Side
from mtkit.text.tokenizer import TokenizerPair, prepared
from mtkit.training.weights import tensor_names, weights

EXTENDED = "extended"  # folder in the run
MAX_LINES = 200_000  # of a text that pieces are learned from


def extend_model(base: Path, run: Path, count: int) -> str:
    """Write a copy of a model with up to `count` further pieces in each subword model, unless the run has it.

    The pieces are learned from the own text of the run.

    Returns:
        A sentence about them.

    Raises:
        UsageError: as `extend_pair`.
        MissingInputError, DataError, ReadWriteError: model or text cannot be read, or the copy not be written.
    """
    output = run / EXTENDED
    if output.is_dir():
        return f"with more tokens, in {output}"
    loaded = read_model(base)
    langs = loaded.metadata.src_lang, loaded.metadata.tgt_lang
    src, tgt = (read_lines(run / OWN / f"train.{lang}") for lang in langs)
    extended = extend_pair(loaded.tokenizers, src, tgt, count)
    tensors = with_mean_rows(weights(loaded.model), tensor_names(loaded.model), extended.parts)
    metadata = replace(loaded.metadata, tokenizer=extended.tokenizers.config, storage="float32")
    write_new_model(output, tensors, metadata, extended.tokenizers)
    added = {count_of(len(parts), "token"): None for parts in extended.parts.values()}
    return f"{' and '.join(added)} added"


@dataclass(frozen=True)
class ExtendedPair:
    """Tokenizers with new tokens after all others, and what these replace, in the order of their ids."""

    tokenizers: TokenizerPair
    parts: Mapping[Side, Parts]


def extend_pair(pair: TokenizerPair, src: Iterable[str], tgt: Iterable[str], count: int) -> ExtendedPair:
    """Add up to `count` pieces to each subword model, learned from text of its side or sides.

    Raises:
        UsageError: as `require_extendable`.
    """
    texts: list[Iterable[str]] = [
        [prepared(line, "src", pair.config) for line in islice(src, MAX_LINES)],
        [prepared(line, "tgt", pair.config) for line in islice(tgt, MAX_LINES)],
    ]
    models = [PieceLearner(pair.src), PieceLearner(pair.tgt)]
    if pair.src.model == pair.tgt.model:
        models, texts = models[:1], [chain(*texts)]
    for model, lines in zip(models, texts, strict=True):
        model.learn(lines, count)
    new = [model.new_tokens() for model in models]
    if pair.src.model_pieces == pair.tgt.model_pieces:  # two models of one vocabulary have one list of tokens
        new = [{**new[-1], **new[0]}] * len(models)
    sides = [model.extended(parts) for model, parts in zip(models, new, strict=True)]
    config = replace(pair.config, vocab_size=sides[0].vocab.size)
    return ExtendedPair(replace(pair, src=sides[0], tgt=sides[-1], config=config), {"src": new[0], "tgt": new[-1]})


def with_mean_rows(
    tensors: Mapping[str, Tensor], names: Mapping[str, str], parts: Mapping[Side, Parts]
) -> dict[str, Tensor]:
    """Weights in which every tensor with a row for each token has those of new tokens: the means of their parts' rows.

    Args:
        names: from `tensor_names`.
    """
    result = dict(tensors)
    for alias, side in VOCAB_TENSORS.items():
        name = names.get(alias)
        if name is not None and parts[side]:
            old = tensors[name]
            rows = [old[torch.tensor(ids)].mean(dim=0) for ids in parts[side].values()]
            result[name] = torch.cat([old, torch.stack(rows)])
    return result
