"""Tables: decides their commands and folds their events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim, with_keys
from .documents import TABLE_KINDS, Delta, Document, Json, difference, fold, split
from .events import (
    Event,
    TableCommitted,
    TableCreated,
    TableDropped,
    TableOverwritten,
    TablePurged,
    TableRegistered,
    TableRenamed,
    TableUnregistered,
)
from .identifiers import TabularIdentifier
from .metadata.requirements import TableRequirement, check_requirements, parse_requirements
from .metadata.updates import TableUpdate, apply_updates, parse_updates
from .names import FreeName, ResolvedName, decide_destination

Status = Literal["live", "dropped", "purging", "purged"]


# Never changed, but not frozen, for speed (as parts in domain/documents.py).
@dataclass(slots=True)
class TableState:
    """A table at one version of its stream.

    location_keys -- every location the table has had or let writers write to. A table that moved keeps the claims on both locations
        until its drop is final.
    """

    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    namespace_id: UUID
    name: str
    name_key: str
    status: Status
    metadata_location: str
    location_keys: tuple[str, ...]
    document: Document


@dataclass(frozen=True, slots=True)
class ParsedCommit:
    """The parsed requirements and updates of a request. They may be decided on several states in turn."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    @classmethod
    def parse(cls, requirements: Sequence[Json], updates: Sequence[Json]) -> "ParsedCommit":
        """Parses both before checking either, as Java does. Raises BadRequest or IllegalArgument."""
        return cls(parse_requirements(requirements), parse_updates(updates))


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a commit changes, once it is appended.

    metadata -- the whole document after it. delta -- its difference to the document before, which the event records.
    actions -- those of the updates, in order. moves -- whether the table's location changes.
    """

    metadata: Json
    delta: Delta
    actions: list[str]
    moves: bool

    def event(self, metadata_location: str, location_key: str | None, path_keys: list[str] | None) -> TableCommitted:
        """The event, once the location of the metadata file is known."""
        return TableCommitted(metadata_location, location_key, self.delta.to_json(), self.actions, path_keys)


def decide_create(
    name: FreeName, metadata: Json, metadata_location: str, location_key: str, path_keys: list[str] | None, *, staged: bool
) -> TableCreated:
    """The creation of a table with its first document. staged -- by the commit that completes a staged create."""
    return TableCreated(name.namespace_id, name.name, name.name_key, location_key, metadata_location, metadata, staged, path_keys or None)


def decide_register(
    name: FreeName | None, metadata: Json, metadata_location: str, location_key: str, path_keys: list[str] | None
) -> TableRegistered | TableOverwritten:
    """Registers the document of a metadata file as a new table under `name`; without a name, it overwrites the existing table."""
    if name is None:
        return TableOverwritten(location_key, metadata_location, metadata, path_keys or None)
    return TableRegistered(name.namespace_id, name.name, name.name_key, location_key, metadata_location, metadata, path_keys or None)


def may_have_lost_file(table: TableState, file_key: str, event_id: UUID | None) -> bool:
    """Whether a file in the table's own locations, read when `event_id` was its newest event, may have been deleted since.

    A later commit may have removed it from the metadata log.
    """
    return table.event_id != event_id and file_key.startswith(table.location_keys)


def decide_commit(table: TableState, commit: ParsedCommit, now_ms: int) -> TableChange | None:
    """The result of the updates; None if they change nothing.

    Raises CommitFailed if a requirement fails, and the errors of invalid updates that the Java reference raises.
    """
    base = table.document.value
    check_requirements(base, commit.requirements)
    metadata = apply_updates(
        base,
        commit.updates,
        now_ms=now_ms,
        previous_metadata_location=table.metadata_location,
    )
    if metadata is base:
        return None
    delta = difference(table.document, metadata)
    return TableChange(metadata, delta, [update.action for update in commit.updates], metadata["location"] != base["location"])


def decide_drop(table: TableState, *, purge_requested: bool) -> TableDropped:
    """Drops the table. The event records if `gc.enabled` keeps its files although a purge was requested."""
    assert table.status == "live", "a dropped table has no name"
    kept = purge_requested and keeps_its_files(table)
    return TableDropped(purge_requested, gc_enabled=False if kept else None)


def decide_unregister(table: TableState) -> TableUnregistered:
    """Removes the table from the catalog. Its files stay, and its name and locations become free."""
    assert table.status == "live", "a dropped table has no name"
    return TableUnregistered()


def decide_purge(table: TableState, files_deleted: int, files_left: list[str], files_left_count: int) -> TablePurged | None:
    """The end of a purge, with the number of files deleted and the files left; None if the table is not being purged (any more)."""
    return TablePurged(files_deleted, files_left or None, files_left_count or None) if table.status == "purging" else None


def decide_rename(
    table: TableState, found: ResolvedName | None, source: TabularIdentifier, destination: TabularIdentifier, name_key: str
) -> TableRenamed | None:
    """None if the table has the name already. Raises as `decide_destination`. found -- what the destination's name refers to."""
    to = decide_destination(found, table.id, source, destination, name_key)
    return None if (to.namespace_id, to.name) == (table.namespace_id, table.name) else TableRenamed(to.namespace_id, to.name, to.name_key)


