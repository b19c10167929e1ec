"""Forced decoding: the log-probability of given translations."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.corpus.binarise import check_line_counts
from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.collate import collate
from mtkit.errors import DataError
from mtkit.models.interface import TranslationModel
from mtkit.search.fast_topk import log_normaliser
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import Tokenizer, TokenizerPair
from mtkit.translate.constraints import LineRequest
from mtkit.translate.segment import split_lines

WINDOW = 4096  # pairs that are read ahead and sorted by length
CHUNK_POSITIONS = 512  # target positions whose logits are in memory at a time

GivenTranslation = str | tuple[str, ...]  # text, or the tokens that a search chose


@dataclass(frozen=True, kw_only=True)
class ForcedScore:
    """The log-probability of a given translation, nats.

    Attributes:
        line: number of the pair, from 1.
        log_prob: of all tokens and the end of sentence.
        tokens: subwords of the translation.
        token_log_probs: log-probability of each token and, last, of the end of sentence.
    """

    line: int
    log_prob: float
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token; 1 for a blank pair."""
        return math.exp(-self.log_prob / len(self.token_log_probs)) if self.token_log_probs else 1.0

    def json(self) -> str:
        """One line of JSON."""
        return json.dumps({**asdict(self), "perplexity": self.perplexity}, ensure_ascii=False)


class _Pair(NamedTuple):
    """A source and a target that are scored together: those of a line, or a part of it."""

    line_index: int  # in the window
    src: list[int]
    tgt: list[int]

    @property
    def length(self) -> int:
        """Number of tokens of the longer side."""
        return max(len(self.src), len(self.tgt))


def score_lines(
    models: Sequence[TranslationModel],
    tokenizers: TokenizerPair,
    pairs: Iterable[tuple[str, GivenTranslation]],
    *,
    max_source_length: int | None = None,
    batch_tokens: int = 8192,
) -> Iterator[ForcedScore]:
    """Score translations: one score for each pair (source, translation), in order.

    Several models are an ensemble, as in search: the mean of their probabilities. The models are used as they are. A
    blank pair has log-probability 0, as in translation. Text is scored in the tokenizer's segmentation; tokens are
    scored as they are, since search may have chosen another segmentation of the same text. An end of sentence among the
    tokens shows that the line was split in translation. It is split again, as are sources of more than
    `max_source_length` tokens, and the log-probabilities of its parts are summed.

    Raises:
        DataError: the vocabulary lacks a token, or the line is split into another number of parts.
    """
    stream = enumerate(pairs, start=1)
    while window := list(itertools.islice(stream, WINDOW)):
        src = tokenizers.src.encode([src_line for _, (src_line, _) in window])
        tgt = _target_ids([given for _, (_, given) in window], tokenizers.tgt)
        parts = [
            _Pair(i, *part)
            for i, (line, (src_line, given)) in enumerate(window)
            if src_line.strip() or "".join(given).strip()
            for part in _split_pair(line, src_line, (src[i], tgt[i]), tokenizers, max_source_length)
        ]
        of_line: dict[int, list[float]] = {}
        for part, values in zip(parts, _score(models, tokenizers, parts, batch_tokens), strict=True):
            of_line.setdefault(part.line_index, []).extend(values)
        for i, (line, _) in enumerate(window):
            log_probs = of_line.get(i, [])
            tokens = tuple(tokenizers.tgt.ids_to_tokens(tgt[i])) if log_probs else ()
            yield ForcedScore(line=line, log_prob=sum(log_probs), tokens=tokens, token_log_probs=tuple(log_probs))


