"""Warehouses: decides their command and folds their event."""

from dataclasses import dataclass
from uuid import UUID

from .claims import Claim, NameClaim
from .documents import Json
from .errors import AlreadyExists, BadRequest
from .events import Event, WarehouseCreated
from .identifiers import name_key, parse_name

_NAME_CHARACTERS_REFUSED = "@/"  # `@` precedes a point in time, `/` separates levels of a path.


@dataclass(frozen=True, slots=True)
class WarehouseState:
    id: UUID
    version: int
    event_id: UUID
    project_id: UUID
    name: str
    name_key: str
    storage_profile: Json
    secret_ref: UUID | None
    exact_names: bool


def decide_create(name: str, storage_profile: Json, *, exact_names: bool, taken: bool) -> WarehouseCreated:
    """A new warehouse without a credential. Raises BadRequest for an invalid name or one with `@` or `/`.

    taken -- the project has a warehouse with that name: AlreadyExists.
    """
    parse_name(name, "warehouse name")
    for character in _NAME_CHARACTERS_REFUSED:
        if character in name:
            raise BadRequest(f"Invalid warehouse name: must not contain '{character}'")
    if taken:
        raise AlreadyExists(f"Warehouse already exists: {name}")
    return WarehouseCreated(name, name_key(name), storage_profile, None, exact_names)


def evolve(stream_id: UUID, version: int, event_id: UUID, project_id: UUID, event: Event) -> WarehouseState:
    match event:
        case WarehouseCreated():
            return WarehouseState(
                stream_id,
                version,
                event_id,
                project_id,
                event.name,
                event.name_key,
                event.storage_profile,
                event.secret_ref,
                event.exact_names,
            )
    raise AssertionError(f"{type(event).__name__} is not an event of a warehouse")


def claims(state: WarehouseState) -> frozenset[Claim]:
    return frozenset({NameClaim("warehouse", state.project_id, state.name_key, state.id)})
