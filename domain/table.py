"""Tables: decides their commands and folds their events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, LocationClaim, NameClaim, location_keys_after
from .documents import TABLE_KINDS, Delta, Document, Json, apply_delta, difference, split
from .errors import TableProtected
from .events import (
    Event,
    TableCommitted,
    TableCreated,
    TableDropped,
    TableExpired,
    TableOverwritten,
    TableProtectionChanged,
    TablePurgeCancelled,
    TablePurged,
    TableRegistered,
    TableRenamed,
    TableUndropped,
    TableUnregistered,
)
from .identifiers import TabularIdentifier
from .metadata.increasing_summary import KEY_PROPERTY, apply_increasing_summary
from .metadata.requirements import TableRequirement, check_requirements, parse_requirements
from .metadata.updates import TableUpdate, apply_updates, parse_updates
from .names import FreeName, ResolvedName, decide_destination, decide_undropped_name

Status = Literal["live", "soft-deleted", "dropped", "purging", "purged"]


# Never changed, but not frozen, for speed (as parts in domain/documents.py).
@dataclass(slots=True)
class TableState:
    """A table at one version of its stream.

    location_keys -- every location the table has had or let writers write to. A table that moved keeps the claims on both locations
        until its drop is final, and a purge has ended.
    expires_at_ms -- of a soft-deleted table: when its drop becomes final.
    purges -- of a soft-deleted table: whether its files are deleted then.
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
    protected: bool = False
    expires_at_ms: int | None = None
    purges: bool = False


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
    actions -- those of the updates, in order. location_changed -- whether the table's location changes.
    """

    metadata: Json
    delta: Delta
    actions: list[str]
    location_changed: bool

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

    Raises CommitFailed if a requirement fails, the errors of invalid updates that the Java reference raises, and those of
    apply_increasing_summary.
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
    if KEY_PROPERTY in base["properties"] or KEY_PROPERTY in metadata["properties"]:
        metadata = apply_increasing_summary(base, metadata)
    delta = difference(table.document, metadata)
    return TableChange(metadata, delta, [update.action for update in commit.updates], metadata["location"] != base["location"])


def decide_drop(table: TableState, *, purge_requested: bool, force: bool = False, expires_at_ms: int | None = None) -> TableDropped:
    """Drops the table. The event records if `gc.enabled` keeps its files although a purge was requested.

    Raises TableProtected without `force`.

    expires_at_ms -- the table can be undropped until then; None: the drop is final.
    """
    assert table.status == "live", "a dropped table has no name"
    _check_protection(table, "drop", force=force)
    kept = purge_requested and keeps_its_files(table)
    return TableDropped(purge_requested, gc_enabled=False if kept else None, expires_at_ms=expires_at_ms)


def decide_undrop(table: TableState, found: ResolvedName | None, deleted_with: str | None = None) -> TableUndropped:
    """Gives a soft-deleted table its name again. Raises as `decide_undropped_name`. found -- what its name refers to now."""
    decide_undropped_name("table", table.id, table.status, table.name, found, deleted_with)
    return TableUndropped()


def decide_expire(table: TableState, now_ms: int | None) -> TableExpired | None:
    """Makes the drop of a soft-deleted table final; None if it is no longer soft-deleted, or not due yet.

    now_ms -- None: whatever its expiry, because its namespace is dropped finally.
    """
    if table.status != "soft-deleted" or table.expires_at_ms is None:
        return None
    return TableExpired() if now_ms is None or table.expires_at_ms <= now_ms else None


def decide_unregister(table: TableState, *, force: bool = False) -> TableUnregistered:
    """Removes the table from the catalog. Its files stay, and its name and locations become free. Raises as decide_drop."""
    assert table.status == "live", "a dropped table has no name"
    _check_protection(table, "unregister", force=force)
    return TableUnregistered()


def _check_protection(table: TableState, verb: str, *, force: bool) -> None:
    if table.protected and not force:
        raise TableProtected(f"Table is protected: {table.name}; remove the protection, or {verb} it with force")


def decide_protection(table: TableState, *, protected: bool) -> TableProtectionChanged | None:
    """None if nothing changes."""
    return None if protected == table.protected else TableProtectionChanged(protected)


def decide_purge(table: TableState, files_deleted: int, files_left: list[str], files_left_count: int) -> TablePurged | None:
    """The end of a purge, with the number of files deleted and the files left; None if the table is no longer being purged."""
    return TablePurged(files_deleted, files_left or None, files_left_count or None) if table.status == "purging" else None


def decide_cancel_purge(table: TableState) -> TablePurgeCancelled | None:
    """None if the table is no longer being purged. The caller has checked that no file was deleted."""
    return TablePurgeCancelled() if table.status == "purging" else None


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
                location_keys_after((event.location_key,), None, event.path_keys),
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
                location_keys_after(state.location_keys, event.location_key, event.path_keys),
                apply_delta(state.document, Delta.from_json(event.delta)),
                state.protected,
            )
    assert state is not None
    state = replace(state, version=version, event_id=event_id)
    match event:
        case TableOverwritten():
            return replace(
                state,
                metadata_location=event.metadata_location,
                location_keys=location_keys_after(state.location_keys, event.location_key, event.path_keys),
                document=_renumbered(event.metadata, state.document.next_ordinal),
            )
        case TableRenamed():
            return replace(state, namespace_id=event.namespace_id, name=event.name, name_key=event.name_key)
        case TableProtectionChanged():
            return replace(state, protected=event.protected)
        case TableDropped():
            purges = event.purge_requested and event.gc_enabled is not False
            if event.expires_at_ms is not None:
                return replace(state, status="soft-deleted", expires_at_ms=event.expires_at_ms, purges=purges)
            return replace(state, status="purging" if purges else "dropped")
        case TableUndropped():
            return replace(state, status="live", expires_at_ms=None, purges=False)
        case TableExpired():
            return replace(state, status="purging" if state.purges else "dropped", expires_at_ms=None, purges=False)
        case TableUnregistered() | TablePurgeCancelled():
            return replace(state, status="dropped")
        case TablePurged():
            return replace(state, status="purged")
    raise AssertionError(f"{type(event).__name__} is not an event of a table")


def keeps_its_files(table: TableState) -> bool:
    """Whether the table property `gc.enabled` forbids deleting its files (as in Java: any value but `true` does)."""
    return str(table.document.value["properties"].get("gc.enabled", "true")).lower() != "true"


def claims(state: TableState) -> frozenset[Claim]:
    """Its name while it is live, its place in the namespace while it is soft-deleted; its locations until the drop is final and a
    purge has ended."""
    held: list[Claim] = []
    if state.status in ("live", "soft-deleted", "purging"):
        held += [LocationClaim(key, state.id) for key in state.location_keys]
    if state.status == "live":
        held.append(NameClaim("tabular", state.namespace_id, state.name_key, state.id))
    if state.status == "soft-deleted":
        held.append(NameClaim("soft-deleted", state.namespace_id, str(state.id), state.id))
    return frozenset(held)


def _renumbered(metadata: Json, next_ordinal: int) -> Document:
    # Ordinals are never reused in a stream: the closed parts of the previous document keep theirs.
    document = split(metadata, TABLE_KINDS)
    parts = {kind: tuple(replace(p, ordinal=p.ordinal + next_ordinal) for p in members) for kind, members in document.parts.items()}
    return Document(metadata, parts, document.next_ordinal + next_ordinal)
