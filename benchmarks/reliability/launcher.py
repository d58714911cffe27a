"""`icecore serve` as it is, but for two things: a worker that died is replaced at once, and a negative control may be built in.

The supervisor waits longer and longer before it replaces a worker that dies again and again, which killing every second would soon turn
into waiting.
"""

import os
import sys
from pathlib import Path

import icecore.child_process
from benchmarks.reliability.fault_injection import VARIABLE, inject_fault
from icecore.cli import main

_ROOT = Path(__file__).parents[2]


def _worker_with_control() -> str:
    """A program that the supervisor starts in Python's place: a serving process with its sabotage, and whatever else as it is."""
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
        # One worker alone is this process.
        inject_fault()
    main()
