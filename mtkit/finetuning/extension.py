"""A copy of a model with more tokens, whose vectors are the means of those that they replace, or a further language.

Gee et al. 2022, sec. 3.2, https://aclanthology.org/2022.emnlp-industry.41
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

import torch
from torch import Tensor

from mtkit.display import count_of
from mtkit.errors import UsageError
from mtkit.finetuning.settings import OWN
from mtkit.model_folder.folder import read_model
from mtkit.model_folder.model_card import write_new_model
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.text.lines import read_lines
from mtkit.text.subword.new_pieces import Parts, PieceLearner
from mtkit.text.subword.tokenizer import Side
from mtkit.text.tokenizer import TokenizerPair, prepared
from mtkit.text.vocab import NUM_TAGS
from mtkit.training.weights import tensor_names, weights

EXTENDED = "extended"  # folder in the run
NO_COPIES: Mapping[Side, Mapping[int, int]] = {"src": {}, "tgt": {}}
MAX_LINES = 200_000  # of a text that pieces are learned from


@dataclass(frozen=True)
class NewLanguage:
    """A language that a model gets, and one of its languages whose vector its token begins with."""

    code: str
    relative: str


def extend_model(
    base: Path, run: Path, langs: tuple[str, str], *, count: int | None, language: NewLanguage | None = None
) -> str:
    """Write a copy of a model with further pieces in each subword model and a language, unless the run has it.

    Args:
        langs: of the own text of the run, from which pieces are learned.
        count: of pieces at most; None: there are none.
        language: None: there is none.

    Returns:
        A sentence about them.

    Raises:
        UsageError: as `extend_pair` and `with_language`.
        MissingInputError, DataError, ReadWriteError: model or text cannot be read, or the copy not be written.
    """
    output = run / EXTENDED
    if output.is_dir():
        return f"with more tokens, in {output}"
    loaded, said = read_model(base), []
    pair, metadata = loaded.tokenizers, loaded.metadata
    tensors, names = weights(loaded.model), tensor_names(loaded.model)
    if language is not None:
        extended = with_language(pair, language)
        pair, tensors = extended.tokenizers, with_mean_rows(tensors, names, extended.parts, extended.copies)
        metadata = replace(metadata, languages=[*pair.languages])
        said.append(f"{language.code} added, which begins as {language.relative}")
    if count is not None:
        src, tgt = (read_lines(run / OWN / f"train.{lang}") for lang in langs)
        extended = extend_pair(pair, src, tgt, count)
        pair, tensors = extended.tokenizers, with_mean_rows(tensors, names, extended.parts)
        added = {count_of(len(parts), "token"): None for parts in extended.parts.values()}
        said.append(f"{' and '.join(added)} added")
    write_new_model(output, tensors, replace(metadata, tokenizer=pair.config, storage="float32"), pair)
    return "; ".join(said)


@dataclass(frozen=True)
class ExtendedPair:
    """Tokenizers with new tokens after all others, and what these replace, in the order of their ids.

    Attributes:
        copies: by id of a reserved token that has a use now, the id whose vector it takes.
    """

    tokenizers: TokenizerPair
    parts: Mapping[Side, Parts]
    copies: Mapping[Side, Mapping[int, int]] = field(default_factory=lambda: NO_COPIES)


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


def with_language(pair: TokenizerPair, language: NewLanguage) -> ExtendedPair:
    """Add a language to a model whose texts begin with tokens of theirs.

    Models of other programs get one more token; in those that mtkit trained a reserved one has the meaning.

    Raises:
        UsageError: the model has no such tokens, has the language or lacks the relative, or no token is left.
    """
    code, relative = language.code, language.relative
    option = f"finetune: --add-language {code}={relative}"
    if not pair.languages:
        raise UsageError(
            f"{option}: the texts of this model have no tokens of languages; begin with NLLB, M2M-100 or a model that "
            "was trained with corpus.language_tokens"
        )
    if code in pair.languages:
        raise UsageError(f"{option}: the model has {code}; omit the option, and give --src-lang or --tgt-lang")
    if relative not in pair.languages:
        raise UsageError(f"{option}: the model lacks {relative}; it has {', '.join(sorted(pair.languages))}")
    new = replace(pair, languages=(*pair.languages, code))
    if pair.src.languages:
        src = pair.src.with_language(code, relative)
        tgt = src if pair.tgt.model == pair.src.model else pair.tgt.with_language(code, relative)
        new = replace(new, src=src, tgt=tgt, config=replace(pair.config, vocab_size=src.vocab.size))
        parts = {side: {code: tuple(pair.first_ids(side, relative))} for side in NO_COPIES}
        return ExtendedPair(new, parts)
    if (count := len(pair.tags) + len(new.languages)) > NUM_TAGS:
        raise UsageError(f"{option}: {count} tags and languages, and the tokenizer reserves {NUM_TAGS} tokens for them")
    copies = {side: {new.first_ids(side, code)[0]: pair.first_ids(side, relative)[0]} for side in NO_COPIES}
    return ExtendedPair(new, {"src": {}, "tgt": {}}, copies)


def with_mean_rows(
    tensors: Mapping[str, Tensor],
    names: Mapping[str, str],
    parts: Mapping[Side, Parts],
    copies: Mapping[Side, Mapping[int, int]] = NO_COPIES,
) -> dict[str, Tensor]:
    """Weights in which every tensor with a row for each token has those of new tokens: the means of their parts' rows.

    Args:
        names: from `tensor_names`.
        copies: as in `ExtendedPair`.
    """
    result = dict(tensors)
    for alias, side in VOCAB_TENSORS.items():
        name = names.get(alias)
        if name is not None and parts[side]:
            old = tensors[name]
            rows = [old[torch.tensor(ids)].mean(dim=0) for ids in parts[side].values()]
            result[name] = torch.cat([old, torch.stack(rows)])
        if name is not None and copies[side]:
            result[name] = result[name].clone()
            result[name][[*copies[side]]] = tensors[name][[*copies[side].values()]]
    return result
