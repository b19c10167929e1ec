"""Help: every command has examples that its own parser takes, words instead of Python's types, and -h."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from mtkit.cli import entry
from mtkit.cli.app import COMMANDS, EXAMPLES, build_app

GROUP = build_app()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_and_no_types_of_python(name: str, capsys) -> None:
    texts = []
    for words in ([name, "-h"], [name, "--help"], ["help", name]):
        assert entry.execute(words) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert re.findall(r"<(?:int|str|path|float|bool|list|Path)\b|Usage:.*[{}]|\.{4}|\[\[|list\[", texts[0]) == []
    text = texts[0].replace(" \\\n   ", "")
    assert all(f"\n  {example}\n" in text for example in EXAMPLES[name])


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("words", [*([name, "--help"] for name in COMMANDS), ["--help"], ["keys", "search"]])
def test_help_is_within_the_terminal(words: list[str], columns: int, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    entry.execute(words)
    long = [line for line in capsys.readouterr().out.split("\n") if len(line) > columns]
    assert [line for line in long if max(map(len, line.split())) < columns - 8] == []  # one word is not broken


@pytest.mark.parametrize(("name", "example"), [(name, each) for name in EXAMPLES for each in EXAMPLES[name]])
def test_examples_are_parsed(name: str, example: str) -> None:
    words = shlex.split(example.partition(" >")[0])
    assert words[:2] == ["mtkit", name]
    with typer.Context(GROUP, info_name="mtkit") as context:
        command = GROUP.get_command(context, name)
        with command.make_context(name, words[2:], parent=context):
            pass


@pytest.mark.parametrize(
    ("words", "general"),
    [
        ("--general a b", "ab"),
        ("--general=a b --general c d", "abcd"),
        ("--general a b -- --general c d", "ab"),
    ],
)
def test_an_option_of_two_values_is_repeated(words: str, general: str) -> None:
    with typer.Context(GROUP, info_name="mtkit") as context:
        command = GROUP.get_command(context, "finetune")
        with command.make_context("finetune", ["model", "own", "-o", "run", *words.split()], parent=context) as parsed:
            assert [str(file) for file in parsed.params["general"]] == [*general]
            assert parsed.params["words"] == ["own", *words.partition(" -- ")[2].split()]


@pytest.mark.parametrize("words", ["--general a", "--general=a", "--general a --general b", "--general a -- b"])
def test_an_option_of_two_values_with_one_is_refused(words: str, capsys) -> None:
    assert entry.execute(["finetune", "model", "own", "-o", "run", *words.split()]) == 2
    assert "finetune: --general: give a source and its translation\n" in capsys.readouterr().err


def test_examples_are_those_of_the_commands() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_output_has_one_name_everywhere(name: str) -> None:
    command = GROUP.get_command(None, name)
    for parameter in command.params:
        assert ("-o" in parameter.opts) == ("--output" in parameter.opts)


@pytest.mark.parametrize("words", [[], ["help"], ["-h"], ["version"]])
def test_first_words_of_a_newcomer(words: list[str], capsys) -> None:
    option = "--version" if words == ["version"] else "--help"
    assert entry.execute(words) == 0
    first = capsys.readouterr().out
    assert entry.execute([option]) == 0
    assert capsys.readouterr().out == first
    assert first


def test_the_usage_of_run_has_two_texts(capsys) -> None:
    entry.execute(["run", "-h"])
    assert capsys.readouterr().out.startswith("Usage: mtkit run [OPTIONS] RECIPE|SRC TGT|FILE [key=value]...\n")
