"""Events as in the open proposal for the Iceberg REST specification (apache/iceberg#12584). Experimental."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import orjson
from aiohttp import web

from ...access.authorization import Resource
from ...access.warehouse import Warehouse
from ...domain.errors import BadRequest
from ...domain.identifiers import NAME_CODE_POINTS_MAX, NAMESPACE_LEVELS_MAX
from ..api_request import ApiRequest
from ..bodies import BodyReader
from ..history.event_source import EventReader, EventSource, refuse_beyond_end
from ..paging import listing_digest, page_token, token_after

FILTER_VALUES_MAX = 100
_TIMESTAMP_MS_MAX = 253_402_300_799_999
"""The end of the year 9999."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def query_events(request: ApiRequest) -> web.Response:
    """A page of a warehouse's events, oldest first, and the token of the next page, also at the end of the log."""
    _, fields = await request.read_body_fields()
    warehouse, source = await request.warehouse(), request.catalog.events
    await request.authorize(Resource("warehouse", warehouse.id))
    reader = _reader(source, warehouse, fields)
    listing = listing_digest("queryEvents", warehouse.prefix)
    after = await _after(source, fields, listing)
    page = await reader.page(after, to=warehouse.as_of, events_max=_page_size(request, fields), reserve_memory=request.reserve_memory)
    if page.at_end and not page.events:
        await refuse_beyond_end(source, page.position)
    # If nothing was read, the result is complete up to `after`.
    processed_at = page.recorded_at or await source.recorded_at(page.position) or _EPOCH
    rest = {
        "continuation-token": page_token(listing, str(page.position)),
        "highest-processed-timestamp-ms": (processed_at - _EPOCH) // timedelta(milliseconds=1),
    }
    events = b",".join(event.body for event in page.events)
    return await request.json_bytes(b'{"events":[' + events + b"]," + orjson.dumps(rest)[1:])


def _reader(source: EventSource, warehouse: Warehouse, fields: BodyReader) -> EventReader:
    if fields.object_or_none("custom-filters"):
        raise fields.invalid_error("custom-filters", "must be empty: this catalog supports no custom filters")
    return source.iceberg_reader(
        warehouse.project_id,
        warehouse.id,
        operation_types=fields.texts("operation-types", FILTER_VALUES_MAX),
        object_names=_names(fields),
        object_uuids=fields.texts("catalog-objects-by-uuid", FILTER_VALUES_MAX),
        object_types=fields.texts("object-types", FILTER_VALUES_MAX),
        exact_names=warehouse.exact_names,
    )


def _names(fields: BodyReader) -> Sequence[Sequence[str]]:
    """Names as lists of levels, outermost first."""
    paths = fields.text_lists("catalog-objects-by-name", FILTER_VALUES_MAX)
    if not all(paths):
        raise fields.invalid_error("catalog-objects-by-name", "must be a list of non-empty lists of names")
    if any(len(path) > NAMESPACE_LEVELS_MAX + 1 or any(len(name) > NAME_CODE_POINTS_MAX for name in path) for path in paths):
        raise fields.invalid_error(
            "catalog-objects-by-name", f"a path may have at most {NAMESPACE_LEVELS_MAX + 1} names of {NAME_CODE_POINTS_MAX} characters"
        )
    return paths


def _page_size(request: ApiRequest, fields: BodyReader) -> int:
    size = fields.integer_or_none("page-size")
    if size is None:
        return request.catalog.limits.page_size_default
    if size < 1:
        raise fields.invalid_error("page-size", "must be at least 1")
    return min(size, request.catalog.limits.page_size_max)


async def _after(source: EventSource, fields: BodyReader, listing: str) -> int:
    """The position to continue from. `since-timestamp-ms` counts only without a token."""
    token = fields.text_or_none("continuation-token")
    since_ms = fields.integer_or_none("since-timestamp-ms")
    if since_ms is not None and not 0 <= since_ms <= _TIMESTAMP_MS_MAX:
        raise fields.invalid_error("since-timestamp-ms", f"must be from 0 to {_TIMESTAMP_MS_MAX}")
    if token:
        after = token_after(listing, token, "field 'continuation-token'")
        if not after.isascii() or not after.isdigit():
            raise BadRequest("Invalid field 'continuation-token': not a token of this catalog")
        return int(after)
    if since_ms is None:
        return 0
    position = await source.position_before(_EPOCH + timedelta(milliseconds=since_ms))
    if position is None:
        raise fields.invalid_error("since-timestamp-ms", "is beyond the end of the log: it is in the future")
    return position
