"""Tasks: list, load, stop, cancel and schedule them, and configure their queues, as in Lakekeeper's management API.

A project has no tasks of its own, because Icecore keeps what it records of tasks: it is part of the log. The routes of a project exist for
Lakekeeper's clients.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from aiohttp import web

from ...access.authorization import Resource
from ...commands.tasks.control_tasks import control_tasks as execute_control_tasks
from ...commands.tasks.control_tasks import no_such_task
from ...commands.warehouses.change_warehouse import change_warehouse as execute_change_warehouse
from ...domain.errors import BadRequest, InvalidQueueConfig, NoSuchTask
from ...domain.identifiers import uuid_or_none
from ...domain.proposal import time_text
from ...domain.task import PURGE, TASK_LOG_CLEANUP, TASK_STATUSES, TASKS_MAX, WAREHOUSE_QUEUES, Action, ControlTasks, check_queue_config
from ...domain.warehouse import SetTaskQueueConfig
from ...queries import list_tasks as query
from ...queries.list_tasks import Attempt, FoundTask, TaskFilter
from ...queries.load_warehouse import load_task_queue_config
from ..api_request import POSITION_HEADER, ApiRequest
from ..bodies import BodyReader
from ..paging import listing_digest, page_token, token_after
from ..path_parameters import decode_segment
from .warehouses import execute_on_warehouse, parse_warehouse_id

_ATTEMPTS = "numAttempts"
DETAILS_PARAMETERS = frozenset({_ATTEMPTS})
_ATTEMPTS_DEFAULT = 5
_ATTEMPTS_MAX = 100
_FILTERS_MAX = 100
_TOKEN, _SIZE = "page-token", "page-size"
_PROJECT_FILTERS = ("status", "queue-name", "created-after", "created-before", _TOKEN, _SIZE)
_OBJECT_ID = {"table": "table-id", "view": "view-id", "generic-table": "generic-table-id"}
_QUEUE_CONFIG, _HEARTBEAT = "queue-config", "max-seconds-since-last-heartbeat"
_QUEUE_NAME = "queue-name"
"""Part of the configuration in responses, so clients may send it."""


async def list_tasks(request: ApiRequest) -> web.Response:
    """A page of tasks, newest first."""
    warehouse_id = parse_warehouse_id(request)
    _, fields = await request.read_body_fields()
    fields.refuse_unknown((*_PROJECT_FILTERS, "entities"))
    wanted = _filter(fields, _objects(fields))
    listing = listing_digest("tasks", str(warehouse_id), *map(str, wanted))
    token = fields.text_or_none(_TOKEN)
    after = _position(fields, listing, token) if token else None
    page = await query.list_tasks(request.catalog.queries, request.context, warehouse_id, wanted, after, _size(request, fields))
    return await request.json(
        {
            "tasks": [written_task(request.context.project_id, each) for each in page.items],
            "next-page-token": None if page.next_key is None else page_token(listing, page.next_key),
        }
    )


async def get_task_details(request: ApiRequest) -> web.Response:
    """A task with the last recorded attempts that failed."""
    warehouse_id = parse_warehouse_id(request)
    found, attempts = await query.load_task(
        request.catalog.queries, request.context, warehouse_id, _task_id(request), _attempts_max(request)
    )
    return await request.json(written_task_details(request.context.project_id, found, attempts))


async def control_tasks(request: ApiRequest) -> web.Response:
    """204. All tasks, or none."""
    body, fields = await request.read_body_fields()
    return await execute_on_warehouse(request, execute_control_tasks, _control(fields), body)


async def get_task_queue_config(request: ApiRequest) -> web.Response:
    """The configuration of one of a warehouse's queues."""
    queue = _queue(request)
    check_queue_config(queue, None)
    seconds = await load_task_queue_config(request.catalog.queries, request.context, parse_warehouse_id(request), queue)
    return await request.json(written_queue_config(queue, seconds))


async def set_task_queue_config(request: ApiRequest) -> web.Response:
    """204."""
    body, fields = await request.read_body_fields()
    queue = _queue(request)
    command = SetTaskQueueConfig(queue, _requested_config(fields, queue))
    check_queue_config(queue, command.heartbeat_seconds_max)
    response = await execute_on_warehouse(request, execute_change_warehouse, command, body)
    return web.Response(status=204, headers={POSITION_HEADER: response.headers[POSITION_HEADER]})


async def list_project_tasks(request: ApiRequest) -> web.Response:
    """None."""
    _, fields = await request.read_body_fields()
    fields.refuse_unknown(_PROJECT_FILTERS)
    _filter(fields, None)
    _size(request, fields)
    token = fields.text_or_none(_TOKEN)
    if token:
        _position(fields, "", token)
    await _authorize_project(request)
    return await request.json({"tasks": [], "next-page-token": None})


