"""The commands `icecore task …`."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from cyclopts import App, Parameter

from .command_settings import Flag, Json, WarehouseName, WarehouseOptions
from .domain.task import Action, TaskStatus
from .exit_codes import CommandFailed, ExitCode
from .output import Output

task = App(name="task", help="List the expiries and purges of a warehouse; stop, cancel or schedule purges; configure their queue.")

Queue = Literal["tabular_expiration", "tabular_purge"]
_Ids = Annotated[list[UUID], Parameter(negative=(), help="Ids of the tasks. `icecore task list` shows them.")]


@task.command(name="list")
def list_tasks(
    warehouse: WarehouseName,
    /,
    *,
    status: Annotated[list[TaskStatus] | None, Parameter(negative=())] = None,
    queue: Annotated[list[Queue] | None, Parameter(negative=())] = None,
    limit: int = 1_000,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """List the tasks of a warehouse, newest first.

    Parameters
    ----------
    status
        Only tasks with this status. May be repeated. No task has the status FAILED, because failed attempts are retried.
    queue
        Only tasks of this queue: tabular_expiration or tabular_purge. May be repeated.
    limit
        Print at most this number of tasks.
    """
    from . import task_commands

    if limit < 1:
        raise CommandFailed(ExitCode.USAGE, "--limit must be a positive whole number")
    return task_commands.list_tasks(
        options.settings(), Output(), options.in_project(warehouse), statuses=status or (), queues=queue or (), limit=limit, as_json=as_json
    )


@task.command(name="get")
def get_task(
    warehouse: WarehouseName, task_id: UUID, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """Show a task and its failed attempts.

    Parameters
    ----------
    task_id
        Id of the task. `icecore task list` shows it.
    """
    from . import task_commands

    return task_commands.print_task(options.settings(), Output(), options.in_project(warehouse), task_id, as_json=as_json)


@task.command(name="stop")
def stop_tasks(warehouse: WarehouseName, ids: _Ids, /, *, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Stop the running attempts of purges, all or none. They are tried again later."""
    return _control(options, warehouse, "stop", ids)


@task.command(name="cancel")
def cancel_tasks(warehouse: WarehouseName, ids: _Ids, /, *, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Cancel purges that have deleted no file yet, all or none. The files stay."""
    return _control(options, warehouse, "cancel", ids)


@task.command(name="run-now")
def run_tasks_now(warehouse: WarehouseName, ids: _Ids, /, *, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Start the next attempt of purges at once, all or none."""
    return _control(options, warehouse, "run-now", ids)


@task.command(name="run-at")
def run_tasks_at(
    warehouse: WarehouseName,
    at: Annotated[datetime, Parameter(help="The time with its zone, such as 2026-12-24T18:00:00Z.")],
    ids: _Ids,
    /,
    *,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Delay the next attempt of purges until a given time, all or none."""
    if at.tzinfo is None:
        raise CommandFailed(ExitCode.USAGE, "AT must have a zone, such as 2026-12-24T18:00:00Z")
    return _control(options, warehouse, "run-at", ids, at)


@task.command(name="queue-config")
def configure_queue(
    warehouse: WarehouseName,
    queue: Queue,
    /,
    *,
    heartbeat: str | None = None,
    reset: Flag = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Configure a queue of a warehouse, then print its configuration. Without changes, only print it.

    Parameters
    ----------
    queue
        The queue: tabular_purge, or tabular_expiration, which has no settings.
    heartbeat
        How long an attempt may make no progress before it is ended and tried again: a whole number with d, h, m or s, from 1m to 7d.
    reset
        Use the default again.
    """
    from . import task_commands
    from .domain.warehouse import SetTaskQueueConfig
    from .durations import seconds_argument

    if reset and heartbeat is not None:
        raise CommandFailed(ExitCode.USAGE, "give either --heartbeat or --reset")
    seconds = None if heartbeat is None else seconds_argument(heartbeat, "--heartbeat")
    command = SetTaskQueueConfig(queue, seconds) if reset or seconds is not None else None
    return task_commands.queue_config(options.settings(), Output(), options.in_project(warehouse), queue, command, as_json=as_json)


def _control(options: WarehouseOptions, warehouse: str, action: Action, ids: list[UUID], at: datetime | None = None) -> ExitCode:
    from . import task_commands

    return task_commands.control(options.settings(), options.in_project(warehouse), action, ids, at)
