"""The result of a line that was translated in parts: words keep their places."""

from __future__ import annotations

from mtkit.serve.core import LineSegment, merge_segments


def test_words_are_counted_from_the_beginning_of_the_line() -> None:
    segments = [LineSegment("", "A dog. "), LineSegment(" ", "Tom sleeps now.")]
    results = [
        {"hyp": "Ein großer Hund.", "alignment": [[0, 0]], "dropped": [], "invented": [[1, "großer", 0.9]]},
        {"hyp": "Er schläft.", "alignment": [[0, 0]], "dropped": [[2, "now", 0.8]], "invented": [[0, "Er", 0.7]]},
    ]
    line = merge_segments(segments, results)
    assert line.hyp == "Ein großer Hund. Er schläft."
    for side, (text, words) in enumerate((("A dog. Tom sleeps now.", line.dropped), (line.hyp, line.invented))):
        assert [text.split()[word].strip(".") for word, _, _ in words] == [name for _, name, _ in words]
        assert len(words) == side + 1
    assert merge_segments(segments, [{"hyp": "a"}, {"hyp": "b"}]).dropped == ()
