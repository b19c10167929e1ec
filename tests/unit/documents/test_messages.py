"""ICU messages: the texts of their branches are translated, and what is shown is what the source shows, translated.

A small interpreter shows messages, which is independent of the reader.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.toy.sampling import sampled, seeds
from tests.unit.documents.generated import same, translate, upper

WORDS = ["dog", "dogs", "it''s", "don't", "see", "'{'quoted 9'}'", "{x}", "{n, number}", "ñandú", "(a", "b)", "c."]
SEEDS = seeds(20, 220)


def made(rng: random.Random, depth: int = 0, *, counts: bool = False) -> str:
    """A random message."""
    words = [*WORDS, *(["#"] if counts else [])]
    parts = rng.choices(words, k=rng.randint(0 if depth else 1, 4))
    if depth < 3 and rng.random() < (0.4 if depth else 1.0):
        kind = rng.choice(["plural", "select", "selectordinal"])
        selectors = ["one", "other"] if kind == "select" else ["=0", "one", "other"]
        offset = rng.choice(["", "offset:1 "]) if kind == "plural" else ""
        inner = counts or kind != "select"
        space = rng.choice(["", " "])
        branches = [f"{name}{space}{{{made(rng, depth + 1, counts=inner)}}}" for name in selectors]
        parts.insert(rng.randint(0, len(parts)), f"{{count, {kind}, {offset}{' '.join(branches)}{space}}}")
    return " ".join(parts)


def shown(message: str, choice: str, *, counts: bool = False) -> str:
    """What a message shows where all arguments choose a branch; numbers and arguments are digits."""
    out, i = "", 0
    while i < len(message):
        char, following = message[i], message[i + 1 : i + 2]
        if char == "'" and following == "'":
            out, i = out + "'", i + 2
        elif char == "'" and following and following in ("{}#" if counts else "{}"):
            end = message.index("'", i + 1)
            out, i = out + message[i + 1 : end], end + 1
        elif char == "#" and counts:
            out, i = out + "7", i + 1
        elif char == "{":
            end = closing(message, i)
            out, i = out + argument(message[i + 1 : end - 1], choice, counts=counts), end
        else:
            out, i = out + char, i + 1
    return out


def closing(message: str, start: int) -> int:
    depth, i = 0, start
    while True:
        if message[i] == "'" and message[i + 1 : i + 2] in ("{", "}", "#"):
            i = message.index("'", i + 1)
        depth += {"{": 1, "}": -1}.get(message[i], 0)
        i += 1
        if not depth:
            return i


def argument(content: str, choice: str, *, counts: bool) -> str:
    rest = content.partition(",")[2]
    kind, _, style = rest.strip().partition(",")
    if kind not in ("plural", "select", "selectordinal"):
        return "8"
    style = style.strip().removeprefix("offset:1").strip()
    branches = {}
    while style:
        start = style.index("{")
        end = closing(style, start)
        branches[style[:start].strip()] = style[start + 1 : end - 1]
        style = style[end:].strip()
    return shown(branches.get(choice, branches["other"]), choice, counts=counts or kind != "select")


@pytest.mark.parametrize("seed", SEEDS)
def test_apostrophes_and_signs_of_a_translation_are_shown(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choices(["'", "{", "}", "#", "a", " b ", "l'"], k=rng.randint(1, 12)))
    before = rng.choice(["see", "it''s"])
    (written,), _ = through(tmp_path, [f"{{n, plural, other {{{before} {{n}}}}}}"], answering(before, text))
    assert shown(written, "other").replace("8", "").split() == text.split()


def answering(before: str, text: str):
    """A translator with one answer."""
    return lambda lines: (line._replace(hyp=text) for line in same(lines))


def test_apostrophes_are_doubled_as_in_the_source(tmp_path: Path) -> None:
    """Flutter shows both of two apostrophes, unless its escaping is switched on."""
    for message, expected in (
        ("{n, plural, other {l'homme}}", "{n, plural, other {L'HOMME}}"),
        ("{n, plural, other {l''homme qu'il}}", "{n, plural, other {L''HOMME QU''IL}}"),
        ("{n, plural, other {l''{n} homme}}", "{n, plural, other {L''{n} HOMME}}"),
        ("{n, plural, other {a, {n}\u00a0b}}", "{n, plural, other {A, {n}\u00a0B}}"),
    ):
        assert through(tmp_path, [message], upper)[0] == [expected]


def through(folder: Path, texts: list[str], translator):
    source, output = folder / "a.json", folder / "b.json"
    source.write_text(json.dumps(texts), encoding="utf-8")
    report = translate(source, output, translator)
    return json.loads(output.read_text(encoding="utf-8")), report


@pytest.mark.parametrize("seed", SEEDS)
def test_all_choices_show_the_translation_of_what_they_showed(seed: int, tmp_path: Path) -> None:
    message = made(random.Random(seed))
    (unchanged,), _ = through(tmp_path, [message], same)
    assert unchanged == message
    (translated,), report = through(tmp_path, [message], upper)
    assert not report.flags
    for choice in ("=0", "one", "other"):
        before = shown(message, choice).replace("quoted", "QUOTED").upper()
        after = shown(translated, choice).replace("quoted", "QUOTED")
        assert after.split() == before.split() or "".join(after.split()) == "".join(before.split()), translated


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_no_message_is_left_and_flagged(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    message = f"see {{n, plural, one {{a {made(rng, 1)}}} other {{# b}}}}"
    broken = rng.choice(
        [message[:-1], message + "}", message.replace("other {", "other "), "{0,choice,0#no dog|1#a dog}"]
    )
    translated, report = through(tmp_path, ["a dog", broken], upper)
    assert translated == ["A DOG", broken]
    assert report.flags == {"message": 1}


def test_messages_of_other_formats(tmp_path: Path) -> None:
    message = "{n, plural, one {# dog} other {# dogs}}"
    done = "{n, plural, one {# DOG} other {# DOGS}}"
    for name, content in {
        "a.po": f'msgid "{message}"\nmsgstr ""\n',
        "a.csv": f'a,b\n1,"{message}"\n',
        "a.html": f"<p>{message}</p>",
        "a.xlf": f'<xliff version="1.2"><file><trans-unit><source>{message}</source></trans-unit></file></xliff>',
    }.items():
        (tmp_path / name).write_text(content)
        translate(tmp_path / name, tmp_path / f"out-{name}")
        assert done in (tmp_path / f"out-{name}").read_text()


PLACEHOLDERS = [
    "https://example.com/the-dog", "www.example.com", "foo@example.com", "{{name}}", "{{ name }}", "%(x)s", "%s",
    "{0}", "${HOME}", "<br>", "&nbsp;", "#fff", "v1.2.3", "C:\\x\\y.txt", "README.md", "$t(common:save)", "`a b`", "42",
    ":name", "%name%", "call()", "snake_case", "/usr/lib/x.so", "--long-option", "\U0001f600", "mailto:a@b.c",
    "s3://bucket/key", "<%= name %>", "$NAME$", "__MSG_name__", "%<n>s", "%1", "@name", "@org/pkg", "example.com/path",
    "0x1F", "2024-01-02T10:00:00Z", "550e8400-e29b-41d4-a716-446655440000", "1.2.3-beta", ":smile:", "{{{x}}}",
    "tel:+49301", "a.b()",
]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_without_words_are_copied(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    texts = [rng.choice([" ", " | ", " - "]).join(rng.sample(PLACEHOLDERS, rng.randint(1, 3))) for _ in range(8)]
    with_words = [f"the dog {text}" for text in texts]
    received: list[str] = []

    def recorded(lines):
        for line in lines:
            received.append(line)
            yield from same([line])

    translated, report = through(tmp_path, [*texts, *with_words], recorded)
    assert translated == [*texts, *with_words]
    assert received == with_words
    assert (report.units, report.copied) == (8, sum(any(map(str.isalpha, text)) for text in texts))
    (tmp_path / "a.po").write_text(f'msgid {json.dumps(PLACEHOLDERS[seed % 3])}\nmsgstr ""\n')
    translate(tmp_path / "a.po", tmp_path / "b.po")
    assert (tmp_path / "b.po").read_text().count(PLACEHOLDERS[seed % 3]) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_comments_of_json_stay(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)

    def gap() -> str:
        return rng.choice(["", " ", "\n", '// a "b", {\n', '/* c } " */', "/* // */ "])

    def document(upper: bool) -> str:
        nonlocal rng
        rng = random.Random(seed)
        texts = [rng.choice(["a // b", "c /* d", 'e \\" f', "g"]) for _ in range(rng.randint(1, 4))]
        items = "".join(f'{gap()}"{text.upper() if upper else text}"{gap()},{gap()}' for text in texts)
        return f'// x\n{gap()}{{{gap()}"key"{gap()}:{gap()}[{items}]{gap()},{gap()}}}{gap()}'

    (tmp_path / "a.json").write_text(document(upper=False))
    translate(tmp_path / "a.json", tmp_path / "b.json")
    assert (tmp_path / "b.json").read_text() == document(upper=True)


@pytest.mark.parametrize("suffix", ["srt", "json", "html"])
@pytest.mark.parametrize("seed", range(sampled(20)))
def test_the_dash_of_a_speaker_stays(seed: int, suffix: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    dash, text = rng.choice(["- ", "-", "– ", "—", "— "]), rng.choice(["Where is he?", "Él no.", "“Yes”"])
    frames = {"srt": "1\n00:00:01,000 --> 00:00:02,000\n{}\n", "json": '["{}"]', "html": "<p>{}</p>"}
    received: list[str] = []

    def translator(lines):
        for line in lines:
            received.append(line)
            yield from upper([line])

    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    source.write_text(frames[suffix].format(dash + text), encoding="utf-8")
    translate(source, output, translator)
    if dash == "-" and text.startswith("“"):
        return  # a hyphen
    assert received == [text]
    assert output.read_text(encoding="utf-8") == frames[suffix].format(dash + text.upper())
    assert text in source.read_text(encoding="utf-8")
