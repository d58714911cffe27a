"""Brokers for the benchmark of publishing: topics for sinks, the number of messages in them, and the client library's own maximum.

As a process, it measures that maximum. Jobs arrive on standard input, results go to standard output. It reads what a sink published, and
then publishes the same bodies with the same headers to a new topic as fast as the library can.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import nats
import orjson
import uvloop
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from nats.js.api import DiscardPolicy, Header, StorageType, StreamConfig

from benchmarks.job_process import JobProcess
from icecore.publishers.jetstream import MESSAGES_IN_FLIGHT_MAX
from icecore.publishers.kafka import EVENTS_PER_TRANSACTION

Json = dict[str, Any]

_ANSWER_SECONDS_MAX = 60.0
_FETCH_PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a sink published. `where`: the subject below the stream's, or the key."""

    where: str
    body: bytes
    headers: dict[str, str]


class Place(Protocol):
    """A stream or topic, which may not exist yet."""

    def sink(self) -> Json:
        """The settings of a sink that publishes to it."""

    async def make(self) -> None:
        """Creates it as the sink would. Every publisher finds it, so that its creation is not measured."""

    def counting(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[int]]]:
        """A function that returns the number of messages; those of an open transaction count."""

    async def read(self, count: int) -> list[Message]:
        """The first messages."""

    async def publish(self, messages: list[Message]) -> None:
        """Publishes as fast as the library can, and returns when everything is stored."""


class NatsPlace:
    """A stream with a subject of the same name."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name

    def sink(self) -> Json:
        return {"type": "nats", "url": self._url, "stream": self._name, "subject": self._name}

    async def make(self) -> None:
        client = await nats.connect(self._url)
        try:
            await client.jetstream().add_stream(
                StreamConfig(
                    name=self._name,
                    subjects=[f"{self._name}.>"],
                    storage=StorageType.FILE,
                    num_replicas=1,
                    discard=DiscardPolicy.OLD,
                    duplicate_window=120,
                )
            )
        finally:
            await client.close()

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[Callable[[], Awaitable[int]]]:
        client = await nats.connect(self._url)
        stream = client.jetstream()

        async def count() -> int:
            return (await stream.stream_info(self._name)).state.messages

        try:
            yield count
        finally:
            await client.close()

    async def read(self, count: int) -> list[Message]:
        client = await nats.connect(self._url)
        try:
            subscription = await client.jetstream().pull_subscribe(f"{self._name}.>", stream=self._name)
            read: list[Message] = []
            while len(read) < count:
                for each in await subscription.fetch(min(_FETCH_PAGE_SIZE, count - len(read)), timeout=_ANSWER_SECONDS_MAX):
                    read.append(Message(each.subject.removeprefix(self._name), each.data, each.headers or {}))
                    await each.ack()
            return read
        finally:
            await client.close()

    async def publish(self, messages: list[Message]) -> None:
        client = await nats.connect(self._url)
        try:
            # As many in flight as for the sink: the library waits with the next message until one is acknowledged.
            stream = client.jetstream(publish_async_max_pending=MESSAGES_IN_FLIGHT_MAX)
            responses = []
            for each in messages:
                headers = {**each.headers, Header.EXPECTED_STREAM: self._name}
                responses.append(await stream.publish_async(self._name + each.where, each.body, headers=headers))
            for number, response in enumerate(await asyncio.gather(*responses), 1):
                assert response.seq == number, f"message {number} was kept as {response.seq}"
        finally:
            await client.close()


class KafkaPlace:
    """A topic of one partition."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name

    def sink(self) -> Json:
        return {"type": "kafka", "url": self._url, "topic": self._name}

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self._url, "group.id": "bench", "isolation.level": "read_committed", "log_level": 0})

    async def make(self) -> None:
        await asyncio.to_thread(self._make)

    def _make(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._url, "log_level": 0})
        for made in admin.create_topics([NewTopic(self._name, 1, 1)]).values():
            made.result()

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[Callable[[], Awaitable[int]]]:
        consumer = self._consumer()
        partition = TopicPartition(self._name, 0)

        async def count() -> int:
            try:
                _, high = await asyncio.to_thread(consumer.get_watermark_offsets, partition, _ANSWER_SECONDS_MAX)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION:  # It was created just now.
                    return 0
                raise
            # Each transaction is followed by a control record.
            return int(high) - -(-int(high) // (EVENTS_PER_TRANSACTION + 1))

        try:
            yield count
        finally:
            await asyncio.to_thread(consumer.close)

    async def read(self, count: int) -> list[Message]:
        return await asyncio.to_thread(self._read, count)

    def _read(self, count: int) -> list[Message]:
        consumer = self._consumer()
        consumer.assign([TopicPartition(self._name, 0, 0)])
        read: list[Message] = []
        deadline = time.monotonic() + _ANSWER_SECONDS_MAX
        try:
            while len(read) < count:
                assert time.monotonic() < deadline, f"only {len(read)} messages of {count} came"
                for each in consumer.consume(_FETCH_PAGE_SIZE, 1.0):
                    key, value = each.key(), each.value()
                    assert isinstance(key, bytes)
                    assert value is not None
                    headers = dict(cast(list[tuple[str, bytes]], each.headers() or []))
                    read.append(Message(key.decode(), value, {name: content.decode() for name, content in headers.items()}))
            return read
        finally:
            consumer.close()

    async def publish(self, messages: list[Message]) -> None:
        await asyncio.to_thread(self._publish, messages)

    def _publish(self, messages: list[Message]) -> None:
        producer = Producer({"bootstrap.servers": self._url, "transactional.id": self._name, "partitioner": "murmur2_random"})
        producer.init_transactions(_ANSWER_SECONDS_MAX)
        for start in range(0, len(messages), EVENTS_PER_TRANSACTION):
            producer.begin_transaction()
            for each in messages[start : start + EVENTS_PER_TRANSACTION]:
                producer.produce(self._name, key=each.where, value=each.body, headers=list(each.headers.items()))
            # The sink's measurement ends when everything is delivered. A commit also waits for that, and fails if a message was not
            # delivered.
            producer.commit_transaction(_ANSWER_SECONDS_MAX)


def sink_settings(name: str, sink: Json) -> dict[str, str]:
    """The environment variables of a sink with that name."""
    return {f"ICECORE_SINKS__{name.upper()}__{key.upper()}": str(value) for key, value in sink.items()}


PLACES: dict[str, Callable[[str, str], Place]] = {"nats": NatsPlace, "kafka": KafkaPlace}


class LibraryProcess(JobProcess):
    """Publishes a sink's messages as fast as the client library can.

    Its jobs: `read` a place (with `count`), or `publish` what was read to a place, each with `type`, `url` and `place`.
    """

    def __init__(self) -> None:
        super().__init__("benchmarks.brokers")


async def _do(job: Json, messages: list[Message]) -> Json:
    place = PLACES[job["type"]](job["url"], job["place"])
    if job["do"] == "read":
        messages[:] = await place.read(job["count"])
        return {"messages": len(messages), "body_bytes": sum(len(each.body) for each in messages)}
    await place.publish(messages)
    return {"messages": len(messages)}


def main() -> None:
    messages: list[Message] = []
    for line in sys.stdin.buffer:
        try:
            result = uvloop.run(_do(orjson.loads(line), messages))
        except Exception as error:
            result = {"error": repr(error)}
        sys.stdout.buffer.write(orjson.dumps(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
