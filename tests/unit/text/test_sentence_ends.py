"""Which pieces of a vocabulary end a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mtkit.text.sentence_ends import sentence_ends
from mtkit.text.vocab import Vocab


@dataclass
class Pieces:
    """A tokenizer as far as its pieces go; the first is a control piece."""

    names: list[str]

    @property
    def vocab(self) -> Vocab:
        return Vocab(size=len(self.names), pad=0, unk=0, bos=0, eos=0)

    def pieces(self, ids: range) -> list[str]:
        return [self.names[number] for number in ids]

    def control_ids(self) -> list[int]:
        return [0]


@pytest.mark.parametrize(
    ("piece", "ends"),
    [
        (".", True),
        ("\u2581!", True),
        ("Hund?", True),
        ("...", True),
        (".\u201c", True),
        ('!")', True),
        ("\u3002\u300d", True),
        ("\u0964", True),
        (",", False),
        (")", False),
        (".5", False),
        ("\u2581Hund", False),
    ],
)
def test_pieces_that_end_with_a_mark(piece, ends):
    assert sentence_ends(Pieces([".", "a", piece])) == ([2] if ends else [])
