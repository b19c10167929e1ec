"""XLIFF as tools for translators write it: segments, states, and copies of the source; what is left is counted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lxml import etree

from tests.toy.sampling import seeds
from tests.unit.documents.generated import translate

N = "{urn:oasis:names:tc:xliff:document:1.2}"
SOURCES = ["the dog", 'a <g id="1">cat</g>', "12", "it &amp; he"]
DONE = "translated already"
SEEDS = seeds(20, 220)


def made(rng: random.Random, number: int) -> tuple[str, list[str] | None, str | None]:
    """A unit, the texts of its target afterwards by segment, and why any of it is left."""
    count = rng.randint(1, 3)
    texts = [f"{rng.choice(SOURCES)} {number} {i}" for i in range(count)]
    segments = [f'<mrk mid="{i}" mtype="seg">{text}</mrk>' for i, text in enumerate(texts)]
    source, segmented = " ".join(texts), " ".join(segments)
    empty = " ".join(f'<mrk mid="{i}" mtype="seg"{rng.choice(["/>", "></mrk>"])}' for i in range(count))
    plain = ["".join(etree.fromstring(f"<a>{text}</a>").itertext()) for text in texts]
    done = [text.upper() for text in plain]
    whole = [" ".join(done)]
    has_letters = [any(map(str.isalpha, text)) for text in plain]
    first = "Fertig" if has_letters[0] else plain[0]
    kept = f'<mrk mid="0" mtype="seg">{first}</mrk>'
    partly = [first, *done[1:]] if any(has_letters[1:]) else None
    kinds = [
        (f"<seg-source>{segmented}</seg-source><target>{empty}</target>", done, None),
        (f"<seg-source>{segmented}</seg-source>", done, None),
        (f"<seg-source>{segmented}</seg-source><target/>", done, None),
        (f'<seg-source>{segmented}</seg-source><target state="new">{segmented}</target>', done, None),
        (f'<target state="needs-translation">{source}</target>', whole, None),
        (f'<target state="new">{source}</target>', whole, None),
        (f"<seg-source>{segmented}</seg-source><target>{kept}</target>", partly, has_letters[0] and DONE),
        ('<target> <g id="1"/><x id="2"/> </target>', whole, None),
        ("", whole, None),
        ('<target state="translated">Fertig</target>', None, DONE),
        ('<target state="needs-translation">Etwas</target>', None, "with a target that is neither empty nor a copy"),
        ("<target>Etwas</target>", None, DONE),
    ]
    rest, target, left = rng.choice(kinds)
    if not any(has_letters):
        target = None
    return f'<trans-unit id="{number}"><source>{source}</source>{rest}</trans-unit>', target, left


@pytest.mark.parametrize("seed", SEEDS)
def test_segments_are_translated_and_what_is_left_is_counted(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    units = [made(rng, number) for number in range(rng.randint(1, 8))]
    source, output = tmp_path / "a.xlf", tmp_path / "b.xlf"
    source.write_text(
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file target-language="de"><body>'
        f"{''.join(unit for unit, _, _ in units)}</body></file></xliff>"
    )
    report = translate(source, output)
    before, after = (etree.parse(path).getroot().iter(f"{N}trans-unit") for path in (source, output))
    for old, new, (_, expected, _) in zip(before, after, units, strict=True):
        assert etree.tostring(old.find(f"{N}source")) == etree.tostring(new.find(f"{N}source"))
        if old.find(f"{N}seg-source") is not None:
            assert etree.tostring(old.find(f"{N}seg-source")) == etree.tostring(new.find(f"{N}seg-source"))
        target = new.find(f"{N}target")
        if expected is None:
            assert etree.tostring(old) == etree.tostring(new)
            continue
        assert target.get("state") == "needs-review-translation"
        marks = target.findall(f"{N}mrk")
        assert [mark.get("mid") for mark in marks] == [str(i) for i in range(len(marks))]
        assert ["".join(each.itertext()) for each in marks or [target]] == expected
    for reason in {left for _, _, left in units if left}:
        counted = sum(count for each, count in report.left.items() if each.startswith(reason))
        assert counted == sum(left == reason for _, _, left in units)
        assert reason in report.sentence()


def test_what_is_not_to_be_translated_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.xlf").write_text(
        '<xliff version="1.2"><file><trans-unit id="1" translate="no"><source>a</source></trans-unit></file></xliff>'
    )
    report = translate(tmp_path / "a.xlf", tmp_path / "b.xlf")
    assert report.sentence() == "0 texts translated; 1 left: not to be translated"
