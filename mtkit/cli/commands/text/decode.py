"""`mtkit decode`: tokens or ids to text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import SideOption, TokenizerPath


def decode(
    tokenizer: TokenizerPath,
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="Tokens or ids; - is stdin.")] = Path("-"),
    ids: Annotated[bool, typer.Option("--ids", help="Read ids instead of tokens.")] = False,
    side: SideOption = "tgt",
) -> None:
    """Join the tokens of a subword model to text.

    Writes one line for each line. Special tokens are dropped; a token that the model lacks stands for its characters.
    """
    from mtkit.cli.input import is_interactive, read_input_lines
    from mtkit.cli.printing import print_data
    from mtkit.model_folder.folder import find_tokenizer
    from mtkit.text.token_lines import BLOCK_LINES, decode_lines_of_ids, decode_lines_of_tokens

    model = find_tokenizer(tokenizer, side).tokenizer
    lines = read_input_lines(file)
    block = 1 if is_interactive(file) else BLOCK_LINES
    if ids:
        name = "stdin" if str(file) == "-" else str(file)
        print_data(decode_lines_of_ids(lines, model, name, block=block))
    else:
        print_data(decode_lines_of_tokens(lines, model, block=block))