async def get_project_task_details(request: ApiRequest) -> web.Response:
    """404: a project has no tasks."""
    task_id = _task_id(request)
    _attempts_max(request)
    await _authorize_project(request)
    raise no_such_task(task_id)


async def control_project_tasks(request: ApiRequest) -> web.Response:
    """404 for every task: a project has none."""
    _, fields = await request.read_body_fields()
    command = _control(fields)
    await _authorize_project(request)
    for task_id in command.task_ids:
        raise no_such_task(task_id)
    return web.Response(status=204)


async def get_task_log_cleanup_config(request: ApiRequest) -> web.Response:
    """Nothing can be configured, because nothing is cleaned up."""
    await _authorize_project(request)
    return await request.json(written_queue_config(TASK_LOG_CLEANUP, None))


async def set_task_log_cleanup_config(request: ApiRequest) -> web.Response:
    """204 for a configuration without settings. Raises InvalidQueueConfig for every setting, because none would have an effect."""
    _, fields = await request.read_body_fields()
    fields.refuse_unknown((_QUEUE_CONFIG, _HEARTBEAT))
    settings = {name for name, value in fields.object(_QUEUE_CONFIG).items() if value is not None and name != _QUEUE_NAME}
    if fields.integer_or_none(_HEARTBEAT) is not None:
        settings.add(_HEARTBEAT)
    if settings:
        raise InvalidQueueConfig(
            f"Invalid {min(settings)[:64]}: has no effect, because what is recorded of tasks is part of the log and is never cleaned up"
        )
    await _authorize_project(request)
    return web.Response(status=204)


async def _authorize_project(request: ApiRequest) -> None:
    await request.resolve_project()
    await request.authorize(Resource("project", request.context.project_id))


def _filter(fields: BodyReader, objects: list[tuple[str, UUID]] | None) -> TaskFilter:
    """Lakekeeper's filters. No task has a queue that does not exist."""
    queues, statuses = fields.texts_or_none(_QUEUE_NAME, _FILTERS_MAX), fields.texts_or_none("status", len(TASK_STATUSES))
    if statuses is not None and not {*statuses} <= {*TASK_STATUSES}:
        raise fields.invalid_error("status", f"must be one or more of {', '.join(TASK_STATUSES)}")
    return TaskFilter(
        WAREHOUSE_QUEUES if queues is None else [each for each in WAREHOUSE_QUEUES if each in queues],
        TASK_STATUSES if statuses is None else [each for each in TASK_STATUSES if each in statuses],
        objects,
        fields.time_or_none("created-after"),
        fields.time_or_none("created-before"),
    )


def _objects(fields: BodyReader) -> list[tuple[str, UUID]] | None:
    """Kinds and ids. Warehouses and generic tables have no tasks."""
    if not fields.has("entities"):
        return None
    objects: list[tuple[str, UUID]] = []
    for each in fields.each("entities", _FILTERS_MAX):
        kind = each.text("type")
        if kind == "warehouse":
            each.refuse_unknown(("type",))
            continue
        if kind not in _OBJECT_ID:
            raise each.invalid_error("type", f"must be one of {', '.join(_OBJECT_ID)}, warehouse")
        name = _OBJECT_ID[kind]
        each.refuse_unknown(("type", name))
        object_id = uuid_or_none(each.text(name))
        if object_id is None:
            raise each.invalid_error(name, "must be a UUID")
        objects.append((kind, object_id))
    return objects


def _control(fields: BodyReader) -> ControlTasks:
    fields.refuse_unknown(("action", "task-ids"))
    action = fields.fields("action")
    kind = action.text("action-type")
    scheduled_for: datetime | None = None
    match kind:
        case "run-at":
            # Lakekeeper's clients may spell it with an underscore.
            action.refuse_unknown(("action-type", "scheduled-for", "scheduled_for"))
            scheduled_for = action.time_or_none("scheduled-for") or action.time_or_none("scheduled_for")
            if scheduled_for is None:
                raise action.invalid_error("scheduled-for", "is required")
            done: Action = "run-at"
        case "stop" | "cancel" | "run-now":
            action.refuse_unknown(("action-type",))
            done = kind
        case _:
            raise action.invalid_error("action-type", "must be one of stop, cancel, run-now, run-at")
    if fields.texts_or_none("task-ids", TASKS_MAX) is None:
        raise fields.invalid_error("task-ids", "is required")
    task_ids = fields.ids("task-ids", TASKS_MAX)
    if len({*task_ids}) < len(task_ids):
        raise fields.invalid_error("task-ids", "names one task more than once")
    return ControlTasks(done, tuple(task_ids), None if scheduled_for is None else _milliseconds(action, scheduled_for))


