"""The read side as questions see it: connections to the read models, answers kept in the process, the stores behind the tables."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, cast
from uuid import UUID

from database.connections import Connection, ConnectionHandOff
from projections.bounded_reads import BYTES_UNBOUNDED, LargeDocument
from queries.freshness import CATCH_UP_SECONDS_MAX, Freshness
from queries.read_cache import ReadCache, Tag
from queries.table_loads import TableLoads
from queries.warehouse import Warehouse
from security.secrets import SecretStore
from storage.credentials import StorageCredential
from storage.large_documents import BYTES_AT_ONCE_MAX, LARGE_BYTES_MIN, DocumentShare, LargeDocuments
from storage.object_store import ObjectStore, ObjectStores

Value = TypeVar("Value")

WAREHOUSES_KNOWN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Fresh(Generic[Value]):
    """What was read for an answer, how many bytes keeping it takes, and the tags of what it was made from."""

    value: Value
    size_bytes: int
    tags: Iterable[Tag]


class KnownWarehouses:
    """Warehouses by what requests called them, the longest unused out first."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[UUID, str | None], Warehouse] = OrderedDict()

    def get(self, called: tuple[UUID, str | None]) -> Warehouse | None:
        warehouse = self._known.get(called)
        if warehouse is not None:
            self._known.move_to_end(called)
        return warehouse

    def clear(self) -> None:
        self._known.clear()

    def put(self, called: tuple[UUID, str | None], warehouse: Warehouse) -> None:
        self._known[called] = warehouse
        if len(self._known) > WAREHOUSES_KNOWN_MAX:
            self._known.popitem(last=False)


class ReadSide:
    """What every question takes. `cache_bytes_max` 0 keeps nothing: every question then asks the read models."""

    def __init__(
        self,
        connections: ConnectionHandOff,
        stores: ObjectStores,
        secrets: SecretStore,
        *,
        cache_bytes_max: int,
        large_documents_bytes_max: int = BYTES_AT_ONCE_MAX,
    ) -> None:
        self._connections = connections
        self._stores = stores
        self._secrets = secrets
        self._credentials: dict[UUID, StorageCredential] = {}
        self.warehouses = KnownWarehouses()
        self.cache = ReadCache(cache_bytes_max)
        self._keeps = cache_bytes_max > 0
        self._freshness = Freshness(self.cache, partial(connections.connection, CATCH_UP_SECONDS_MAX), self._forget)
        connections.on_broken = self._forget
        self.large_documents = LargeDocuments(large_documents_bytes_max)
        self.table_loads = TableLoads(connections.connection, connections.connection_once, self.large_documents)

    async def close(self) -> None:
        """Ends the read of the log that nobody waits for."""
        await self._freshness.close()

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        return self._connections.connection()

    def connection_once(self) -> AbstractAsyncContextManager[Connection]:
        """For one large answer."""
        return self._connections.connection_once()

    def _forget(self) -> None:
        """What is known for good is so in one log: behind a connection that broke there may be another, restored to an earlier point."""
        self.cache.clear()
        self.warehouses.clear()
        self._credentials.clear()

    @property
    def connections(self) -> ConnectionHandOff:
        """Where connections to the read models are handed over."""
        return self._connections

    async def answer(self, key: Hashable, as_of: int | None, read: Callable[[Connection], Awaitable[Fresh[Value]]]) -> Value:
        """The kept answer, if nothing that came into the log before this call concerns it; else what `read` finds now.

        `key` must say all that `read` depends on beside the read models. A past is read each time: few ask for the same one.
        """

        async def find() -> Fresh[Value]:
            async with self.connection() as connection:
                return await read(connection)

        return await self.answer_found(key, as_of, find)

    async def read_within(
        self, read: Callable[[Connection, int], Awaitable[Value | LargeDocument]], share: DocumentShare | None = None
    ) -> Value:
        """What `read` finds of a document of so many bytes at most; a larger one is read when there is room for it.

        share -- held until what was read is done with; without one, there is room for it only while it is read.
        """
        async with self.connection() as connection:
            found = await read(connection, LARGE_BYTES_MIN)
        if not isinstance(found, LargeDocument):
            return found
        # Without a connection in hand: who has the room may wait for one.
        async with self.large_documents.share() as own:
            await (share or own).take(found.size)
            async with self.connection_once() as connection:
                found = await read(connection, BYTES_UNBOUNDED)
        assert not isinstance(found, LargeDocument)
        return found

    async def answer_found(self, key: Hashable, as_of: int | None, find: Callable[[], Awaitable[Fresh[Value]]]) -> Value:
        """The same for a question that sees to its connection itself."""
        if as_of is not None or not self._keeps:
            return (await find()).value
        if key in self.cache or not self._freshness.has_head:
            await self._freshness.confirm()
            kept = self.cache.get(key)
            if kept is not None:
                return cast(Value, kept)
        ticket = self.cache.begin()
        try:
            fresh = await find()
        except BaseException:
            self.cache.give_up(ticket)
            raise
        kept = cast(Value, self.cache.keep(ticket, key, fresh.value, fresh.size_bytes, fresh.tags))
        self._freshness.follow()
        return kept

    async def store(self, warehouse: Warehouse) -> ObjectStore:
        """The warehouse's object store, opened with its own credential."""
        credential = None
        if warehouse.secret_ref is not None:
            credential = self._credentials.get(warehouse.secret_ref)
            if credential is None:
                async with self.connection() as connection:
                    data = await self._secrets.get(connection, warehouse.project_id, warehouse.secret_ref)
                # A secret's bytes never change under its reference.
                credential = self._credentials[warehouse.secret_ref] = StorageCredential.from_bytes(data)
        return await self._stores.open(warehouse.profile, credential)
