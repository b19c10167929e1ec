"""`mtkit nearest`: nearest words and analogies among word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def nearest(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="File of word vectors, in the text format of word2vec.")
    ],
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words; with --analogy three.")],
    analogy: Annotated[
        bool, typer.Option("--analogy", help="Words that are to the third as the second is to the first.")
    ] = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of words to print.")] = 10,
) -> None:
    """Print nearest words or analogies of word vectors.

    One line for each: the word, its neighbour and their cosine similarity.
    `mtkit nearest words.vec --analogy man woman king` prints what is to king as woman is to man.
    """
    from mtkit.analysis.nearest_words import WordVectors
    from mtkit.cli.printing import print_data
    from mtkit.errors import UsageError

    if analogy and len(words) != 3:
        raise UsageError(f"nearest: --analogy takes three words, not {len(words)}")
    found = WordVectors.read(vectors)
    if analogy:
        first, second, third = words
        print_data(f"{word}\t{similarity:.4f}" for word, similarity in found.analogy(first, second, third, count))
        return
    for word in words:
        print_data(f"{word}\t{other}\t{similarity:.4f}" for other, similarity in found.nearest(word, count))