def _milliseconds(fields: BodyReader, at: datetime) -> int:
    milliseconds = int(at.timestamp() * 1_000)
    if milliseconds < 0:
        raise fields.invalid_error("scheduled-for", "must not be before 1970")
    return milliseconds


def _requested_config(fields: BodyReader, queue: str) -> int | None:
    """The setting that a queue has, besides which its configuration is empty."""
    fields.refuse_unknown((_QUEUE_CONFIG, _HEARTBEAT))
    for name, value in fields.object(_QUEUE_CONFIG).items():
        if name != _QUEUE_NAME or value != queue:
            raise InvalidQueueConfig(f"Invalid queue-config: the queue {queue[:64]} has no setting {name[:64]!r} with this value")
    return fields.integer_or_none(_HEARTBEAT)


def written_queue_config(queue: str, seconds: int | None) -> dict[str, Any]:
    """Lakekeeper's GetTaskQueueConfigResponse. seconds -- None: the queue's default."""
    return {_QUEUE_CONFIG: {_QUEUE_NAME: queue}, _HEARTBEAT: seconds}


def _queue(request: ApiRequest) -> str:
    return decode_segment(request.segments["queue_name"], "queue name")


def _size(request: ApiRequest, fields: BodyReader) -> int:
    size, limits = fields.integer_or_none(_SIZE), request.catalog.limits
    if size is not None and size < 1:
        raise fields.invalid_error(_SIZE, "must be a positive whole number")
    return limits.page_size_default if size is None else min(size, limits.page_size_max)


def _position(fields: BodyReader, listing: str, token: str) -> int:
    after = token_after(listing, token, "field 'page-token'")
    # A client may have forged it.
    if not (after.isascii() and after.isdigit() and len(after) <= 18):
        raise fields.invalid_error(_TOKEN, "not a token of this catalog")
    return int(after)


def _task_id(request: ApiRequest) -> UUID:
    text = decode_segment(request.segments["task_id"], "task id")
    task_id = uuid_or_none(text)
    if task_id is None:
        raise NoSuchTask(f"Task does not exist: {text[:64]} (must be an id; POST /management/v1/warehouse/<id>/task/list lists ids)")
    return task_id


def _attempts_max(request: ApiRequest) -> int:
    text = request.query.get(_ATTEMPTS)
    if text is None:
        return _ATTEMPTS_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise BadRequest(f"Invalid parameter '{_ATTEMPTS}': must be a whole number up to 65535")
    return min(int(text), _ATTEMPTS_MAX)


def written_task(project_id: UUID, found: FoundTask) -> dict[str, Any]:
    """Lakekeeper's WarehouseTaskInfo."""
    task, run = found.task, found.run
    return {
        "task-id": task.task_id,
        "project-id": str(project_id),
        "warehouse-id": task.warehouse_id,
        "queue-name": task.queue,
        "entity": {"type": task.kind, _OBJECT_ID.get(task.kind, f"{task.kind}-id"): task.object_id},
        "entity-name": task.path,
        "status": found.status,
        "scheduled-for": found.scheduled_for,
        "picked-up-at": found.started_at,
        "attempt": found.attempt,
        "last-heartbeat-at": None if run is None else run.heartbeat_at,
        "progress": 1.0 if found.status == "SUCCESS" else 0.0,
        "parent-task-id": task.parent_task_id,
        "created-at": task.created_at,
        "updated-at": task.ended_at or task.last_event_at,
    }


def written_task_details(project_id: UUID, found: FoundTask, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Lakekeeper's GetTaskDetailsResponse. attempts -- those that failed."""
    return {
        **written_task(project_id, found),
        "task-data": {"position": found.task.from_position},
        "execution-details": {"files-may-be-deleted": found.task.begun} if found.task.queue == PURGE else {},
        "message": None,
        "attempts": [_attempt(each) for each in attempts],
    }


def _attempt(each: Attempt) -> dict[str, Any]:
    """Lakekeeper's TaskAttempt."""
    started_at = time_text(each.started_at_ms)
    return {
        "attempt": each.attempt,
        "status": "FAILED",
        "scheduled-for": started_at,
        "started-at": started_at,
        "duration": f"PT{max(each.failed_at_ms - each.started_at_ms, 0) / 1_000:.3f}S",
        "message": each.error,
        "created-at": started_at,
        "progress": 0.0,
        "execution-details": None,
    }
