"""Repeated responses of Idempotency-Keys, read within the limit on large documents, once for concurrent requests."""

import asyncio
from dataclasses import replace
from uuid import UUID

from ...access.backends import Backends
from ...access.request_context import RequestContext
from ...projections.document_size import document_size
from ...storage.large_documents import LARGE_BYTES_MIN
from . import idempotency
from .command_response import CommandResponse
from .idempotency import StoredResponse

_ReplayKey = tuple[UUID, int, str, int]
"""The object, its version, the operation and the status, which determine the bytes of a response."""


class ResponseReplayer:
    """Repeats responses. One for each process."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._reading: dict[_ReplayKey, asyncio.Task[CommandResponse]] = {}

    async def response(self, context: RequestContext, stored: StoredResponse) -> CommandResponse:
        """The first response again. Raises TooManyRequests (also through `context.reserve_memory`) if there is no memory for it."""
        record = stored.idempotency_record
        if record.object_id is None or record.version is None or record.body is not None:
            return CommandResponse(record.status, record.body, stored.position, replayed=True)
        key = (record.object_id, record.version, stored.operation, record.status)
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(context, stored), name="replay")
            reading.add_done_callback(lambda done: self._finish(key, done))
        # If one request is cancelled, the others still get the response.
        return replace(await asyncio.shield(reading), position=stored.position)

    def _finish(self, key: _ReplayKey, done: asyncio.Task[CommandResponse]) -> None:
        del self._reading[key]
        if not done.cancelled():
            # Marks the exception as retrieved, even if no request waits any more.
            done.exception()

    async def _read(self, context: RequestContext, stored: StoredResponse) -> CommandResponse:
        record = stored.idempotency_record
        async with self._backends.connection() as connection:
            assert record.object_id is not None
            assert record.version is not None
            size = await document_size(connection, record.object_id, record.version)
            if size < LARGE_BYTES_MIN:
                if context.reserve_memory is not None:
                    context.reserve_memory(size)
                return replace(await idempotency.replayed_response(connection, stored), replayed=True)
        if context.reserve_memory is not None:
            context.reserve_memory(size)
        async with self._backends.large_documents.reservation() as reservation:
            await reservation.reserve(size)
            async with self._backends.single_use_connection() as connection:
                return replace(await idempotency.replayed_response(connection, stored), replayed=True)
