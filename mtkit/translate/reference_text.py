"""A text with references, on which a loaded model is measured, and its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.corpus.order.batch import Batch, collate
from mtkit.errors import DataError
from mtkit.model_folder.folder import LoadedModel, StoredModel
from mtkit.text.lines import check_line_counts, read_lines
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix

BATCH_SENTENCES = 32


@dataclass(frozen=True)
class ReferenceText:
    """Source lines with their references.

    Attributes:
        prefix: what the model reads before each source.
    """

    src: Sequence[str]
    ref: Sequence[str]
    prefix: SourcePrefix = NO_PREFIX


def read_reference_text(src: Path, ref: Path, prefix: SourcePrefix = NO_PREFIX) -> ReferenceText:
    """Read two files of equal length.

    Raises:
        DataError: the numbers of lines differ, or all lines are blank; otherwise as `read_lines`.
    """
    check_line_counts(src, ref)
    text = ReferenceText(list(read_lines(src)), list(read_lines(ref)), prefix)
    for path, lines in ((src, text.src), (ref, text.ref)):
        if not any(map(str.strip, lines)):
            raise DataError(f"{path}: all lines are blank; give text with its translation")
    return text


def prefix_ids(loaded: LoadedModel | StoredModel, prefix: SourcePrefix) -> list[int]:
    """The ids that the model reads before each source of a text.

    Raises:
        UsageError: the model lacks the tag, needs one, or the prefix is as long as its longest training source.
    """
    prefix.check_tag(loaded.tokenizers, requires_tag=loaded.metadata.requires_tag)
    return prefix.ids(loaded.tokenizers, max_source_length=loaded.metadata.max_source_length)


def batches(loaded: LoadedModel, text: ReferenceText) -> Iterator[Batch]:
    """Batches of sentences of similar length; `sample_ids` are indices of lines.

    Raises:
        UsageError: as `prefix_ids`.
        DataError: a line has more tokens than an encoder-decoder model has positions.
    """
    tokenizers = loaded.tokenizers
    prefix = prefix_ids(loaded, text.prefix)
    src, tgt = tokenizers.encode_texts(text.src, text.ref)
    src, tgt = [[*prefix, *ids] for ids in src], [[*text.prefix.tgt_ids(tokenizers), *ids] for ids in tgt]
    model = loaded.metadata.model
    limits = model.max_lengths() if model.has_encoder else {}  # of a decoder-only model both sides share the positions
    for key, limit in limits.items():
        side, rows = ("source", src) if key.startswith("encoder") else ("reference", tgt)
        for number, ids in enumerate(rows, start=1):
            if len(ids) + 1 > limit:
                raise DataError(
                    f"line {number} of the {side}: {len(ids) + 1} tokens, prefix and end of sentence included, and the "
                    f"model has {limit} positions (model.{key}); shorten or omit it"
                )
    order = sorted(range(len(src)), key=lambda index: len(src[index]))
    for start in range(0, len(order), BATCH_SENTENCES):
        chosen = order[start : start + BATCH_SENTENCES]
        sides = [src[index] for index in chosen], [tgt[index] for index in chosen]
        yield collate(*sides, chosen, tokenizers.src.vocab, tokenizers.tgt.vocab)
