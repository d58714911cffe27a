"""The files that engines need to read undropped tables and views: the metadata file, and of a table its current snapshot's manifest list,
manifests, and data and delete files.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog

from ...access.warehouse import Warehouse
from ...domain.errors import BadRequest, FilesMissing, FilesUnreadable, ServiceUnavailable
from ...domain.metadata.fields import Json
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import tables
from ...storage.location_policy import PATH_PROPERTIES
from ...storage.locations import StorageLocation
from ...storage.object_store import ObjectStore
from ..execution.executor import CommandExecutor
from .snapshot_files import NAMED_MAX, FoundFiles, SnapshotFiles, find_snapshot_files, missing_among

FILES_SECONDS_MAX = 60.0
CHECK_WAIT_SECONDS_MAX = 30.0
"""How long an undrop waits for others that read manifests."""

_log = structlog.get_logger("icecore.undrop")


async def check_needed_files(executor: CommandExecutor, warehouse: Warehouse, states: Sequence[TableState | ViewState]) -> None:
    """Checks first the metadata files and manifest lists of all, then, within the limits of snapshot_files.py, the other files.

    Raises FilesMissing, FilesUnreadable for damaged manifests, and ServiceUnavailable if the store does not respond in time or if other
    undrops read manifests for too long. Of tables only the heads are used.
    """
    files = [state.metadata_location for state in states]
    current = {
        state.id: (state, snapshot_id)
        for state in states
        if isinstance(state, TableState) and (snapshot_id := state.document.value.get("current-snapshot-id")) is not None
    }
    snapshots: list[SnapshotFiles] = []
    if current:
        async with executor.connection() as connection:
            found = await tables.read_snapshots(connection, [(table_id, snapshot_id) for table_id, (_, snapshot_id) in current.items()])
        files += [each["manifest-list"] for each in found.values() if each.get("manifest-list") is not None]
        # Encrypted manifests cannot be read here.
        snapshots = [_snapshot_files(current[table_id][0], each) for table_id, each in found.items() if each.get("key-id") is None]
    if not files:
        return
    store = await executor.store(warehouse)
    await _check_first_files(store, files)
    if snapshots:
        async with _turn(executor):
            result = await find_snapshot_files(store, snapshots)
        if result.missing_count:
            _refuse_missing(result.missing, result.missing_count, complete=result.complete)
        if result.unreadable_count:
            _refuse_unreadable(result)
        if not result.complete:
            _log.info("undrop_checked_in_part", warehouse=warehouse.name, tables=len(snapshots), files_checked=result.checked)


def _snapshot_files(table: TableState, snapshot: Json) -> SnapshotFiles:
    document = table.document.value
    properties = document.get("properties") or {}
    folders = (document["location"], *(properties[name] for name in PATH_PROPERTIES if name in properties))
    return SnapshotFiles(snapshot.get("manifest-list"), tuple(snapshot.get("manifests") or ()), folders)


@asynccontextmanager
async def _turn(executor: CommandExecutor) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(CHECK_WAIT_SECONDS_MAX):
            await executor.undrop_checks.acquire()
    except TimeoutError:
        raise ServiceUnavailable("The files of other undrops are being checked; try again later", retry_after_seconds=1) from None
    try:
        yield
    finally:
        executor.undrop_checks.release()


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
        f"Nothing was undropped, because files are missing in the store: {listed}; force undrops it anyway, but it cannot be read"
    )


def _refuse_unreadable(found: FoundFiles) -> None:
    listed = _listed(found.unreadable, found.unreadable_count, complete=found.complete)
    raise FilesUnreadable(f"Nothing was undropped, because manifests are damaged or too large: {listed}; force undrops it anyway")


def _listed(named: list[str], count: int, *, complete: bool) -> str:
    """complete -- False: there may be more than `count`."""
    more = f" and {'' if complete else 'at least '}{count - len(named)} more" if count > len(named) else ""
    return ", ".join(named) + more
