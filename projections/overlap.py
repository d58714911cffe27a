"""What Postgres does while Python folds: the next rows are fetched, those that are finished are copied."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from psycopg import AsyncServerCursor
from psycopg.rows import TupleRow

from domain.read_models.rows import Row


async def fetched_ahead(cursor: AsyncServerCursor[TupleRow], rows_max: int) -> AsyncGenerator[list[Row], None]:
    """What the cursor holds, some rows at a time; the next ones are fetched while these are worked on."""
    fetch = asyncio.create_task(cursor.fetchmany(rows_max))
    try:
        while batch := await fetch:
            fetch = asyncio.create_task(cursor.fetchmany(rows_max))
            yield batch
    finally:
        await _ended(fetch)


class OneBehind:
    """Runs what it is given beside its user, one after the other: `start` waits for the one before, leaving the block for the last.

    What one of them raises is raised where it is waited for.
    """

    def __init__(self) -> None:
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "OneBehind":
        return self

    async def start(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            if self._running is not None:
                await self._running
        except BaseException:
            work.close()
            raise
        self._running = asyncio.create_task(work)

    async def __aexit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if self._running is None:
            return
        if failed is None:
            await self._running
        else:
            await _ended(self._running)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Nothing is left behind that uses a connection; what it raised, its user heard or has no use for."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def together(*works: Coroutine[Any, Any, int]) -> int:
    """The sum of what all of them return; the first error of any ends the others, and is raised when they have ended."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return sum(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            await _ended(task)
