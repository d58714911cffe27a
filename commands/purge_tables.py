"""The purge job: deletes the files of tables a client dropped with `purgeRequested`, after the event, and says so in the log.

It may be stopped at any moment: what is deleted is deleted, what is left is found again, and TablePurged comes last.
"""

import asyncio
from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from commands.context import CommandContext
from commands.submission import Submission
from commands.write_side import WriteSide
from domain.errors import CatalogError
from domain.events import TablePurged
from domain.table import TableState
from migrations.named_sql import named_sql
from projections import tables, warehouses
from queries.resolve_warehouse import as_warehouse
from queries.warehouse import Warehouse
from storage.locations import StorageLocation

_SQL = named_sql("commands", "purge_tables.sql")
_log = structlog.get_logger("icecore.purge")

_TABLES_PER_ROUND_MAX = 100
_POLL_SECONDS = 1.0
_ACTOR = "icecore-purge"
# One process at a time purges; the number is ours alone (docs/architecture.md, "Processes").
_LEADER_LOCK = 4936203175


class PurgeJob:
    """Runs beside the server; of several processes one leads."""

    def __init__(self, write: WriteSide, project_id: UUID) -> None:
        self._write = write
        self._project_id = project_id
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="purge")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self.run_once()
            except CatalogError as error:
                _log.warning("purge_waits", error=error.message)
            await asyncio.sleep(_POLL_SECONDS)

    async def run_once(self) -> int:
        """Purges what waits, if no other process does; how many tables."""
        async with self._write.connection() as connection:
            cursor = await connection.execute(_SQL["lead"], {"lock": _LEADER_LOCK})
            if await cursor.fetchone() != (True,):
                return 0
            try:
                waiting = await tables.purging(connection, _TABLES_PER_ROUND_MAX)
                for table_id, _, warehouse_id in waiting:
                    state = await warehouses.read_by_id(connection, self._project_id, warehouse_id)
                    assert state is not None, "a table's warehouse is in the log before it"
                    await self._purge(as_warehouse(state, None), table_id)
            finally:
                await connection.execute(_SQL["stop_leading"], {"lock": _LEADER_LOCK})
        return len(waiting)

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
