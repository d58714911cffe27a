"""The supervisor of serving processes, with processes that are simulated."""

import asyncio
from collections.abc import Callable

import pytest

from icecore.child_process import ChildProcess
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.supervisor import supervise


class Simulated(ChildProcess):
    """Ends with `code`; None: runs until it is stopped."""

    def __init__(self, code: int | None) -> None:
        super().__init__("simulated", "none", {}, grace_seconds=1)
        self._code = code

    async def keep_running(self, stop: asyncio.Event, *, died: Callable[[int], None] | None = None) -> None:
        if self._code is not None and died is not None:
            died(self._code)
        await stop.wait()


async def test_a_process_that_dies_before_it_is_ready_is_named() -> None:
    """By its number, as in the names of the metrics."""
    with pytest.raises(CommandFailed, match="Serving process 2 ended with code 7 before it was ready") as failure:
        await supervise([Simulated(None), Simulated(7)], [], lambda: None, asyncio.Event())
    assert ExitCode.CRASHED == failure.value.code
