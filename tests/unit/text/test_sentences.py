"""Sentences by rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.sentences import split_sentences

# sentences are separated by | here, which the text has not
CASES = [
    "It rains.| We stay at home!| Why not?",
    "Dr. Smith paid $3.50 to Mr. J. R. Brown.| He left at 5 p.m. on Monday.",
    "He arrived at 5 p.m.| The train had left.",
    "He lives in the U.S. Army base.| It is in the U.S.| He likes it.",
    "See Fig. 3 and p. 12 of vol. 2.| Then answer No. 5.",
    "The answer was no.| Nobody spoke.",
    "Apples, pears, etc. are fruit.| Apples, pears, etc.| They are fruit.",
    "E.g. this one, i.e. that one vs. none.",
    "1. First point of a list",
    "It costs 1,250.50 euros.| Version 2.0.1 is out.| See www.example.com. for more",
    '"Go away!" he said.| "Why?" she asked.| "Because."| He left.',
    "(He was late.)| Nobody minded.",
    "He wrote “Come here.”| She came.",
    "Wait... what?| Really...| Yes.",
    "Really?!| Yes!!!| No.",
    "Yahoo! is a company.| Its iPhone sales grew.",
    "Am 3. Mai war der 2. Weltkrieg vorbei.| Er war 30.| Sie lachte.",
    "Das kostet z.B. 5 Mio. Euro, d.h. viel.| Hr. Dr. Maier zahlt ca. 3 %.",
    "„Wer ist da?“, fragte er.| „Ich.“| Dann Stille.",
    "« Bonjour. »| M. Dupont est là.",
    "¿Quién es?| ¡Soy yo!| El Sr. García viene.",
    "今日は雨です。|家にいます！|なぜ？|分かりません。",
    "彼は「行く。来る。」と言った。|私は驚いた。",
    "「はい。」|「いいえ。」",
    "你好。|再见！|他说：“好。”|走了。",
    "どうする?|行こう!|そうしよう。",
    "यह घर है।| वह बाग है।",
    "هل تعرف؟| نعم.",
    "the dog sees a cat .| a man runs . . . away .| it is late .",
    "all in small letters.| no capitals here.",
    "Title\n|The text begins. | It ends.".replace("\n|", "|\n").replace(". | ", ".|  "),
    "Thus spoke Plan I.| He was right.",
]


@pytest.mark.parametrize("case", CASES)
def test_cases(case: str) -> None:
    assert split_sentences(case.replace("|", "")) == case.split("|")


PIECES = [
    "Dr",
    ".",
    ". ",
    "! ",
    "?",
    "。",
    "」",
    "「",
    '"',
    "”",
    " ",
    "\n",
    "\n\n",
    "a",
    "B",
    "3",
    "etc",
    "U.S",
    "\u3000",
    "…",
]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=60))
def test_the_concatenation_is_the_text(text: str) -> None:
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert all(piece.strip() for piece in pieces) or len(pieces) == 1
    assert all(piece == piece.rstrip("\n") for piece in pieces[:-1])


@pytest.mark.whole
@pytest.mark.parametrize("unit", ["Dr. ", "1. ", "!", "\n", "。", "「", "「」", "a.", "'", ". ", "... ", "(", "U.S."])
def test_long_repetitive_text_takes_linear_time(unit: str) -> None:
    """A quadratic rule would take minutes for this text."""
    text = unit * (400_000 // len(unit))
    assert "".join(split_sentences(text)) == text
