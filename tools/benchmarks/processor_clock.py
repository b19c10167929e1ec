"""A command of mtkit with processor time instead of wall-clock time: other programs do not spend its `--budget`.

    OMP_NUM_THREADS=1 python tools/benchmarks/processor_clock.py train RECIPE --budget 5m

With one thread on an idle machine, processor time and wall-clock time are the same.
"""

from __future__ import annotations

import runpy
import sys
import time


def main() -> None:
    """Run mtkit with the arguments of this command."""
    time.perf_counter = time.process_time
    sys.argv[0] = "mtkit"
    runpy.run_module("mtkit", run_name="__main__")


if __name__ == "__main__":
    main()
