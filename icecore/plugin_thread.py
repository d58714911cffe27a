"""Runs plug-ins on a separate thread, so that blocking code times out and delays nothing else."""

import asyncio
import inspect
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .approval.contract import ApprovalHook, ProposedChange, Verdict

END_SECONDS_MAX = 1.0


class PluginThread:
    """Runs the reviews of an approval hook on a separate event loop. They may be coroutines or plain functions.

    The caller abandons a blocked review after its timeout. Later reviews wait for the thread, each up to its own timeout. A thread that
    stays blocked ends with the process.
    """

    def __init__(self, name: str, hook: ApprovalHook) -> None:
        self._hook = hook
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"hook-{name}", daemon=True)
        self._thread.start()

    async def review(self, change: ProposedChange) -> Verdict:
        serving = asyncio.get_running_loop()

        async def declared(levels: tuple[str, ...]) -> Sequence[Mapping[str, str]]:
            # Postgres is queried on the event loop that owns the connections.
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_declared(change, levels), serving))

        reviewed = self._reviewed(replace(change, declared=declared))
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(reviewed, self._loop))

    async def close(self) -> None:
        """Ends the thread, unless it is blocked."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, END_SECONDS_MAX)

    async def _reviewed(self, change: ProposedChange) -> Verdict:
        verdict = self._hook.review(change)
        return await verdict if inspect.isawaitable(verdict) else verdict

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()


async def _declared(change: ProposedChange, levels: tuple[str, ...]) -> Sequence[Mapping[str, str]]:
    return await change.declared(levels)
