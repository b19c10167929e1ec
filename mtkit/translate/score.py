"""How probable a model finds given translations."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtkit.corpus.binarise import check_partners
from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.collate import collate
from mtkit.errors import DataError
from mtkit.models.interface import TranslationModel
from mtkit.search.fast_topk import log_normaliser
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import Tokenizer, TokenizerPair
from mtkit.translate.constraints import Asked
from mtkit.translate.segment import cut

WINDOW = 4096  # pairs that are read ahead and sorted by length
POSITIONS_AT_ONCE = 512  # whose logits exist at one time

Given = str | tuple[str, ...]  # a translation: text, or its pieces as some search chose them


@dataclass(frozen=True, kw_only=True)
class ForcedScore:
    """The log-probability of one given translation, nats.

    Attributes:
        line: number of the pair, from 1.
        log_prob: of all pieces and the end of sentence.
        pieces: subwords of the translation.
        piece_log_probs: of each piece and, last, of the end of sentence.
    """

    line: int
    log_prob: float
    pieces: tuple[str, ...]
    piece_log_probs: tuple[float, ...]

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a piece; 1 for a blank pair."""
        return math.exp(-self.log_prob / len(self.piece_log_probs)) if self.piece_log_probs else 1.0

    def json(self) -> str:
        """One line of JSON."""
        return json.dumps({**asdict(self), "perplexity": self.perplexity}, ensure_ascii=False)


def score_lines(
    models: Sequence[TranslationModel],
    tokenizers: TokenizerPair,
    pairs: Iterable[tuple[str, Given]],
    *,
    longest_source: int | None = None,
    batch_tokens: int = 8192,
) -> Iterator[ForcedScore]:
    """One score for each (source, translation), in order; a blank pair has log-probability 0, as when translating.

    Several models are an ensemble, as in search: the mean of their probabilities. The models are taken as they are
    (see compute_type.prepare). Text is scored in the tokenizer's own segmentation; search may have found the same text
    in other pieces, which can be given as they are. Where the end of sentence is among them, a line was split when it
    was translated; then it is split again, as one with more than `longest_source` pieces is, and its parts are summed.

    Raises:
        DataError: a piece that the vocabulary lacks, or another number of parts than the line has.
    """
    stream = enumerate(pairs, start=1)
    while window := list(itertools.islice(stream, WINDOW)):
        src = tokenizers.src.encode([pair[0] for _, pair in window])
        tgt = _target_ids([pair[1] for _, pair in window], tokenizers.tgt)
        blank = [not src_line.strip() and not "".join(given).strip() for _, (src_line, given) in window]
        parts = [
            (i, *part)
            for i, (line, (text, _)) in enumerate(window)
            if not blank[i]
            for part in _parts(line, text, (src[i], tgt[i]), tokenizers, longest_source)
        ]
        places = sorted(range(len(parts)), key=lambda k: -_longer(*parts[k][1:]))
        found: dict[int, list[float]] = {}
        while places:
            count = max(1, batch_tokens // (_longer(*parts[places[0]][1:]) + 1))
            here, places = places[:count], places[count:]
            _, sources, targets = zip(*(parts[k] for k in here), strict=True)
            batch = collate(sources, targets, here, tokenizers.src.vocab, tokenizers.tgt.vocab)
            found.update(zip(here, forced_log_probs(models, batch), strict=True))
        of_line: dict[int, list[float]] = {}
        for k, (i, _, _) in enumerate(parts):
            of_line.setdefault(i, []).extend(found[k])
        for i, (line, _) in enumerate(window):
            values = of_line.get(i, [])
            pieces = tuple(tokenizers.tgt.pieces(tgt[i])) if values else ()
            yield ForcedScore(line=line, log_prob=sum(values), pieces=pieces, piece_log_probs=tuple(values))


def read_pairs(src: Path, *, ref: Path | None = None, hyps: Path | None = None) -> Iterator[tuple[str, Given]]:
    """Sources with their translations: lines of text (`ref`), or what `translate --jsonl` wrote (`hyps`).

    Raises:
        DataError: unequal numbers of lines, or none; a line is not what it must be.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    path = ref or hyps
    if path is None:
        raise ValueError("neither ref nor hyps")
    check_partners(src, path)
    return zip(read_lines(src), read_lines(path) if hyps is None else _pieces_of(path), strict=True)


def _pieces_of(path: Path) -> Iterator[tuple[str, ...]]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        pieces = found.get("pieces") if isinstance(found, dict) else None
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise DataError(
                f"{path}:{number}: not what mtkit translate --jsonl writes: a mapping with a list of pieces is expected"
            )
        yield tuple(pieces)


def _target_ids(given: Sequence[Given], tokenizer: Tokenizer) -> list[list[int]]:
    texts = iter(tokenizer.encode([each for each in given if isinstance(each, str)]))
    try:
        return [next(texts) if isinstance(each, str) else tokenizer.piece_ids(each) for each in given]
    except KeyError as error:
        raise DataError(f"{error} is no piece of this model's vocabulary; was another model translating?") from error


def _parts(
    line: int, text: str, ids: tuple[list[int], list[int]], tokenizers: TokenizerPair, longest: int | None
) -> list[tuple[list[int], list[int]]]:
    """Source and target ids of what was translated as one: the pair `ids`, or the parts of a line that was split."""
    eos = tokenizers.tgt.vocab.eos
    if eos not in ids[1] and (longest is None or len(ids[0]) <= longest):
        return [ids]
    ends = [-1, *(place for place, piece in enumerate(ids[1]) if piece == eos), len(ids[1])]
    targets = [ids[1][before + 1 : end] for before, end in itertools.pairwise(ends)]
    sources = [segment.ids for segment in cut([Asked(text)], line, tokenizers, longest) if segment.ids]
    if len(targets) == 1 < len(sources):
        return [ids]  # a text of somebody else's
    if len(sources) != len(targets):
        raise DataError(
            f"line {line}: was translated in {len(targets)} parts, and this model would cut its source into "
            f"{len(sources)}; was another model translating?"
        )
    return list(zip(sources, targets, strict=True))


def _longer(src: Sequence[int], tgt: Sequence[int]) -> int:
    return max(len(src), len(tgt))


@torch.inference_mode()
def forced_log_probs(models: Sequence[TranslationModel], batch: Batch) -> list[list[float]]:
    """Log-probabilities of the labels of each sentence of a batch, the end of sentence included."""
    device = next(models[0].parameters()).device
    batch = batch.to(device)
    each = torch.stack([_label_log_probs(model, batch) for model in models])  # [M, N]
    flat = (each.logsumexp(0) - math.log(len(models))).tolist()
    values = iter(flat)
    return [list(itertools.islice(values, count)) for count in batch.scored.sum(1).tolist()]


def _label_log_probs(model: TranslationModel, batch: Batch) -> Tensor:
    """[N] of the scored places, in float32."""
    hidden = model.hidden(batch.source, batch.target)[batch.scored]  # [N, D]
    labels = batch.labels[batch.scored]  # [N]
    parts = []
    chunks = zip(torch.split(hidden, POSITIONS_AT_ONCE), torch.split(labels, POSITIONS_AT_ONCE), strict=True)
    for states, label in chunks:
        logits = model.output(states)  # [n, V]
        parts.append(logits.gather(1, label.unsqueeze(1)).squeeze(1).float() - log_normaliser(logits))
    return torch.cat(parts)
