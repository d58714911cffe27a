"""Query parameters of the history API: positions, filters, and times to wait."""

from collections.abc import Mapping
from typing import cast
from uuid import UUID

from ...access.resolve_warehouse import resolve_warehouse
from ...access.warehouse import Warehouse
from ...domain.errors import BadRequest
from ..api_request import ApiRequest
from ..path_parameters import parse_warehouse_reference
from .event_source import Dialect

WAIT_SECONDS_MAX = 60.0
"""Limit on `wait-seconds`."""
FILTER_VALUES_MAX = 100
_POSITION_DIGITS_MAX = 18
_DIALECTS = ("icecore", "lakekeeper")


def parse_position(text: str, what: str) -> int:
    """A position of the log; 0 is before the first event. `what` begins the error message."""
    if not (text.isascii() and text.isdigit() and len(text) <= _POSITION_DIGITS_MAX):
        raise BadRequest(f"Invalid {what}: must be a position of the log, a whole number of at most {_POSITION_DIGITS_MAX} digits")
    return int(text)


def parse_wait(query: Mapping[str, str], default_seconds: float) -> float:
    """`wait-seconds`, at most WAIT_SECONDS_MAX."""
    text = query.get("wait-seconds")
    if text is None:
        return default_seconds
    whole, _, fraction = text.partition(".")
    if not (text.isascii() and whole.isdigit() and (fraction.isdigit() or not fraction) and len(text) <= _POSITION_DIGITS_MAX):
        raise BadRequest("Invalid parameter 'wait-seconds': must be a number of seconds, 0 or more")
    return min(float(text), WAIT_SECONDS_MAX)


def parse_dialect(query: Mapping[str, str]) -> Dialect:
    dialect = query.get("dialect") or "icecore"
    if dialect not in _DIALECTS:
        raise BadRequest("Invalid parameter 'dialect': must be icecore or lakekeeper")
    return cast(Dialect, dialect)


def parse_names(query: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A parameter with names separated by commas."""
    values = tuple(part for part in query.get(name, "").split(",") if part)
    if len(values) > FILTER_VALUES_MAX:
        raise BadRequest(f"Invalid parameter '{name}': has more than {FILTER_VALUES_MAX} values")
    return values


async def parse_warehouses(request: ApiRequest) -> set[UUID]:
    """The ids of the warehouses in the parameter `warehouses`. Raises NoSuchWarehouse."""
    return {(await warehouse_now(request, each, "warehouses")).id for each in parse_names(request.query, "warehouses")}


async def warehouse_now(request: ApiRequest, reference: str, parameter: str) -> Warehouse:
    """The warehouse with a name or id. Raises NoSuchWarehouse, and BadRequest for a past state."""
    warehouse = await resolve_warehouse(request.catalog.backends, request.context.project_id, parse_warehouse_reference(reference))
    if warehouse.as_of is not None:
        raise BadRequest(f"Invalid parameter '{parameter}': a past state has no new events; name the warehouse without a position or time")
    return warehouse
