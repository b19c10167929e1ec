"""`mtkit train-bpe`: train a subword tokenizer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import RunDir


class ModelType(StrEnum):
    """Kinds of sentencepiece models."""

    bpe = "bpe"
    unigram = "unigram"
    word = "word"
    char = "char"


def train_bpe(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Training text; with --recipe key=value overrides.")
    ] = None,
    vocab_size: Annotated[int | None, typer.Option("--vocab-size", min=1, help="Vocabulary size.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", metavar="PREFIX", help="Write PREFIX.model and PREFIX.vocab.")
    ] = None,
    model_type: Annotated[
        ModelType | None, typer.Option("--model-type", help="Kind of subword model (default: bpe).")
    ] = None,
    recipe: Annotated[str | None, typer.Option("--recipe", help="Train the tokenizer of this recipe instead.")] = None,
    run_dir: RunDir = None,
) -> None:
    """Train a sentencepiece tokenizer.

    Give either text files with --vocab-size and -o, or --recipe RECIPE.
    """
    from mtkit.errors import UsageError

    if recipe is not None:
        if (vocab_size, output, model_type) != (None, None, None):
            raise UsageError(
                "train-bpe: with --recipe use tokenizer.KEY=VALUE and --run-dir instead of the other options"
            )
        _train_for_recipe(recipe, files or [], run_dir)
        return
    if run_dir is not None:
        raise UsageError("train-bpe: --run-dir needs --recipe; with FILE... use -o PREFIX")
    if not files or vocab_size is None or output is None:
        raise UsageError("train-bpe: give FILE... --vocab-size N -o PREFIX, or --recipe RECIPE")
    if not output.name:
        raise UsageError(f"train-bpe: -o {output}: PREFIX must end in a file name, for PREFIX.model and PREFIX.vocab")
    from mtkit.cli.printing import print_lines
    from mtkit.io.lock import OutputLock
    from mtkit.text.config import TokenizerConfig
    from mtkit.text.train_tokenizer import train_tokenizer

    config = TokenizerConfig(model_type=(model_type or ModelType.bpe).value, vocab_size=vocab_size)
    with OutputLock(output):  # so that PREFIX.model and PREFIX.vocab belong together
        report = train_tokenizer([Path(file) for file in files], output, config)
    print_lines([report.describe()])


def _train_for_recipe(recipe: str, overrides: list[str], run_dir: Path | None) -> None:
    from mtkit.cli.display import open_display
    from mtkit.cli.printing import print_lines
    from mtkit.pipeline import stages
    from mtkit.pipeline.setup.choices import load_run_recipe

    loaded = load_run_recipe(recipe, overrides, run_dir=run_dir)
    with open_display() as display:
        report = stages.train_tokenizer(loaded, run_dir=run_dir, display=display)
    print_lines(report.lines)
