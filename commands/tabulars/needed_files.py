"""The files that engines need to read undropped tables and views: the metadata file, and of a table its current snapshot's manifest list,
manifests, and data and delete files.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.errors import BadRequest, FilesMissing, FilesUnreadable, ServiceUnavailable
from ...domain.metadata.fields import Json
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import soft_deleted, tables, views
from ...storage.large_documents import DocumentReservation
from ...storage.location_policy import PATH_PROPERTIES
from ...storage.locations import StorageLocation
from ...storage.object_store import ObjectStore
from ..execution.executor import CommandExecutor
from ..execution.resolver import OutdatedRead
from .snapshot_files import NAMED_MAX, FoundFiles, SnapshotFiles, find_snapshot_files, missing_among

FILES_SECONDS_MAX = 60.0
SNAPSHOT_MANIFESTS_LENGTH_MAX = 1024 * 1024
"""Limit on the characters of the manifests that snapshots name themselves, of all tables of one undrop."""

_log = structlog.get_logger("icecore.undrop")


@dataclass(slots=True)
class _NeededFiles:
    """What the metadata of soft-deleted objects says of their files. It is small, however large the metadata is.

    versions -- those of the objects. first -- metadata files and manifest lists. snapshots -- the current ones, without encrypted ones,
        whose manifests cannot be read here. complete -- False: some are encrypted, or manifests are beyond SNAPSHOT_MANIFESTS_LENGTH_MAX.
    """

    versions: dict[UUID, int] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)
    snapshots: list[SnapshotFiles] = field(default_factory=list)
    complete: bool = True


async def check_needed_files(
    executor: CommandExecutor,
    warehouse: Warehouse,
    reservation: DocumentReservation,
    table_ids: Sequence[UUID],
    view_ids: Sequence[UUID],
) -> dict[UUID, int]:
    """Checks first the metadata files and manifest lists of all, then, within the limits of snapshot_files.py, the other files. What is not
    soft-deleted is passed over. Returns the versions of what was checked: another version may need other files.

    reservation -- released once the metadata is read: no memory is reserved while stores are asked, which may not respond.

    Raises FilesMissing, FilesUnreadable for damaged manifests, and ServiceUnavailable if the store does not respond in time or if other
    undrops read manifests for too long.
    """
    needed = await _read_needed_files(executor, reservation, table_ids, view_ids)
    if not needed.first:
        return {}
    store = await executor.store(warehouse)
    await _check_first_files(store, needed.first)
    found = FoundFiles()
    if needed.snapshots:
        async with executor.undrop_check_limit.acquired(warehouse.project_id):
            # A repetition of the request waits for the first one, and has nothing to do after it.
            if await _any_soft_deleted(executor, warehouse, table_ids):
                found = await find_snapshot_files(store, needed.snapshots)
    found.complete = found.complete and needed.complete
    if found.missing_count:
        _refuse_missing(found.missing, found.missing_count, complete=found.complete)
    if found.unreadable_count:
        _refuse_unreadable(found)
    if not found.complete:
        _log.info("undrop_checked_in_part", warehouse=warehouse.name, tables=len(needed.snapshots), files_checked=found.checked)
    return needed.versions


def check_versions(checked: Mapping[UUID, int], states: Sequence[TableState | ViewState]) -> None:
    """Raises OutdatedRead if the files of another version were checked: the object was undropped and dropped again meanwhile."""
    if any(checked.get(state.id) != state.version for state in states):
        raise OutdatedRead


async def _any_soft_deleted(executor: CommandExecutor, warehouse: Warehouse, table_ids: Sequence[UUID]) -> bool:
    async with executor.connection() as connection:
        statuses = await soft_deleted.statuses(connection, warehouse.id, [("table", table_id) for table_id in table_ids])
    return "soft-deleted" in statuses.values()


async def _read_needed_files(
    executor: CommandExecutor, reservation: DocumentReservation, table_ids: Sequence[UUID], view_ids: Sequence[UUID]
) -> _NeededFiles:
    needed = _NeededFiles()
    async with executor.connection() as connection:
        for view_id, version, file in await views.soft_deleted_files(connection, view_ids):
            needed.versions[view_id] = version
            needed.first.append(file)
        size = await tables.head_size(connection, table_ids)
    await reservation.reserve_anew(size)
    async with executor.connection() as connection:
        current = await _add_metadata_files(needed, connection, table_ids)
        size = await tables.snapshots_size(connection, [*current])
    await reservation.reserve_anew(size)
    async with executor.connection() as connection:
        await _add_snapshots(needed, connection, current)
    reservation.shrink(0)
    return needed


async def _add_metadata_files(
    needed: _NeededFiles, connection: Connection, table_ids: Sequence[UUID]
) -> dict[tuple[UUID, int], tuple[str, ...]]:
    """Returns the folders of the soft-deleted tables that have a snapshot, by the ids of table and snapshot."""
    current: dict[tuple[UUID, int], tuple[str, ...]] = {}
    for state, _ in await tables.read_heads(connection, table_ids):
        if state.status == "soft-deleted":
            needed.versions[state.id] = state.version
            needed.first.append(state.metadata_location)
            snapshot_id = state.document.value.get("current-snapshot-id")
            if snapshot_id is not None:
                current[state.id, snapshot_id] = _folders(state.document.value)
    return current


async def _add_snapshots(needed: _NeededFiles, connection: Connection, current: Mapping[tuple[UUID, int], tuple[str, ...]]) -> None:
    folders = {table_id: each for (table_id, _), each in current.items()}
    length_left = SNAPSHOT_MANIFESTS_LENGTH_MAX
    for table_id, snapshot in (await tables.read_snapshots(connection, [*current])).items():
        if snapshot.get("manifest-list") is not None:
            needed.first.append(snapshot["manifest-list"])
        if snapshot.get("key-id") is not None:
            needed.complete = False
            continue
        manifests: list[str] = []
        for manifest in snapshot.get("manifests") or ():
            length_left -= len(manifest)
            if length_left < 0:
                needed.complete = False
                break
            manifests.append(manifest)
        needed.snapshots.append(SnapshotFiles(snapshot.get("manifest-list"), tuple(manifests), folders[table_id]))


def _folders(metadata: Json) -> tuple[str, ...]:
    """Where writers of a table put files. Every commit checks that they are locations (location_policy.py)."""
    properties = metadata.get("properties") or {}
    return tuple(dict.fromkeys((metadata["location"], *(properties[name] for name in PATH_PROPERTIES if name in properties))))


async def _check_first_files(store: ObjectStore, files: list[str]) -> None:
    locations = []
    for file in files:
        try:
            locations.append(StorageLocation.parse_structure(file, field="file"))
        except BadRequest:
            continue
    try:
        async with asyncio.timeout(FILES_SECONDS_MAX):
            missing = await missing_among(store, locations)
    except TimeoutError:
        raise ServiceUnavailable(f"The object store does not respond: {files[0]}") from None
    if missing:
        _refuse_missing(sorted(each.text for each in missing)[:NAMED_MAX], len(missing))


def _refuse_missing(named: list[str], count: int, *, complete: bool = True) -> None:
    listed = _listed(named, count, complete=complete)
    raise FilesMissing(
        f"Nothing was undropped, because files are missing in the store: {listed}; with force it is undropped anyway, but cannot "
        "be read until the files are back"
    )


def _refuse_unreadable(found: FoundFiles) -> None:
    listed = _listed(found.unreadable, found.unreadable_count, complete=found.complete)
    raise FilesUnreadable(f"Nothing was undropped, because manifests are damaged or too large: {listed}; with force it is undropped anyway")


def _listed(named: list[str], count: int, *, complete: bool) -> str:
    """complete -- False: there may be more than `count`."""
    more = f" and {'' if complete else 'at least '}{count - len(named)} more" if count > len(named) else ""
    return ", ".join(named) + more
