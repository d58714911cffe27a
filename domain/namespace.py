"""Namespaces: decides their commands and folds their events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim
from .errors import AlreadyExists, BadRequest, NamespaceNotEmpty, NoSuchNamespace, UnprocessableEntity
from .events import Event, NamespaceCreated, NamespaceDropped, NamespacePropertiesChanged
from .identifiers import NamespaceIdentifier

LOCATION = "location"
"""The property with the namespace's location. It is set at the creation and never changes."""


@dataclass(frozen=True, slots=True)
class NamespaceState:
    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    parent_id: UUID
    name: str
    name_key: str
    status: Literal["live", "dropped"]
    location_key: str
    properties: Mapping[str, str]

    @property
    def location(self) -> str:
        return self.properties[LOCATION]


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """The result of an update of properties, as in the spec's UpdateNamespacePropertiesResponse."""

    updated: list[str]
    removed: list[str]
    missing: list[str]
    event: NamespacePropertiesChanged | None


def decide_parent(namespace: NamespaceIdentifier, *, taken: bool, parent_id: UUID | None) -> UUID:
    """The parent of a new namespace. Raises AlreadyExists if the name is `taken`, and NoSuchNamespace if the parent does not exist
    (`parent_id` is None).
    """
    if taken:
        raise AlreadyExists(f"Namespace already exists: {namespace}")
    if parent_id is None:
        raise NoSuchNamespace(f"Namespace does not exist: {namespace.parent}")
    return parent_id


def decide_create(
    parent_id: UUID, name: str, name_key: str, location: str, location_key: str, properties: Mapping[str, str]
) -> NamespaceCreated:
    """The creation of a namespace. `location` becomes a property, in place of the client's spelling."""
    return NamespaceCreated(parent_id, name, name_key, location_key, {**properties, LOCATION: location})


def decide_drop(namespace: NamespaceIdentifier, child_kind: str | None) -> NamespaceDropped:
    """Raises NamespaceNotEmpty if it contains an object; `child_kind` is its kind."""
    if child_kind is not None:
        raise NamespaceNotEmpty(f"Namespace {namespace} is not empty: it contains a {child_kind}")
    return NamespaceDropped()


def decide_update(state: NamespaceState, removals: Sequence[str], updates: Mapping[str, str]) -> PropertyChanges:
    """Raises UnprocessableEntity (422) for a key both removed and set, and BadRequest if the location would change. There is no event if
    nothing changes.
    """
    for key in removals:
        if key in updates:
            raise UnprocessableEntity(f"Invalid namespace update: cannot simultaneously set and remove keys: [{key}]")
    if LOCATION in removals or updates.get(LOCATION, state.location) != state.location:
        raise BadRequest(f"Invalid namespace update: the location of a namespace cannot be changed or removed: {state.location}")
    removed = [key for key in dict.fromkeys(removals) if key in state.properties]
    missing = [key for key in dict.fromkeys(removals) if key not in state.properties]
    changed = {key: value for key, value in updates.items() if state.properties.get(key) != value}
    event = NamespacePropertiesChanged(changed, removed) if changed or removed else None
    return PropertyChanges(list(updates), removed, missing, event)


def evolve(state: NamespaceState | None, stream_id: UUID, version: int, event_id: UUID, warehouse_id: UUID, event: Event) -> NamespaceState:
    match event:
        case NamespaceCreated():
            return NamespaceState(
                stream_id,
                version,
                event_id,
                warehouse_id,
                event.parent_id,
                event.name,
                event.name_key,
                "live",
                event.location_key,
                event.properties,
            )
        case NamespacePropertiesChanged():
            assert state is not None
            removed = set(event.removals)
            properties = {k: v for k, v in state.properties.items() if k not in removed} | event.updates
            return replace(state, version=version, event_id=event_id, properties=properties)
        case NamespaceDropped():
            assert state is not None
            return replace(state, version=version, event_id=event_id, status="dropped")
    raise AssertionError(f"{type(event).__name__} is not an event of a namespace")


def claims(state: NamespaceState) -> frozenset[Claim]:
    if state.status == "dropped":
        return frozenset()
    name = NameClaim("namespace", state.parent_id, state.name_key, state.id)
    return frozenset({name, LocationClaim(state.location_key, state.id, "namespace")})
