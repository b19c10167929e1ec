"""Forced decoding: the log-probability of given translations."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mtkit.errors import ComputeError, DataError, NonFiniteError
from mtkit.io.json_text import parse_json
from mtkit.search.hypothesis import ScoredToken
from mtkit.text.lines import check_line_counts, read_lines
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.engine import BatchBudget, Engine, ItemError, name_line, special_ids
from mtkit.translate.segments import split_lines

BATCH_TOKENS = 8192  # sentences × longest side of a batch
_OOM_REMEDY = "split source and translation, or use a machine with more memory"
WINDOW = 4096  # pairs that are read ahead and sorted by length
MAX_NATS = 700.0  # for each token; exp of more is infinite, which JSON does not have

GivenTranslation = str | tuple[str, ...]  # text, or the tokens that a search chose


@dataclass(frozen=True, kw_only=True)
class ForcedScore:
    """The log-probability of a given translation, nats.

    Attributes:
        line: number of the pair, from 1.
        log_prob: of all tokens and the end of sentence.
        tokens: subwords of the translation.
        token_log_probs: log-probability of each token and, last, of the end of sentence.
        confidences: probability of the most probable token at the position of each.
        is_correct: whether no token is more probable than the given one.
    """

    line: int
    log_prob: float
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    confidences: tuple[float, ...] = ()
    is_correct: tuple[bool, ...] = ()

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token; 1 for a blank pair."""
        nats = -self.log_prob / max(1, len(self.token_log_probs))
        return math.exp(min(nats, MAX_NATS))

    def json(self) -> str:
        """One line of JSON, without the other tokens' probabilities."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("confidences", "is_correct")}
        return json.dumps({**fields, "perplexity": self.perplexity}, ensure_ascii=False)


_Pair = tuple[list[int], list[int]]  # ids of a source and a target that are scored together: a line, or a part of it


def score_lines(
    engine: Engine,
    tokenizers: TokenizerPair,
    pairs: Iterable[tuple[str, GivenTranslation]],
    *,
    max_source_length: int | None = None,
    batch_tokens: int | None = None,
    tag_ids: Sequence[int] = (),
    report_oom: Callable[[int], None] | None = None,
) -> Iterator[ForcedScore]:
    """Score translations: one score for each pair (source, translation), in order.

    A blank pair has log-probability 0, as in translation. Text is scored in the tokenizer's segmentation; tokens are
    scored as they are, since search may have chosen another segmentation of the same text. White space at the ends of
    text, and of the source of text, is no part of it. An end of sentence among the
    tokens shows that the line was split in translation. It is split again, as are sources of more than
    `max_source_length` tokens, and the log-probabilities of its parts are summed. Every source is read after
    `tag_ids`, see SourcePrefix. Where memory runs out, batches are halved, and `report_oom` is called once.

    Raises:
        DataError: the vocabulary lacks a token, or the line is split into another number of parts.
        DataError: a line is too long for the models; raised after the scores of all lines before.
        ComputeError: memory runs out for a single line; raised after the scores of all lines before.
        NonFiniteError: the model computes NaN or infinity; raised after the scores of all lines before.
    """
    stripped = ((src.strip(), given.strip()) if isinstance(given, str) else (src, given) for src, given in pairs)
    stream = enumerate(stripped, start=1)
    budget = BatchBudget(batch_tokens or BATCH_TOKENS, report_oom)
    if max_source_length is not None:
        max_source_length -= len(tag_ids)
    while window := list(itertools.islice(stream, WINDOW)):
        src, tgt = _ids(window, tokenizers)
        parts = [
            (i, ([*tag_ids, *part_src], part_tgt))
            for i, (line, (src_line, given)) in enumerate(window)
            if src_line.strip() or "".join(given).strip()
            for part_src, part_tgt in _split_pair(line, src_line, (src[i], tgt[i]), tokenizers, max_source_length)
        ]
        of_line: dict[int, list[ScoredToken]] = {}
        errors: dict[int, ItemError] = {}
        results = _score(engine, tokenizers, [pair for _, pair in parts], budget)
        for (i, _), values in zip(parts, results, strict=True):
            if isinstance(values, DataError | ComputeError):
                errors.setdefault(i, values)
            else:
                of_line.setdefault(i, []).extend(values)
        for i, (line, _) in enumerate(window):
            if i in errors:
                raise name_line(line, errors[i], remedy=_OOM_REMEDY)
            scores = of_line.get(i, [])
            log_probs = tuple(each.log_prob for each in scores)
            if not math.isfinite(sum(log_probs)):
                raise NonFiniteError(engine.name, line)
            tokens = tuple(tokenizers.tgt.ids_to_tokens(tgt[i])) if log_probs else ()
            yield ForcedScore(
                line=line,
                log_prob=sum(log_probs),
                tokens=tokens,
                token_log_probs=log_probs,
                confidences=tuple(math.exp(each.best_log_prob) for each in scores),
                is_correct=tuple(each.log_prob >= each.best_log_prob for each in scores),
            )


def score_texts(engine: Engine, tokenizers: TokenizerPair, texts: Sequence[str]) -> list[float]:
    """The log-probability of each text by a language model, nats; that of an empty text is of its end of sentence.

    It is NaN or infinite where the model's numbers are.

    Raises:
        DataError: a text is too long for the model.
        ComputeError: memory runs out for a single text.
    """
    pairs: list[_Pair] = [([], ids) for ids in tokenizers.encode("tgt", texts)]
    log_probs = []
    for scores in _score(engine, tokenizers, pairs, BatchBudget(BATCH_TOKENS)):
        if isinstance(scores, DataError | ComputeError):
            raise scores
        log_probs.append(sum(score.log_prob for score in scores))
    return log_probs


def _score(
    engine: Engine, tokenizers: TokenizerPair, pairs: Sequence[_Pair], budget: BatchBudget
) -> list[list[ScoredToken] | ItemError]:
    """Scores of the tokens of each pair, or the error of one that is too long for the models or the memory."""
    scores: dict[int, list[ScoredToken] | ItemError] = {}
    ending, ids_with_meaning = tokenizers.src.ending(), special_ids(tokenizers.tgt, copy_ids=tokenizers.copy_ids("tgt"))

    def cost(k: int) -> int:
        return max(map(len, pairs[k])) + 1

    def run(chosen: Sequence[int]) -> list[list[ScoredToken]]:
        return engine.score([([*src, *ending], tgt) for src, tgt in (pairs[k] for k in chosen)], ids_with_meaning)

    for chosen in budget.batches(range(len(pairs)), cost):
        scores.update(zip(chosen, budget.compute(chosen, cost, run), strict=True))
    return [scores[k] for k in range(len(pairs))]


def read_pairs(
    src: Path | None, *, ref: Path | None = None, hyps: Path | None = None
) -> Iterator[tuple[str, GivenTranslation]]:
    """Read sources and their translations: lines of text (`ref`), or the output of `translate --jsonl` (`hyps`).

    Without `src`, all sources are blank, as those of a language model.

    Raises:
        DataError: the numbers of lines differ or are 0; a line of `hyps` has another form.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    path = ref or hyps
    if path is None:
        raise ValueError("neither ref nor hyps")
    translations: Iterable[GivenTranslation] = read_lines(path) if hyps is None else _tokens_of(path)
    check_line_counts(src or path, path)
    if src is None:
        return (("", translation) for translation in translations)
    return zip(read_lines(src), translations, strict=True)


