"""Attention of a model: the weights of each head on a sentence, and figures of all heads on a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mtkit.analysis.head_statistics import (
    STATISTICS,
    HeadSums,
    attention_modules,
    forced_attention,
    head_importance,
    is_self_attention,
    real_queries,
    recorded_attention,
)
from mtkit.analysis.word_alignment import AlignmentErrors, LexiconAligner, ReferenceAlignment, read_alignments
from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.batch import Batch
from mtkit.display import Table
from mtkit.errors import DataError, UsageError
from mtkit.model_folder.config_file import LEXICON
from mtkit.model_folder.folder import LoadedModel, read_model
from mtkit.models.interface import TranslationModel
from mtkit.translate.alignment import word_links, words_of
from mtkit.translate.reference_text import ReferenceText, batches, prefix_ids

Reference = Callable[[int], ReferenceAlignment]  # index of a sentence pair -> its alignment


@dataclass(frozen=True)
class AttentionMap:
    """Weights [T, S] of a head, of the mean of the heads of a module, or of all layers together.

    Attributes:
        module: path of the attention module; of all layers together, a name.
        head: number of the head from 0; MEAN for the mean of the heads; WHOLE for all layers together.
        rows: tokens that attend [T]; of a decoder, those that are predicted there.
        columns: tokens that are attended to [S].
    """

    module: str
    head: int | str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Sequence[Sequence[float]]


MEAN, WHOLE = "mean", ""


@torch.inference_mode()
def attention_maps(
    model: TranslationModel, batch: Batch, src: Sequence[str], tgt: Sequence[str], *, start: int = 0
) -> list[AttentionMap]:
    """Attention of a model that reads one sentence pair; none if it has no softmax attention.

    First the attention over the source that decoding returns, of which alignments are made; then the rollout of the
    encoder, and that of encoder and decoder together; then of each module the mean of its heads, and each head.

    Args:
        src, tgt: the tokens of the batch's source, and of its labels.
        start: number of tokens that every target begins with, which are left out of the rows.
    """
    maps = []
    with suppress(ValueError):  # no attention over the source
        maps.append(AttentionMap("over the source", WHOLE, tgt, src, _rounded(forced_attention(model, batch)[0])))
    with recorded_attention(model) as recorded:
        model.decode_states(batch.source, batch.target)
    inputs = ["(begin)", *tgt[:-1]]
    by_module = dict[str, Tensor]()
    for name, weights in recorded.items():
        is_self, is_decoder = is_self_attention(name), name.startswith("decoder.")
        rows, columns = tgt if is_decoder else src, inputs if is_self and is_decoder else src
        if weights.shape[-2:] != (len(rows), len(columns)):
            continue  # attention within windows, whose keys are others
        by_module[name] = weights[0].mean(0)  # [T, S]
        heads: list[tuple[int | str, Tensor]] = [(MEAN, by_module[name]), *enumerate(weights[0])]
        maps += [AttentionMap(name, head, rows, columns, _rounded(each)) for head, each in heads]
    if by_module.keys() == attention_modules(model).keys() and any(not is_self_attention(name) for name in by_module):
        encoder, source = rollout(by_module)
        maps[1:1] = [
            AttentionMap("rollout of the encoder", WHOLE, src, src, _rounded(encoder)),
            AttentionMap("rollout over the source", WHOLE, tgt, src, _rounded(source)),
        ]
    return [
        replace(each, rows=each.rows[start:], weights=each.weights[start:]) if each.rows is tgt else each
        for each in maps
    ]


def _rounded(weights: Tensor) -> list[list[float]]:
    return [[round(each, 4) for each in row] for row in weights.tolist()]


def rollout(weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention of all layers together, from that of each module [T, S]: of the encoder, and of the decoder's source.

    Abnar and Zuidema 2020, sec. 3, https://arxiv.org/abs/2005.00928: half of each state comes through the residual
    connection, so that a layer is (I + A) / 2. In a decoder the same is done in each sublayer, and the shares that come
    from the source are followed; the rest of a row comes from the target tokens before. Attention says nothing of what
    feed-forward layers do with it.
    """
    encoder = by_src = by_tgt = torch.zeros(0)
    for name, each in weights.items():
        if not is_self_attention(name):
            by_src, by_tgt = (by_src + each @ encoder) / 2, by_tgt / 2
            continue
        layer = (torch.eye(len(each)) + each) / 2
        if name.startswith("encoder."):
            encoder = layer @ encoder if len(encoder) else layer
        else:
            by_src = layer @ by_src if len(by_src) else torch.zeros(len(each), len(encoder))
            by_tgt = layer @ by_tgt if len(by_tgt) else layer
    return encoder, by_src


