"""Documents that take long: the server answers others, and SIGTERM ends it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.e2e.serve.conftest import running


def test_the_server_ends_during_a_document(models: dict[str, Path]) -> None:
    with running(str(models["en-de"]), "--workers", "1") as server:
        content = "".join(f"<p>the dog {number} sees a cat</p>" for number in range(40_000))
        files = {"file": ("a.html", content)}
        state = server.client.post("/documents", data={"source": "en", "target": "de"}, files=files).json()
        assert server.translate(q="the dog").status_code == 200
        assert not server.client.get(f"/documents/{state['id']}").json()["done"]
        begun = time.monotonic()
        code, text = server.stop(timeout=120)
        assert (code, "Traceback" in text) == (0, False)
        assert time.monotonic() - begun < 60
