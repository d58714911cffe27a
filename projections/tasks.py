"""Tasks: pages of them, their own streams, and the purge that is to be done next."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.task import TaskOf, TaskState
from .names import levels, names_above

_SQL = named_sql("icecore.projections", "tasks.sql")
_AFTER_ALL = 2**63 - 1


class Task(NamedTuple):
    """A task with the newest version of its own stream.

    status -- `scheduled` until it has ended. created_at, ended_at -- of the events that began and ended it. next_attempt_ms -- if it was
    scheduled or an attempt failed. begun, last_failed_attempt -- as in TaskState. started_at_ms -- of the attempt in the newest event,
    if it is about one. last_event_at -- of that event. path -- the name of the object with its namespace, outermost first.
    """

    task_id: UUID
    warehouse_id: UUID
    queue: str
    kind: str
    object_id: UUID
    namespace_id: UUID
    name: str
    parent_task_id: UUID | None
    scheduled_for_ms: int | None
    status: str
    from_position: int
    created_at: datetime
    ended_at: datetime | None
    next_attempt_ms: int | None
    begun: bool
    last_failed_attempt: int
    started_at_ms: int | None
    last_event_at: datetime | None
    path: tuple[str, ...] = ()


class Attempt(NamedTuple):
    """A recorded attempt that failed."""

    attempt: int
    started_at_ms: int
    failed_at_ms: int
    error: str


class NextPurge(NamedTuple):
    """A purge to be done. last_failed_attempt -- 0: none is recorded."""

    table_id: UUID
    warehouse_id: UUID
    task_id: UUID
    last_failed_attempt: int


class TaskControl(NamedTuple):
    """A request to control a task: `scheduled` or `stopped`."""

    position: int
    task_id: UUID
    event: str


class Selection(NamedTuple):
    """Which tasks: of these queues and states, and of these objects (kind and id) unless that is None. Besides, those of the objects with
    the ids in `also`; never those in `without`. after, before -- positions, exclusive.
    """

    queues: Sequence[str]
    statuses: Sequence[str]
    objects: Sequence[tuple[str, UUID]] | None = None
    also: Sequence[UUID] = ()
    without: Sequence[UUID] = ()
    after: int = 0
    before: int = _AFTER_ALL


async def read_page(connection: Connection, warehouse_id: UUID, selection: Selection, size: int) -> list[Task]:
    """At most `size` tasks of a warehouse, newest first."""
    of_objects = selection.objects is not None
    parameters = {
        "warehouse_id": warehouse_id,
        "queues": [] if of_objects else list(selection.queues),
        "statuses": list(selection.statuses),
        "kinds": [kind for kind, _ in selection.objects or ()],
        "objects": [object_id for _, object_id in selection.objects or ()],
        "object_queues": list(selection.queues),
        "object_statuses": list(selection.statuses),
        "ids": list(selection.also),
        "without": list(selection.without),
        "after": selection.after,
        "before": selection.before,
        "size": size,
    }
    found = [Task(*row) for row in await (await connection.execute(_SQL["page"], parameters, binary=True)).fetchall()]
    above = await names_above(connection, list({each.namespace_id for each in found})) if found else {}
    return [each._replace(path=(*levels(above, each.namespace_id), each.name)) for each in found]


async def read_task(connection: Connection, warehouse_id: UUID, task_id: UUID) -> Task | None:
    """None if the warehouse has no such task."""
    found = await read_page(connection, warehouse_id, Selection((), (), also=[task_id]), 1)
    return found[0] if found else None


async def find(connection: Connection, warehouse_id: UUID, task_ids: Sequence[UUID]) -> dict[UUID, TaskOf]:
    """Those that the warehouse has, by their ids."""
    parameters = {"warehouse_id": warehouse_id, "ids": list(task_ids)}
    rows = await (await connection.execute(_SQL["of_warehouse"], parameters, binary=True)).fetchall()
    return {row[0]: TaskOf(*row) for row in rows}


async def unfinished_of(connection: Connection, object_id: UUID) -> TaskOf | None:
    """The task that an object has now."""
    row = await (await connection.execute(_SQL["unfinished_of"], {"object_id": object_id}, binary=True)).fetchone()
    return None if row is None else TaskOf(*row)


async def read_states(connection: Connection, task_ids: Sequence[UUID]) -> dict[UUID, tuple[TaskState, int]]:
    """The newest states of tasks' own streams, each with the generation it was read from; nothing for those without an event."""
    rows = await (await connection.execute(_SQL["states"], {"ids": list(task_ids)}, binary=True)).fetchall()
    return {row[0]: (TaskState(*row[:-1]), row[-1]) for row in rows}


async def read_attempts(connection: Connection, task_id: UUID, limit: int) -> list[Attempt]:
    """The last recorded attempts that failed, newest first."""
    cursor = await connection.execute(_SQL["attempts"], {"task_id": task_id, "limit": limit}, binary=True)
    return [Attempt(*row) for row in await cursor.fetchall()]


async def read_controls(connection: Connection, after: int) -> list[TaskControl]:
    """The control requests after a position, in the order of the log."""
    return [TaskControl(*row) for row in await (await connection.execute(_SQL["controls"], {"after": after}, binary=True)).fetchall()]


async def next_purge(connection: Connection, without: Sequence[UUID], without_warehouses: Sequence[UUID], now_ms: int) -> NextPurge | None:
    """The purge that has waited longest, except the tasks in `without`, those of these warehouses, and those scheduled for later."""
    parameters = {"without": list(without), "without_warehouses": list(without_warehouses), "now_ms": now_ms}
    row = await (await connection.execute(_SQL["next_purge"], parameters, binary=True)).fetchone()
    return None if row is None else NextPurge(*row)
