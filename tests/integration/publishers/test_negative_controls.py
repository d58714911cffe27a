"""Negative controls: each breaks the promise in a known way, and the comparison detects it."""

import asyncio
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from icecore.log.follow import read_events
from icecore.publishers.checkpoints import leading
from icecore.publishers.cloud_events import outgoing
from icecore.publishers.enricher import EventEnricher
from icecore.publishers.jetstream import JetStream
from icecore.publishers.sink import Checkpoint, SinkError
from icecore.publishers.sink_settings import NatsSink
from tests.fixtures.catalog import opened_catalog
from tests.integration.publishers.publishing import FAULTLESS, SINK, NatsUnderTest, Verdict, Writer, judge, log_ids, messages
from tests.servers.nats import NatsServer


async def sink_of(nats: NatsServer) -> JetStream:
    sink = JetStream(SINK, NatsSink(type="nats", url=nats.url, timeout_seconds=2), "")  # type: ignore[arg-type]
    await sink.open()
    return sink


async def test_a_checkpoint_before_the_telling_loses_events(database: str, log: list[str], nats: NatsServer) -> None:
    """The row moves, the broker hangs, and the publisher is killed. The next one continues after an event that was not published."""
    half = len(log) // 2
    sink = await sink_of(nats)
    await sink.publish(await messages(database, 0, half), None)
    await sink.close()
    dying = await sink_of(nats)
    async with leading(database, SINK, "beginning") as lead:
        assert lead is not None
        await lead.move(half + 3, 0)  # The position is stored before publishing.
        nats.freeze()
        with pytest.raises(SinkError):
            await dying.publish(await messages(database, half, 3), None)
        await dying.close()
    # Messages in the frozen broker's buffers must not be stored either. The connection is closed with the publisher.
    nats.kill()
    nats.start()
    async with leading(database, SINK, "beginning") as lead:
        assert lead is not None
        naive = await sink_of(nats)
        await naive.publish(await messages(database, lead.position), None)
        await naive.close()
    assert Verdict(3, 0, 0, 0) == judge(log, await NatsUnderTest(nats).read())


async def test_a_cursor_over_gaps_loses_events(database: str) -> None:
    """Positions from a sequence without the append lock: a slow transaction commits behind a subscriber's position."""
    async with (
        await psycopg.AsyncConnection.connect(database) as slow,
        await psycopg.AsyncConnection.connect(database, autocommit=True) as quick,
    ):
        await quick.execute("create table gappy (position bigserial primary key, id uuid not null)")
        lost, seen = uuid4(), uuid4()
        await slow.execute("insert into gappy (id) values (%s)", (lost,))
        await quick.execute("insert into gappy (id) values (%s)", (seen,))
        published: list[str] = []
        cursor_at = 0

        async def follow() -> None:
            nonlocal cursor_at
            rows = await (
                await quick.execute("select position, id from gappy where position > %s order by position", (cursor_at,))
            ).fetchall()
            for position, event_id in rows:
                published.append(str(event_id))
                cursor_at = position

        await follow()
        await slow.commit()
        await follow()
    assert {str(lost)} == {str(lost), str(seen)} - set(published)


async def test_the_log_has_no_gaps_a_cursor_could_pass(database: str, tmp_path: Path) -> None:
    """The same subscriber on the log, with concurrent appends, misses nothing."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        runs = [await Writer.on(catalog, pause_seconds=0) for _ in range(3)]
        for run in runs:
            run.start()
        published: list[str] = []
        position = 0
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            end = asyncio.get_running_loop().time() + 2
            while asyncio.get_running_loop().time() < end:
                for event in await read_events(connection, position):
                    published.append(str(event.event_id))
                    position = event.position
            for run in runs:
                await run.stop()
            published += [str(event.event_id) for event in await read_events(connection, position)]
    assert len(published) > 30
    assert log_ids(database)[: len(published)] == published


async def test_telling_before_the_commit_invents_events(database: str, log: list[str], nats: NatsServer) -> None:
    """The event is published, then its transaction fails."""
    sink = await sink_of(nats)
    await sink.publish(await messages(database), None)
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute(
            "insert into icecore.events select originator_id, originator_version + 1, 'table.unregistered.v1', '{}', notification_id + 1,"
            " gen_random_uuid(), command_id, recorded_at, actor, project_id, warehouse_id, request_id, null, null, null, hash"
            " from icecore.events where topic = 'table.committed.v1' order by notification_id desc limit 1"
        )
        await connection.execute(
            "insert into icecore.tables select generation, table_id, version + 1, position + 1, event_id, warehouse_id, namespace_id, name,"
            " name_key, 'dropped', metadata_location, locations, next_ordinal, head from icecore.tables"
            " where (table_id, version) = (select originator_id, originator_version - 1 from icecore.events"
            "  where topic = 'table.unregistered.v1' limit 1)"
        )
        cursor = await connection.execute("select notification_id from icecore.events where topic = 'table.unregistered.v1'")
        row = await cursor.fetchone()
        assert row is not None
        events = [event for event in await read_events(connection, row[0] - 1) if event.topic == "table.unregistered.v1"]
        described = (await EventEnricher().enrich(connection, events)).events
        await sink.publish([outgoing(each, "icecore") for each in described], None)
        await connection.rollback()
    await sink.close()
    verdict = judge(log, await NatsUnderTest(nats).read())
    assert (0, 1, 0) == (verdict.missing, verdict.invented, verdict.duplicates)


async def test_ids_alone_do_not_keep_duplicates_out(database: str, log: list[str], nats: NatsServer) -> None:
    """After the duplicate window, the server has forgotten the ids. Without the chain of sequences everything is stored again."""
    settings = NatsSink(type="nats", url=nats.url, duplicate_window_seconds=0.1)  # type: ignore[arg-type]
    for _ in range(2):
        sink = JetStream(SINK, settings, "")
        await sink.open()
        await sink.publish(await messages(database), None)  # From the start, ignoring the stream's position.
        await sink.close()
        await asyncio.sleep(0.3)
    assert len(log) == judge(log, await NatsUnderTest(nats).read()).duplicates


@pytest.mark.parametrize("ahead", [1, 5, 20])
async def test_the_chain_refuses_what_was_published_late(database: str, log: list[str], nats: NatsServer, ahead: int) -> None:
    """A replaced leader that does not know it cannot insert messages, even if the middle of its batch expects the sequence that the other
    has reached with different messages.
    """
    old, new = await sink_of(nats), await sink_of(nats)
    published = await messages(database)
    await new.publish(published[:ahead], None)
    with pytest.raises(SinkError, match="was changed by another publisher"):
        await old.publish(published[ahead:], None)
    await old.close()
    assert log[:ahead] == [each.id for each in await NatsUnderTest(nats).read()]
    await new.publish(published[ahead:], None)
    await new.close()
    assert FAULTLESS == judge(log, await NatsUnderTest(nats).read())


async def test_swapped_events_of_one_stream_are_detected(database: str, log: list[str], nats: NatsServer) -> None:
    """The first two of a table, swapped."""
    published = await messages(database)
    table = next(each.key for each in published if each.topic == "table.committed.v1")
    first, second = [index for index, each in enumerate(published) if each.key == table][:2]
    published[first], published[second] = published[second], published[first]
    sink = await sink_of(nats)
    await sink.publish(published, Checkpoint(0, None))
    await sink.close()
    assert Verdict(0, 0, 0, 1) == judge(log, await NatsUnderTest(nats).read())
