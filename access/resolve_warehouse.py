"""Resolves the warehouse of a request: `<id or name>[@<position or RFC 3339 time>]`."""

from datetime import datetime
from uuid import UUID

from ..database.connections import Connection
from ..domain.errors import BadRequest, NoSuchWarehouse
from ..domain.identifiers import uuid_or_none
from ..domain.warehouse import WarehouseState
from ..log.head import log_head
from ..log.positions import position_at, position_not_after
from ..projections import warehouses
from ..storage.profiles import parse_storage_profile
from .backends import Backends
from .warehouse import Warehouse

_POSITION_DIGITS_MAX = 18


async def resolve_warehouse(backends: Backends, project_id: UUID, reference: str | None) -> Warehouse:
    """Raises NoSuchWarehouse, and BadRequest for an invalid point in time.

    Without a reference, the only active warehouse is returned. A position is rounded down to the end of a command; a time is converted to
    the position that the log had reached by then. A warehouse does not exist at a point before its creation.
    """
    async with backends.connection() as connection:
        return await find_warehouse(connection, project_id, reference)


async def warehouse_by_id(connection: Connection, project_id: UUID, warehouse_id: UUID, *, or_deleted: bool = False) -> Warehouse:
    """A warehouse by its id alone, active or not. Raises NoSuchWarehouse.

    or_deleted -- also a deleted one: a command is refused later, after the look for its Idempotency-Key.
    """
    state = await warehouses.read_of_any_project(connection, warehouse_id)
    if state is None or state.project_id != project_id or (state.status == "deleted" and not or_deleted):
        raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")
    return as_warehouse(state, None, str(warehouse_id))


async def find_warehouse(connection: Connection, project_id: UUID, reference: str | None) -> Warehouse:
    """As `resolve_warehouse`."""
    if reference is None:
        return as_warehouse(await _only(connection, project_id), None)
    name, at, point = reference.partition("@")
    if not name:
        raise BadRequest(f"Invalid warehouse '{reference}': must begin with a name or an id")
    state = await _find(connection, project_id, name)
    if state is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {name}")
    if not at:
        return as_warehouse(state, None, reference)
    as_of = await _position(connection, point)
    if not await warehouses.existed(connection, state.id, as_of):
        raise NoSuchWarehouse(f"Warehouse did not exist at {point}: {name}")
    return as_warehouse(state, as_of, reference)


def as_warehouse(state: WarehouseState, as_of: int | None, reference: str | None = None) -> Warehouse:
    profile = parse_storage_profile(state.storage_profile)
    return Warehouse(
        state.id,
        state.name,
        state.project_id,
        profile,
        state.secret_ref,
        state.exact_names,
        as_of,
        state.event_id,
        reference,
        state.status == "active",
        state.format_versions,
    )


async def _only(connection: Connection, project_id: UUID) -> WarehouseState:
    states = await warehouses.read_all(connection, project_id, limit=2, status="active")
    if len(states) != 1:
        raise BadRequest(
            "The request names no warehouse, and there is not exactly one: name it in the path (`/v1/<warehouse>/…`), in the base path"
            " (`/catalog/w/<warehouse>`), or in `warehouse` of /v1/config"
        )
    return states[0]


async def _find(connection: Connection, project_id: UUID, name: str) -> WarehouseState | None:
    warehouse_id = uuid_or_none(name)
    if warehouse_id is None:
        return await warehouses.read_by_name(connection, project_id, name)
    found = await warehouses.read_by_id(connection, project_id, warehouse_id)
    # A warehouse's name may be a UUID.
    return found or await warehouses.read_by_name(connection, project_id, name)


async def _position(connection: Connection, point: str) -> int:
    if point.isascii() and point.isdigit() and len(point) <= _POSITION_DIGITS_MAX:
        head = await log_head(connection)
        if int(point) > head:
            raise BadRequest(f"Position {point} is beyond the end of the log ({head}): it may belong to another log")
        return await position_not_after(connection, int(point))
    try:
        at = datetime.fromisoformat(point)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or len(point) < len("2026-01-01T00:00Z"):
        raise BadRequest(f"Invalid point in time '{point}': must be a position of the log or an RFC 3339 time with a time zone")
    position = await position_at(connection, at)
    if position is None:
        raise BadRequest(f"The time {point} is beyond the end of the log: it is in the future")
    return position
