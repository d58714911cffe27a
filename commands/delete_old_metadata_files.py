"""The job that deletes old metadata files: those that commits removed from their tables' metadata logs.

It may be stopped at any moment: a file's row is removed after the file, and while the row is there nobody can register the file. The files
that a live table names again stay, in its metadata log too. A table that is gone keeps what is left of its files.
"""

import asyncio
import time
from uuid import UUID

import structlog

from commands.leader_job import LeaderJob
from commands.old_metadata_files import parsed_file
from commands.write_side import WriteSide
from domain.errors import CatalogError, ServiceUnavailable
from projections import old_metadata_files, tables, warehouses
from projections.connections import Connection
from projections.old_metadata_files import PendingFile
from queries.resolve_warehouse import as_warehouse
from storage.locations import StorageLocation
from storage.object_store import ObjectStore

_log = structlog.get_logger("icecore.commands")

FILES_AT_ONCE_MAX = 1_000
"""Of one warehouse, in one round."""
WAREHOUSES_AT_ONCE_MAX = 4
STORE_SECONDS_MAX = 60.0
"""For one answer of a store."""
PAUSE_SECONDS = 30.0
"""How long a warehouse waits whose store failed; the others go on."""


class OldMetadataFilesJob(LeaderJob):
    """Deletes the files of some warehouses at a time."""

    NAME = "old-metadata-files"
    LEADER_LOCK = 4936203180

    def __init__(self, write: WriteSide) -> None:
        super().__init__(write)
        self._paused_until: dict[UUID, float] = {}
        """Monotonic seconds, by warehouse whose last attempt failed."""

    async def run_once(self) -> int:
        """Deletes what waits, if no other process does; how many rows are done with."""
        return await self.lead(self._round)

    async def _round(self, leading: Connection) -> int:
        now = time.monotonic()
        paused = [warehouse_id for warehouse_id, until in self._paused_until.items() if until > now]
        found = await old_metadata_files.pending_warehouses(leading, paused)
        done = 0
        for start in range(0, len(found), WAREHOUSES_AT_ONCE_MAX):
            together = found[start : start + WAREHOUSES_AT_ONCE_MAX]
            done += sum(await asyncio.gather(*(self._attempt(leading, warehouse_id) for warehouse_id in together)))
        return done

    async def _attempt(self, leading: Connection, warehouse_id: UUID) -> int:
        """Whatever fails here keeps no other warehouse waiting."""
        # Further failures in a row are not logged.
        first = warehouse_id not in self._paused_until
        try:
            done = await self._delete_some(leading, warehouse_id)
        except CatalogError as error:
            if first:
                _log.warning("metadata_files_wait", warehouse_id=str(warehouse_id), error=error.message)
        except Exception:
            if first:
                _log.exception("metadata_files_wait", warehouse_id=str(warehouse_id))
        else:
            self._paused_until.pop(warehouse_id, None)
            return done
        self._paused_until[warehouse_id] = time.monotonic() + PAUSE_SECONDS
        return 0

    async def _delete_some(self, leading: Connection, warehouse_id: UUID) -> int:
        async with self._write.connection() as connection:
            state = await warehouses.read_of_any_project(connection, warehouse_id)
            pending = await old_metadata_files.pending_files(connection, warehouse_id, FILES_AT_ONCE_MAX)
        assert state is not None, "a table's warehouse is in the log before it"
        store = await self._write.store(as_warehouse(state, None))
        files = await self._unnamed(pending)
        if files:
            if not await self.leads(leading):
                raise ServiceUnavailable("Another process may delete by now")
            await _delete(store, files)
        async with self._write.connection() as connection:
            await old_metadata_files.remove(connection, [file.key for file in pending])
        return len(pending)

    async def _unnamed(self, pending: list[PendingFile]) -> list[StorageLocation]:
        """The files of live tables that their tables as they are now do not name."""
        by_table: dict[UUID, list[str]] = {}
        for file in pending:
            by_table.setdefault(file.table_id, []).append(file.location)
        unnamed: list[StorageLocation] = []
        for table_id, files in by_table.items():
            async with self._write.connection() as connection:
                current = await tables.named_metadata_files(connection, table_id)
            if current is not None:
                named = {parsed_file(file) for file in current.files}
                unnamed += [location for file in files if (location := parsed_file(file)) is not None and location not in named]
        return unnamed


async def _delete(store: ObjectStore, files: list[StorageLocation]) -> None:
    """ServiceUnavailable where the store is away: then it may delete them yet. One that it refuses to delete is left."""
    try:
        async with asyncio.timeout(STORE_SECONDS_MAX):
            await store.delete(files)
    except TimeoutError:
        raise ServiceUnavailable(f"The object store does not answer: {files[0].spelled}") from None
    except ServiceUnavailable:
        raise
    except CatalogError as error:
        if len(files) == 1:
            _log.warning("metadata_file_left", files=[files[0].spelled], error=error.message)
            return
        for file in files:
            await _delete(store, [file])