def _score(
    models: Sequence[TranslationModel], tokenizers: TokenizerPair, pairs: Sequence[_Pair], batch_tokens: int
) -> list[list[float]]:
    """Log-probabilities of the tokens of each pair, computed in batches of similar length, the longest first."""
    log_probs: dict[int, list[float]] = {}
    waiting = sorted(range(len(pairs)), key=lambda k: -pairs[k].length)
    while waiting:
        count = max(1, batch_tokens // (pairs[waiting[0]].length + 1))
        chosen, waiting = waiting[:count], waiting[count:]
        sources, targets = [pairs[k].src for k in chosen], [pairs[k].tgt for k in chosen]
        batch = collate(sources, targets, chosen, tokenizers.src.vocab, tokenizers.tgt.vocab)
        log_probs.update(zip(chosen, forced_log_probs(models, batch), strict=True))
    return [log_probs[k] for k in range(len(pairs))]


def read_pairs(
    src: Path, *, ref: Path | None = None, hyps: Path | None = None
) -> Iterator[tuple[str, GivenTranslation]]:
    """Read sources and their translations: lines of text (`ref`), or the output of `translate --jsonl` (`hyps`).

    Raises:
        DataError: the numbers of lines differ or are 0; a line of `hyps` has another form.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    path = ref or hyps
    if path is None:
        raise ValueError("neither ref nor hyps")
    check_line_counts(src, path)
    return zip(read_lines(src), read_lines(path) if hyps is None else _tokens_of(path), strict=True)


def _tokens_of(path: Path) -> Iterator[tuple[str, ...]]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        tokens = value.get("tokens") if isinstance(value, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise DataError(
                f"{path}:{number}: not output of mtkit translate --jsonl: expected an object with a list of tokens"
            )
        yield tuple(tokens)


def _target_ids(translations: Sequence[GivenTranslation], tokenizer: Tokenizer) -> list[list[int]]:
    texts = iter(tokenizer.encode([each for each in translations if isinstance(each, str)]))
    try:
        return [next(texts) if isinstance(each, str) else tokenizer.tokens_to_ids(each) for each in translations]
    except KeyError as error:
        raise DataError(
            f"{error} is no token of this model's vocabulary; was the translation made by another model?"
        ) from error


def _split_pair(
    line: int, src_line: str, ids: tuple[list[int], list[int]], tokenizers: TokenizerPair, max_length: int | None
) -> list[tuple[list[int], list[int]]]:
    """Source and target ids as they were translated: `ids`, or those of the parts of a line that was split."""
    src, tgt = ids
    eos = tokenizers.tgt.vocab.eos
    if eos not in tgt and (max_length is None or len(src) <= max_length):
        return [ids]
    ends = [-1, *(position for position, token in enumerate(tgt) if token == eos), len(tgt)]
    targets = [tgt[previous + 1 : end] for previous, end in itertools.pairwise(ends)]
    segments = split_lines([LineRequest(src_line)], line, tokenizers, max_length)
    sources = [segment.ids for segment in segments if segment.ids]
    if len(targets) == 1 < len(sources):
        return [ids]  # text that was not translated in parts, such as a reference
    if len(sources) != len(targets):
        raise DataError(
            f"line {line}: was translated in {len(targets)} parts, but this model splits its source into "
            f"{len(sources)}; was the translation made by another model?"
        )
    return list(zip(sources, targets, strict=True))


@torch.inference_mode()
def forced_log_probs(models: Sequence[TranslationModel], batch: Batch) -> list[list[float]]:
    """Log-probabilities of the labels of each sentence of a batch, the end of sentence included."""
    device = next(models[0].parameters()).device
    batch = batch.to(device)
    per_model = torch.stack([_label_log_probs(model, batch) for model in models])  # [models, N]
    values = iter((per_model.logsumexp(0) - math.log(len(models))).tolist())
    return [list(itertools.islice(values, count)) for count in batch.loss_mask.sum(1).tolist()]


def _label_log_probs(model: TranslationModel, batch: Batch) -> Tensor:
    """Log-probabilities of the N labels, [N] float32."""
    hidden = model.decode_states(batch.source, batch.target)[batch.loss_mask]  # [N, D]
    labels = batch.labels[batch.loss_mask]  # [N]
    log_probs = []
    chunks = zip(torch.split(hidden, CHUNK_POSITIONS), torch.split(labels, CHUNK_POSITIONS), strict=True)
    for states, label in chunks:
        logits = model.output(states)  # [n, V]
        log_probs.append(logits.gather(1, label.unsqueeze(1)).squeeze(1).float() - log_normaliser(logits))
    return torch.cat(log_probs)
