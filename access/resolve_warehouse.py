"""Resolves the warehouse of a request: `[<project>/]<id or name>[@<position or RFC 3339 time>]`."""

from datetime import datetime
from uuid import UUID

from ..database.connections import Connection
from ..domain.errors import BadRequest, NoSuchWarehouse
from ..domain.identifiers import name_key, uuid_or_none
from ..domain.warehouse import WarehouseState
from ..log.head import log_head
from ..log.positions import position_at, position_not_after
from ..projections import projects, warehouses
from ..storage.profiles import parse_storage_profile
from .backends import Backends
from .warehouse import Warehouse

_POSITION_DIGITS_MAX = 18


async def resolve_warehouse(backends: Backends, project_id: UUID, reference: str | None, *, any_project: bool = False) -> Warehouse:
    """Raises NoSuchWarehouse, NoSuchProject, and BadRequest for an invalid point in time.

    Without a reference, the only active warehouse is returned. A position is rounded down to the end of a command; a time is converted to
    the position that the log had reached by then. A warehouse does not exist at a point before its creation.

    any_project -- the request names no project: its reference may begin with one, and an id may be that of a warehouse of any project. A
        name alone is that of a warehouse of `project_id`.
    """
    async with backends.connection() as connection:
        return await find_warehouse(connection, project_id, reference, any_project=any_project)


async def warehouse_by_id(connection: Connection, project_id: UUID, warehouse_id: UUID, *, or_deleted: bool = False) -> Warehouse:
    """A warehouse by its id alone, active or not. Raises NoSuchWarehouse.

    or_deleted -- also a deleted one: a command is refused later, after the look for its Idempotency-Key.
    """
    state = await warehouses.read_of_any_project(connection, warehouse_id)
    if state is None or state.project_id != project_id or (state.status == "deleted" and not or_deleted):
        raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")
    return as_warehouse(state, None, str(warehouse_id))


async def find_warehouse(connection: Connection, project_id: UUID, reference: str | None, *, any_project: bool = False) -> Warehouse:
    """As `resolve_warehouse`."""
    if reference is None:
        return as_warehouse(await _only(connection, project_id), None)
    path, at, point = reference.partition("@")
    project, slash, name = path.rpartition("/")
    if not name or (slash and not project):
        raise BadRequest(
            f"Invalid warehouse '{reference}': must be a name or an id, optionally preceded by its project: <project>/<warehouse>"
        )
    if project:
        project_id, any_project = await _project(connection, project, None if any_project else project_id), False
        reference = f"{name}{at}{point}"
    state = await _find(connection, project_id, name, any_project=any_project)
    if state is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {path}")
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
        state.read_only,
        state.delete_profile,
        state.purge_default,
    )


async def _only(connection: Connection, project_id: UUID) -> WarehouseState:
    states = await warehouses.read_all(connection, project_id, limit=2, status="active")
    if len(states) != 1:
        raise BadRequest(
            "The request names no warehouse, and the project does not have exactly one active warehouse: name it in the path "
            "(`/v1/<warehouse>/…`), in the base path (`/catalog/w/<warehouse>`), or in `warehouse` of /v1/config"
        )
    return states[0]


async def _project(connection: Connection, project: str, named_id: UUID | None) -> UUID:
    """The id of the project in a reference, which must be the one that the request names, if it names one. Says nothing of others."""
    if named_id is None:
        return (await projects.find_named(connection, project)).id
    named = await projects.find(connection, named_id)
    if uuid_or_none(project) != named_id and name_key(project) != named.name_key:
        raise BadRequest(f"Invalid warehouse: its project differs from the one that the request names: {project[:64]}")
    return named_id


async def _find(connection: Connection, project_id: UUID, name: str, *, any_project: bool) -> WarehouseState | None:
    warehouse_id = uuid_or_none(name)
    if warehouse_id is None:
        return await warehouses.read_by_name(connection, project_id, name)
    found = await warehouses.read_by_id(connection, None if any_project else project_id, warehouse_id)
    # A warehouse's name may be a UUID.
    return found or await warehouses.read_by_name(connection, project_id, name)


async def _position(connection: Connection, point: str) -> int:
    if point.isascii() and point.isdigit() and len(point) <= _POSITION_DIGITS_MAX:
        head = await log_head(connection)
        if int(point) > head:
            raise BadRequest(f"Position {point} is beyond the end of the log ({head}); perhaps it is a position of another catalog")
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
