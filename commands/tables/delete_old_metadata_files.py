"""The job that deletes old metadata files: those that commits removed from their tables' metadata logs.

It can be stopped at any moment. A file's row is deleted after the file, and while the row exists the file cannot be registered. Not deleted
are: files that a live table refers to again, the remaining files of a dropped table, files in locations that another object claims, a
table's current metadata file, the last one of a dropped table, and files that are not named like metadata files.

Before a store is asked to delete a file, the leader's session marks the file's row. From then on the file is deleted in any case, also by
the next leader, because a request to a store may take effect long after its sender abandoned it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from uuid import UUID

import psycopg
import structlog

from ...access.resolve_warehouse import as_warehouse
from ...database.advisory_locks import AdvisoryLock
from ...database.connections import Connection
from ...domain.errors import CatalogError, ServiceUnavailable
from ...domain.metadata.logs import may_delete_metadata_file
from ...projections import old_metadata_files, tables, warehouses
from ...projections.old_metadata_files import PendingFile
from ...storage.locations import StorageLocation
from ...storage.metadata_files import is_metadata_file
from ...storage.object_store import ObjectStore
from ..execution.executor import CommandExecutor
from ..execution.leader_job import FENCE_SECONDS_MAX, LeaderJob, LeadershipLost
from .old_metadata_files import parsed_file

_log = structlog.get_logger("icecore.commands")

FILES_PAGE_SIZE = 1_000
"""Limit on the files of one warehouse in one round."""
WAREHOUSES_CONCURRENT_MAX = 4
DELETION_STORE_SECONDS_MAX = 60.0
"""Limit on deleting these files."""
PAUSE_SECONDS = 30.0
"""How long a warehouse waits after its store failed. Other warehouses are not delayed."""


class OldMetadataFilesJob(LeaderJob):
    """Deletes files of several warehouses at a time."""

    NAME = "old-metadata-files"
    LEADER_LOCK = AdvisoryLock.OLD_METADATA_FILES_JOB

    def __init__(self, executor: CommandExecutor) -> None:
        super().__init__(executor)
        self._paused_until: dict[UUID, float] = {}
        """Monotonic seconds, by warehouse whose last attempt failed."""

    async def run_once(self) -> int:
        """Deletes pending files, if no other process leads. Returns the number of rows that are done."""
        return await self.lead(self._round)

    async def _round(self, leading: Connection) -> int:
        now = time.monotonic()
        paused = [warehouse_id for warehouse_id, until in self._paused_until.items() if until > now]
        paused += await warehouses.read_only_ids(leading)
        found = await old_metadata_files.pending_warehouses(leading, paused)
        done = 0
        for start in range(0, len(found), WAREHOUSES_CONCURRENT_MAX):
            together = found[start : start + WAREHOUSES_CONCURRENT_MAX]
            # Waits for all of them, because none may continue after this process has lost the lead.
            outcomes = await asyncio.gather(*(self._attempt(leading, warehouse_id) for warehouse_id in together), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
                done += outcome
        return done

    async def _attempt(self, leading: Connection, warehouse_id: UUID) -> int:
        """Deletes files of one warehouse. A failure does not delay the other warehouses."""
        # Further failures in a row are not logged.
        first = warehouse_id not in self._paused_until
        try:
            done = await self._delete_some(leading, warehouse_id)
        except LeadershipLost:
            raise
        except CatalogError as error:
            if first:
                _log.warning("metadata_file_deletion_retrying", warehouse_id=str(warehouse_id), error=error.message)
        except Exception:
            if first:
                _log.exception("metadata_file_deletion_retrying", warehouse_id=str(warehouse_id))
        else:
            self._paused_until.pop(warehouse_id, None)
            return done
        self._paused_until[warehouse_id] = time.monotonic() + PAUSE_SECONDS
        return 0

    async def _delete_some(self, leading: Connection, warehouse_id: UUID) -> int:
        async with self._executor.connection() as connection:
            state = await warehouses.read_of_any_project(connection, warehouse_id)
            pending = await old_metadata_files.pending_files(connection, warehouse_id, FILES_PAGE_SIZE)
        assert state is not None, "a table's warehouse is in the log before it"
        if state.read_only:
            # Since the round began.
            return 0
        warehouse = as_warehouse(state, None)
        files = await self._unnamed(pending, warehouse.profile.storage_identity)
        kept = [file.key for file in pending if file.key not in files]
        if not files:
            await self._remove(leading, [], kept)
            return len(kept)
        store = await self._executor.store(warehouse)
        begun = await self._begin(leading, [*files])
        deleted: list[str] = []
        try:
            async with asyncio.timeout(DELETION_STORE_SECONDS_MAX):
                await _delete(store, {key: file for key, file in files.items() if key in begun}, deleted)
            failure = None
        except TimeoutError:
            failure = ServiceUnavailable(f"The object store does not respond: {next(iter(files.values())).text}")
        except ServiceUnavailable as error:
            failure = error
        await self._remove(leading, deleted, kept)
        if failure is not None:
            raise failure
        return len(deleted) + len(kept)

    async def _begin(self, leading: Connection, keys: Sequence[str]) -> set[str]:
        """Marks the rows as begun and returns the keys of those that are still to be deleted. Raises LeadershipLost unless this process
        leads.
        """
        try:
            async with asyncio.timeout(FENCE_SECONDS_MAX):
                if await self.leads(leading):
                    # In the leader's session: while the session lives, no other process leads.
                    return await old_metadata_files.begin(leading, keys)
        except (TimeoutError, psycopg.Error):
            pass
        raise LeadershipLost("Another process may be the leader")

    async def _remove(self, leading: Connection, deleted: Sequence[str], kept: Sequence[str]) -> None:
        """Deletes rows. Raises LeadershipLost if the leader's session has ended; the next leader finds the rows again."""
        try:
            await old_metadata_files.remove(leading, deleted=deleted, kept=kept)
        except psycopg.Error:
            raise LeadershipLost("Another process may be the leader") from None

    async def _unnamed(self, pending: list[PendingFile], storage_identity: str) -> dict[str, StorageLocation]:
        """The files to delete by key: those whose deletion has begun, and those that their live table does not refer to any more.

        Files in other objects' locations and the current or last file of a table are left out, as are rows with a wrong key and files that
        are not named like metadata files.
        """
        by_table: dict[UUID, list[PendingFile]] = {}
        for file in pending:
            by_table.setdefault(file.table_id, []).append(file)
        unnamed: dict[str, StorageLocation] = {}
        for table_id, files in by_table.items():
            async with self._executor.connection() as connection:
                table = await tables.named_metadata_files(connection, table_id)
            if table is None:
                continue
            named = dict.fromkeys(map(parsed_file, table.files))
            current_file = next(iter(named))
            for file in files:
                location = parsed_file(file.location)
                if location is None:
                    _log.warning("old_metadata_file_not_deleted", files=[file.location], error="invalid location")
                    continue
                if not is_metadata_file(location) or file.others or location.claim_key(storage_identity) != file.key:
                    continue
                if may_delete_metadata_file(
                    begun=file.begun, current=location == current_file, named=location in named, live=table.is_live
                ):
                    unnamed[file.key] = location
        return unnamed


async def _delete(store: ObjectStore, files: Mapping[str, StorageLocation], done: list[str]) -> None:
    """Adds to `done` the keys of the files that are deleted, and of those that the store refuses to delete.

    Raises ServiceUnavailable if the store is unreachable; the other files can be deleted later.
    """
    try:
        await store.delete([*files.values()])
    except ServiceUnavailable:
        raise
    except CatalogError as error:
        if len(files) > 1:
            for key, file in files.items():
                await _delete(store, {key: file}, done)
            return
        _log.warning("old_metadata_file_not_deleted", files=[file.text for file in files.values()], error=error.message)
    done += files
