"""`mtkit encode`: text to tokens or ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import SideOption, TokenizerPath


def encode(
    tokenizer: TokenizerPath,
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="Text; - is stdin.")] = Path("-"),
    ids: Annotated[bool, typer.Option("--ids", help="Write ids instead of tokens.")] = False,
    side: SideOption = "src",
) -> None:
    """Segment text into the tokens of a subword model.

    Writes one line for each line, with a space between tokens. `mtkit decode` gives the text back: exactly from tokens,
    and from ids except for unknown characters, which are counted on stderr. U+2581, the mark of a space in tokens,
    becomes an underscore.
    """
    from mtkit.cli.input import is_interactive, read_input_lines
    from mtkit.cli.printing import print_data, print_notes
    from mtkit.display import count_of
    from mtkit.model_folder.folder import find_tokenizer
    from mtkit.text.token_lines import BLOCK_LINES, UnknownCounts, encode_lines

    found = find_tokenizer(tokenizer, side)
    print_notes(f"{tokenizer}: {note}" for note in found.notes)
    counts = UnknownCounts()
    block = 1 if is_interactive(file) else BLOCK_LINES
    print_data(encode_lines(read_input_lines(file), found.tokenizer, as_ids=ids, counts=counts, block=block))
    if counts.tokens:
        unknown = count_of(counts.tokens, "unknown token")
        lost = "; ids do not give them back" if ids else ""
        print_notes([f"{unknown}, in {counts.with_unknown:,} of {count_of(counts.lines, 'line')}{lost}"])
    if counts.replaced:
        print_notes([f"{count_of(counts.replaced, 'U+2581 character')} replaced by underscores"])
