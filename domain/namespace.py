"""Namespaces: decides their commands and folds their events."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim
from .errors import (
    AlreadyExists,
    BadRequest,
    NamespaceDropExpired,
    NamespaceNotEmpty,
    NamespaceProtected,
    NamespaceSoftDeleted,
    NoSuchNamespace,
    ReservedNamespace,
)
from .events import (
    Event,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceExpired,
    NamespaceMoved,
    NamespacePropertiesChanged,
    NamespaceProtectionChanged,
    NamespaceUndropped,
)
from .identifiers import NAMESPACE_LEVELS_MAX, NamespaceIdentifier, name_key
from .properties import PropertyUpdate, effective_update, updated

LOCATION = "location"
"""The property with the namespace's location. It is set at the creation and never changes."""


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """A namespace at one version of its stream.

    expires_at_ms, root_id -- of a soft-deleted namespace: when its drop becomes final, and the namespace whose drop that was.
    """

    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    parent_id: UUID
    name: str
    name_key: str
    status: Literal["live", "soft-deleted", "dropped"]
    location_key: str
    properties: Mapping[str, str]
    protected: bool = False
    expires_at_ms: int | None = None
    root_id: UUID | None = None

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
    """Raises ReservedNamespace for the name of a top-level namespace whose key is among `reserved`."""
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

    soft_deleted -- some of the soft-deleted objects in it, which count too: they could not be undropped without it.
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


def decide_drop_in_tree(state: NamespaceState, root_id: UUID, expires_at_ms: int | None) -> NamespaceDropped:
    """Drops a namespace with all that it contains. Whether it is protected is checked for the whole tree at once.

    expires_at_ms -- the tree can be undropped until then; None: the drop is final.
    """
    assert state.status == "live", "a dropped namespace has no name"
    return NamespaceDropped(expires_at_ms, root_id)


def decide_undrop(
    state: NamespaceState, *, taken: bool, parent_root: str | None, root: str, lost: Sequence[str]
) -> NamespaceUndropped | None:
    """Gives a soft-deleted namespace its name again, as the root of its tree; None if it is live.

    taken -- whether another namespace has the name. parent_root -- describes the root of the tree that its parent was dropped with; None:
        the parent is live. root -- describes the namespace whose drop this one was part of.
    lost -- describes what was dropped with it and is not soft-deleted any more.
    Raises NamespaceDropExpired if its drop or that of a part of the tree is final,
    NamespaceSoftDeleted if another namespace must be undropped instead or first, and AlreadyExists.
    """
    if state.status == "live":
        return None
    described = f"{state.name} ({state.id})"
    if state.status != "soft-deleted":
        raise NamespaceDropExpired(f"The drop of namespace {described} is final: it has expired, or was never soft-deleted")
    if state.root_id != state.id:
        raise NamespaceSoftDeleted(f"Namespace {described} was dropped with namespace {root}: undrop that namespace")
    if parent_root is not None:
        raise NamespaceSoftDeleted(f"The parent of namespace {described} is soft-deleted: undrop namespace {parent_root} first")
    if lost:
        raise NamespaceDropExpired(
            f"Namespace {described} cannot be undropped: these objects, dropped with it, have expired: {'; '.join(lost)}"
        )
    if taken:
        raise AlreadyExists(f"Cannot undrop namespace {described}: another namespace has the name now; rename or drop it first")
    return NamespaceUndropped()


def decide_undrop_in_tree(state: NamespaceState) -> NamespaceUndropped:
    """Gives a namespace its name again that was dropped with the one that is undropped."""
    assert state.status == "soft-deleted", "part of a tree that can be undropped"
    return NamespaceUndropped()


def decide_expire(state: NamespaceState, now_ms: int | None) -> NamespaceExpired | None:
    """Makes the drop of a soft-deleted namespace final; None if it is not soft-deleted (any more), or not due yet.

    now_ms -- None: whatever its expiry, because its parent is dropped finally.
    """
    if state.status != "soft-deleted" or state.expires_at_ms is None:
        return None
    return NamespaceExpired() if now_ms is None or state.expires_at_ms <= now_ms else None


def no_namespace_with_id(namespace_id: UUID) -> NoSuchNamespace:
    """The error for the undrop of a namespace that the warehouse does not have."""
    return NoSuchNamespace(f"The warehouse has no namespace with the id {namespace_id}")


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
            status: Literal["soft-deleted", "dropped"] = "dropped" if event.expires_at_ms is None else "soft-deleted"
            root_id = None if event.expires_at_ms is None else event.root_id
            return replace(state, version=version, event_id=event_id, status=status, expires_at_ms=event.expires_at_ms, root_id=root_id)
        case NamespaceUndropped():
            assert state is not None
            return replace(state, version=version, event_id=event_id, status="live", expires_at_ms=None, root_id=None)
        case NamespaceExpired():
            assert state is not None
            return replace(state, version=version, event_id=event_id, status="dropped", expires_at_ms=None, root_id=None)
    raise AssertionError(f"{type(event).__name__} is not an event of a namespace")


def claims(state: NamespaceState) -> frozenset[Claim]:
    """Its name while it is live, its place in its parent while it is soft-deleted; its location until the drop is final."""
    if state.status == "dropped":
        return frozenset()
    live = NameClaim("namespace", state.parent_id, state.name_key, state.id)
    name = live if state.status == "live" else NameClaim("soft-deleted", state.parent_id, str(state.id), state.id)
    return frozenset({name, LocationClaim(state.location_key, state.id, "namespace")})
