"""Explanation of a translation: how probable each word was, what else could stand there, and which source words count.

The influence of a source word is measured by occlusion (Zeiler and Fergus 2014, https://arxiv.org/abs/1311.2901): the
log-probability of each target word is computed again without it. Gradients estimate the same. Unlike attention, both
tell of a change of the result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtkit.analysis.attention import AttentionMap, attention_maps
from mtkit.analysis.beam import BeamStep, RecordedSelector, beam_summary, beam_table
from mtkit.display import Table
from mtkit.errors import UsageError
from mtkit.plot.page import MAX_PAGE, details, heading, heat_map, outline, page, table, within
from mtkit.search.beam_state import ExtensionSelector
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix
from mtkit.translate.alignment import words_of
from mtkit.translate.lines import ConstrainedLine, Line, text_of
from mtkit.translate.load import load_translator, read_translation_model
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.reference_text import ReferenceText, batches, prefix_ids
from mtkit.translate.translation import TranslationOptions, UnmatchedWord

NUM_ALTERNATIVES = 3
MIN_PROBABILITY = 0.005  # of an alternative that is shown
MIN_INFLUENCE = 0.1  # nats, of a source word that is shown
END = "(end)"
NO_COVERAGE = (
    "unknown: the model has no calibration for dropped and invented words, as it was imported, trained by an older "
    "version or with a short validation set"
)


@dataclass(frozen=True)
class ExplainedWord:
    """A word of a translation.

    Attributes:
        log_prob: nats, the sum over its tokens.
        alternatives: the most probable other tokens where the word begins, each with its probability.
        influence: of each source word: the nats that the word loses without it.
        gradient: of each source word: its embeddings times the gradient of the word's log-probability, which are the
            nats that its embeddings contribute if the model is linear in them.
    """

    word: str
    log_prob: float
    alternatives: Sequence[tuple[str, float]]
    influence: Sequence[float]
    gradient: Sequence[float]

    def influences(self, src: Sequence[str]) -> str:
        """The two source words that it depends on most, with the nats that it loses without them."""
        ranked = sorted(zip(self.influence, src, strict=True), key=lambda each: -each[0])
        return " · ".join(f"{word} {nats:.1f}" for nats, word in ranked[:2] if nats >= MIN_INFLUENCE)

    def others(self) -> str:
        """The alternatives with their probabilities."""
        return " · ".join(f"{token} {_percent(p)}" for token, p in self.alternatives)


@dataclass(frozen=True)
class ExplainedText:
    """A translation, word by word and with its end; `log_prob` in nats. For `attention` see `attention_maps`."""

    text: str
    words: Sequence[ExplainedWord]
    attention: Sequence[AttentionMap]

    @property
    def log_prob(self) -> float:
        """Of the whole text."""
        return sum(word.log_prob for word in self.words)


@dataclass(frozen=True)
class Explanation:
    """A source sentence with the translation of the model, and with another one.

    Attributes:
        unconstrained: the translation without constraints of the line and of the search, if it is another one.
        unconstrained_log_prob: nats; None without `unconstrained`.
        in_float32: the translation in float32, if it is another one.
        beam: steps of the search in float32; none for greedy search and sampling.
        path: tokens of the result of that search.
        dropped, invented: see Translation.
        has_coverage: whether the model can find these.
    """

    source: Sequence[str]
    translation: ExplainedText
    instead: ExplainedText | None
    alignment: Sequence[tuple[int, int]]
    unconstrained: str | None
    unconstrained_log_prob: float | None
    in_float32: str | None
    beam: Sequence[BeamStep]
    path: Sequence[int]
    dropped: Sequence[UnmatchedWord]
    invented: Sequence[UnmatchedWord]
    has_coverage: bool

    def summary(self) -> list[str]:
        """The texts; and where the other translation loses, by how much, and what the model expects there."""
        lines = [
            f"source       {' '.join(self.source)}",
            f"translation  {self.translation.text}",
            f"             log-probability {self.translation.log_prob:.2f} nats",
        ]
        if self.unconstrained_log_prob is not None:
            lines.append(f"no constraint {self.unconstrained} ({self.unconstrained_log_prob:.2f} nats)")
        if self.in_float32 is not None:
            lines.append(f"in float32   {self.in_float32}")
        for name, unmatched in (("dropped", self.dropped), ("invented", self.invented)):
            if unmatched:
                shown = ", ".join(f"{each.text} {_percent(each.probability)}" for each in unmatched)
                lines.append(f"{name:<13}{shown}")
        if not self.has_coverage:
            lines.append(f"coverage     {NO_COVERAGE}")
        unsure = [word for word in self.translation.words if word.log_prob < math.log(0.5) and word.alternatives]
        lines += [
            f"unsure       {word.word} {_percent(math.exp(word.log_prob))}, else {word.others()}" for word in unsure
        ]
        lines += beam_summary(self.beam, self.path)
        if self.instead is None:
            return lines
        difference = self.translation.log_prob - self.instead.log_prob
        verdict = (
            f"{difference:.2f} nats less" if difference >= 0 else f"{-difference:.2f} nats more: the search missed it"
        )
        lines += [
            f"instead      {self.instead.text}",
            f"             log-probability {self.instead.log_prob:.2f}: {verdict}",
        ]
        words = [[word.word for word in text.words] for text in (self.translation, self.instead)]
        start = next((n for n, (one, other) in enumerate(zip(*words, strict=False)) if one != other), None)
        if start is not None:
            for word in sorted(self.instead.words[start:], key=lambda word: word.log_prob)[:3]:
                if word.log_prob < math.log(0.5):
                    lost = f"{-word.log_prob:.2f} nats at {word.word} ({_percent(math.exp(word.log_prob))})"
                    lines.append(f"  loses      {lost}; expected there: {word.others()}")
        return lines

    def tables(self) -> list[Table]:
        """Each text word by word."""
        linked: dict[int, list[str]] = {}
        for src, tgt in self.alignment:
            linked.setdefault(tgt, []).append(self.source[src])
        tables = []
        for title, text in (("Translation", self.translation), ("Instead", self.instead)):
            if text is None:
                continue
            rows = []
            for number, word in enumerate(text.words):
                aligned = [" ".join(linked.get(number, []))] if text is self.translation else []
                probability = [f"{word.log_prob:.2f}", _percent(math.exp(word.log_prob))]
                rows.append([word.word, *aligned, *probability, word.others(), word.influences(self.source)])
            first = ["word", *(["aligned with"] if text is self.translation else [])]
            headings = [*first, "log-probability", "probability", "else", "depends on (nats)"]
            tables.append(Table(headings, rows, text=(*first, *headings[-2:]), title=f"{title}: {text.text}"))
        return tables

    def blocks(self) -> Iterator[str]:
        """The explanation for a page, first what a reader asks first."""
        yield outline(re.sub(r"(?<=\w) {2,}", ": ", line) for line in self.summary())  # aligned for a terminal
        yield from map(table, self.tables())
        for text in filter(None, (self.translation, self.instead)):
            words = [word.word for word in text.words]
            nats = f"nats that the words of “{text.text}” lose without those of the source"
            yield heat_map(f"By occlusion: {nats}", words, self.source, [word.influence for word in text.words])
            yield heat_map(f"By gradients: {nats}", words, self.source, [word.gradient for word in text.words])
        if self.beam:
            yield table(beam_table(self.beam))
        for module, maps in groupby(self.translation.attention, lambda each: each.module):
            shown = [(f"{module} {each.head}", each.rows, each.columns, each.weights) for each in maps]
            first = heat_map(f"Attention {shown[0][0]}", *shown[0][1:])
            if len(shown) == 1:
                yield first
            else:
                yield details(f"Heads of {module}", [first, *(heat_map(*each, small=True) for each in shown[1:])])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: all numbers."""
        return asdict(self)


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f}%" if probability >= 0.1 else f"{100 * probability:.1f}%"


