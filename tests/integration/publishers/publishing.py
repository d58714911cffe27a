"""Shared by the tests of publishing: brokers with consumers, publishing processes, writers, and the comparison with the log."""

import asyncio
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import nats
import orjson
import psycopg
from confluent_kafka import Consumer, KafkaError, TopicPartition
from nats.js.errors import NotFoundError
from pydantic import SecretStr

from icecore.commands.tables.commit_table import commit_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable
from icecore.log.follow import read_events
from icecore.publishers.cloud_events import OutgoingEvent, outgoing
from icecore.publishers.enricher import EventEnricher
from icecore.settings import Settings
from tests.fixtures.catalog import context
from tests.fixtures.command_runs import CommandRun, Step
from tests.servers.kafka import KafkaBroker
from tests.servers.nats import NatsServer
from tests.servers.paths import ROOT

TOLD_SECONDS_MAX = 60.0
_READ_SECONDS_MAX = 30.0
SINK = "broker"


@dataclass(frozen=True)
class Received:
    """An event as received by a consumer."""

    id: str
    position: int
    stream: str
    version: int
    replay_of: str | None
    event: dict[str, Any] = field(compare=False, hash=False, repr=False)


def received(body: bytes) -> Received:
    event = orjson.loads(body)
    return Received(event["id"], int(event["position"]), event["partitionkey"], int(event["streamversion"]), event.get("replayof"), event)


