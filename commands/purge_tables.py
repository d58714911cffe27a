"""The purge job: deletes the files of tables a client dropped with `purgeRequested`, after the event, and says so in the log.

It may be stopped at any moment: what is deleted is deleted, what is left is found again, and TablePurged comes last.
"""

from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from commands.context import CommandContext
from commands.leader_job import LeaderJob
from commands.submission import Submission
from commands.write_side import WriteSide
from domain.errors import CatalogError
from domain.events import TablePurged
from domain.table import TableState
from projections import tables, warehouses
from projections.connections import Connection
from queries.resolve_warehouse import as_warehouse
from queries.warehouse import Warehouse
from storage.locations import StorageLocation

_log = structlog.get_logger("icecore.purge")

_TABLES_PER_ROUND_MAX = 100
_ACTOR = "icecore-purge"


class PurgeJob(LeaderJob):
    """Deletes files, a table at a time."""

    NAME = "purge"
    LEADER_LOCK = 4936203175

    def __init__(self, write: WriteSide, project_id: UUID) -> None:
        super().__init__(write)
        self._project_id = project_id

    async def run_once(self) -> int:
        """Purges what waits, if no other process does; how many tables."""
        return await self.lead(self._round)

    async def _round(self, connection: Connection) -> int:
        purged = 0
        for table_id, _, warehouse_id in await tables.purging(connection, _TABLES_PER_ROUND_MAX):
            state = await warehouses.read_by_id(connection, self._project_id, warehouse_id)
            assert state is not None, "a table's warehouse is in the log before it"
            try:
                await self._purge(as_warehouse(state, None), table_id)
                purged += 1
            except CatalogError as error:
                # One store that is away keeps no other waiting.
                _log.warning("purge_waits", table_id=str(table_id), error=error.message)
        return purged

    async def _purge(self, warehouse: Warehouse, table_id: UUID) -> None:
        async with self._write.connection() as connection:
            found = await tables.read_state(connection, table_id)
        if found is None or found[0].status != "purging":
            return
        table, generation = found
        deleted = await self._delete_files(warehouse, table)
        context = CommandContext(str(uuid7()), warehouse.project_id, _ACTOR, "purgeTable")
        submission = Submission(context)
        submission.add(table.id, warehouse.id, table, [TablePurged(deleted)], generation)
        result = await self._write.submit(submission)
        _log.info("table_purged", table_id=str(table.id), files_deleted=deleted, outcome=result.outcome)

    async def _delete_files(self, warehouse: Warehouse, table: TableState) -> int:
        """Everything at or below the places the table holds claims on: nobody else's file can lie there."""
        store = await self._write.store(warehouse)
        deleted = 0
        for key in table.location_keys:
            # A claim key is the store's identity, a bar, and the place.
            place = StorageLocation.parse_structure(key.partition("|")[2], what="location")
            async for page in store.list(place):
                await store.delete(page)
                deleted += len(page)
        return deleted
