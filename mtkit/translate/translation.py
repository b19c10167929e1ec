"""Translation of a line: options and result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mtkit.display import Table
from mtkit.errors import UsageError
from mtkit.text.source_prefix import NO_PREFIX, SourcePrefix
from mtkit.translate.glossary import Glossary

LANGUAGE_MODEL_WEIGHT = 0.2  # in the range of most papers; tune it on a valid set
FLAGS = {  # what was noticed in a line or in a text of a document; in the order of a summary
    "split": "split, longer than any training source",
    "long": "longer than any training source, translated whole",
    "repetition": "ran into a loop",  # and translated again without repeated n-grams, if `search.retry_loops` says so
    "limit": "cut off at the maximum length",
    "short": "far shorter than the source",  # it or one of its parts, see `is_short`
    "unknown": "with characters that the vocabulary lacks",  # in the source
    "excluded": "with an excluded text",  # because the included texts left no other choice
    "missing": "without a URL, placeholder, name or other text of the source",
    "numbers": "with other numbers than the source",
    "message": "not translated, a message of ICU",  # of lines; in documents one that cannot be read
    "terms": "without an allowed form of a term",
    "dropped": "probably without a translation of some words",  # of the source, see corpus/coverage.py
    "invented": "probably with words that nothing in the source means",
}
FIDELITY_FLAGS = ("missing", "numbers", "terms")  # those that each of several alternatives has by itself
Progress = Callable[[int, int, int], None]  # number of a line, its characters translated so far, all its characters


@dataclass(frozen=True, kw_only=True)
class LanguageModelOptions:
    """A language model that ranks translations together with the translation model.

    Attributes:
        model: its folder.
        weight: of its log-probability, beside 1 for that of the translation model.
        mode: fusion adds it at every step of the search (see ShallowFusion); rerank to the complete hypotheses (see
            LanguageModelReranking).
    """

    model: Path
    weight: float = LANGUAGE_MODEL_WEIGHT
    mode: Literal["fusion", "rerank"] = "fusion"


@dataclass(frozen=True, kw_only=True)
class TranslationOptions:
    """Settings of the calls of a translator; what is loaded is stated by the arguments of `load_translator`.

    Translations depend on `split_sentences`, `source_prefix`, `glossary` and `restore`. The others concern time, memory
    and what is reported.
    """

    batch_tokens: int | None = None  # (sentences + hypotheses) × longest source of a batch; None: BATCH_TOKENS
    window: int = 4096  # lines that are read ahead and sorted by length
    window_characters: int = 4_000_000  # limits the memory: a window ends with the line that reaches this number
    flush_every: int | None = None  # return translations after every N lines; None: after each window
    # Translate every sentence of a line by itself; None: if the model is one of single sentences, `split_long_lines` of
    # the search is true, its `n_best` is 1 and the line has no constraints.
    split_sentences: bool | None = None
    with_scores: bool = False  # compute log-probabilities and alignment also where the search can do without
    report_progress: Progress | None = None  # called while a line of more than MAX_CHUNK characters is translated
    report_oom: Callable[[int], None] | None = None  # called once if memory runs out, with the size of batches then
    source_prefix: SourcePrefix = NO_PREFIX  # tag and text that the model reads before each source
    glossary: Glossary | None = None  # terms whose translations are stated
    restore: bool | None = None  # put missing spans of the source back; None: in models with a normaliser

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "window", "window_characters", "flush_every"):
            value = vars(self)[name]
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """An entry of an n-best list, with those of FIDELITY_FLAGS that it has by itself."""

    hyp: str
    score: float
    log_prob: float
    flags: tuple[str, ...] = ()


class UnmatchedWord(NamedTuple):
    """A dropped or an invented word: its index from 0, where words are separated by white space, and its text.

    Attributes:
        probability: that the other side has no word for it, at least `coverage.MIN_PROBABILITY`.
    """

    word: int
    text: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A translated line.

    For a line that was split, `log_prob` is the sum over its parts, and there is only one alternative.

    Attributes:
        line: line number, from 1.
        hyp: the translation, without line breaks.
        score: ranking value.
        log_prob: nats, the ends of sentences included; NaN unless requested.
        tokens: the subwords that the search found, before spans and terms were put into the translation; between the
            parts of a line that was split, the end of sentence.
        token_log_probs: log-probability of each token and, last, of the end of sentence.
        alignment: pairs (source word, target word) of indices from 0; words are separated by white space.
        nbest: the n best translations, best first.
        length_ratio: number of target tokens divided by that of source tokens; 0 for a blank line.
        flags: some of FLAGS.
        dropped, invented: words of the source that the translation seems to lack, and words of this that nothing in
            the source means; empty too in models without coverage (see corpus/coverage.py), and where spans or terms
            were put into the translation.
        terms: pairs (term of the glossary in the source, its form in the translation, empty if it has none).
    """

    line: int
    hyp: str
    score: float = 0.0
    log_prob: float = 0.0
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    nbest: tuple[Alternative, ...] = ()
    length_ratio: float = 0.0
    flags: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    dropped: tuple[UnmatchedWord, ...] = ()
    invented: tuple[UnmatchedWord, ...] = ()

    def described_flags(self) -> list[str]:
        """Each flag with its meaning, and with its words where it is about words."""
        words = {"dropped": self.dropped, "invented": self.invented}
        lines = []
        for flag in self.flags:
            named = ", ".join(f"{each.text} ({each.probability:.0%})" for each in words.get(flag, ()))
            lines.append(f"{flag}: {FLAGS[flag]}{': ' if named else ''}{named}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)

    def __repr__(self) -> str:
        flags = f", flags={self.flags}" if self.flags else ""
        return f"Translation({self.hyp!r}{flags})"

    def _repr_html_(self) -> str:
        rows = [(each.hyp, f"{each.score:.3f}", ", ".join(each.flags)) for each in self.nbest]
        return Table(["translation", "score", "flags"], rows or [(self.hyp, "", ", ".join(self.flags))]).html()