class Broker(Protocol):
    """A broker under test: its sink's settings, a consumer's view, and faults."""

    @property
    def sink(self) -> dict[str, Any]: ...
    async def read(self) -> list[Received]: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def wipe(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


class NatsUnderTest:
    """JetStream, read by a pull consumer from the first message. `reading` -- its connection options."""

    def __init__(self, server: NatsServer, *, reading: dict[str, Any] | None = None, **settings: Any) -> None:
        self._server = server
        self._reading = reading or {}
        self.stream = "ICECORE"
        self.sink: dict[str, Any] = {"type": "nats", "url": server.url, "stream": self.stream, "timeout_seconds": 2} | settings
        self.start, self.stop, self.kill, self.wipe = server.start, server.stop, server.kill, server.wipe
        self.freeze, self.thaw = server.freeze, server.thaw

    async def read(self) -> list[Received]:
        client = await nats.connect(self._server.url, **self._reading)
        try:
            stream = client.jetstream(timeout=10)
            try:
                count = (await stream.stream_info(self.stream)).state.messages
            except NotFoundError:
                return []
            subscription = await stream.pull_subscribe("icecore.>", stream=self.stream)
            published: list[Received] = []
            while len(published) < count:
                for message in await subscription.fetch(min(500, count - len(published)), timeout=_READ_SECONDS_MAX):
                    published.append(received(message.data))
                    await message.ack()
            return published
        finally:
            await client.close()


class KafkaUnderTest:
    """One partition, read by a consumer of committed messages."""

    def __init__(self, broker: KafkaBroker, **settings: Any) -> None:
        self._broker = broker
        self.topic = f"events-{secrets.token_hex(4)}"
        self.sink: dict[str, Any] = {"type": "kafka", "url": broker.url, "topic": self.topic, "timeout_seconds": 3} | settings
        self.start, self.stop, self.kill, self.wipe = broker.start, broker.stop, broker.kill, broker.wipe
        self.freeze, self.thaw = broker.freeze, broker.thaw

    async def read(self) -> list[Received]:
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[Received]:
        configuration = {"bootstrap.servers": self._broker.url, "group.id": "test", "isolation.level": "read_committed"}
        consumer = Consumer({**configuration, "enable.partition.eof": True, "auto.offset.reset": "error"})
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        published: list[Received] = []
        deadline = time.monotonic() + _READ_SECONDS_MAX
        try:
            while time.monotonic() < deadline:
                message = consumer.poll(1)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return published
                    raise AssertionError(error.str())
                value = message.value()
                assert value is not None
                published.append(received(value))
            raise TimeoutError("the topic was not read to its end")
        finally:
            consumer.close()


@dataclass(frozen=True)
class Verdict:
    """The differences between the published events and the log."""

    missing: int
    invented: int
    duplicates: int
    streams_out_of_order: int

    def __bool__(self) -> bool:
        """True if there is a difference."""
        return self != FAULTLESS


FAULTLESS = Verdict(0, 0, 0, 0)


def judge(log: list[str], published: list[Received]) -> Verdict:
    """Compares the ids of the log with those that a consumer read, except replays."""
    counted = Counter(each.id for each in published if each.replay_of is None)
    versions: dict[str, list[int]] = {}
    for each in published:
        if each.replay_of is None:
            versions.setdefault(each.stream, []).append(each.version)
    return Verdict(
        len(set(log) - set(counted)),
        len(set(counted) - set(log)),
        sum(times - 1 for times in counted.values()),
        sum(seen != sorted(seen) for seen in versions.values()),
    )


async def messages(dsn: str, after: int = 0, limit: int = 500) -> list[OutgoingEvent]:
    """The messages after a position."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        events = await read_events(connection, after, limit)
        return [outgoing(each, "icecore") for each in (await EventEnricher().enrich(connection, events)).events]


def log_ids(dsn: str) -> list[str]:
    """The ids of the log's events, in order."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [str(row[0]) for row in connection.execute("select event_id from icecore.events order by notification_id")]


class Nursery:
    """Starts publishing processes quickly (nursery.py)."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.publishers.nursery"],
            env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def start(self, dsn: str, sinks: dict[str, dict[str, Any]], directory: Path, *, log_level: str = "info") -> "PublishingProcess":
        """A process that publishes that log to these sinks, as `icecore worker` does."""
        settings = directory / f"settings-{secrets.token_hex(4)}.json"
        made = Settings(database_url=SecretStr(dsn), sinks=sinks, log_format="json", log_level=log_level)  # type: ignore[arg-type]
        settings.write_bytes(orjson.dumps(made.to_json()))
        log = directory / "publishers.log"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(orjson.dumps({"settings": str(settings), "log": str(log)}) + b"\n")
        self._process.stdin.flush()
        return PublishingProcess(int(self._process.stdout.readline()), log)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@dataclass(frozen=True)
class PublishingProcess:
    pid: int
    log: Path

    @property
    def runs(self) -> bool:
        # The field after the name in brackets. Z: it has ended and is not reaped yet.
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, then waits."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        deadline = time.monotonic() + 20
        self.send(number)
        while self.runs:
            assert time.monotonic() < deadline, f"{self.pid} does not end"
            time.sleep(0.01)


async def until(holds: Callable[[], Awaitable[bool]], *, seconds_max: float = TOLD_SECONDS_MAX, what: str) -> None:
    """Waits until `holds`; fails with `what` else."""
    deadline = time.monotonic() + seconds_max
    while not await holds():
        assert time.monotonic() < deadline, f"not within {seconds_max} s: {what}"
        await asyncio.sleep(0.05)


async def row(dsn: str, columns: str = "position", sink: str = SINK) -> tuple[Any, ...] | None:
    """The sink's row."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute(f"select {columns} from icecore.sinks where name = %s", (sink,))
        return await cursor.fetchone()


async def until_published(dsn: str, sink: str = SINK) -> None:
    """Waits until the sink is at the end of the log."""

    async def published() -> bool:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            cursor = await connection.execute(
                "select s.position = (select max(notification_id) from icecore.events) from icecore.sinks s where s.name = %s", (sink,)
            )
            return await cursor.fetchone() == (True,)

    await until(published, what=f"{sink} has everything")


class Writer:
    """Commits to several tables at the given interval, and sometimes renames, creates and drops."""

    def __init__(self, run: CommandRun, *, pause_seconds: float = 0.01) -> None:
        self._run = run
        self._pause_seconds = pause_seconds
        self._random = random.Random(7)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.seconds: list[float] = []

    @classmethod
    async def on(cls, catalog: Application, **settings: Any) -> "Writer":
        run = await CommandRun.on(catalog)
        for step in (Step("create_namespace", 0), Step("create_namespace", 1), *(Step("create_table", 0, name) for name in (0, 2, 3))):
            await run.step(step)
        return cls(run, **settings)

    async def step(self) -> None:
        drawn = self._random.randrange(40)
        if drawn == 0:
            await self._run.step(Step("rename_table", 0, 3, 3))
        elif drawn == 1:
            await self._run.step(Step("create_view", 0, 1, drawn))
        elif drawn == 2:
            await self._run.step(Step("drop_view", 0, 1))
        elif drawn == 3:
            await self._run.step(Step("properties", 0, 0, self._random.randrange(9)))
        else:
            await self._run.step(Step("commit", 0, self._random.choice((0, 2, 3)), self._random.choice((0, 0, 0, 1, 2, 3))))

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._write())

    async def stop(self) -> None:
        """Stops after the last command is done. If it were interrupted, its outcome would be unknown."""
        assert self._task is not None
        self._stopping = True
        await self._task

    async def _write(self) -> None:
        while not self._stopping:
            started = time.perf_counter()
            await self.step()
            self.seconds.append(time.perf_counter() - started)
            await asyncio.sleep(self._pause_seconds)


async def commit_property(run: CommandRun, name: str, key: str, value: str, *, namespace: str = "a") -> None:
    """Sets a property of a table; `namespace` is dotted."""
    from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier

    updates = [{"action": "set-properties", "updates": {key: value}}]
    command = CommitTable(TabularIdentifier(NamespaceIdentifier(tuple(namespace.split("."))), name), [], updates)
    await commit_table(run.catalog.commands, context("updateTable"), run.warehouse, command)
