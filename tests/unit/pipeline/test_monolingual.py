"""The reverse system of text in one language."""

from __future__ import annotations

from pathlib import Path

import mtkit
from mtkit.pipeline.monolingual import _reversed


def test_the_reverse_system_has_the_shares_of_each_corpus(tmp_path: Path) -> None:
    """Weights and limits stay; a tag goes, since the text that is translated back has none."""
    files = [str(tmp_path / name) for name in ("a.en", "a.de", "b.en", "b.de")]
    for each in files:
        Path(each).write_text("x\n", encoding="utf-8")
    first = f"{{src: {files[0]}, tgt: {files[1]}, weight: 3, limit: 500, tag: A}}"
    second = f"{{src: {files[2]}, tgt: {files[3]}, weight: 1}}"
    recipe = mtkit.load_recipe("quickstart", [f"corpus.train=[{first}, {second}]"])
    back = mtkit.load_recipe("quickstart", _reversed(recipe))
    assert (back.corpus.src_lang, back.corpus.tgt_lang) == (recipe.corpus.tgt_lang, recipe.corpus.src_lang)
    assert [(str(each.src), str(each.tgt)) for each in back.corpus.train] == [
        (files[1], files[0]),
        (files[3], files[2]),
    ]
    assert [(each.weight, each.limit, each.tag) for each in back.corpus.train] == [(3, 500, None), (1, None, None)]
