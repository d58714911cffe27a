"""Views: decides their commands and folds their events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim, with_keys
from .documents import VIEW_KINDS, Delta, Json, difference, fold, split
from .events import Event, ViewCommitted, ViewCreated, ViewDropped, ViewRegistered, ViewRenamed
from .identifiers import TabularIdentifier
from .names import FreeName, ResolvedName, decide_destination
from .view_metadata.requirements import check_view_requirements
from .view_metadata.updates import apply_view_updates


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view at one version of its stream; `metadata` is its whole document.

    location_keys -- every location that the view has had or written to. It keeps their claims until it is dropped.
    """

    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    namespace_id: UUID
    name: str
    name_key: str
    status: Literal["live", "dropped"]
    metadata_location: str
    location_keys: tuple[str, ...]
    metadata: Json


@dataclass(frozen=True, slots=True)
class ViewChange:
    """The result of a commit: the document, its recorded form, the updates' actions, and whether the location changes."""

    metadata: Json
    delta: Delta
    actions: list[str]
    moves: bool

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


def decide_drop(view: ViewState) -> ViewDropped:
    """Removes the view from the catalog. Its files stay, and its name and locations become free."""
    assert view.status == "live", "a dropped view has no name"
    return ViewDropped()


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
                with_keys((event.location_key,), None, event.path_keys),
                event.metadata,
            )
    assert state is not None
    state = replace(state, version=version, event_id=event_id)
    match event:
        case ViewCommitted():
            keys = with_keys(state.location_keys, event.location_key, event.path_keys)
            # A view's document is small and stored whole, so its parts are numbered by their index in the previous document.
            metadata = fold(split(state.metadata, VIEW_KINDS), Delta.from_json(event.delta)).value
            return replace(state, metadata_location=event.metadata_location, location_keys=keys, metadata=metadata)
        case ViewRenamed():
            return replace(state, namespace_id=event.namespace_id, name=event.name, name_key=event.name_key)
        case ViewDropped():
            return replace(state, status="dropped")
    raise AssertionError(f"{type(event).__name__} is not an event of a view")


def claims(state: ViewState) -> frozenset[Claim]:
    if state.status == "dropped":
        return frozenset()
    held: set[Claim] = {NameClaim("tabular", state.namespace_id, state.name_key, state.id)}
    return frozenset(held | {LocationClaim(key, state.id) for key in state.location_keys})
