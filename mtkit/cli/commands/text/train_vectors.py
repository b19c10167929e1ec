"""`mtkit train-vectors`: word vectors from text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.cli.options import MAX_THREADS, Side, forbid_overwriting_input


def train_vectors(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Text files, plain or compressed.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File of vectors to write.")],
    architecture: Annotated[
        Literal["skipgram", "cbow"],
        typer.Option("--architecture", help="Predict the words around a word, or a word from those around it."),
    ] = "skipgram",
    dim: Annotated[int, typer.Option("--dim", min=1, max=100_000, help="Numbers in a vector: model.d_model.")] = 256,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", help="Vectors for the tokens of this tokenizer, model or run instead of words."),
    ] = None,
    side: Annotated[
        Side | None,
        typer.Option("--side", help="Side of a --tokenizer folder that has a tokenizer for each side (default: src)."),
    ] = None,
    window: Annotated[int, typer.Option("--window", min=1, help="Largest distance of words that are related.")] = 5,
    min_count: Annotated[int, typer.Option("--min-count", min=1, help="Leave out rarer words.")] = 5,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the text.")] = 10,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed.")] = 1,
    threads: Annotated[
        int, typer.Option("--threads", min=1, max=MAX_THREADS, help="More than 1: results differ from run to run.")
    ] = 1,
) -> None:
    """Train word vectors (skip-gram or CBOW) on text.

    `training.word_vectors` of a recipe starts the embeddings from them; `mtkit nearest` shows related words.
    """
    from mtkit.analysis.train_word_vectors import TokenisedText, VectorOptions, train_word_vectors
    from mtkit.cli.printing import print_lines
    from mtkit.errors import UsageError
    from mtkit.model_folder.folder import find_tokenizer

    if tokenizer is None and side is not None:
        raise UsageError("train-vectors: --side is for --tokenizer; omit it")
    forbid_overwriting_input("train-vectors", output, [*files, tokenizer], option="-o")
    found = None if tokenizer is None else find_tokenizer(tokenizer, side or "src").tokenizer
    options = VectorOptions(
        architecture=architecture,
        dim=dim,
        window=window,
        min_count=min_count,
        epochs=epochs,
        seed=seed,
        threads=threads,
    )
    count = train_word_vectors(TokenisedText(files, found), output, options)
    print_lines([f"{output}: {count:,} vectors of {dim} numbers"])
