"""Namespace: a named level below a warehouse or another namespace, with properties."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from domain.claims import Claim, NameClaim
from domain.errors import UnprocessableEntity
from domain.events import Event, NamespaceCreated, NamespaceDropped, NamespacePropertiesChanged


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
    """What an update of properties came to, in the spec's words (UpdateNamespacePropertiesResponse)."""

    updated: list[str]
    removed: list[str]
    missing: list[str]
    event: NamespacePropertiesChanged | None


def change_properties(state: NamespaceState, removals: Sequence[str], updates: Mapping[str, str]) -> PropertyChanges:
    """422 for a key both removed and set; no event where nothing changes."""
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
    raise AssertionError(f"{type(event).__name__} is no event of a namespace")


def claims(state: NamespaceState) -> frozenset[Claim]:
    if state.status == "dropped":
        return frozenset()
    return frozenset({NameClaim("namespace", state.parent_id, state.name_key, state.id)})
