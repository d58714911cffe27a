"""Runs queries: authorizes them, and returns cached results if no event has changed what they read."""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar, cast

from ..access.authorization import Authorizer, Resource
from ..access.backends import Backends
from ..access.request_context import RequestContext
from ..access.resolve_warehouse import resolve_warehouse
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from .cache_invalidator import CATCH_UP_SECONDS_MAX, CacheInvalidator, stream_tag
from .read_cache import ReadCache, Tag
from .table_loads import TableLoads

Value = TypeVar("Value")

_WAREHOUSE_BYTES = 16 * 1024
"""The memory of a cached warehouse: most of it is the storage profile, whose length has a limit."""


@dataclass(frozen=True, slots=True)
class ReadResult(Generic[Value]):
    """The result of reading the read models.

    resource -- the object to authorize. size_bytes -- its memory in the cache. tags -- invalidating one of them removes it from the cache.
    """

    value: Value
    resource: Resource
    size_bytes: int
    tags: Iterable[Tag]


class QueryExecutor:
    """Executes the queries of one process. With `cache_bytes_max` 0, nothing is cached: every query reads the read models."""

    def __init__(self, backends: Backends, authorizer: Authorizer, *, cache_bytes_max: int) -> None:
        self.backends = backends
        self._authorizer = authorizer
        self.cache = ReadCache(cache_bytes_max)
        self._caches = cache_bytes_max > 0
        connections = backends.connections
        self._invalidator = CacheInvalidator(self.cache, partial(connections.connection, CATCH_UP_SECONDS_MAX), self._forget)
        connections.on_broken = self._forget
        self.table_loads = TableLoads(backends.connection, backends.single_use_connection, backends.large_documents)

    async def close(self) -> None:
        """Ends the read of the log that runs in the background."""
        await self._invalidator.close()

    def _forget(self) -> None:
        self.cache.clear()
        self.backends.forget_credentials()

    async def authorize(self, context: RequestContext, *resources: Resource) -> None:
        """Raises Forbidden unless the principal may do this to all resources."""
        await self._authorizer.authorize(context, resources)

    async def execute(
        self, context: RequestContext, key: Hashable, as_of: int | None, read: Callable[[Connection], Awaitable[ReadResult[Value]]]
    ) -> Value:
        """The cached result, if no event that was appended before this call changes it; else the result of `read`.

        `key` must identify everything that `read` depends on besides the read models. Past states are not cached, because they are
        rarely read again.
        """

        async def find() -> ReadResult[Value]:
            async with self.backends.connection() as connection:
                return await read(connection)

        return await self.execute_with_own_connections(context, key, as_of, find)

    async def execute_with_own_connections(
        self, context: RequestContext, key: Hashable, as_of: int | None, find: Callable[[], Awaitable[ReadResult[Value]]]
    ) -> Value:
        """As `execute`, for a query that gets its connections itself."""
        found = await self._get_or_read(context, key, as_of, find)
        await self.authorize(context, found.resource)
        return found.value

    def refresh_in_background(self) -> None:
        """Reads the log in the background, because the cache is known to be outdated."""
        self._invalidator.refresh_in_background()

    def cached_warehouse(self, context: RequestContext, reference: str | None) -> Warehouse | None:
        """An active warehouse as it is cached, for a command: append refuses one that was decided on an outdated warehouse.

        None if the reference has the name of a project, because append does not notice that a project was renamed.
        """
        if reference is not None and "/" in reference:
            return None
        cached = self.cache.get(_warehouse_key(context, reference))
        warehouse: Warehouse | None = None if cached is None else cached.value
        return warehouse if warehouse is not None and warehouse.active else None

    async def resolve_warehouse(self, context: RequestContext, reference: str | None) -> tuple[Warehouse, RequestContext]:
        """Like `access.resolve_warehouse.resolve_warehouse`, but cached until an event changes the warehouse.

        Returns also the context for the request's queries, which need not read the log again. The caller authorizes what it does.
        """
        if self._caches and not context.log_confirmed:
            await self._invalidator.confirm()
            context = replace(context, log_confirmed=True)

        async def find() -> ReadResult[Warehouse]:
            found = await resolve_warehouse(self.backends, context.project_id, reference, any_project=not context.project_resolved)
            # A reference may contain the name of the project.
            tags = (stream_tag(found.id), stream_tag(found.project_id))
            return ReadResult(found, Resource("warehouse", found.id), _WAREHOUSE_BYTES, tags)

        # Which one is the only warehouse depends on all of them, and a past state is rarely read again.
        as_of = 0 if reference is None or "@" in reference else None
        return (await self._get_or_read(context, _warehouse_key(context, reference), as_of, find)).value, context

    async def _get_or_read(
        self, context: RequestContext, key: Hashable, as_of: int | None, find: Callable[[], Awaitable[ReadResult[Value]]]
    ) -> ReadResult[Value]:
        if as_of is not None or not self._caches:
            return await find()
        if not self._invalidator.has_head or (not context.log_confirmed and key in self.cache):
            await self._invalidator.confirm()
        cached = self.cache.get(key)
        if cached is not None:
            return cast(ReadResult[Value], cached)
        ticket = self.cache.begin_fill()
        try:
            result = await find()
        except BaseException:
            self.cache.end_fill(ticket)
            raise
        cached = self.cache.finish_fill(ticket, key, result, result.size_bytes, result.tags)
        self._invalidator.refresh_in_background()
        return cast(ReadResult[Value], cached)


def _warehouse_key(context: RequestContext, reference: str | None) -> Hashable:
    return ("warehouse", context.project_id, context.project_resolved, reference)
