"""The kinds of sentences, each a function from chance to a pair (English, German), and how often each is drawn."""

from __future__ import annotations

from collections.abc import Callable

from grammar.draw import Draw
from grammar.patterns import counting, describing, joining, main, questions, subordinate

Pattern = Callable[[Draw], tuple[str, str]]
PATTERNS: tuple[tuple[float, Pattern], ...] = (
    (24.0, main.statement),
    (4.0, main.fronted),
    (3.0, main.likes_to),
    (3.5, main.command),
    (4.0, main.purpose),
    (2.5, main.attempt),
    (6.0, questions.yes_or_no),
    (6.0, questions.with_question_word),
    (2.0, questions.subject_question),
    (2.0, questions.which),
    (3.5, questions.indirect),
    (4.0, subordinate.because_of_state),
    (4.0, subordinate.because_it),
    (3.5, subordinate.if_then),
    (3.5, subordinate.when_something_happened),
    (4.5, subordinate.says_that),
    (4.5, subordinate.relative_subject),
    (4.5, subordinate.relative_object),
    (3.5, joining.two_actions),
    (4.0, joining.and_then_it),
    (2.5, joining.but),
    (4.0, describing.how_it_is),
    (3.5, describing.comparison),
    (2.0, describing.location),
    (3.5, counting.there_are),
    (3.0, counting.price_and_age),
    (2.5, counting.timetable),
    (2.0, counting.birthday),
    (2.5, counting.how_many),
)


def draw_pair(draw: Draw) -> tuple[str, str]:
    """One sentence in both languages."""
    return draw.weighted(PATTERNS)(draw)
