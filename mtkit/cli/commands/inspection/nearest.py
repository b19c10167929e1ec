"""`mtkit nearest`: nearest words and analogies among word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import Format, JsonFile


def nearest(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="File of word vectors, in the text format of word2vec.")
    ],
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Words; with --analogy three.")],
    analogy: Annotated[
        bool, typer.Option("--analogy", help="Words that are to the third as the second is to the first.")
    ] = False,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Number of words to print.")] = 10,
    json_file: JsonFile = None,
    form: Format = None,
) -> None:
    """Print nearest words or analogies of word vectors.

    One row for each: the word or the analogy, its neighbour and their cosine similarity.
    `mtkit nearest words.vec --analogy man woman king` prints what is to king as woman is to man.
    """
    from mtkit.analysis.nearest_words import WordVectors
    from mtkit.cli.printing import print_results
    from mtkit.display import Table
    from mtkit.errors import UsageError

    if analogy and len(words) != 3:
        raise UsageError(f"nearest: --analogy takes three words, not {len(words)}")
    found = WordVectors.read(vectors)
    if analogy:
        first, second, third = words
        found_of = {f"{second} - {first} + {third}": found.analogy(first, second, third, count)}
    else:
        found_of = {word: found.nearest(word, count) for word in words}
    rows = [[word, other, f"{similarity:.4f}"] for word, others in found_of.items() for other, similarity in others]
    print_results([Table(["word", "neighbour", "cosine"], rows, ["word", "neighbour"])], form, json_file=json_file)
