"""Namespaces: decides their commands and folds their events."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim
from .errors import AlreadyExists, BadRequest, NamespaceNotEmpty, NoSuchNamespace
from .events import Event, NamespaceCreated, NamespaceDropped, NamespacePropertiesChanged
from .identifiers import NamespaceIdentifier
from .properties import PropertyUpdate, effective_update, updated

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


def decide_update(state: NamespaceState, update: PropertyUpdate) -> PropertyChanges:
    """Raises UnprocessableEntity (422) for a key in both `updates` and `removals`, and BadRequest if the location would change. There is no
    event if nothing changes.
    """
    updates, removals = effective_update(state.properties, update, "namespace update")
    if LOCATION in updates or LOCATION in removals:
        raise BadRequest(f"Invalid namespace update: the location of a namespace cannot be changed or removed: {state.location}")
    missing = [key for key in dict.fromkeys(update.removals) if key not in state.properties]
    event = NamespacePropertiesChanged(updates, removals) if updates or removals else None
    return PropertyChanges([*update.updates], removals, missing, event)


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
            properties = updated(state.properties, event.updates, event.removals)
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
