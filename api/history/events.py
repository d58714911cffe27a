"""Events over HTTP: pages, long polls, and one event by its id."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from aiohttp import web

from ...access.authorization import Resource
from ...domain.errors import BadRequest, NotFound
from ...domain.identifiers import uuid_or_none
from ..api_request import POSITION_HEADER, PROJECT_PARAMETER, ApiRequest
from ..paging import listing_digest, page_token, parse_size, token_after
from ..path_parameters import decode_segment
from .event_source import EventReader, EventSource, PublishedEvents, refuse_beyond_end
from .event_stream import EVENT_STREAM, stream_events
from .parameters import parse_dialect, parse_names, parse_position, parse_wait, parse_warehouses

CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENTS_BATCH = "application/cloudevents-batch+json"
LIST_PARAMETERS = frozenset(
    {"after", "to", "types", "warehouses", "namespaces", "dialect", "page-size", "page-token", "wait-seconds", PROJECT_PARAMETER}
)
_NEVER_CACHED = {"Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class EventsRequest:
    """The request of a client: the events after one position, up to `to`.

    digest -- of the filter, which binds page tokens to it.
    """

    reader: EventReader
    after: int
    to: int | None
    digest: str


async def list_events(request: ApiRequest) -> web.StreamResponse:
    """A page of events, or, if the client accepts an event stream, a stream of all past and future events."""
    source = request.catalog.events
    if _accepts(request.http_request, EVENT_STREAM):
        requested = await _parse_request(request, source, request.http_request.headers.get("Last-Event-ID"))
        await refuse_beyond_end(source, requested.after)
        return await stream_events(request, source, requested.reader, requested.after, requested.to)
    requested = await _parse_request(request, source, None)
    size = request.query.get("page-size")
    limits = request.catalog.limits
    events_max = limits.page_size_default if not size else parse_size(size, limits, "page-size")
    wait_seconds = parse_wait(request.query, 0.0)
    if requested.to is not None and wait_seconds == 0:
        await refuse_beyond_end(source, requested.to)
    async with asyncio.timeout(limits.read_seconds_max):
        page = await requested.reader.page(requested.after, to=requested.to, events_max=events_max, reserve_memory=request.reserve_memory)
    if page.at_end and not page.events:
        # A position that the log has not reached is from another log, and the client would miss events.
        await refuse_beyond_end(source, page.position)
        if wait_seconds > 0 and page.position != requested.to:
            with source.subscription():
                page = await _wait(request, source, requested, page, events_max, wait_seconds)
    return await _page_response(request, requested, page)


async def load_event(request: ApiRequest) -> web.StreamResponse:
    """One event with all its data."""
    event_id = uuid_or_none(decode_segment(request.segments["event_id"], "event id"))
    if event_id is None:
        raise BadRequest("Invalid event id: must be a UUID of 36 characters")
    await request.authorize(Resource("project", request.context.project_id))
    body = await request.catalog.events.load_event(request.context.project_id, event_id, parse_dialect(request.query))
    if body is None:
        raise NotFound(f"Event does not exist: {event_id}")
    response = await request.json_bytes(body)
    response.headers["Content-Type"] = CLOUDEVENT
    return response


async def _parse_request(request: ApiRequest, source: EventSource, last_event_id: str | None) -> EventsRequest:
    query = request.query
    types, namespaces, dialect = parse_names(query, "types"), parse_names(query, "namespaces"), parse_dialect(query)
    warehouse_ids = await parse_warehouses(request)
    # A request without a filter reads the whole log of the project.
    project_id = request.context.project_id
    await request.authorize(
        *(Resource("warehouse", each) for each in warehouse_ids) if warehouse_ids else (Resource("project", project_id),)
    )
    reader = source.reader(project_id, types=types, warehouse_ids=warehouse_ids, namespaces=namespaces, dialect=dialect)
    chosen = (*types, "", *namespaces, "", *sorted(map(str, warehouse_ids)))
    digest = listing_digest("events", str(project_id), dialect, *chosen, query.get("to", ""))
    to = parse_position(query["to"], "parameter 'to'") if query.get("to") else None
    return EventsRequest(reader, await _after(source, query, digest, last_event_id), to, digest)


async def _after(source: EventSource, query: Mapping[str, str], digest: str, last_event_id: str | None) -> int:
    """The position to continue from. Last-Event-ID takes precedence over the query."""
    if last_event_id:
        return parse_position(last_event_id, "header 'Last-Event-ID'")
    token, after = query.get("page-token"), query.get("after")
    if token:
        if after:
            raise BadRequest("Invalid parameter 'after': cannot be combined with a page token")
        return parse_position(token_after(digest, token, "parameter 'page-token'"), "parameter 'page-token'")
    if after == "now":
        return await source.head()
    return parse_position(after, "parameter 'after'") if after else 0


async def _wait(
    request: ApiRequest, source: EventSource, requested: EventsRequest, page: PublishedEvents, events_max: int, wait_seconds: float
) -> PublishedEvents:
    """Waits for the first page with an event. Returns an empty page at the end of the time or when the server stops."""
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_seconds
    while not page.events and page.position != requested.to and not source.is_stopping:
        left = end - loop.time()
        if left <= 0 or not await source.wait_for_event(page.position, left):
            break
        page = await requested.reader.page(page.position, to=requested.to, events_max=events_max, reserve_memory=request.reserve_memory)
    return page


async def _page_response(request: ApiRequest, requested: EventsRequest, page: PublishedEvents) -> web.StreamResponse:
    events = b",".join(event.body for event in page.events)
    headers = {POSITION_HEADER: str(page.position), **_NEVER_CACHED}
    if _accepts(request.http_request, CLOUDEVENTS_BATCH):
        response = await request.json_bytes(b"[" + events + b"]", headers=headers)
        response.headers["Content-Type"] = CLOUDEVENTS_BATCH
        return response
    token = None if page.at_end else page_token(requested.digest, str(page.position))
    rest = orjson.dumps({"position": page.position, "next-page-token": token})
    return await request.json_bytes(b'{"events":[' + events + b"]," + rest[1:], headers=headers)


def _accepts(request: web.Request, media_type: str) -> bool:
    """Whether the Accept header names this type. `*/*` does not count."""
    ranges = (each.partition(";") for each in ",".join(request.headers.getall("Accept", ())).lower().split(","))
    return any(kind.strip() == media_type and weight.replace(" ", "") not in ("q=0", "q=0.0") for kind, _, weight in ranges)
