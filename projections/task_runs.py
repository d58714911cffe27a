"""The attempts that run now, as their leader reports them, not as the log has them: their heartbeats are too many for it.

They are in an unlogged table, which writes no WAL and is empty after a crash. An attempt runs only while its leader holds the advisory
lock, so what an ended leader left behind does not count.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..database.advisory_locks import AdvisoryLock
from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "task_runs.sql")


class Run(NamedTuple):
    """An attempt that runs. stopping -- whether it is to end."""

    attempt: int
    started_at: datetime
    heartbeat_at: datetime
    stopping: bool


async def begin(leading: Connection, task_id: UUID, attempt: int) -> None:
    """An attempt begins, on the connection that holds the lock."""
    await leading.execute(_SQL["begin"], {"task_id": task_id, "attempt": attempt})


async def beat(leading: Connection, task_ids: Sequence[UUID]) -> None:
    """The attempts of these tasks have made progress."""
    await leading.execute(_SQL["beat"], {"ids": list(task_ids)})


async def end(leading: Connection, task_id: UUID) -> None:
    """The attempt has ended."""
    await leading.execute(_SQL["end"], {"task_id": task_id})


async def end_all(leading: Connection) -> None:
    """Removes what an earlier leader left behind."""
    await leading.execute(_SQL["end_all"])


async def running(connection: Connection) -> dict[UUID, Run]:
    """The attempts that run, by the ids of their tasks. There are a few at most."""
    rows = await (await connection.execute(_SQL["all"], {"lock": AdvisoryLock.PURGE_JOB}, binary=True)).fetchall()
    return {row[0]: Run(*row[1:]) for row in rows}
