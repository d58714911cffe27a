"""View: decisions of its commands, and the fold of its events."""

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

    location_keys -- every place it ever lay at or wrote to: it keeps their claims until it is dropped.
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
    """What a commit comes to: the whole document, what is recorded of it, the updates' actions, whether the location is another."""

    metadata: Json
    delta: Delta
    actions: list[str]
    moves: bool

    def event(self, metadata_location: str, location_key: str | None, path_keys: list[str] | None) -> ViewCommitted:
        """As it is recorded once the document has its places."""
        return ViewCommitted(metadata_location, location_key, self.delta.to_json(), self.actions, path_keys)


def decide_create(name: FreeName, metadata: Json, metadata_location: str, location_key: str, path_keys: list[str] | None) -> ViewCreated:
    """A view begins with its first document."""
    return ViewCreated(name.namespace_id, name.name, name.name_key, location_key, metadata_location, metadata, path_keys or None)


def decide_register(
    name: FreeName, metadata: Json, metadata_location: str, location_key: str, path_keys: list[str] | None
) -> ViewRegistered:
    """A view begins with a file's document."""
    return ViewRegistered(name.namespace_id, name.name, name.name_key, location_key, metadata_location, metadata, path_keys or None)


def decide_commit(view: ViewState, requirements: Sequence[Json], updates: Sequence[Json], now_ms: int) -> ViewChange | None:
    """None where the updates change nothing; CommitFailed where a requirement does not hold; what they break as Java names it."""
    base = view.metadata
    check_view_requirements(base, requirements)
    metadata = apply_view_updates(base, updates, now_ms=now_ms)
    if metadata is base:
        return None
    delta = difference(split(base, VIEW_KINDS), metadata)
    return ViewChange(metadata, delta, [update["action"] for update in updates], metadata["location"] != base["location"])


def decide_drop(view: ViewState) -> ViewDropped:
    """The catalog forgets the view: its files stay, and its name and places are free."""
    assert view.status == "live", "a view that is gone is found by no name"
    return ViewDropped()


def decide_rename(
    view: ViewState, found: ResolvedName | None, source: TabularIdentifier, destination: TabularIdentifier, name_key: str
) -> ViewRenamed | None:
    """None where it has the name already; refusals as `decide_destination`. found -- what the destination's name stands for."""
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
            # A view's document is small and kept whole: its parts are numbered by their places in the one before.
            metadata = fold(split(state.metadata, VIEW_KINDS), Delta.from_json(event.delta)).value
            return replace(state, metadata_location=event.metadata_location, location_keys=keys, metadata=metadata)
        case ViewRenamed():
            return replace(state, namespace_id=event.namespace_id, name=event.name, name_key=event.name_key)
        case ViewDropped():
            return replace(state, status="dropped")
    raise AssertionError(f"{type(event).__name__} is no event of a view")


def claims(state: ViewState) -> frozenset[Claim]:
    if state.status == "dropped":
        return frozenset()
    held: set[Claim] = {NameClaim("tabular", state.namespace_id, state.name_key, state.id)}
    return frozenset(held | {LocationClaim(key, state.id) for key in state.location_keys})
