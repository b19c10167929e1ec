"""A copy of a model with the tokens that some text uses, and with some of its languages: `--to vocabulary`.

In multilingual models most weights are rows of embeddings for languages that a user does not need: Abdaoui et al. 2020,
https://aclanthology.org/2020.sustainlp-1.16 . A line whose tokens are all kept has the same tokens as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import torch
from torch import Tensor

from mtkit.errors import UsageError
from mtkit.model_folder.folder import LoadedModel, ModelMetadata
from mtkit.models.embeddings import VOCAB_TENSORS
from mtkit.text.language import script_name
from mtkit.text.lines import read_lines
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.tokenizer import Side, Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.weights import tensor_names, weights

BATCH_LINES = 10_000


@dataclass(frozen=True)
class VocabularyCut:
    """Texts and languages whose tokens are kept.

    Attributes:
        texts: files whose tokens are kept, in any of the languages.
        languages: codes of those that are kept, or names of tags that stand for languages; empty: all.
    """

    texts: tuple[Path, ...]
    languages: tuple[str, ...] = ()


NO_CUT = VocabularyCut(())


def cut_vocabulary(loaded: LoadedModel, cut: VocabularyCut) -> tuple[ModelMetadata, dict[str, Tensor], TokenizerPair]:
    """Metadata, weights and tokenizers of a model without the tokens that no text of `cut` has.

    Kept are also the tokens of kept languages, special tokens, bytes, digits and signs, and single letters of the
    scripts of the texts. If the model's own direction is lost, the first two languages become it.

    Raises:
        UsageError: the model lacks a language or is left with one, or its tokenizer is of another kind.
        MissingInputError, DataError, ReadWriteError: a text cannot be read.
    """
    pair, metadata = loaded.tokenizers, loaded.metadata
    for tokenizer in (pair.src, pair.tgt):
        if tokenizer.inner_model is None:
            raise UsageError(
                "--to vocabulary: only sentencepiece models can be cut, and this model has another tokenizer"
            )
    languages = list(dict.fromkeys(cut.languages)) or [*metadata.languages]
    known = metadata.languages or metadata.tags
    if unknown := [lang for lang in cut.languages if lang not in known]:
        has = f"it has {', '.join(sorted(known))}" if known else "it translates one direction; omit --languages"
        raise UsageError(f"--languages: the model has no language {unknown[0]}; {has}")
    if metadata.languages:
        if len(languages) < 2:
            raise UsageError("--languages: a direction has two languages; name at least two")
        if not {metadata.src_lang, metadata.tgt_lang} <= set(languages):
            metadata = replace(metadata, src_lang=languages[0], tgt_lang=languages[1])
        metadata = replace(metadata, languages=[lang for lang in metadata.languages if lang in languages])
    elif languages:
        metadata = replace(metadata, tags=[tag for tag in metadata.tags if tag in languages])
    ids: dict[Side, tuple[dict[str, int], dict[str, int]]] = {
        "src": (
            {lang: pair.first_ids("src", lang)[0] for lang in metadata.languages},
            {tag: pair.tag_id(tag) for tag in metadata.tags},
        ),
        "tgt": ({lang: pair.first_ids("tgt", lang)[0] for lang in metadata.languages}, {}),
    }
    used = _used_tokens(pair, cut.texts)
    kept = {side: _kept_tokens(pair.of(side), used[side], [*chain(*map(dict.values, ids[side]))]) for side in ids}
    if pair.src.model_pieces == pair.tgt.model_pieces:  # two tokenizers of one vocabulary keep one list of tokens
        kept = dict.fromkeys(ids, sorted({*kept["src"], *kept["tgt"]}))
    src, tgt = (pair.of(side).with_tokens(kept[side], *ids[side]) for side in ids)
    config = replace(metadata.tokenizer, vocab_size=src.vocab.size)
    pair = replace(
        pair,
        src=src,
        tgt=src if pair.shared else tgt,
        config=config,
        tags=tuple(metadata.tags),
        languages=tuple(metadata.languages),
        direction=(metadata.src_lang, metadata.tgt_lang),
    )
    tensors, names = weights(loaded.model), tensor_names(loaded.model)
    for name, side in {names[alias]: side for alias, side in VOCAB_TENSORS.items() if alias in names}.items():
        tensors[name] = tensors[name][torch.tensor(kept[side])].contiguous()
    return replace(metadata, tokenizer=config), tensors, pair


def _used_tokens(pair: TokenizerPair, texts: Iterable[Path]) -> dict[Side, set[int]]:
    """The ids of the tokens of some texts, as sources and as targets."""
    used: dict[Side, set[int]] = {"src": set(), "tgt": set()}
    for path in texts:
        lines = read_lines(path)
        while batch := list(islice(lines, BATCH_LINES)):
            for side, ids in used.items():
                ids.update(chain.from_iterable(pair.encode(side, batch)))
    return used


def _kept_tokens(tokenizer: Tokenizer, used: Collection[int], named: Collection[int]) -> list[int]:
    """The ids of used tokens, of those with a role, of bytes, and of single characters, ascending.

    Of letters, those of scripts that used tokens have: a name that no text had stays spelled, and is not unknown.

    Args:
        named: ids of languages and tags, which are kept; the others are not.
    """
    listed, pieces = tokenizer.token_list, tokenizer.model_pieces
    roles = {listed.pad, listed.unk, listed.bos, listed.eos, *listed.control, *listed.before, *listed.after}
    roles = (roles | {*listed.added}) - {*listed.languages.values(), *listed.tags.values()} | {*named}
    letters = {character for token_id in used for character in pieces[token_id]}
    scripts = {script_name(character) for character in letters}
    for token_id, piece in enumerate(pieces):
        character = piece.removeprefix(SPACE_MARK) or piece
        is_single = len(character) == 1 and (tokenizer.is_byte_level or script_name(character) in {*scripts, None})
        if is_single or tokenizer.is_byte[token_id]:
            roles.add(token_id)
    return sorted(roles.union(used) - {*listed.hidden} | {*named})
