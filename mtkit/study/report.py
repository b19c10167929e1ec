"""The files that a study leaves beside its runs."""

from __future__ import annotations

from pathlib import Path

from mtkit.io.files import write_json, write_text, writing
from mtkit.plot.picture import is_installed
from mtkit.study import curves
from mtkit.study import length_plot as length_picture
from mtkit.study.results import Results
from mtkit.study.table import as_csv, as_json, markdown

MARKDOWN, CSV, JSON = "results.md", "results.csv", "results.json"


PICTURES = {"curves.png": curves.draw, "by_length.png": length_picture.draw}


def write_results(results: Results, folder: Path) -> list[Path]:
    """Write the table as Markdown, CSV and JSON, and the pictures where matplotlib is installed.

    Returns:
        What was written.

    Raises:
        ReadWriteError: the folder cannot be written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / MARKDOWN, markdown(results))
    write_text(folder / CSV, as_csv(results))
    write_json(folder / JSON, as_json(results))
    drawn = [name for name, draw in PICTURES.items() if is_installed() and draw(results, folder / name)]
    return [folder / name for name in (MARKDOWN, CSV, JSON, *drawn)]
