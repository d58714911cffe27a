"""Namespaces: decides their commands and folds their events."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim
from .errors import AlreadyExists, BadRequest, NamespaceNotEmpty, NamespaceProtected, NoSuchNamespace, ReservedNamespace
from .events import Event, NamespaceCreated, NamespaceDropped, NamespaceMoved, NamespacePropertiesChanged, NamespaceProtectionChanged
from .identifiers import NAMESPACE_LEVELS_MAX, NamespaceIdentifier, name_key
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
    protected: bool = False

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


def check_reserved(namespace: NamespaceIdentifier, reserved: Collection[str]) -> None:
    """Raises ReservedNamespace for a name at the top of the warehouse whose key is among `reserved`."""
    name = namespace.levels[0]
    if len(namespace.levels) == 1 and name_key(name) in reserved:
        raise ReservedNamespace(f"Invalid namespace: the name {name!r} is reserved by the operator")


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


def decide_drop(
    state: NamespaceState,
    namespace: NamespaceIdentifier,
    child_kind: str | None,
    soft_deleted: Sequence[str] = (),
    *,
    force: bool = False,
) -> NamespaceDropped:
    """Raises NamespaceProtected without `force`, and NamespaceNotEmpty if it contains an object; `child_kind` is its kind.

    soft_deleted -- some of the soft-deleted tables and views in it, which count too: they could not be undropped without it.
    """
    if state.protected and not force:
        raise NamespaceProtected(f"Namespace is protected: {namespace}; remove the protection, or drop it with force")
    if child_kind is not None:
        raise NamespaceNotEmpty(f"Namespace {namespace} is not empty: it contains a {child_kind}")
    if soft_deleted:
        raise NamespaceNotEmpty(
            f"Namespace {namespace} is not empty: it contains soft-deleted objects, which can be undropped until they expire: "
            f"{'; '.join(soft_deleted)}"
        )
    return NamespaceDropped()


@dataclass(frozen=True, slots=True)
class MoveDestination:
    """Where a namespace is to be moved, as it was found.

    parent_id -- the namespace above, or the warehouse at the top; None: it does not exist.
    parent_path -- the ids from the warehouse to the parent.
    taken_by -- the namespace that has the name there.
    too_deep -- whether a namespace below the moved one would be deeper than NAMESPACE_LEVELS_MAX.
    """

    namespace: NamespaceIdentifier
    parent_id: UUID | None
    parent_path: Collection[UUID] = ()
    taken_by: UUID | None = None
    too_deep: bool = False


def decide_move(
    state: NamespaceState, source: str, destination: MoveDestination, name_key: str, reserved: Collection[str], *, force: bool = False
) -> NamespaceMoved | None:
    """The move of a namespace with all that it contains; None if it has this parent and this spelling of the name already.

    Raises NoSuchNamespace if the parent does not exist, BadRequest if the destination is inside the namespace or too deep,
    AlreadyExists if another namespace has the name, ReservedNamespace, and NamespaceProtected without `force`.

    source -- its present name, for messages. reserved -- as in check_reserved.
    """
    wanted = destination.namespace
    if destination.parent_id is None:
        raise NoSuchNamespace(f"Namespace does not exist: {wanted.parent}")
    if (state.parent_id, state.name) == (destination.parent_id, wanted.levels[-1]):
        return None
    if state.id in destination.parent_path:
        raise BadRequest(f"Cannot move namespace {source} to {wanted}: the destination is inside it")
    if destination.taken_by not in (None, state.id):
        raise AlreadyExists(f"Cannot move namespace {source} to {wanted}. Namespace already exists")
    check_reserved(wanted, reserved)
    if destination.too_deep:
        raise BadRequest(
            f"Cannot move namespace {source} to {wanted}: it contains namespaces that would be deeper than {NAMESPACE_LEVELS_MAX} levels"
        )
    if state.protected and not force:
        raise NamespaceProtected(f"Namespace is protected: {source}; remove the protection, or move it with force")
    return NamespaceMoved(destination.parent_id, wanted.levels[-1], name_key)


def decide_protection(state: NamespaceState, *, protected: bool) -> NamespaceProtectionChanged | None:
    """None if nothing changes."""
    return None if protected == state.protected else NamespaceProtectionChanged(protected)


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
        case NamespaceProtectionChanged():
            assert state is not None
            return replace(state, version=version, event_id=event_id, protected=event.protected)
        case NamespaceMoved():
            assert state is not None
            return replace(state, version=version, event_id=event_id, parent_id=event.parent_id, name=event.name, name_key=event.name_key)
        case NamespaceDropped():
            assert state is not None
            return replace(state, version=version, event_id=event_id, status="dropped")
    raise AssertionError(f"{type(event).__name__} is not an event of a namespace")


def claims(state: NamespaceState) -> frozenset[Claim]:
    if state.status == "dropped":
        return frozenset()
    name = NameClaim("namespace", state.parent_id, state.name_key, state.id)
    return frozenset({name, LocationClaim(state.location_key, state.id, "namespace")})
