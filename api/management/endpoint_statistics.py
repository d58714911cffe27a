"""The calls of each operation by the hour, as in Lakekeeper's management API (`/management/v1/endpoint-statistics`)."""

import re
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from uuid import UUID

import orjson
from aiohttp import web

from ...domain.errors import BadRequest
from ...domain.identifiers import uuid_or_none
from ...queries.load_endpoint_statistics import NO_WAREHOUSE, EndpointCalls, load_endpoint_statistics
from ..api_request import ApiRequest
from ..bodies import BodyReader
from ..paging import listing_digest, page_token, token_after

_HOUR = timedelta(hours=1)
_INTERVAL_DEFAULT = timedelta(days=1)
_INTERVAL_MAX = timedelta(days=92)
"""A little more than statistics are kept."""
_STATUS_CODES_MAX = 100
# ISO 8601, without months and years, whose lengths differ.
_DURATION = re.compile(r"P(?=.)(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?=.)(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?")
_PAGE_FIELD = "field 'range-specifier.token'"


async def get_endpoint_statistics(request: ApiRequest) -> web.Response:
    """Lakekeeper's EndpointStatisticsResponse: the newest hour first. The tokens are those of the windows before and after."""
    _, fields = await request.read_body_fields()
    fields.refuse_unknown(("warehouse", "status-codes", "range-specifier"))
    warehouse_id = _warehouse_id(fields.fields("warehouse"))
    status_codes = fields.integers_or_none("status-codes", _STATUS_CODES_MAX)
    if status_codes is not None and not all(100 <= each <= 599 for each in status_codes):
        raise fields.invalid_error("status-codes", "must be HTTP status codes")
    listing = listing_digest("endpoint-statistics", str(request.context.project_id), str(warehouse_id), str(status_codes))
    end, interval = _window(fields, listing)
    begin = _moved(end, -interval)
    calls = await load_endpoint_statistics(
        request.catalog.queries,
        request.context,
        after=_hour_of(begin),
        upto=_hour_of(end),
        warehouse_id=warehouse_id,
        status_codes=status_codes,
    )
    hours = [(hour, [_written(each) for each in of_hour]) for hour, of_hour in groupby(calls, attrgetter("hour"))]
    return await request.json(
        {
            # The end of the hour, as in the statistics of a warehouse.
            "timestamps": [hour + _HOUR for hour, _ in hours],
            "called-endpoints": [written for _, written in hours],
            "previous-page-token": _token(listing, begin, interval),
            "next-page-token": _token(listing, _moved(end, interval), interval),
        }
    )


def _warehouse_id(fields: BodyReader) -> UUID | None:
    """Of a WarehouseFilter: a warehouse, none (NO_WAREHOUSE), or all (None)."""
    kind = fields.text("type")
    fields.refuse_unknown(("type", "id") if kind == "warehouse-id" else ("type",))
    match kind:
        case "all":
            return None
        case "unmapped":
            return NO_WAREHOUSE
        case "warehouse-id":
            warehouse_id = uuid_or_none(fields.text("id"))
            if warehouse_id is None or warehouse_id == NO_WAREHOUSE:
                raise fields.invalid_error("id", "must be the id of a warehouse")
            return warehouse_id
    raise fields.invalid_error("type", "must be warehouse-id, unmapped or all")


def _window(fields: BodyReader, listing: str) -> tuple[datetime, timedelta]:
    """The end and the length of a TimeWindowSelector; without one, the last day."""
    if not fields.has("range-specifier"):
        return datetime.now(UTC), _INTERVAL_DEFAULT
    selector = fields.fields("range-specifier")
    match selector.text("type"):
        case "window":
            selector.refuse_unknown(("type", "end", "interval"))
            end, interval = selector.time_or_none("end"), _interval(selector.text("interval"))
            if end is None:
                raise selector.missing_error("end")
            if interval is None:
                wanted = f"an ISO 8601 duration without years and months, such as P1D or PT1H, at most P{_INTERVAL_MAX.days}D"
                raise selector.invalid_error("interval", f"must be {wanted}")
            return end, interval
        case "page-token":
            selector.refuse_unknown(("type", "token"))
            return _of_token(token_after(listing, selector.text("token"), _PAGE_FIELD))
    raise selector.invalid_error("type", "must be window or page-token")


def _interval(text: str) -> timedelta | None:
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    weeks, days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    interval = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return interval if timedelta() < interval <= _INTERVAL_MAX else None


def _token(listing: str, end: datetime, interval: timedelta) -> str:
    return page_token(listing, orjson.dumps([end.isoformat(), interval.total_seconds()]).decode())


def _of_token(text: str) -> tuple[datetime, timedelta]:
    """The window of a token, which a client may have forged."""
    try:
        end, seconds = orjson.loads(text)
        at, interval = datetime.fromisoformat(end).astimezone(UTC), timedelta(seconds=seconds)
    except (ValueError, TypeError, OverflowError):
        raise _foreign_token() from None
    if not timedelta() < interval <= _INTERVAL_MAX:
        raise _foreign_token()
    return at, interval


def _foreign_token() -> BadRequest:
    return BadRequest(f"Invalid {_PAGE_FIELD}: not a token of this catalog")


def _moved(at: datetime, by: timedelta) -> datetime:
    """Unchanged where that is beyond the years that Python has."""
    try:
        return at + by
    except OverflowError:
        return at


def _hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def _written(calls: EndpointCalls) -> dict[str, object]:
    """Lakekeeper's EndpointStatistic."""
    return {
        "count": calls.count,
        "http-route": calls.http_route,
        "status-code": calls.status_code,
        "warehouse-id": calls.warehouse_id,
        "warehouse-name": calls.warehouse_name,
        "created-at": calls.first_at,
        "updated-at": calls.last_at if calls.count > 1 else None,
    }
