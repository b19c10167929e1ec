"""Explanation of a translation: how probable each word was, what else could stand there, and which source words count.

The influence of a source word is measured by occlusion (Zeiler and Fergus 2014, https://arxiv.org/abs/1311.2901): the
log-probability of each target word is computed again without it. Unlike attention, that is a change of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mtkit.display import Table
from mtkit.errors import UsageError
from mtkit.model_folder.folder import LoadedModel
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix
from mtkit.translate.alignment import words_of
from mtkit.translate.load import load_translator, read_translation_model
from mtkit.translate.reference_text import ReferenceText, batches
from mtkit.translate.translation import TranslationOptions

NUM_ALTERNATIVES = 3
MIN_PROBABILITY = 0.005  # of an alternative that is shown
MIN_INFLUENCE = 0.1  # nats, of a source word that is shown
MAX_CELLS = 5000  # of a table of influences
END = "(end)"


@dataclass(frozen=True)
class ExplainedWord:
    """A word of a translation.

    Attributes:
        log_prob: nats, the sum over its tokens.
        alternatives: the most probable other tokens where the word begins, each with its probability.
        influence: of each source word: the nats that the word loses without it.
    """

    word: str
    log_prob: float
    alternatives: Sequence[tuple[str, float]]
    influence: Sequence[float]

    def influences(self, src: Sequence[str]) -> str:
        """The two source words that it depends on most, with the nats that it loses without them."""
        ranked = sorted(zip(self.influence, src, strict=True), key=lambda each: -each[0])
        return " · ".join(f"{word} {nats:.1f}" for nats, word in ranked[:2] if nats >= MIN_INFLUENCE)

    def others(self) -> str:
        """The alternatives with their probabilities."""
        return " · ".join(f"{token} {_percent(p)}" for token, p in self.alternatives)


@dataclass(frozen=True)
class ExplainedText:
    """A translation, word by word and with its end; `log_prob` in nats."""

    text: str
    words: Sequence[ExplainedWord]

    @property
    def log_prob(self) -> float:
        """Of the whole text."""
        return sum(word.log_prob for word in self.words)


@dataclass(frozen=True)
class Explanation:
    """A source sentence with the translation of the model, and with another one."""

    source: Sequence[str]
    translation: ExplainedText
    instead: ExplainedText | None
    alignment: Sequence[tuple[int, int]]

    def summary(self) -> list[str]:
        """The texts; and where the other translation loses, by how much, and what the model expects there."""
        lines = [
            f"source       {' '.join(self.source)}",
            f"translation  {self.translation.text}",
            f"             log-probability {self.translation.log_prob:.2f} nats",
        ]
        unsure = [word for word in self.translation.words if word.log_prob < math.log(0.5) and word.alternatives]
        lines += [
            f"unsure       {word.word} {_percent(math.exp(word.log_prob))}, else {word.others()}" for word in unsure
        ]
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
        start = next((n for n, pair in enumerate(zip(*self._words(), strict=False)) if pair[0] != pair[1]), None)
        if start is not None:
            for word in sorted(self.instead.words[start:], key=lambda word: word.log_prob)[:3]:
                if word.log_prob < math.log(0.5):
                    lost = f"{-word.log_prob:.2f} nats at {word.word} ({_percent(math.exp(word.log_prob))})"
                    lines.append(f"  loses      {lost}; expected there: {word.others()}")
        return lines

    def _words(self) -> list[list[str]]:
        return [[word.word for word in text.words] for text in (self.translation, self.instead) if text is not None]

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

    def influence_tables(self) -> Iterator[Table]:
        """The influence of each source word (columns) on each word of a text (rows), unless both are long."""
        names = [f"{number} {word}" for number, word in enumerate(self.source, start=1)]
        for text in filter(None, (self.translation, self.instead)):
            if len(names) * len(text.words) <= MAX_CELLS:
                rows = [[word.word, *(f"{each:.2f}" for each in word.influence)] for word in text.words]
                title = f"Nats that a word of “{text.text}” loses without …"
                yield Table(["word", *names], rows, text=("word",), title=title)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: all numbers."""
        return asdict(self)


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f}%" if probability >= 0.1 else f"{100 * probability:.1f}%"


def explain(
    model: Path,
    sentence: str,
    instead: str | None = None,
    *,
    prefix: SourcePrefix = NO_PREFIX,
    threads: int | None = None,
) -> Explanation:
    """Translate a sentence and explain its translation, and another one.

    Raises:
        UsageError: there is no text; also as `load_translator` and `prefix_ids`.
        MissingInputError, DataError: the model cannot be read, or a text is too long for it.
    """
    if not sentence.strip():
        raise UsageError("explain: the sentence is empty")
    if instead is not None and not instead.strip():
        raise UsageError("explain: --instead: the text is empty")
    sentence = " ".join(sentence.split())
    options = TranslationOptions(with_scores=True, split_sentences=False, source_prefix=prefix)
    (translated,) = load_translator(model, threads=threads, options=options).translate([sentence])
    if not translated.hyp.strip():
        raise UsageError(f"explain: the translation of {sentence[:80]!r} is empty")
    loaded, source = read_translation_model(model).load(), sentence.split()
    texts = [translated.hyp, *([] if instead is None else [" ".join(instead.split())])]
    first, *others = (_explain_text(loaded, source, text, prefix) for text in texts)
    return Explanation(source, first, others[0] if others else None, translated.alignment)


@torch.inference_mode()
def _explain_text(loaded: LoadedModel, source: Sequence[str], text: str, prefix: SourcePrefix) -> ExplainedText:
    """The words of a given translation; the model reads the source once, and once without each of its words."""
    without = [" ".join([*source[:n], *source[n + 1 :]]) for n in range(len(source))] if len(source) > 1 else []
    sources = [" ".join(source), *without]
    of_tokens: dict[int, torch.Tensor] = {}  # by source, log-probabilities of the tokens [T]
    start = len(prefix.tgt_ids(loaded.tokenizers))
    for batch in batches(loaded, ReferenceText(sources, [text] * len(sources), prefix)):
        hidden = loaded.model.decode_states(batch.source, batch.target)  # [B, T, D]
        for row, index in enumerate(batch.sample_ids.tolist()):
            log_probs = torch.log_softmax(loaded.model.output(hidden[row, start:]).float(), -1)  # [T, V]
            labels = batch.labels[row, start:]
            of_tokens[index] = log_probs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)  # [T]
            if index == 0:
                best, ids = log_probs.topk(min(NUM_ALTERNATIVES + 1, log_probs.size(-1))), labels.tolist()
    tokens = loaded.tokenizers.tgt.ids_to_tokens(ids)
    words = [*words_of(tokens[:-1]), len(text.split())]  # the last one: the end
    for place in range(len(words) - 2, -1, -1):  # a token of white space alone belongs to the word that follows
        words[place] = words[place] if words[place] >= 0 else words[place + 1]
    influence = torch.stack(
        [of_tokens[0] - of_tokens[n] for n in range(1, len(sources))] or [of_tokens[0] * 0], 1
    )  # [T, S]
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
        log_prob = float(of_tokens[0][places].sum())
        explained.append(ExplainedWord(name, log_prob, others[:NUM_ALTERNATIVES], influence[places].sum(0).tolist()))
    return ExplainedText(text, explained)


def _shown(token: str) -> str:
    """A token as a reader knows it."""
    return {"</s>": END, "<unk>": "(unknown)"}.get(token, token.replace(SPACE_MARK, "")) or "(space)"
