"""`mtkit train-bpe`: learn a subword model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import RunDir


class ModelType(StrEnum):
    """The kinds of subword models."""

    bpe = "bpe"
    unigram = "unigram"
    word = "word"
    char = "char"


def train_bpe(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Text to learn from; with --recipe: key=value.")
    ] = None,
    vocab_size: Annotated[int | None, typer.Option("--vocab-size", min=1, help="Pieces of the model.")] = None,
    output: Annotated[Path | None, typer.Option("-o", metavar="PREFIX", help="Writes PREFIX.model.")] = None,
    model_type: Annotated[
        ModelType | None, typer.Option("--model-type", help="How text is cut; bpe unless given.")
    ] = None,
    recipe: Annotated[str | None, typer.Option("--recipe", help="Make this recipe's tokenizer instead.")] = None,
    run_dir: RunDir = None,
) -> None:
    """Learn a sentencepiece model from text files, or the tokenizer of a recipe."""
    from mtkit.errors import UsageError

    if recipe is not None:
        if (vocab_size, output, model_type) != (None, None, None):
            raise UsageError("train-bpe: with --recipe say tokenizer.KEY=VALUE and --run-dir in place of other options")
        _of_recipe(recipe, files or [], run_dir)
        return
    if run_dir is not None:
        raise UsageError("train-bpe: --run-dir is for the tokenizer of a --recipe; FILE... go to -o PREFIX")
    if not files or vocab_size is None or output is None:
        raise UsageError("train-bpe: give FILE... --vocab-size N -o PREFIX, or --recipe RECIPE")
    if not output.name:
        raise UsageError(f"train-bpe: -o {output}: a PREFIX ends in a name; PREFIX.model and PREFIX.vocab are written")
    from mtkit.cli.printing import print_lines
    from mtkit.text.tokenizer import TokenizerConfig
    from mtkit.text.train_tokenizer import train_tokenizer

    config = TokenizerConfig(model_type=(model_type or ModelType.bpe).value, vocab_size=vocab_size)
    report = train_tokenizer([Path(file) for file in files], output, config)
    print_lines([report.describe()])


def _of_recipe(recipe: str, overrides: list[str], run_dir: Path | None) -> None:
    from mtkit import pipeline
    from mtkit.cli.display import display
    from mtkit.cli.printing import print_lines
    from mtkit.recipe.recipe import load_recipe

    checked = load_recipe(recipe, overrides)
    with display() as shown:
        report = pipeline.train_tokenizer(checked, run_dir=run_dir, display=shown)
    print_lines(report.lines)
