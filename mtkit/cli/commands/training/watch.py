"""`mtkit watch`: follow a training in another process, or replay a finished one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mtkit.cli.options import HtmlFile, forbid_overwriting_input

SECONDS = 10  # between two writes of a page at least, and between two reads of it by a browser


def watch(run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")], html: HtmlFile = None) -> None:
    """Follow a training from its log.

    Works for running and finished trainings; Ctrl-C ends only this command. The page of --html is that of mtkit report:
    it is written again as the log grows, and an open browser shows the new one.
    """
    from mtkit.cli.display import open_display
    from mtkit.io.files import write_text
    from mtkit.io.records import find_log
    from mtkit.pipeline.run_report import report_runs
    from mtkit.training.monitoring.log import watch as follow

    forbid_overwriting_input("watch", html, [], option="--html")
    written = 0.0

    def wait(seconds: float) -> None:
        nonlocal written
        if html is not None and time.time() - written > SECONDS and find_log(run).stat().st_mtime > written:
            written = time.time()
            write_text(html, report_runs([run], ["bleu", "chrf"]).html(reload_after=SECONDS))
        time.sleep(seconds)

    with open_display() as display:
        follow(run, display, sleep=wait)
    if html is not None:
        write_text(html, report_runs([run], ["bleu", "chrf"]).html())
