"""All checks of this folder on one device, then the speed of training on it, a row at a time.

    python -m tests.gpu [--device cuda:0] [--seconds 300]

The exit code is 1 if a row failed. No check begins after the time; what was left out is said. README.md of this folder
says how the checks run on a machine without network.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.gpu.checks import CHECKS, Row


def main() -> int:
    """Run the checks and print their rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=300, help="no check begins afterwards")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit("there is no GPU here that torch can use; --device cpu tries the checks themselves")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # float32 means float32
    name = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device
    print(f"{name}, torch {torch.__version__}, Python {sys.version.split()[0]}", flush=True)
    end, failed = time.monotonic() + options.seconds, 0
    for check in CHECKS:
        for row in rows_until(check(options.device), check.__name__, end):
            print(row, flush=True)
            failed += not row.passed
    if options.device.startswith("cuda") and (left := end - time.monotonic()) > 30:
        script = Path(__file__).parents[2] / "tools" / "benchmarks" / "gpu.py"
        subprocess.run([sys.executable, str(script), "--updates", "30"], timeout=left, check=False)
    print(f"{failed} rows failed" if failed else "all rows passed")
    return 1 if failed else 0


def rows_until(rows: Iterator[Row], name: str, end: float) -> Iterator[Row]:
    """The rows of a check up to a time of the monotonic clock; an error of the device is a row that failed."""
    while time.monotonic() < end:
        try:
            yield next(rows)
        except StopIteration:
            return
        except (RuntimeError, subprocess.SubprocessError) as error:
            yield Row(name, False, str(error).partition("\n")[0])
            return
    print(f"        {name}: left out, the time is over")


if __name__ == "__main__":
    sys.exit(main())
