"""Views: decides their commands and folds their events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim, location_keys_after
from .documents import VIEW_KINDS, Delta, Json, apply_delta, difference, split
from .errors import ViewProtected
from .events import (
    Event,
    ViewCommitted,
    ViewCreated,
    ViewDropped,
    ViewExpired,
    ViewProtectionChanged,
    ViewRegistered,
    ViewRenamed,
    ViewUndropped,
)
from .identifiers import TabularIdentifier
from .names import FreeName, ResolvedName, decide_destination, decide_undropped_name
from .view_metadata.requirements import check_view_requirements
from .view_metadata.updates import apply_view_updates


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view at one version of its stream; `metadata` is its whole document.

    location_keys -- every location that the view has had or written to. It keeps their claims until its drop is final.
    expires_at_ms -- of a soft-deleted view: when its drop becomes final.
    """

    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    namespace_id: UUID
    name: str
    name_key: str
    status: Literal["live", "soft-deleted", "dropped"]
    metadata_location: str
    location_keys: tuple[str, ...]
    metadata: Json
    protected: bool = False
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ViewChange:
    """The result of a commit: the document, its recorded form, the updates' actions, and whether the location changes."""

    metadata: Json
    delta: Delta
    actions: list[str]
    location_changed: bool

    def event(self, metadata_location: str, location_key: str | None, path_keys: list[str] | None) -> ViewCommitted:
        """The event, once the location of the metadata file is known."""
        return ViewCommitted(metadata_location, location_key, self.delta.to_json(), self.actions, path_keys)


def decide_create(name: FreeName, metadata: Json, metadata_location: str, location_key: str, path_keys: list[str] | None) -> ViewCreated:
    """The creation of a view with its first document."""
    return ViewCreated(name.namespace_id, name.name, name.name_key, location_key, metadata_location, metadata, path_keys or None)


def decide_register(
    name: FreeName, metadata: Json, metadata_location: str, location_key: str, path_keys: list[str] | None
) -> ViewRegistered:
    """Registers the document of a metadata file as a new view."""
    return ViewRegistered(name.namespace_id, name.name, name.name_key, location_key, metadata_location, metadata, path_keys or None)


def decide_commit(view: ViewState, requirements: Sequence[Json], updates: Sequence[Json], now_ms: int) -> ViewChange | None:
    """The result of the updates; None if they change nothing.

    Raises CommitFailed if a requirement fails, and the errors of invalid updates that the Java reference raises.
    """
    base = view.metadata
    check_view_requirements(base, requirements)
    metadata = apply_view_updates(base, updates, now_ms=now_ms)
    if metadata is base:
        return None
    delta = difference(split(base, VIEW_KINDS), metadata)
    return ViewChange(metadata, delta, [update["action"] for update in updates], metadata["location"] != base["location"])


def decide_drop(view: ViewState, expires_at_ms: int | None = None, *, force: bool = False) -> ViewDropped:
    """Removes the view from the catalog. Its files stay, and its name and locations become free.
    Raises ViewProtected without `force`.

    expires_at_ms -- the view can be undropped until then, and its locations are not free; None: the drop is final.
    """
    assert view.status == "live", "a dropped view has no name"
    if view.protected and not force:
        raise ViewProtected(f"View is protected: {view.name}; remove the protection, or drop it with force")
    return ViewDropped(expires_at_ms)


def decide_undrop(view: ViewState, found: ResolvedName | None, deleted_with: str | None = None) -> ViewUndropped:
    """Gives a soft-deleted view its name again. Raises as `decide_undropped_name`. found -- what its name refers to now."""
    decide_undropped_name("view", view.id, view.status, view.name, found, deleted_with)
    return ViewUndropped()


def decide_expire(view: ViewState, now_ms: int | None) -> ViewExpired | None:
    """Makes the drop of a soft-deleted view final; None if it is not soft-deleted (any more), or not due yet.

    now_ms -- None: whatever its expiry, because its namespace is dropped finally.
    """
    if view.status != "soft-deleted" or view.expires_at_ms is None:
        return None
    return ViewExpired() if now_ms is None or view.expires_at_ms <= now_ms else None


def decide_protection(view: ViewState, *, protected: bool) -> ViewProtectionChanged | None:
    """None if nothing changes."""
    return None if protected == view.protected else ViewProtectionChanged(protected)


def decide_rename(
    view: ViewState, found: ResolvedName | None, source: TabularIdentifier, destination: TabularIdentifier, name_key: str
) -> ViewRenamed | None:
    """None if the view has the name already. Raises as `decide_destination`. found -- what the destination's name refers to."""
    to = decide_destination(found, view.id, source, destination, name_key)
    return None if (to.namespace_id, to.name) == (view.namespace_id, view.name) else ViewRenamed(to.namespace_id, to.name, to.name_key)


def evolve(state: ViewState | None, stream_id: UUID, version: int, event_id: UUID, warehouse_id: UUID, event: Event) -> ViewState:
    match event:
        case ViewCreated() | ViewRegistered():
            return ViewState(
                stream_id,
                version,
                event_id,
                warehouse_id,
                event.namespace_id,
                event.name,
                event.name_key,
                "live",
                event.metadata_location,
                location_keys_after((event.location_key,), None, event.path_keys),
                event.metadata,
            )
    assert state is not None
    state = replace(state, version=version, event_id=event_id)
    match event:
        case ViewCommitted():
            keys = location_keys_after(state.location_keys, event.location_key, event.path_keys)
            # A view's document is small and stored whole, so its parts are numbered by their index in the previous document.
            metadata = apply_delta(split(state.metadata, VIEW_KINDS), Delta.from_json(event.delta)).value
            return replace(state, metadata_location=event.metadata_location, location_keys=keys, metadata=metadata)
        case ViewRenamed():
            return replace(state, namespace_id=event.namespace_id, name=event.name, name_key=event.name_key)
        case ViewProtectionChanged():
            return replace(state, protected=event.protected)
        case ViewDropped():
            status: Literal["soft-deleted", "dropped"] = "dropped" if event.expires_at_ms is None else "soft-deleted"
            return replace(state, status=status, expires_at_ms=event.expires_at_ms)
        case ViewUndropped():
            return replace(state, status="live", expires_at_ms=None)
        case ViewExpired():
            return replace(state, status="dropped", expires_at_ms=None)
    raise AssertionError(f"{type(event).__name__} is not an event of a view")


def claims(state: ViewState) -> frozenset[Claim]:
    if state.status == "dropped":
        return frozenset()
    live = NameClaim("tabular", state.namespace_id, state.name_key, state.id)
    held: set[Claim] = {live if state.status == "live" else NameClaim("soft-deleted", state.namespace_id, str(state.id), state.id)}
    return frozenset(held | {LocationClaim(key, state.id) for key in state.location_keys})
