"""Spans that a translation must contain, and comparison of numbers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.spans import find_spans, has_added_numbers, missing_spans, needs_translation

SPANS = [
    "https://example.org/a-b?c=1&d=%20#e",
    "www.example.org",
    "ann.b+c@mail.example.org",
    "%s",
    "%1$s",
    "%(name)d",
    "%.2f",
    "ssh://git@example.org/a.git",
    "mailto:ann@example.org",
    "tel:+49-30-123",
    "%n",
    "%<name>d",
    "%NAME%",
    "$NAME$",
    "$name",
    "$t(common:save)",
    "__MSG_name__",
    "__COUNT__",
    "<%= x > 1 %>",
    "<?php echo 1; ?>",
    "{{{x}}}",
    "a.b.call()",
    "{x}",
    "{{x}}",
    "${x}",
    "<x/>",
    "<b>",
    "</b>",
    "`a b`",
    "``a_b``",
    "--long-option",
    "snake_case",
    "call()",
    "/usr/lib/x.so",
    "1,250.50",
    "1.250,50",
    "2026-11-26",
    "12:30",
    "42",
    "\U0001f600",
    "\U0001f44d\U0001f3fd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f",
    "Привет",
    "漢字",
]


@pytest.mark.parametrize("span", SPANS)
def test_a_span_is_found_whole_in_a_sentence(span):
    for text in (
        f"look at {span} here",
        f"{span} is here",
        f"we all look at {span}",
        f"look here ({span}) now",
        f"look at {span}.",
    ):
        assert [each.text for each in find_spans(text)] == [span]


@given(st.lists(st.sampled_from([span for span in SPANS if span != "1.250,50"]), max_size=5), st.data())
def test_spans_are_in_order_and_each_is_missed_once_for_each_time(spans, data):
    text = " and ".join(["here", *spans, "there"])
    found = find_spans(text)
    assert [each.text for each in found] == spans
    assert all(text[each.start : each.end] == each.text for each in found)
    assert missing_spans(found, text) == []
    if spans:
        lost = data.draw(st.integers(0, len(spans) - 1))
        others = spans[:lost] + spans[lost + 1 :]
        rest = " und ".join(others)
        lacking = [each.text for each in missing_spans(found, rest)]
        is_inside = any(spans[lost] in other and spans[lost] != other for other in others)
        assert lacking == ([] if is_inside else [spans[lost]])


@given(st.text())
def test_any_text_has_spans_in_order(text):
    ends = 0
    for span in find_spans(text):
        assert ends <= span.start < span.end <= len(text)
        ends = span.end


@pytest.mark.parametrize(
    ("src", "hyp", "agrees"),
    [
        ("1,250.50 euros", "1.250,50 Euro", True),
        ("1,250.50 euros", "1 250,50 Euro", True),
        ("1,250.50 euros", "1.250,05 Euro", False),
        ("10,000 men", "10\xa0000 hommes", True),
        ("4,500 men", "20 Männer", False),
        ("4,500 men", "Männer", False),
        ("on 2026-11-26 at 12:30", "am 26.11.2026 um 12.30 Uhr", True),
        ("on 2026-11-06", "am 6.11.2026", True),
        ("on 2026-11-26", "am 27.11.2026", False),
        ("3.5 of 3.5", "3,5 von 3,5", True),
        ("3.5 of 3.5", "3,5", False),
        ("men", "20 Männer", False),
        ("244890", "24,490", False),
    ],
)
def test_numbers_agree_whatever_their_separators(src, hyp, agrees):
    assert (not missing_spans(find_spans(src), hyp) and not has_added_numbers(src, hyp)) == agrees


@pytest.mark.parametrize("text", ["a plain sentence, with a comma.", "50% off", "Das ist die Straße – „gut“.", ""])
def test_plain_text_has_no_spans_but_numbers(text):
    assert all(span.is_number for span in find_spans(text))


TOUCHED = {  # spans, and the same without their roles and signs
    ":ref:`a guide <guide>`": "`a guide <guide>`",
    ":py:meth:`~a.b`": "`~a.b`",
    "`x y`:sup:": "`x y`",
    "`text <http://a.b>`_": "`text <http://a.b>`",
    "**`code`**": "`code`",
    "*{x}*": "{x}",
    "{n}%": "{n}",
    "\\`a b`": "`a b`",
    "#{x}": "{x}",
    "@{user}": "{user}",
    "~call()~": "call()",
    "=%s=": "%s",
}


@given(st.lists(st.sampled_from([*TOUCHED]), min_size=1, max_size=4, unique=True), st.data())
def test_a_role_and_signs_that_touch_a_span_belong_to_it(parts, data):
    text = " and ".join(["see", *parts])
    spans = find_spans(text)
    assert [span.text for span in spans] == parts
    assert missing_spans(spans, text) == []
    torn = data.draw(st.sampled_from(parts))
    assert [span.text for span in missing_spans(spans, text.replace(torn, TOUCHED[torn]))] == [torn]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["a", "a1", "1a", "a_", "http://a.", "foo@", "a.", "/a", "`", "`a` Привет ", ":a:", "{", "漢字1 a "]
)
def test_the_time_of_spans_is_linear(unit):
    seconds = []
    for size in (20_000, 160_000):
        begun = time.process_time()
        find_spans("1@" + unit * (size // len(unit)))
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 24 * max(0.01, seconds[0])


@pytest.mark.parametrize(
    ("text", "is_text"),
    [
        ("https://a.b/c", False),
        ("{name}: %s", False),
        ("v1.2", False),
        ("12 kg", True),
        ("Ja/Nein", True),
        ("<hello>", True),
        ("__very__ good", True),
        ("for $5 and US$ 6", True),
        ("at 100%or more%", True),
        ("Time:now", True),
        ("and/or", True),
        ("e.g./i.e.", True),
        ("3D", True),
    ],
)
def test_texts_that_need_a_translation(text, is_text):
    assert needs_translation(text) == is_text
