"""The log as Server-Sent Events: from a position, then new events, as fast as the client reads, until a clean end."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from icecore.api.history import event_stream
from icecore.api.history.event_stream import LARGE_EVENTS
from icecore.api.history.large_events import LARGE_EVENTS_BYTES_MAX
from icecore.api.origins import ORIGIN_RULES
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.database.connections import Connection
from icecore.domain.commands import CommitTable, CreateTable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.recorded import RecordedEvent
from icecore.log import follow
from icecore.publishers import pull
from tests.fixtures.catalog import context
from tests.fixtures.command_runs import CommandRun, Step
from tests.fixtures.snapshots import snapshot_updates
from tests.integration.history.serving import Served
from tests.integration.history.test_event_pages import as_sinks_have_it, create, head, until_followed


async def test_a_stream_has_the_events_of_sinks(served: Served, history: CommandRun, database: str) -> None:
    """`id` is the position, `event` the type, `data` the event's bytes. Existing events come first, then new ones."""
    published = await as_sinks_have_it(database)
    async with served.stream() as stream:
        assert "text/event-stream" == stream.response.content_type
        assert {"no-store", "no"} == {stream.response.headers["Cache-Control"], stream.response.headers["X-Accel-Buffering"]}
        streamed = await stream.take(len(published))
        assert published == [event.data for event in streamed]
        assert [(int(e.json["position"]), e.json["type"]) for e in streamed] == [(e.id, e.type) for e in streamed]
        for number in range(3):
            position = await create(history, f"later{number}")
            (event,) = await stream.take(1)
            assert (position, f"later{number}") == (event.id, event.json["subject"])


