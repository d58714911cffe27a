"""`icecore serve` with two differences: a dead worker is replaced at once, and a negative control may be applied.

The supervisor waits longer before each restart of a worker that dies repeatedly, so that frequent kills would soon result only in waiting.
"""

import os
import sys
from pathlib import Path

import icecore.child_process
from benchmarks.reliability.fault_injection import VARIABLE, inject_fault
from icecore.cli import main

_ROOT = Path(__file__).parents[2]


def _worker_with_control() -> str:
    """A program that the supervisor starts instead of Python: a serving process with its control, and other processes unchanged."""
    program = Path(os.environ["ICECORE_TEST_SCRATCH"]) / "worker"
    program.write_text(
        f'#!/bin/sh\n[ "$3" = icecore.serving_process ] || exec "{sys.executable}" "$@"\n'
        f'exec "{sys.executable}" -m benchmarks.reliability.worker\n'
    )
    program.chmod(0o755)
    return str(program)


if __name__ == "__main__":
    os.chdir(_ROOT)
    icecore.child_process.HEALTHY_SECONDS = 0.0
    if os.environ.get(VARIABLE):
        sys.executable = _worker_with_control()
        # A single worker is this process.
        inject_fault()
    main()
