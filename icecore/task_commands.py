"""Tasks at the command line. The commands use the database directly."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from .api.management.tasks import written_queue_config, written_task, written_task_details
from .commands.tasks.control_tasks import control_tasks
from .commands.warehouses.change_warehouse import change_warehouse
from .deletion_commands import of_the_present
from .demo_warehouse import operator_context
from .domain.task import (
    HEARTBEAT_SECONDS_DEFAULT,
    PURGE,
    TASK_STATUSES,
    TASKS_MAX,
    WAREHOUSE_QUEUES,
    Action,
    ControlTasks,
    TaskStatus,
    check_queue_config,
)
from .domain.warehouse import SetTaskQueueConfig
from .durations import duration_text
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, require_schema, require_writable
from .open_warehouse import open_warehouse
from .output import cell, print_table, printable, shown_time
from .queries import list_tasks as query
from .queries.list_tasks import Attempt, FoundTask, TaskFilter
from .queries.load_warehouse import load_task_queue_config
from .settings import Settings

_PAGE = 1_000
_ATTEMPTS_SHOWN_MAX = 100


def list_tasks(
    settings: Settings,
    console: Console,
    reference: str,
    *,
    statuses: Sequence[TaskStatus],
    queues: Sequence[str],
    limit: int,
    as_json: bool,
) -> ExitCode:
    """Prints the newest tasks of a warehouse, newest first. statuses, queues -- all, if there is none."""
    wanted = TaskFilter(queues or WAREHOUSE_QUEUES, statuses or TASK_STATUSES)

    async def run(opened: Settings) -> tuple[UUID, list[FoundTask]]:
        await require_schema(opened)
        found: list[FoundTask] = []
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context, after = operator_context("listTasks", warehouse.project_id), None
            while len(found) < limit:
                size = min(_PAGE, limit - len(found))
                page = await query.list_tasks(catalog.queries, context, warehouse.id, wanted, after, size)
                found += page.items
                if page.next_key is None:
                    break
                after = int(page.next_key)
        return warehouse.project_id, found

    with opened_database(settings) as opened:
        project_id, found = uvloop.run(run(opened))
    if as_json:
        written = [written_task(project_id, each) for each in found]
        console.out(orjson.dumps(written, option=orjson.OPT_UTC_Z).decode(), highlight=False)
        return ExitCode.OK
    if not found:
        console.out("no tasks", highlight=False)
        return ExitCode.OK
    table = Table("id", "queue", "status", "object", "attempt", "scheduled for", box=None, pad_edge=False)
    for each in found:
        name = cell(".".join(each.task.path))
        scheduled = shown_time(each.scheduled_for)
        table.add_row(str(each.task.task_id), each.task.queue, each.status, name, str(each.attempt), scheduled)
    print_table(console, table)
    return ExitCode.OK


def print_task(settings: Settings, console: Console, reference: str, task_id: UUID, *, as_json: bool) -> ExitCode:
    """Prints a task with its last recorded attempts that failed."""

    async def run(opened: Settings) -> tuple[UUID, FoundTask, list[Attempt]]:
        await require_schema(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context = operator_context("getTaskDetails", warehouse.project_id)
            found, attempts = await query.load_task(catalog.queries, context, warehouse.id, task_id, _ATTEMPTS_SHOWN_MAX)
        return warehouse.project_id, found, attempts

    with opened_database(settings) as opened:
        project_id, found, attempts = uvloop.run(run(opened))
    if as_json:
        written = written_task_details(project_id, found, attempts)
        console.out(orjson.dumps(written, option=orjson.OPT_UTC_Z).decode(), highlight=False)
        return ExitCode.OK
    for name, value in _lines(found).items():
        console.out(f"{name}: {'' if value is None else printable(str(value))}", highlight=False)
    for each in attempts:
        console.out(f"attempt {each.attempt} failed: {printable(each.error)}", highlight=False)
    return ExitCode.OK


def control(settings: Settings, reference: str, action: Action, ids: Sequence[UUID], at: datetime | None = None) -> ExitCode:
    """Stops, cancels or schedules tasks, all or none. at -- of `run-at`."""
    if not 0 < len(ids) <= TASKS_MAX or len(set(ids)) < len(ids):
        raise CommandFailed(ExitCode.USAGE, f"give at most {TASKS_MAX} ids, each once")
    command = ControlTasks(action, tuple(ids), None if at is None else int(at.timestamp() * 1_000))

    async def run(opened: Settings) -> None:
        await require_writable(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            await control_tasks(catalog.commands, operator_context("controlTasks", warehouse.project_id), warehouse, command)

    with opened_database(settings) as opened:
        uvloop.run(run(opened))
    return ExitCode.OK


def queue_config(
    settings: Settings, console: Console, reference: str, queue: str, command: SetTaskQueueConfig | None, *, as_json: bool
) -> ExitCode:
    """Configures a queue of a warehouse as the management API does, and prints its configuration. command -- None: only print it."""
    check_queue_config(queue, None if command is None else command.heartbeat_seconds_max)

    async def run(opened: Settings) -> int | None:
        await (require_schema(opened) if command is None else require_writable(opened))
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            if command is not None:
                context = operator_context("setTaskQueueConfig", warehouse.project_id)
                await change_warehouse(catalog.commands, context, of_the_present(warehouse), command)
            context = operator_context("getTaskQueueConfig", warehouse.project_id)
            return await load_task_queue_config(catalog.queries, context, warehouse.id, queue)

    with opened_database(settings) as opened:
        seconds = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps(written_queue_config(queue, seconds)).decode(), highlight=False)
    elif queue == PURGE:
        shown = f"{duration_text(HEARTBEAT_SECONDS_DEFAULT)} (default)" if seconds is None else duration_text(seconds)
        console.out(f"{queue}  an attempt without progress ends after {shown}", highlight=False)
    else:
        console.out(f"{queue}  no settings", highlight=False)
    return ExitCode.OK


def _lines(found: FoundTask) -> dict[str, Any]:
    task = found.task
    return {
        "task-id": task.task_id,
        "queue-name": task.queue,
        "status": found.status,
        "type": task.kind,
        "id": task.object_id,
        "name": ".".join(task.path),
        "attempt": found.attempt,
        "scheduled-for": shown_time(found.scheduled_for),
        "created-at": shown_time(task.created_at),
        "parent-task-id": task.parent_task_id,
    }
