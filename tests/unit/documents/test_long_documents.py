"""The work that a document takes is in proportion to its length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import mtkit.documents.translate as translation
from tests.unit.documents.generated import translate


@pytest.mark.parametrize("suffix", ["md", "html", "json", "srt"])
def test_no_text_is_looked_at_once_for_each_other_one(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def counted(needs_translation: Callable[[str], bool]) -> Callable[[str], bool]:
        def count(text: str) -> bool:
            nonlocal calls
            calls += 1
            return needs_translation(text)

        return count

    monkeypatch.setattr(translation, "needs_translation", counted(translation.needs_translation))
    texts = {
        "md": lambda i: f"Line {i}.\n\n",
        "html": lambda i: f"<p>Line {i}.</p>\n",
        "json": lambda i: f'{"[" if i == 0 else ","}"Line {i}."{"]" if i == 299 else ""}',
        "srt": lambda i: f"{i}\n00:00:01,000 --> 00:00:02,000\nLine {i}.\n\n",
    }
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    source.write_text("".join(map(texts[suffix], range(300))))
    assert translate(source, output).units == 300
    assert output.read_text().count("LINE") == 300
    assert calls < 3000
