"""Options of other programs: each answer names what a command has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mtkit.cli import option_synonyms
from mtkit.cli.app import COMMANDS, build_app
from mtkit.cli.exit_codes import EXPECTED_ERRORS, to_mtkit_error
from mtkit.cli.option_synonyms import option_answer

GROUP = build_app()
KNOWN = {
    name: {option for each in GROUP.get_command(None, name).params for option in (*each.opts, *each.secondary_opts)}
    for name in COMMANDS
}
KNOWN["evaluate"] |= {"--debug"}  # of all commands


def test_each_answer_is_of_a_command() -> None:
    every = {option for options in KNOWN.values() for option in options}
    for _, *answers in option_synonyms._TABLE:
        for answer in answers:
            first = answer.split()[0]
            assert first in every or first.removesuffix(":") in KNOWN, answer


@pytest.mark.whole
def test_no_answer_names_the_option_that_is_missing() -> None:
    for words, *_ in option_synonyms._TABLE:
        for word in words.split():
            for command, options in KNOWN.items():
                option = f"--{word}" if len(word) > 1 else f"-{word}"
                answer = option_answer(option, command, options)
                assert option in options or option not in (answer or "").split()[:2], (command, option, answer)


@pytest.mark.parametrize(
    ("command", "option", "answer"),
    [
        ("translate", "--greedy", "give --beam-size 1"),
        ("translate", "--num_beams", "give --beam-size N"),
        ("translate", "--top-k", "give --sample 1 --set search.method.top_k=N"),
        ("translate", "--model", "MODEL is an argument: mtkit translate MODEL"),
        ("translate", "-i", "the text is an argument: mtkit translate MODEL FILE, or - for stdin"),
        ("train-bpe", "--num-merges", "give --vocab-size N, in tokens"),
        ("train-bpe", "--model_prefix", "give -o FILE"),
        ("score", "--tgt", "give --ref FILE"),
        ("evaluate", "-i", "translations are arguments: mtkit evaluate HYP --ref REF"),
        ("evaluate", "-m", "give --metrics LIST"),
        ("train", "--config", "RECIPE is an argument: mtkit train RECIPE"),
        ("serve", "--gpu", "give --device cuda"),
        ("export", "--quantization", "mtkit compress MODEL --to int8, or quantisation of the other program"),
    ],
)
def test_words_of_other_programs(command: str, option: str, answer: str | None) -> None:
    assert option_answer(option, command, KNOWN[command]) == answer


WORDS = [line.split("\t") for line in Path(__file__).with_name("words.tsv").read_text().splitlines()[1:]]


@pytest.mark.whole
@pytest.mark.parametrize(("command", "option", "answer"), WORDS)
def test_options_of_tutorials_are_answered(command: str, option: str, answer: str) -> None:
    """Options as tutorials of other toolkits write them; the answer is a regular expression."""
    with pytest.raises(EXPECTED_ERRORS) as caught:
        GROUP.get_command(None, command).make_context(command, ["a", "b", "c", option, "1"])
    message = str(to_mtkit_error(caught.value, [command]))
    assert re.search(answer, message.partition("no such option")[2]), message


def test_an_option_of_another_command_is_named_with_it() -> None:
    with pytest.raises(EXPECTED_ERRORS) as caught:
        GROUP.get_command(None, "plot").make_context("plot", ["run", "--budget", "1h"])
    assert "mtkit run and mtkit train and mtkit finetune have it" in str(to_mtkit_error(caught.value, ["plot"]))
