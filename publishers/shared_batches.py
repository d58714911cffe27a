"""New events of the log, read and enriched once for all subscribers of a process."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..database.connections import ConnectionPool
from ..log.follow import read_events
from .cloud_events import OutgoingEvent, encode_json, outgoing
from .enriched_event import EnrichedEvent
from .enricher import EventEnricher
from .event_data import Dialect
from .references import PathCache

KEPT_MAX = 4
"""Batches kept for subscribers that are a little behind the others."""
KEPT_SECONDS_MAX = 1.0
"""How long a batch is kept. Limited, because after a restore of the database its positions may have other events."""


@dataclass(slots=True)
class SharedBatch:
    """The events after one position, up to the limits; each is encoded once per dialect."""

    enriched: Sequence[EnrichedEvent]
    _encoded: dict[tuple[Dialect, int], tuple[OutgoingEvent, bytes]] = field(default_factory=dict)

    def encoded(self, number: int, dialect: Dialect) -> tuple[OutgoingEvent, bytes]:
        """The CloudEvent of one of them, and its JSON."""
        found = self._encoded.get((dialect, number))
        if found is None:
            event = outgoing(self.enriched[number], dialect)
            found = self._encoded[dialect, number] = (event, encode_json(event))
        return found


class SharedBatches:
    """Requests for events after the same position get the same batch, or wait for it if it is being read."""

    def __init__(self, connections: ConnectionPool, path_cache: PathCache, *, events_max: int, bytes_max: int) -> None:
        self._connections = connections
        self._path_cache = path_cache
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._batches: OrderedDict[int, asyncio.Task[SharedBatch]] = OrderedDict()

    async def after(self, position: int) -> SharedBatch:
        """The batch after a position; empty at the end of the log. Raises ServiceUnavailable."""
        reading = self._batches.get(position)
        if reading is None:
            reading = self._batches[position] = asyncio.create_task(self._read(position), name="shared-batch")
            reading.add_done_callback(lambda done: self._finish(position, done))
        # If one subscriber disconnects, the others still get the batch.
        return await asyncio.shield(reading)

    def _finish(self, position: int, done: "asyncio.Task[SharedBatch]") -> None:
        """Drops a batch that failed or is empty, so that it is read again, and keeps the newest of the others."""
        if done.cancelled() or done.exception() is not None or not done.result().enriched:
            self._drop(position, done)
        else:
            asyncio.get_running_loop().call_later(KEPT_SECONDS_MAX, self._drop, position, done)
        while len(self._batches) > KEPT_MAX:
            self._batches.popitem(last=False)

    def _drop(self, position: int, batch: "asyncio.Task[SharedBatch]") -> None:
        if self._batches.get(position) is batch:
            del self._batches[position]

    def clear(self) -> None:
        """Drops all batches."""
        self._batches.clear()

    async def _read(self, position: int) -> SharedBatch:
        async with self._connections.connection() as connection:
            events = await read_events(connection, position, self._events_max, bytes_max=self._bytes_max)
            if not events:
                return SharedBatch(())
            enricher = EventEnricher(path_cache=self._path_cache)
            return SharedBatch((await enricher.enrich(connection, events, bytes_max=self._bytes_max)).events)