async def test_a_page_of_a_permitted_origin_may_read_a_stream(served: Served, run: CommandRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers are sent before the edge gets the response."""
    origin = "https://app.example.org"
    monkeypatch.setattr(served.catalog.app[ORIGIN_RULES], "cors_origins", frozenset({origin}))  # type: ignore[attr-defined]
    headers = {"Accept": "text/event-stream", "Origin": origin}
    async with served.session.get(f"{served.url}/history/v1/events", params={"after": "now"}, headers=headers) as response:
        assert (200, origin) == (response.status, response.headers.get("Access-Control-Allow-Origin"))


async def test_a_stream_continues_at_the_client_s_position(served: Served, history: CommandRun) -> None:
    """`Last-Event-ID` takes precedence over the query, which a browser repeats unchanged."""
    end = await head(served)
    async with served.stream(after=0, last_event_id=end - 3) as stream:
        assert [end - 2, end - 1, end] == [event.id for event in await stream.take(3)]
    async with served.stream(after="now") as stream:
        position = await create(history, "new")
        assert [position] == [event.id for event in await stream.take(1)]


async def test_a_stream_is_filtered_and_ends_at_the_requested_position(served: Served, history: CommandRun) -> None:
    """As pages are. A future position is waited for."""
    expected = (await served.get("/events", types="table.*", namespaces="a")).positions
    end = await head(served)
    async with served.stream(types="table.*", namespaces="a", dialect="lakekeeper", to=end + 1) as stream:
        events = await stream.take(len(expected))
        assert expected == [event.id for event in events]
        assert {"createTable", "updateTable"} < {event.type for event in events}
        await create(history, "one_more")
        assert [] == await stream.rest()


async def test_all_streams_share_one_listener(served: Served, run: CommandRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many is woken, with few connections."""
    monkeypatch.setattr(follow, "POLL_SECONDS_MAX", 60.0)
    opened = [served.stream(after="now") for _ in range(20)]
    streams = [await each.__aenter__() for each in opened]
    await until_followed(served, 20)
    for number in range(3):
        position = await create(run, f"n{number}")
        assert [[position]] * 20 == [[event.id for event in await stream.take(1)] for stream in streams]
    async with served.catalog.backends.connection() as connection:
        cursor = await connection.execute(
            "select application_name, count(*) from pg_stat_activity where datname = current_database() group by 1"
        )
        connections: dict[str, int] = dict(await cursor.fetchall())
    assert 1 == connections["icecore-subscriber"]
    assert connections["icecore-events"] <= pull.CONNECTIONS_MAX
    for each in opened:
        await each.__aexit__(None, None, None)
    # Nothing is written to them, but the disconnect is noticed.
    await until_followed(served, 0)


async def test_a_quiet_stream_says_that_it_lives(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """With comments, which clients ignore."""
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(event_stream, "_POLL_SECONDS", 0.05)
    end = await head(served)
    async with served.stream(after=end) as stream:
        reading = asyncio.create_task(stream.next())
        async with asyncio.timeout(20):
            while len(stream.comments) < 3:
                await asyncio.sleep(0.01)
        reading.cancel()
        assert [f"position {end}"] * 2 == stream.comments[1:3]


@pytest.fixture
def slow_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Batches have one event, and each read takes a moment. Returns the positions after which was read."""
    positions: list[int] = []

    async def read(connection: Connection, after: int, limit: int, *, bytes_max: int) -> list[RecordedEvent]:
        positions.append(after)
        await asyncio.sleep(0.05)
        return await follow.read_events(connection, after, limit, bytes_max=bytes_max)

    monkeypatch.setattr(pull, "BATCH_EVENTS_MAX", 1)
    monkeypatch.setattr(pull, "read_events", read)
    return positions


@pytest.mark.usefixtures("history")
async def test_a_stream_that_tells_nothing_notices_that_its_client_has_gone(served: Served, slow_reads: list[int]) -> None:
    """Otherwise the whole log would be read for a client that is gone."""
    async with served.stream(namespaces="zzz"):
        await until_followed(served, 1)
    await until_followed(served, 0)
    assert slow_reads[-1] < await head(served) // 2


async def test_a_client_that_has_gone_waits_for_no_connection(served: Served) -> None:
    """Two hundred clients that disconnected would delay others by a batch each."""
    connections = served.catalog.events._connections
    async with AsyncExitStack() as taken:
        for _ in range(pull.CONNECTIONS_MAX - 1):
            await taken.enter_async_context(connections.connection())
        async with served.stream(after=0) as stream:
            await stream.take(1)
            await taken.enter_async_context(connections.connection())
            async with asyncio.timeout(20):
                while not connections._waiting:
                    await asyncio.sleep(0.01)
        await until_followed(served, 0)


@pytest.mark.usefixtures("history", "slow_reads")
async def test_a_stream_that_tells_nothing_says_so_while_it_reads(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.0)
    async with served.stream(namespaces="zzz", to=10) as stream:
        assert [] == await stream.rest()
        assert [f"position {position}" for position in range(1, 11)] == stream.comments[1:]


@asynccontextmanager
async def slow_client(served: Served) -> AsyncIterator[tuple[asyncio.StreamReader, socket.socket]]:
    """A client that requests everything and reads only on demand, with a small socket buffer."""
    parts = urlsplit(served.url)
    assert parts.hostname is not None
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    line.setblocking(False)
    await asyncio.get_running_loop().sock_connect(line, (parts.hostname, parts.port))
    reader, writer = await asyncio.open_connection(sock=line, limit=1024 * 1024)
    writer.write(b"GET /history/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
    try:
        yield reader, line
    finally:
        writer.transport.abort()


async def test_a_slow_reader_gets_events_no_faster_than_it_reads(served: Served, run: CommandRun) -> None:
    """The memory is limited by the sockets and one batch, while a fast reader gets everything, twice."""
    count, size = 120, 200_000
    for number in range(count):
        await create(run, f"n{number}", text="x" * size)
    figures = served.catalog.events.metrics
    async with slow_client(served) as (reader, line):
        await reader.readuntil(b"\n\n")
        for _ in range(2):
            async with served.stream() as quick:
                assert count + 1 == len(await quick.take(count + 1))
        # Linux lets a socket hold 4 MB unsent. A batch is one of these.
        assert figures.events_published - 2 * (count + 1) < 8_000_000 / size
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        positions: list[int] = []
        async with asyncio.timeout(60):
            while not positions or positions[-1] <= count:
                found = re.search(rb"id: (\d+)\n", await reader.readuntil(b"\nevent: "))
                assert found is not None
                positions.append(int(found[1]))
        assert list(range(1, count + 2)) == positions


async def test_a_client_that_takes_nothing_is_cut_off(served: Served, run: CommandRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout. Its subscription is released."""
    monkeypatch.setattr(event_stream, "WRITE_SECONDS_MAX", 0.5)
    for number in range(60):
        await create(run, f"n{number}", text="x" * 200_000)
    async with slow_client(served):
        async with asyncio.timeout(20):
            while served.catalog.events.metrics.events_published == 0:
                await asyncio.sleep(0.01)
        await until_followed(served, 0)


ROLLBACKS = 40
SUMMARY_BYTES = 950_000


async def roll_back(run: CommandRun, folder: Path) -> None:
    """A table that alternates between two snapshots: small events that refer to 38 MB in total."""
    identifier = TabularIdentifier(NamespaceIdentifier(("a",)), "t")
    await create(run, "a")
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    command = CreateTable(identifier.namespace, "t", None, schema, None, None, {}, stage_create=False)
    await create_table(run.catalog.commands, context("createTable"), run.warehouse, command)

    async def commit(*updates: dict[str, Any]) -> None:
        await commit_table(run.catalog.commands, context("updateTable"), run.warehouse, CommitTable(identifier, [], updates))

    for number in (1, 2):
        snapshot, ref = snapshot_updates((folder / f"snap-{number}.avro").as_uri(), number)
        snapshot["snapshot"]["summary"]["x"] = "x" * SUMMARY_BYTES
        await commit(snapshot, ref)
    for number in range(ROLLBACKS):
        await commit({**ref, "snapshot-id": 1 + number % 2})


async def test_small_events_that_refer_to_much_are_published(served: Served, run: CommandRun, database: str, tmp_path: Path) -> None:
    """Together they exceed the memory for streams. As new events, and for a client that is far behind."""
    async with served.stream(after="now") as following:
        (first, *_) = await asyncio.gather(following.take(ROLLBACKS + 4), roll_back(run, tmp_path / "warehouse"))
    published = await as_sinks_have_it(database)
    async with served.stream() as behind:
        events = await behind.take(len(published))
    assert list(range(1, len(published) + 1)) == [event.id for event in events]
    assert published[-ROLLBACKS:] == [event.data for event in events[-ROLLBACKS:]]
    assert events[1:] == first
    assert LARGE_EVENTS_BYTES_MAX < ROLLBACKS * SUMMARY_BYTES < sum(map(len, published[-ROLLBACKS:]))
    assert 0 == served.catalog.app[LARGE_EVENTS].reserved_bytes  # type: ignore[attr-defined]


async def test_room_for_a_large_event_is_waited_for(served: Served, run: CommandRun) -> None:
    """It is read once without success, then only when there is memory. A later stream waits behind it."""
    room = served.catalog.app[LARGE_EVENTS]  # type: ignore[attr-defined]
    held = room.reserve_content(b"x" * LARGE_EVENTS_BYTES_MAX)
    for number in range(3):
        await create(run, f"n{number}", text="x" * 200_000)
    async with served.stream() as first, served.stream(after=3) as second:
        reading = [asyncio.create_task(stream.take(count)) for stream, count in ((first, 4), (second, 1))]
        async with asyncio.timeout(20):
            while len(room._waiting) < 2:
                await asyncio.sleep(0.01)
        published = served.catalog.events.metrics.events_published
        # Each retries every second.
        await asyncio.sleep(2.5)
        assert published == served.catalog.events.metrics.events_published
        held.release()
        assert [[1, 2, 3, 4], [4]] == [[event.id for event in await each] for each in reading]
    assert not room.is_waited_for


async def test_a_stalled_stream_loses_its_memory_to_waiting_ones(served: Served, run: CommandRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before it would be disconnected if no other stream waited."""
    monkeypatch.setattr(event_stream, "CONTENDED_WRITE_SECONDS_MAX", 1.0)
    room = served.catalog.app[LARGE_EVENTS]  # type: ignore[attr-defined]
    monkeypatch.setattr(room, "_bytes_max", 1_000_000)
    count = 20
    for number in range(count):
        await create(run, f"n{number}", text="x" * 900_000)
    figures = served.catalog.events.metrics
    async with slow_client(served):
        published = -1
        while published < figures.events_published:
            published = figures.events_published
            await asyncio.sleep(1.0)
        assert 0 < published < count
        assert room.reserved_bytes > 0
        async with served.stream() as quick, asyncio.timeout(15):
            assert [*range(1, count + 1)] == [event.id for event in await quick.take(count)]


async def test_a_lost_database_is_waited_for(served: Served, run: CommandRun) -> None:
    """The stream continues after its last event when Postgres is back. All its connections are ended here."""
    async with served.stream(after="now") as stream:
        for number in range(4):
            async with served.catalog.backends.connection() as connection:
                await connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where application_name in ('icecore-subscriber', 'icecore-events') and datname = current_database()"
                )
            position = await create(run, f"n{number}")
            assert [position] == [event.id for event in await stream.take(1)]


async def test_streams_end_cleanly_when_the_server_stops(served: Served, run: CommandRun) -> None:
    """Between two events, with a complete response, after the existing events were sent. Slow clients are disconnected."""
    for number in range(60):
        await create(run, f"n{number}", text="x" * 200_000)
    async with served.stream(after=50) as stream, slow_client(served):
        await stream.take(11)
        await until_followed(served, 2)
        stopping = asyncio.create_task(served.runner.cleanup())
        assert [] == await stream.rest()
        async with asyncio.timeout(20):
            await stopping
    await until_followed(served, 0)


async def test_a_cursor_that_trusts_the_wake_up_loses_events(served: Served, run: CommandRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the check for order and gaps: a subscriber that continues from the position it was notified of misses events."""

    class Naive(pull.CloudEventReader):
        async def batch(self, after: int, *, to: int | None = None, events_max: int = pull.BATCH_EVENTS_MAX) -> pull.EventBatch:
            woken = served.catalog.events._listener._head
            return await super().batch(max(after, woken - 1), to=to, events_max=events_max)

    async def streamed(last: int, after: int) -> list[int]:
        async with served.stream(after=after) as stream:
            await stream.take(1)
            await asyncio.gather(*(create(run, f"{after}-{n}") for n in range(30)))
            positions: list[int] = []
            while not positions or positions[-1] < last:
                positions += [event.id for event in await stream.take(1)]
            return positions

    first = await create(run, "first")
    assert list(range(first + 1, first + 31)) == await streamed(first + 30, first - 1)
    monkeypatch.setattr(pull, "CloudEventReader", Naive)
    second = await create(run, "second")
    assert list(range(second + 1, second + 31)) != await streamed(second + 30, second - 1)


async def test_streams_with_different_filters_get_their_events(served: Served, history: CommandRun, database: str, tmp_path: Path) -> None:
    """New events of two warehouses are read once for all of them. Each gets the same bytes as from a sink with its filter."""
    opened = [
        served.stream(after="now"),
        served.stream(after="now", dialect="lakekeeper"),
        served.stream(after="now", types="namespace.*", namespaces="mine"),
        served.stream(after="now", warehouses="demo", types="table.*"),
    ]
    profile = {"type": "local", "directory": str(tmp_path / "other")}
    (tmp_path / "other").mkdir()
    await create_warehouse(history.catalog.commands, context("createWarehouse"), CreateWarehouse("elsewhere", profile))
    elsewhere = await CommandRun.on(history.catalog, "elsewhere")
    await elsewhere.step(Step("create_namespace", 0))
    everything, in_dialect, mine, tables = [await each.__aenter__() for each in opened]
    await until_followed(served, 4)
    await create(history, "other")
    assert isinstance(await elsewhere.step(Step("create_table", 0, 0)), CommandResponse)
    await create(history, "mine")
    assert isinstance(await history.step(Step("commit", 0, 0)), CommandResponse)
    published, dialect = await as_sinks_have_it(database), await as_sinks_have_it(database, "lakekeeper")
    assert published[-4:] == [event.data for event in await everything.take(4)]
    assert dialect[-4:] == [event.data for event in await in_dialect.take(4)]
    assert [published[-2]] == [event.data for event in await mine.take(1)]
    assert [published[-1]] == [event.data for event in await tables.take(1)]
    for each in opened:
        await each.__aexit__(None, None, None)