def _tokens_of(path: Path) -> Iterator[tuple[str, ...]]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            value = parse_json(line)
        except ValueError:
            value = None
        tokens = value.get("tokens") if isinstance(value, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise DataError(
                f"{path}:{number}: not output of mtkit translate --jsonl: expected an object with a list of tokens"
            )
        yield tuple(tokens)


def _ids(
    window: Sequence[tuple[int, tuple[str, GivenTranslation]]], tokenizers: TokenizerPair
) -> tuple[list[list[int]], list[list[int]]]:
    """The ids of sources and translations, each with the number of its line."""
    texts = [(src, given) for _, (src, given) in window if isinstance(given, str)]
    of_texts = zip(*tokenizers.encode_texts([src for src, _ in texts], [given for _, given in texts]), strict=True)
    of_sources = iter(tokenizers.encode("src", [src for _, (src, given) in window if not isinstance(given, str)]))
    pairs = []
    for line, (_, given) in window:
        try:
            is_text = isinstance(given, str)
            pairs.append(next(of_texts) if is_text else (next(of_sources), tokenizers.tgt.tokens_to_ids(given)))
        except KeyError as error:
            raise DataError(
                f"line {line}: {error} is no token of this model's vocabulary; was the translation made by another "
                "model?"
            ) from error
    return [src for src, _ in pairs], [tgt for _, tgt in pairs]


def _split_pair(line: int, src_line: str, ids: _Pair, tokenizers: TokenizerPair, max_length: int | None) -> list[_Pair]:
    """Source and target ids as they were translated: `ids`, or those of the parts of a line that was split."""
    src, tgt = ids
    eos = tokenizers.tgt.vocab.eos
    if eos not in tgt and (max_length is None or len(src) <= max_length):
        return [ids]
    ends = [-1, *(position for position, token in enumerate(tgt) if token == eos), len(tgt)]
    targets = [tgt[previous + 1 : end] for previous, end in itertools.pairwise(ends)]
    segments = split_lines([src_line], line, tokenizers, max_length, sentences=eos in tgt)
    sources = [segment.ids for segment in segments if segment.ids]
    if len(targets) == 1 < len(sources):
        return [ids]  # text that was not translated in parts, such as a reference
    if len(sources) != len(targets):
        raise DataError(
            f"line {line}: was translated in {len(targets)} parts, but this model splits its source into "
            f"{len(sources)}; was the translation made by another model?"
        )
    return list(zip(sources, targets, strict=True))
