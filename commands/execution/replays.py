"""Repeated answers of Idempotency-Keys, read within the limit on large documents, once for concurrent requests."""

import asyncio
from dataclasses import replace
from uuid import UUID

from ...access.backends import Backends
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...projections.document_bytes import document_bytes
from ...storage.large_documents import LARGE_BYTES_MIN
from . import idempotency
from .answer import Answer
from .idempotency import Remembered

_Replayed = tuple[UUID, int, str, int]
"""The object, its version, the operation and the status, which determine the bytes of an answer."""


class Replays:
    """The replays of one process."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._reading: dict[_Replayed, asyncio.Task[Answer]] = {}

    async def answer(self, context: RequestContext, warehouse: Warehouse, remembered: Remembered) -> Answer:
        """The first answer again. Raises TooManyRequests (also through `context.make_room`) if there is no memory for it."""
        record = remembered.record
        if record.object_id is None or record.version is None or record.body is not None:
            return Answer(record.status, record.body, remembered.position, replayed=True)
        key = (record.object_id, record.version, remembered.operation, record.status)
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(context, warehouse, remembered), name="replay")
            reading.add_done_callback(lambda done: self._finish(key, done))
        # If one client disconnects, the others still get the answer.
        return replace(await asyncio.shield(reading), position=remembered.position)

    def _finish(self, key: _Replayed, done: asyncio.Task[Answer]) -> None:
        del self._reading[key]
        if not done.cancelled():
            # Marks the exception as retrieved, even if no request waits any more.
            done.exception()

    async def _read(self, context: RequestContext, warehouse: Warehouse, remembered: Remembered) -> Answer:
        record = remembered.record
        async with self._backends.connection() as connection:
            assert record.object_id is not None
            assert record.version is not None
            size = await document_bytes(connection, record.object_id, record.version)
            if size < LARGE_BYTES_MIN:
                if context.make_room is not None:
                    context.make_room(size)
                return replace(await idempotency.answer_again(connection, warehouse, remembered), replayed=True)
        if context.make_room is not None:
            context.make_room(size)
        async with self._backends.large_documents.share() as share:
            await share.take(size)
            async with self._backends.connection_once() as connection:
                return replace(await idempotency.answer_again(connection, warehouse, remembered), replayed=True)