@dataclass(frozen=True)
class HeadRow:
    """Figures of one head, or of the mean of all heads of a module; None: the figure does not exist.

    Attributes:
        module: path of the attention module, such as decoder.2.cross_attention.
        head: number from 0; "mean" for the mean of the heads' weights.
        entropy, confidence, previous, same, next: see STATISTICS.
        importance: of the head for the loss, see `head_importance`.
        alignment_error_rate: of the links to the source token with the largest weight, in cross-attention.
    """

    module: str
    head: int | str
    entropy: float
    confidence: float
    previous: float | None = None
    same: float | None = None
    next: float | None = None
    importance: float | None = None
    alignment_error_rate: float | None = None


@dataclass(frozen=True)
class AttentionReport:
    """Figures of all heads.

    Attributes:
        rows: of each module, in the order of the model.
        sentences: number of sentence pairs.
        reference: what the alignment error rate compares with; None: with nothing.
    """

    rows: Sequence[HeadRow]
    sentences: int
    reference: str | None


def analyse_attention(model: Path, text: ReferenceText, alignments: Path | None = None) -> AttentionReport:
    """Compute the attention weights of the references of a text (teacher forcing), and their figures.

    All models have figures of the attention over the source that decoding returns. A Transformer has those of each head
    with softmax attention as well.

    Args:
        alignments: file for the alignment error rate; None: alignments by the model's lexicon (IBM Model 1), if it has
            one.

    Raises:
        UsageError: the model has no attention over the source; also as `prefix_ids`.
        DataError: as `batches`, `read_alignments` and `read_model`.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    loaded = read_model(model)
    name, reference = _reference(loaded, text, alignments)
    if not loaded.metadata.model.has_attention:
        raise UsageError(f"{model}: a model of kind {loaded.metadata.model.kind} has no attention over the source")
    aligner, sums = _Aligner(loaded, text, reference), dict[str, HeadSums]()
    for batch in batches(loaded, text):
        for module, weights in _weights(loaded, batch).items():
            is_self, by_head = is_self_attention(module), weights  # [B, H, T, S]
            if not is_self:
                by_head = torch.cat([weights, weights.mean(1, keepdim=True)], 1) if weights.size(1) > 1 else weights
                aligner.add(module, by_head, batch)
            sums.setdefault(module, HeadSums(is_self_attention=is_self)).add(by_head, real_queries(module, batch))
    has_heads = loaded.metadata.model.has_attention_of_all_steps
    importance = head_importance(loaded.model, batches(loaded, text)) if has_heads else {}
    rows = [row for module, each in sums.items() for row in _rows(module, each, importance.get(module), aligner)]
    return AttentionReport(rows, len(text.src), name)


@torch.inference_mode()
def _weights(loaded: LoadedModel, batch: Batch) -> Mapping[str, Tensor]:
    """Weights [B, H, T, S] of all modules of a Transformer; of other models one head, which decoding returns."""
    if not loaded.metadata.model.has_attention_of_all_steps:
        return {"cross_attention": forced_attention(loaded.model, batch)[:, None]}
    with recorded_attention(loaded.model) as weights:
        loaded.model.decode_states(batch.source, batch.target)
    return weights


def _reference(
    loaded: LoadedModel, text: ReferenceText, alignments: Path | None
) -> tuple[str, Reference] | tuple[None, None]:
    """The name of the reference alignments, and a function that returns one."""
    if alignments is not None:
        counts = [(len(src.split()), len(ref.split())) for src, ref in zip(text.src, text.ref, strict=True)]
        return str(alignments), read_alignments(alignments, counts).__getitem__
    path = loaded.folder / LEXICON
    if not path.is_file():
        return None, None
    lexicon, tokenizers = Lexicon.load(path), loaded.tokenizers
    stored = len(lexicon.targets), len(lexicon.frequent)
    expected = tokenizers.src.vocab.size, tokenizers.tgt.vocab.size
    if stored != expected:
        raise DataError(
            f"{path}: the lexicon of another model ({stored[0]} source and {stored[1]} target tokens, the model has "
            f"{expected[0]} and {expected[1]}); copy the model again, or give --alignments FILE"
        )
    aligner = LexiconAligner(lexicon, tokenizers.src.vocab.eos)

    @cache
    def align(index: int) -> ReferenceAlignment:
        src, tgt = tokenizers.encode("src", [text.src[index]])[0], tokenizers.encode("tgt", [text.ref[index]])[0]
        src_words, tgt_words = words_of(tokenizers.src.ids_to_tokens(src)), words_of(tokenizers.tgt.ids_to_tokens(tgt))
        pairs = {(src_words[s], tgt_words[t]) for s, t in aligner.links(src, tgt)}
        links = {(s, t) for s, t in pairs if s >= 0 and t >= 0}
        return ReferenceAlignment(links, links)

    return "IBM Model 1", align


class _Aligner:
    """Alignment errors of cross-attention, by module and head."""

    def __init__(self, loaded: LoadedModel, text: ReferenceText, reference: Reference | None) -> None:
        self._tokenizers = loaded.tokenizers
        self._reference = reference
        self._prefix = len(prefix_ids(loaded, text.prefix))
        self._tgt_prefix = len(text.prefix.tgt_ids(loaded.tokenizers))
        self._errors: defaultdict[str, defaultdict[int, AlignmentErrors]] = defaultdict(
            lambda: defaultdict(AlignmentErrors)
        )

    def add(self, module: str, weights: Tensor, batch: Batch) -> None:
        """Align the words of a batch by the weights [B, H, T, S] of a module."""
        if self._reference is None:
            return
        for row, index in enumerate(batch.sample_ids.tolist()):
            src = batch.source.ids[row, batch.source.real[row]].tolist()[self._prefix : -1]  # without end of sentence
            tgt = batch.labels[row, batch.target.real[row]].tolist()[self._tgt_prefix : -1]
            queries = slice(self._tgt_prefix, self._tgt_prefix + len(tgt))
            tokens = self._tokenizers.src.ids_to_tokens(src), self._tokenizers.tgt.ids_to_tokens(tgt)
            for head, of_head in enumerate(weights[row, :, queries, self._prefix :]):  # [T, S]
                links = word_links([(0, 0, of_head[:, : len(src)])], *tokens)
                self._errors[module][head].add(links, self._reference(index))

    def error_rate(self, module: str, head: int) -> float | None:
        """Of all batches; None without a reference."""
        return self._errors[module][head].error_rate if self._reference is not None else None


def _rows(name: str, sums: HeadSums, importance: Tensor | None, aligner: _Aligner) -> list[HeadRow]:
    means = sums.means().tolist()
    num_heads = len(means) if importance is None else len(importance)
    return [
        HeadRow(
            name,
            head if head < num_heads else MEAN,
            **dict(zip(STATISTICS, values, strict=False)),
            importance=None if importance is None or head >= num_heads else float(importance[head]),
            alignment_error_rate=None if is_self_attention(name) else aligner.error_rate(name, head),
        )
        for head, values in enumerate(means)
    ]


def attention_table(report: AttentionReport) -> Table:
    """The figures of each head; one that does not exist is an empty cell."""
    names = (*STATISTICS, "importance", "alignment_error_rate")
    rows = []
    for row in report.rows:
        values = [getattr(row, name) for name in names]
        rows.append([row.module, str(row.head), *("" if value is None else f"{value:.3f}" for value in values)])
    return Table(("module", "head", *names[:-1], "AER"), rows, text=("module",))