def evolve(state: TableState | None, stream_id: UUID, version: int, event_id: UUID, warehouse_id: UUID, event: Event) -> TableState:
    match event:
        case TableCreated() | TableRegistered():
            return TableState(
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
                split(event.metadata, TABLE_KINDS),
            )
        case TableCommitted():
            assert state is not None
            # First, and without `replace`, for speed: nearly every event is one of these.
            return TableState(
                stream_id,
                version,
                event_id,
                state.warehouse_id,
                state.namespace_id,
                state.name,
                state.name_key,
                state.status,
                event.metadata_location,
                with_keys(state.location_keys, event.location_key, event.path_keys),
                fold(state.document, Delta.from_json(event.delta)),
            )
    assert state is not None
    state = replace(state, version=version, event_id=event_id)
    match event:
        case TableOverwritten():
            return replace(
                state,
                metadata_location=event.metadata_location,
                location_keys=with_keys(state.location_keys, event.location_key, event.path_keys),
                document=_renumbered(event.metadata, state.document.next_ordinal),
            )
        case TableRenamed():
            return replace(state, namespace_id=event.namespace_id, name=event.name, name_key=event.name_key)
        case TableDropped():
            return replace(state, status="purging" if event.purge_requested and event.gc_enabled is not False else "dropped")
        case TableUnregistered():
            return replace(state, status="dropped")
        case TablePurged():
            return replace(state, status="purged")
    raise AssertionError(f"{type(event).__name__} is not an event of a table")


def keeps_its_files(table: TableState) -> bool:
    """Whether the table property `gc.enabled` forbids deleting its files (as in Java: any value but `true` does)."""
    return str(table.document.value["properties"].get("gc.enabled", "true")).lower() != "true"


def claims(state: TableState) -> frozenset[Claim]:
    """Its name while it is live; its locations until the drop is final."""
    held: list[Claim] = []
    if state.status in ("live", "purging"):
        held += [LocationClaim(key, state.id) for key in state.location_keys]
    if state.status == "live":
        held.append(NameClaim("tabular", state.namespace_id, state.name_key, state.id))
    return frozenset(held)


def _renumbered(metadata: Json, next_ordinal: int) -> Document:
    # Ordinals are never reused in a stream: the closed parts of the previous document keep theirs.
    document = split(metadata, TABLE_KINDS)
    parts = {kind: tuple(replace(p, ordinal=p.ordinal + next_ordinal) for p in members) for kind, members in document.parts.items()}
    return Document(metadata, parts, document.next_ordinal + next_ordinal)
