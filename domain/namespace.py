"""Namespaces: decides their commands and folds their events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, NameClaim
from .errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace, UnprocessableEntity
from .events import Event, NamespaceCreated, NamespaceDropped, NamespacePropertiesChanged
from .identifiers import NamespaceIdentifier


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
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """The result of an update of properties, as in the spec's UpdateNamespacePropertiesResponse."""

    updated: list[str]
    removed: list[str]
    missing: list[str]
    event: NamespacePropertiesChanged | None


def decide_create(
    namespace: NamespaceIdentifier, name_key: str, properties: Mapping[str, str], *, taken: bool, parent_id: UUID | None
) -> NamespaceCreated:
    """Raises AlreadyExists if the name is `taken`, and NoSuchNamespace if the parent does not exist (`parent_id` is None)."""
    if taken:
        raise AlreadyExists(f"Namespace already exists: {namespace}")
    if parent_id is None:
        raise NoSuchNamespace(f"Namespace does not exist: {namespace.parent}")
    return NamespaceCreated(parent_id, namespace.levels[-1], name_key, dict(properties))


def decide_drop(namespace: NamespaceIdentifier, holds: str | None) -> NamespaceDropped:
    """Raises NamespaceNotEmpty if it contains an object; `holds` is the object's kind."""
    if holds is not None:
        raise NamespaceNotEmpty(f"Namespace {namespace} is not empty: it contains a {holds}")
    return NamespaceDropped()


def decide_update(state: NamespaceState, removals: Sequence[str], updates: Mapping[str, str]) -> PropertyChanges:
    """Raises UnprocessableEntity (422) for a key both removed and set. There is no event if nothing changes."""
    for key in removals:
        if key in updates:
            raise UnprocessableEntity(f"Invalid namespace update: cannot simultaneously set and remove keys: [{key}]")
    removed = [key for key in dict.fromkeys(removals) if key in state.properties]
    missing = [key for key in dict.fromkeys(removals) if key not in state.properties]
    changed = {key: value for key, value in updates.items() if state.properties.get(key) != value}
    event = NamespacePropertiesChanged(changed, removed) if changed or removed else None
    return PropertyChanges(list(updates), removed, missing, event)


def evolve(state: NamespaceState | None, stream_id: UUID, version: int, event_id: UUID, warehouse_id: UUID, event: Event) -> NamespaceState:
    match event:
        case NamespaceCreated():
            return NamespaceState(
                stream_id, version, event_id, warehouse_id, event.parent_id, event.name, event.name_key, "live", event.properties
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
    return frozenset({NameClaim("namespace", state.parent_id, state.name_key, state.id)})
