"""Shares statements between concurrent loads of tables."""

import asyncio

from cachetools import LRUCache

from ..database.connections import OpenConnection
from ..projections import tables
from ..projections.bounded_reads import BYTES_UNBOUNDED, LargeDocument
from ..projections.tables import TABLES_PER_STATEMENT_MAX, LoadedTable, TableLookup
from ..storage.large_documents import LARGE_BYTES_MIN, LargeDocuments

# For one process: this many for tables of any size, and as many again for large ones.
STATEMENTS_CONCURRENT_MAX = 4
# Tables that are found to be this large get separate statements from then on, since others would wait for their bytes.
SEPARATE_STATEMENT_BYTES_MIN = 256 * 1024
LARGE_TABLES_CACHED_MAX = 1_000
# For one table in a statement for several. For a larger table only its size is returned; it is loaded once there is memory for it.
TOGETHER_BYTES_MAX = 512 * 1024

_Future = asyncio.Future[LoadedTable | LargeDocument | None]


class FailedTogetherError(Exception):
    """A statement for several tables failed, perhaps because of one of them."""


class TableLoads:
    """Loads tables in their current state. No result is older than the call."""

    def __init__(self, connection: OpenConnection, single_use_connection: OpenConnection, large_documents: LargeDocuments) -> None:
        self._together = _Statements(connection, TABLES_PER_STATEMENT_MAX, TOGETHER_BYTES_MAX)
        self._alone = _Statements(connection, 1, LARGE_BYTES_MIN)
        self._with_reservation = _Statements(single_use_connection, 1, BYTES_UNBOUNDED)
        self._large_documents = large_documents
        self._large: LRUCache[TableLookup, int] = LRUCache(LARGE_TABLES_CACHED_MAX)

    async def load(self, lookup: TableLookup) -> LoadedTable | None:
        """The table; None if it does not exist. Raises ServiceUnavailable if Postgres is unreachable."""
        loaded = await self._load(lookup)
        if loaded is not None and len(loaded.metadata) >= SEPARATE_STATEMENT_BYTES_MIN:
            self._large[lookup] = len(loaded.metadata)
        else:
            self._large.pop(lookup, None)
        return loaded

    async def _load(self, lookup: TableLookup) -> LoadedTable | None:
        size = self._large.get(lookup, 0)
        if not size:
            try:
                found = await self._together.load(lookup)
                if not isinstance(found, LargeDocument):
                    return found
                size = found.size
            except FailedTogetherError:
                # Loaded alone, it fails only because of itself.
                pass
        if size < LARGE_BYTES_MIN:
            found = await self._alone.load(lookup)
            if not isinstance(found, LargeDocument):
                return found
            size = found.size
        async with self._large_documents.reservation() as reservation:
            await reservation.reserve(size)
            found = await self._with_reservation.load(lookup)
        assert not isinstance(found, LargeDocument)
        return found


class _Statements:
    """Runs statements for at most `tables_max` tables each, in STATEMENTS_CONCURRENT_MAX tasks at most."""

    def __init__(self, connection: OpenConnection, tables_max: int, bytes_max: int) -> None:
        self._connection = connection
        self._tables_max, self._bytes_max = tables_max, bytes_max
        self._waiting: dict[TableLookup, list[_Future]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Tasks that will soon take waiting tables: they were started, or wait for a connection.
        self._about_to_take = 0
        self._loading_directly = False

    async def load(self, lookup: TableLookup) -> LoadedTable | LargeDocument | None:
        if not self._tasks and not self._loading_directly:
            return await self._load_directly(lookup)
        # Not a local variable: its error would refer to this frame, a reference cycle.
        return await self._join(lookup)

    def _join(self, lookup: TableLookup) -> _Future:
        """A future for the result of the next statement that has room for the table."""
        future: _Future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(lookup, []).append(future)
        if len(self._waiting) > self._about_to_take * self._tables_max and len(self._tasks) < STATEMENTS_CONCURRENT_MAX:
            self._about_to_take += 1
            self._tasks.add(asyncio.create_task(self._load_on(), name="table-loads"))
        return future

    async def _load_directly(self, lookup: TableLookup) -> LoadedTable | LargeDocument | None:
        """Loads directly while no other load is running, which saves the time of starting a task."""
        self._loading_directly = True
        try:
            async with self._connection() as connection:
                (loaded,) = await tables.load_current(connection, [lookup], self._bytes_max)
        finally:
            self._loading_directly = False
        return loaded

    async def _load_on(self) -> None:
        """Loads waiting tables, and then those that arrived meanwhile."""
        await self._load_some()
        while self._waiting:
            self._about_to_take += 1
            await self._load_some()
        # Immediately, not in a callback of the task: a load that arrived before that callback would wait for a task that has ended.
        task = asyncio.current_task()
        assert task is not None
        self._tasks.remove(task)

    async def _load_some(self) -> None:
        taken: dict[TableLookup, list[_Future]] | None = None
        try:
            async with self._connection() as connection:
                # After the connection is acquired, so that loads that arrive meanwhile can join.
                taken = self._take(self._tables_max)
                loaded = await tables.load_current(connection, [*taken], self._bytes_max) if taken else []
        except Exception as error:
            if taken is None:
                # Without a connection, all waiting loads fail: a second attempt would take just as long to fail.
                taken = self._take(len(self._waiting))
                _fail(taken, error)
            else:
                _fail(taken, error if len(taken) == 1 else FailedTogetherError())
        else:
            for futures, table in zip(taken.values(), loaded, strict=True):
                for future in futures:
                    if not future.done():
                        future.set_result(table)

    def _take(self, tables_max: int) -> dict[TableLookup, list[_Future]]:
        """The tables that have waited longest, without those whose requests have ended."""
        self._about_to_take -= 1
        taken: dict[TableLookup, list[_Future]] = {}
        while self._waiting and len(taken) < tables_max:
            lookup = next(iter(self._waiting))
            futures = self._waiting.pop(lookup)
            if not all(future.done() for future in futures):
                taken[lookup] = futures
        return taken


def _fail(taken: dict[TableLookup, list[_Future]], error: Exception) -> None:
    """Fails the futures and empties `taken`, which would otherwise form a reference cycle with the error's traceback."""
    while taken:
        _, futures = taken.popitem()
        while futures:
            future = futures.pop()
            if not future.done():
                future.set_exception(error)