def explanations_page(explanations: Sequence[Explanation]) -> str:
    """A page of explanations; each has its share of the characters of a page."""
    share = MAX_PAGE // len(explanations)
    titles = (" ".join(each.source) for each in explanations)
    blocks = (
        block
        for title, each in zip(titles, explanations, strict=True)
        for block in (heading(title), *within(each.blocks(), share))
    )
    return page("Explanation" if len(explanations) == 1 else f"{len(explanations)} explanations", blocks)


class Explainer:
    """A model whose translations are explained. It is read once."""

    def __init__(self, model: Path, *, prefix: SourcePrefix = NO_PREFIX, threads: int | None = None) -> None:
        """Read the model.

        Raises:
            UsageError, MissingInputError, DataError: as `load_translator`.
        """
        options = TranslationOptions(with_scores=True, split_sentences=False, source_prefix=prefix)
        self.translator = load_translator(model, threads=threads, options=options)
        self.loaded, self.prefix = read_translation_model(model).load(), prefix
        self.tgt_prefix = len(prefix.tgt_ids(self.loaded.tokenizers))
        engine = ModelEngine([self.loaded.model], compute_type="float32", rewrite=False)
        engine.observe = self._observe
        self._reference = self.translator.varied(engine=engine)
        self._selectors: list[RecordedSelector] = []

    def _observe(self, selector: ExtensionSelector) -> ExtensionSelector:
        self._selectors.append(RecordedSelector(selector, self._text))
        return self._selectors[-1]

    def _text(self, ids: Sequence[int]) -> str:
        """The text of some of the tokens of a translation."""
        return (
            "".join(self.loaded.tokenizers.tgt.ids_to_tokens(ids[self.tgt_prefix :])).replace(SPACE_MARK, " ").strip()
        )

    def explain(self, line: Line, instead: str | None = None) -> Explanation:
        """Translate a line and explain its translation, and another one.

        Raises:
            UsageError: there is no text, or the model needs a tag.
            DataError: a text is too long for the model, or the constraints of the line contradict each other.
        """
        source = text_of(line).split()
        if not source:
            raise UsageError("explain: the sentence is empty")
        if instead is not None and not instead.strip():
            raise UsageError("explain: --instead: the text is empty")
        sentence, config = " ".join(source), self.translator.search
        line = replace(line, text=sentence) if isinstance(line, ConstrainedLine) else sentence
        self._selectors.clear()
        (translated,), (reference,) = (each.translate([line]) for each in (self.translator, self._reference))
        searches = [each.steps for each in self._selectors]  # more than one after a loop, and for repairs
        steps, path = next(
            (
                (steps, ended.tokens)
                for steps in searches
                for step in steps
                for ended in step.ended
                if ended.text == reference.hyp
            ),
            (searches[0] if searches else [], []),
        )
        free = translated
        if isinstance(line, ConstrainedLine) or config.constraints():
            (free,) = self.translator.varied(search=config.without_constraints()).translate([sentence])
        texts = [translated.hyp, *([] if instead is None else [" ".join(instead.split())])]
        first, *others = (self._explain_text(source, text) for text in texts)
        return Explanation(
            source=source,
            translation=first,
            instead=others[0] if others else None,
            alignment=translated.alignment,
            unconstrained=None if free.hyp == translated.hyp else free.hyp,
            unconstrained_log_prob=None if free.hyp == translated.hyp else free.log_prob,
            in_float32=None if reference.hyp == translated.hyp else reference.hyp,
            beam=steps,
            path=path,
            dropped=translated.dropped,
            invented=translated.invented,
            has_coverage=self.translator.coverage is not None,
        )

    @torch.inference_mode()
    def _occlusion(self, source: Sequence[str], text: str) -> tuple[list[int], Tensor, Tensor, torch.return_types.topk]:
        """The ids of a text with its end; their log-probabilities [T]; what they lose without each source word [T, S];
        and the most probable tokens in their places [T, K].
        """
        model, start = self.loaded.model, self.tgt_prefix
        without = [" ".join([*source[:n], *source[n + 1 :]]) for n in range(len(source))] if len(source) > 1 else []
        sources = [" ".join(source), *without]
        of_tokens: dict[int, Tensor] = {}  # by source, log-probabilities of the tokens [T]
        for batch in batches(self.loaded, ReferenceText(sources, [text] * len(sources), self.prefix)):
            hidden = model.decode_states(batch.source, batch.target)  # [B, T, D]
            for row, index in enumerate(batch.sample_ids.tolist()):
                log_probs = torch.log_softmax(model.output(hidden[row, start:]).float(), -1)  # [T, V]
                labels = batch.labels[row, start:]
                of_tokens[index] = log_probs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)  # [T]
                if index == 0:
                    best, ids = log_probs.topk(min(NUM_ALTERNATIVES + 1, log_probs.size(-1))), labels.tolist()
        lost = [of_tokens[0] - of_tokens[n] for n in range(1, len(sources))] or [of_tokens[0] * 0]
        return ids, of_tokens[0], torch.stack(lost, 1), best

    def _explain_text(self, source: Sequence[str], text: str) -> ExplainedText:
        """The words of a given translation; the model reads the source once, and once without each of its words."""
        loaded, sentence = self.loaded, " ".join(source)
        ids, of_tokens, influence, best = self._occlusion(source, text)
        words = [*_words(loaded.tokenizers.tgt.ids_to_tokens(ids[:-1]), len(text.split())), len(text.split())]
        gradient = self._gradient(sentence, text, len(ids))
        explained = []
        for number, name in enumerate([*text.split(), END]):
            if not (places := [place for place, word in enumerate(words) if word == number]):
                continue  # a word without a token of its own
            first = places[0]
            others = [
                (_shown(loaded.tokenizers.tgt.ids_to_tokens([token])[0]), math.exp(log_prob))
                for log_prob, token in zip(best.values[first].tolist(), best.indices[first].tolist(), strict=True)
                if token != ids[first] and math.exp(log_prob) >= MIN_PROBABILITY
            ]
            lost, estimated = (each[places].sum(0).tolist() for each in (influence, gradient))
            log_prob = float(of_tokens[places].sum())
            explained.append(ExplainedWord(name, log_prob, others[:NUM_ALTERNATIVES], lost, estimated))
        (batch,) = batches(loaded, ReferenceText([sentence], [text], self.prefix))
        names = [
            token_names(side.ids_to_tokens(row[0].tolist()))
            for side, row in ((loaded.tokenizers.src, batch.source.ids), (loaded.tokenizers.tgt, batch.labels))
        ]
        return ExplainedText(text, explained, attention_maps(loaded.model, batch, *names, start=self.tgt_prefix))

    def _gradient(self, sentence: str, text: str, num_tokens: int) -> Tensor:
        """Embeddings times gradient of the log-probability of each target token, summed by source word, [T, S].

        Ancona et al. 2018, sec. 2, https://arxiv.org/abs/1711.06104. Embeddings are those of the table, without
        positions. Row t of a batch has the gradient of token t.
        """
        loaded, values = self.loaded, list[Tensor]()
        embedded: list[Tensor] = []

        def keep(module: torch.nn.Module, args: object, output: Tensor) -> Tensor | None:
            if embedded:
                return None  # the target, if both sides have one table
            embedded.append(output.detach().requires_grad_())
            return embedded[0]

        # the source is embedded first, by the first table or by one that both sides share
        table = next(each for each in loaded.model.modules() if isinstance(each, torch.nn.Embedding))
        handle = table.register_forward_hook(keep)
        try:
            for batch in batches(loaded, ReferenceText([sentence] * num_tokens, [text] * num_tokens, self.prefix)):
                embedded.clear()
                hidden = loaded.model.decode_states(batch.source, batch.target)  # [B, T, D]
                rows, columns = torch.arange(len(hidden)), batch.sample_ids + self.tgt_prefix
                log_probs = torch.log_softmax(loaded.model.output(hidden[rows, columns]).float(), -1)  # [B, V]
                total = log_probs[rows, batch.labels[rows, columns]].sum()
                (gradient,) = torch.autograd.grad(total, embedded)
                values.append((gradient * embedded[0].detach()).sum(-1))  # [B, S]
        finally:
            handle.remove()
        before = len(prefix_ids(loaded, self.prefix))
        tokens = loaded.tokenizers.src.ids_to_tokens(batch.source.ids[0, before:-1].tolist())
        by_word = torch.zeros(num_tokens, len(sentence.split()) + 1)
        by_word.index_add_(1, torch.tensor(_words(tokens, by_word.size(1) - 1)), torch.cat(values)[:, before:-1])
        return by_word[:, :-1]


def _words(tokens: Sequence[str], end: int) -> list[int]:
    """The word of each token, at most `end`; white space alone belongs to the word that follows, or to `end`."""
    words = [*words_of(tokens), end]
    for place in range(len(tokens) - 1, -1, -1):
        words[place] = words[place] if words[place] >= 0 else words[place + 1]
    return [min(word, end) for word in words[:-1]]


def token_names(tokens: Sequence[str]) -> list[str]:
    """Tokens as a reader knows them: words without the mark of the space, a hyphen before the rest of a word."""
    has_spaces = any(token.startswith(SPACE_MARK) for token in tokens)
    return [
        f"-{token}"
        if has_spaces and any(map(str.isalnum, token)) and not token.startswith((SPACE_MARK, "<"))
        else _shown(token)
        for token in tokens
    ]


def _shown(token: str) -> str:
    """A token as a reader knows it."""
    return {"</s>": END, "<unk>": "(unknown)"}.get(token, token.replace(SPACE_MARK, "")) or "(space)"
