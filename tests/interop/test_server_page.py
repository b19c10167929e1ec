"""The page in a real browser, by tests/interop/page.mjs: controls, accessibility, hostile text, no outside request."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.serve.conftest import ROOT, Server
from tests.interop.make_rooms import room


def test_page(server: Server, tmp_path: Path) -> None:
    browser = os.environ.get("MTKIT_BROWSER") or shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None or shutil.which("node") is None:
        pytest.skip("no chromium (apt-get install chromium, or MTKIT_BROWSER=FILE), or no node")
    modules = room("browser") / "node_modules"
    program = Path(shutil.copy(ROOT / "tests" / "interop" / "page.mjs", room("browser") / f"page-{os.getpid()}.mjs"))
    pictures = Path(os.environ.get("MTKIT_PICTURES", tmp_path))
    try:
        command = ["node", str(program), server.url, browser, str(pictures), str(modules / "axe-core" / "axe.min.js")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    finally:
        program.unlink()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    results = json.loads(done.stdout)
    assert {name: problems for name, problems in results.items() if problems} == {}
    assert len(results) > 25
    names = {"light", "dark", "phone", "phone-dark", "right-to-left", "long", "docs", "docs-phone"}
    assert {path.stem for path in pictures.glob("*.png")} >= names
