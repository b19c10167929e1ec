"""Blocks of a page about systems on one test set: scores, reasons of differences, lines, lengths and documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mtkit.evaluation.comparison import Comparison, group_table, score_table, signature_lines
from mtkit.evaluation.reasons import Reasons, differences
from mtkit.plot.page import heading, line_of_text, outline, paragraph, table

NUM_CHANGED = 20  # lines that lost and that gained most, of each system
NUM_EXTREME = 5  # best and worst lines of the first system


def comparison_blocks(
    result: Comparison,
    reasons: Sequence[Reasons],
    hyps: Mapping[str, Sequence[str]],
    refs: Sequence[Sequence[str]],
    src: Sequence[str] | None,
) -> Iterator[str]:
    """The blocks, from what a reader asks first to the details; arguments as for `reasons_of`."""
    yield table(score_table(result.scores, p_values=result.p_values, best=result.best()), bars=("score",))
    yield from map(paragraph, dict.fromkeys(note for each in result.scores.values() for note in each.notes))

    def line(title: str, index: int, name: str, marked: Sequence[tuple[str, str]]) -> str:
        source = [] if src is None else [("source", [("", src[index])])]
        return line_of_text(title, [*source, (name, marked), ("reference", [("", refs[0][index])])])

    for each in reasons:
        first, *others = each.summary()
        yield heading(first) + outline(other.removeprefix("  ") for other in others)
        for title, changed in each.most_changed(NUM_CHANGED):
            yield line(title, changed.number - 1, "change", differences(*changed.texts))
        for content in each.tables():
            yield table(content, bars=[f"F1 {name}" for name in each.names])
    if result.groups:
        content = group_table(result.groups, title="Lengths and documents")
        yield heading("Parts of the text") + table(content, bars=content.headings[2:])
    name, scores = next(iter(hyps)), next(iter(result.line_scores().values())).get("chrf")
    if scores:
        ranked = sorted(range(len(scores)), key=scores.__getitem__)
        for word, indices in (("Worst", ranked[:NUM_EXTREME]), ("Best", ranked[: -NUM_EXTREME - 1 : -1])):
            yield heading(f"{word} lines of {name} by chrF2", 3)
            for index in indices:
                yield line(
                    f"line {index + 1}: chrF2 {scores[index]:.0f}", index, "translation", [("", hyps[name][index])]
                )
    yield from (paragraph(each, soft=True) for each in (*signature_lines(result.scores), *result.tests))
