"""Commits at a fixed rate while a consumer in the same process reads from the broker: when each commit's event arrived, by the same
clock.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import nats
from confluent_kafka import Consumer, TopicPartition
from nats.aio.msg import Msg
from nats.js.api import DeliverPolicy

from benchmarks.arrivals import clock
from benchmarks.blocks import percentile
from benchmarks.writers import location_in

Json = dict[str, Any]

_LATE_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.1


async def commits_and_events(job: Json, write: Callable[[Json], Awaitable[Json]]) -> Json:
    """The result of `write` and, as `published`, the seconds from each response to its event; `job["broker"]`: type, url, place.

    A commit and its event have the same metadata location. Events that arrive after _LATE_SECONDS_MAX are missing.
    """
    seen: dict[str, float] = {}
    async with _LISTENING[job["broker"]["type"]](job["broker"], seen):
        result = await write(job)
        answered = dict(zip(result.pop("locations"), result.pop("answered"), strict=True))
        deadline = clock() + _LATE_SECONDS_MAX
        while not answered.keys() <= seen.keys() and clock() < deadline:  # noqa: ASYNC110 -- seen from another thread
            await asyncio.sleep(0.02)
    delays = [seen[location] - at for location, at in answered.items() if location in seen]
    result["published"] = {
        "events": len(delays),
        "missing": len(answered) - len(delays),
        **{f"p{share * 100:g}_ms": percentile(delays, share) * 1000 for share in (0.5, 0.9, 0.99) if delays},
        "max_ms": max(delays, default=0.0) * 1000,
    }
    return result


@contextlib.asynccontextmanager
async def _nats(broker: Json, seen: dict[str, float]) -> AsyncIterator[None]:
    async def arrived(message: Msg) -> None:
        _note(message.data, seen)

    client = await nats.connect(broker["url"])
    try:
        subscription = await client.jetstream().subscribe(
            f"{broker['place']}.>", stream=broker["place"], ordered_consumer=True, deliver_policy=DeliverPolicy.NEW, cb=arrived
        )
        yield
        await subscription.unsubscribe()
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def _kafka(broker: Json, seen: dict[str, float]) -> AsyncIterator[None]:
    """Reads committed messages from the current end of the topic."""
    stop = threading.Event()
    consumer = Consumer({"bootstrap.servers": broker["url"], "group.id": "bench", "isolation.level": "read_committed"})
    partition = TopicPartition(broker["place"], 0)
    _, partition.offset = await asyncio.to_thread(consumer.get_watermark_offsets, partition, _LATE_SECONDS_MAX)
    consumer.assign([partition])

    def consume() -> None:
        while not stop.is_set():
            message = consumer.poll(_POLL_SECONDS)
            if message is not None and message.error() is None and (value := message.value()) is not None:
                _note(value, seen)

    consuming = asyncio.get_running_loop().run_in_executor(None, consume)
    try:
        yield
    finally:
        stop.set()
        await consuming
        consumer.close()


_LISTENING = {"nats": _nats, "kafka": _kafka}


def _note(body: bytes, seen: dict[str, float]) -> None:
    location = location_in(body)
    if location is not None:
        seen[location] = clock()
