"""Waits until the log has reached a position, or a table a snapshot."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from ...access.authorization import Resource
from ...domain.errors import BadRequest
from ...queries.snapshot_ancestry import SnapshotAncestry, load_snapshot_ancestry
from ..api_request import PROJECT_PARAMETER, SEPARATOR, ApiRequest
from ..path_parameters import normalize_separator, parse_queried_tabular
from .event_source import EventSource
from .parameters import parse_position, parse_wait, warehouse_now

WAIT_SECONDS_DEFAULT = 30.0
_SNAPSHOT_ID_MAX = 2**63 - 1
_SNAPSHOT_ID_DIGITS_MAX = 19
_TABLE_PARAMETERS = ("warehouse", "namespace", "table", "snapshot-id")
PARAMETERS = frozenset({*_TABLE_PARAMETERS, "position", "wait-seconds", PROJECT_PARAMETER})


async def wait(request: ApiRequest) -> web.StreamResponse:
    """Responds with `reached`: true as soon as it is reached, false at the end of the time or when the server stops."""
    query, source = request.query, request.catalog.events
    seconds = parse_wait(query, WAIT_SECONDS_DEFAULT)
    named = [name for name in _TABLE_PARAMETERS if query.get(name)]
    if bool(query.get("position")) == bool(named):
        raise BadRequest("Invalid query: give either position, or warehouse, namespace, table and snapshot-id")
    if not named:
        await request.authorize(Resource("project", request.context.project_id))
        return await request.json(await _until_position(source, parse_position(query["position"], "parameter 'position'"), seconds))
    missing = [name for name in _TABLE_PARAMETERS[1:] if name not in named]
    if missing:
        raise BadRequest(f"Invalid parameter '{missing[0]}': is required to wait for a snapshot")
    return await request.json(await _until_snapshot(request, source, query, seconds))


async def _until_position(source: EventSource, position: int, seconds: float) -> dict[str, Any]:
    head = await source.head()
    if head < position and seconds > 0:
        with source.subscription():
            await source.wait_for_event(position - 1, seconds)
        head = await source.head()
    return {"reached": head >= position, "position": head}


async def _until_snapshot(request: ApiRequest, source: EventSource, query: Mapping[str, str], seconds: float) -> dict[str, Any]:
    warehouse = await warehouse_now(request, query["warehouse"], "warehouse") if query.get("warehouse") else await request.warehouse()
    separator = request.app[SEPARATOR]
    namespace = query["namespace"] if separator is None else normalize_separator(query["namespace"], separator)
    table = parse_queried_tabular(namespace, query["table"], "table name")
    snapshot_id = _snapshot_id(query["snapshot-id"])
    ancestry = await load_snapshot_ancestry(request.catalog.queries, request.context, warehouse, table, snapshot_id)
    if not ancestry.reached and seconds > 0:
        with source.subscription():
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            while not ancestry.reached and not source.is_stopping:
                left = end - loop.time()
                if left <= 0 or not await source.wait_for_event(ancestry.position, left):
                    break
                ancestry = await load_snapshot_ancestry(request.catalog.queries, request.context, warehouse, table, snapshot_id, ancestry)
    return _ancestry_json(ancestry)


def _ancestry_json(ancestry: SnapshotAncestry) -> dict[str, Any]:
    return {"reached": ancestry.reached, "position": ancestry.position, "current-snapshot-id": ancestry.current_snapshot_id}


def _snapshot_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _SNAPSHOT_ID_DIGITS_MAX and int(text) <= _SNAPSHOT_ID_MAX):
        raise BadRequest("Invalid parameter 'snapshot-id': must be a whole number of 63 bits")
    return int(text)
