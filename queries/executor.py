"""Runs queries: authorizes them, and answers from the cache if no event has changed what they read."""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, cast

from ..access.authorization import Authorizer, Resource
from ..access.backends import Backends
from ..access.request_context import RequestContext
from ..database.connections import Connection
from .freshness import CATCH_UP_SECONDS_MAX, Freshness
from .read_cache import ReadCache, Tag
from .table_loads import TableLoads

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Fresh(Generic[Value]):
    """What was read for an answer.

    resource -- what it is about. size_bytes -- what keeping it takes. tags -- of what it was made from.
    """

    value: Value
    resource: Resource
    size_bytes: int
    tags: Iterable[Tag]


class QueryExecutor:
    """What queries of one process are run with. `cache_bytes_max` 0 keeps nothing: every query then asks the read models."""

    def __init__(self, backends: Backends, authorizer: Authorizer, *, cache_bytes_max: int) -> None:
        self.backends = backends
        self._authorizer = authorizer
        self.cache = ReadCache(cache_bytes_max)
        self._keeps = cache_bytes_max > 0
        connections = backends.connections
        self._freshness = Freshness(self.cache, partial(connections.connection, CATCH_UP_SECONDS_MAX), self._forget)
        connections.on_broken = self._forget
        self.table_loads = TableLoads(backends.connection, backends.connection_once, backends.large_documents)

    async def close(self) -> None:
        """Ends the read of the log that nobody waits for."""
        await self._freshness.close()

    def _forget(self) -> None:
        self.cache.clear()
        self.backends.forget()

    async def authorize(self, context: RequestContext, *resources: Resource) -> None:
        """Forbidden where the principal may not ask this of the resources."""
        await self._authorizer.authorize(context, resources)

    async def answer(
        self, context: RequestContext, key: Hashable, as_of: int | None, read: Callable[[Connection], Awaitable[Fresh[Value]]]
    ) -> Value:
        """The kept answer, if nothing that came into the log before this call concerns it; else what `read` finds now.

        `key` must say all that `read` depends on beside the read models. A past is read each time: few ask for the same one.
        """

        async def find() -> Fresh[Value]:
            async with self.backends.connection() as connection:
                return await read(connection)

        return await self.answer_found(context, key, as_of, find)

    async def answer_found(
        self, context: RequestContext, key: Hashable, as_of: int | None, find: Callable[[], Awaitable[Fresh[Value]]]
    ) -> Value:
        """The same for a query that sees to its connection itself."""
        found = await self._found(key, as_of, find)
        await self.authorize(context, found.resource)
        return found.value

    async def _found(self, key: Hashable, as_of: int | None, find: Callable[[], Awaitable[Fresh[Value]]]) -> Fresh[Value]:
        if as_of is not None or not self._keeps:
            return await find()
        if key in self.cache or not self._freshness.has_head:
            await self._freshness.confirm()
            kept = self.cache.get(key)
            if kept is not None:
                return cast(Fresh[Value], kept)
        ticket = self.cache.begin()
        try:
            fresh = await find()
        except BaseException:
            self.cache.give_up(ticket)
            raise
        kept = self.cache.keep(ticket, key, fresh, fresh.size_bytes, fresh.tags)
        self._freshness.follow()
        return cast(Fresh[Value], kept)
