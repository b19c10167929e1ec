"""Forms in which a translation is written. Each function returns a line, or several, or None for no line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from mtkit.io.json_text import finite
from mtkit.translate.constraints import ConstrainedLine, Line, text_of
from mtkit.translate.translation import Alternative, Translation

Format = Callable[[Translation, Line], str | None]
SEPARATOR = " ||| "


def as_text(translation: Translation, source: Line) -> str:
    """The translation alone."""
    return translation.hyp


def as_n_best(translation: Translation, source: Line) -> str:
    """The n best translations, a line each: `LINE ||| TRANSLATION ||| SCORE`, with lines from 1.

    A blank line has one, with score 0.
    """
    number = str(translation.line)
    return "\n".join(SEPARATOR.join((number, each.hyp, f"{each.score:.6f}")) for each in _alternatives(translation))


def as_moses_n_best(translation: Translation, source: Line) -> str:
    """The n best translations as Moses and Marian write them: `0 ||| TRANSLATION ||| LogProb= -1.5 ||| SCORE`.

    `|||` within a translation is written `| | |`: the form has no escape, and its readers split at each `|||`.
    """
    number = str(translation.line - 1)
    return "\n".join(
        SEPARATOR.join((number, _spaced_bars(each.hyp), f"LogProb= {each.log_prob:.6f}", f"{each.score:.6f}"))
        for each in _alternatives(translation)
    )


def _spaced_bars(text: str) -> str:
    """The text with spaces in each run of three or more vertical bars."""
    return re.sub(r"\|{3,}", lambda bars: " ".join(bars[0]), text)


def _alternatives(translation: Translation) -> Sequence[Alternative]:
    return translation.nbest or (Alternative(hyp=translation.hyp, score=0.0, log_prob=0.0),)


def as_json(translation: Translation, source: Line) -> str:
    """A JSON object with all fields; those of a source line that was JSON come first, as they are written there."""
    fields = source.json_text.strip().removesuffix("}").rstrip() if isinstance(source, ConstrainedLine) else ""
    own = _dumps(translation.as_dict())
    return f"{fields}, {own.removeprefix('{')}" if fields else own


def as_alignment(translation: Translation, source: Line) -> str:
    """The word alignment in Pharaoh form: `0-0 1-2`, source word and target word, counted from 0."""
    return " ".join(f"{src}-{tgt}" for src, tgt in translation.alignment)


def as_flag_record(translation: Translation, source: Line) -> str | None:
    """A JSON object about a flagged line: its number, flags, source and translation; None for a line without flags."""
    if not translation.flags:
        return None
    record = {"line": translation.line, "flags": translation.flags, "src": text_of(source), "hyp": translation.hyp}
    return _dumps(record)


def _dumps(fields: dict[str, object]) -> str:
    """One line of JSON; numbers that are not finite, which JSON cannot represent, are null."""
    return json.dumps(finite(fields), ensure_ascii=False, allow_nan=False)
