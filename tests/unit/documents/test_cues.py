"""Cues of subtitles that no blank line divides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toy.sampling import sampled
from tests.unit.documents.generated import Writer, same, translate, upper

TIMES = [f"00:00:0{second},000 --> 00:00:0{second + 1},500" for second in range(1, 8)]


def translated(folder: Path, content: str, translator=upper, suffix: str = "srt") -> str:
    source, output = folder / f"a.{suffix}", folder / f"b.{suffix}"
    source.write_text(content, encoding="utf-8", newline="")
    translate(source, output, translator)
    return output.read_bytes().decode()


def cue(number: int, *lines: str) -> str:
    return "\n".join([str(number), TIMES[number - 1], *lines, ""])


def test_every_cue_is_translated_and_numbers_are_no_text(tmp_path: Path) -> None:
    content = (
        cue(1, "A man is walking.")
        + cue(2, "There are", "<i>two</i>")
        + cue(3, "dogs.", "")
        + cue(4)
        + cue(5, "- Yes.", "- No.")
        + cue(6, "42 days.")
        + cue(7, "I have 7.")
    )
    lines: list[str] = []

    def recorded(texts):
        for line in texts:
            lines.append(line)
            yield from upper([line])

    text = translated(tmp_path, content, recorded)
    assert lines == ["A man is walking.", "There are two dogs.", "Yes.", "No.", "42 days.", "I have 7."]
    assert text == content.upper().replace("<I>", "<i>").replace("</I>", "</i>")


@pytest.mark.parametrize("end", [".", "!", "?", "…", "。", "！", "？", "♪", '."', "?)", ".</i>"])
def test_a_sentence_ends_with_its_cue(end: str, tmp_path: Path) -> None:
    lines: list[str] = []

    def recorded(texts):
        for line in texts:
            lines.append(line)
            yield from upper([line])

    translated(tmp_path, cue(1, f"The dog{end}") + cue(2, "a cat"), recorded)
    assert len(lines) == 2
    lines.clear()
    translated(tmp_path, cue(1, "The dog,") + cue(2, "a cat"), recorded)
    assert len(lines) == 1


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("seed", range(sampled(10)))
def test_the_texts_are_those_of_cues_with_blank_lines(seed: int, ends: str, tmp_path: Path) -> None:
    divided = Writer(seed).make_srt().decode().replace("\r\n", "\n")
    dense = divided.replace("\n\n", "\n")
    text = translated(tmp_path, dense.replace("\n", ends))
    assert text == translated(tmp_path, divided).replace("\n\n", "\n").replace("\n", ends)
    assert translated(tmp_path, dense.replace("\n", ends), same) == dense.replace("\n", ends)


def test_webvtt_without_blank_lines(tmp_path: Path) -> None:
    content = "WEBVTT\n\n1\n00:01.000 --> 00:02.000 line:0\nthe dog.\n00:03.000 --> 00:04.000\nthe cat.\n"
    text = translated(tmp_path, content, suffix="vtt")
    assert text == content.replace("the dog", "THE DOG").replace("the cat", "THE CAT")


def test_at_most_four_cues_are_one_text(tmp_path: Path) -> None:
    lines: list[str] = []

    def recorded(texts):
        for line in texts:
            lines.append(line)
            yield from same([line])

    translated(tmp_path, "".join(cue(number, f"part {number}", "") for number in range(1, 7)), recorded)
    assert lines == ["part 1 part 2 part 3 part 4", "part 5 part 6"]
