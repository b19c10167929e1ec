"""Options of other programs: each answer names what a command has."""

from __future__ import annotations

import pytest

from mtkit.cli import option_synonyms
from mtkit.cli.app import COMMANDS, build_app
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
        ("export", "--quantization", None),
    ],
)
def test_words_of_other_programs(command: str, option: str, answer: str | None) -> None:
    assert option_answer(option, command, KNOWN[command]) == answer
