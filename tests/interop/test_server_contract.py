"""The description of the interfaces, /spec, against the server, by schemathesis."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.e2e.serve.conftest import Server
from tests.interop.make_rooms import room

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def test_the_server_keeps_its_contract(server: Server, tmp_path: Path) -> None:
    command = [str(room("contract") / "bin" / "schemathesis"), "run", f"{server.url}/spec", "--url", server.url]
    options = ["--checks", CHECKS, "--max-examples", os.environ.get("MTKIT_EXAMPLES", "20"), "--seed", "1"]
    phases = ["--phases", "examples,fuzzing"]
    done = subprocess.run(
        [*command, *options, *phases], capture_output=True, text=True, cwd=tmp_path, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    assert server.translate(q="the dog").status_code == 200
