"""Following the log: every event once, in order, as soon as it is committed, across lost connections."""

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import AsyncConnection

from icecore.commands.execution.committer import Committer
from icecore.domain.recorded import RecordedEvent
from icecore.log import follow
from icecore.log.follow import connect_listener, connect_subscriber, follow_events, read_events, wait_for_events
from tests.integration.test_append import changed, namespace


@pytest.fixture
async def committer(database: str) -> AsyncIterator[Committer]:
    """A committer on a fresh database."""
    opened = Committer(database)
    opened.start()
    yield opened
    await opened.close()


async def positions(dsn: str, after: int, upto: int, **options: int) -> list[int]:
    """The positions that a subscriber gets, up to one."""
    followed: list[int] = []
    async with asyncio.timeout(30):
        async for event in follow_events(dsn, after, **options):
            followed.append(event.position)
            if event.position >= upto:
                break
    return followed


async def append(committer: Committer, count: int, name: str = "n") -> None:
    await asyncio.gather(*(committer.submit(namespace(f"{name}{n}")[0]) for n in range(count)))


async def test_a_page_holds_what_comes_after_a_position(database: str, committer: Committer) -> None:
    """In order, at most as many as requested. An empty page is the end."""
    await append(committer, 10)
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        assert [4, 5, 6] == [event.position for event in await read_events(connection, 3, 3)]
        assert [10] == [event.position for event in await read_events(connection, 9, 3)]
        assert [] == await read_events(connection, 10, 3)


async def test_a_page_is_bounded_in_bytes_and_never_empty_for_that(
    database: str, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large event is a page of its own. Its inflated size is not computed, because that takes as long as sending it."""
    await append(committer, 4)
    monkeypatch.setattr(follow, "BATCH_BYTES_MAX", 1)
    counted: list[bytes] = []
    monkeypatch.setattr(follow, "is_large", counted.append)
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        assert [2] == [event.position for event in await read_events(connection, 1, 3)]
    assert [] == counted
    assert [1, 2, 3, 4] == await positions(database, 0, 4)


async def test_an_event_is_given_whole(database: str, committer: Committer) -> None:
    """All columns of the row."""
    append_request, state = namespace("a")
    await committer.submit(append_request)
    async for event in follow_events(database, 0):
        assert isinstance(event, RecordedEvent)
        assert (state.id, 1, "namespace.created.v1", 1) == (event.stream_id, event.version, event.topic, event.position)
        assert (append_request.command_id, state.event_id) == (event.command_id, event.event_id)
        break


async def test_what_is_there_comes_first_then_what_comes(database: str, committer: Committer) -> None:
    """From a position on, in pages, with concurrent writers."""
    await append(committer, 20, "before")
    following = asyncio.create_task(positions(database, 5, 120, batch_events_max=7))
    await asyncio.gather(append(committer, 50, "x"), append(committer, 50, "y"))
    assert list(range(6, 121)) == await following


async def test_an_append_wakes_the_follower(database: str, committer: Committer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the polling interval."""
    monkeypatch.setattr(follow, "POLL_SECONDS_MAX", 60.0)
    await append(committer, 1)
    events = follow_events(database, 0)
    assert 1 == (await anext(events)).position
    waits = []
    for n in range(5):
        coming = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)
        sent = time.monotonic()
        await append(committer, 1, f"woken{n}-")
        async with asyncio.timeout(20):
            assert 2 + n == (await coming).position
        waits.append(time.monotonic() - sent)
    await events.aclose()
    assert all(wait < 5 for wait in waits), waits


async def test_a_lost_notification_costs_no_more_than_the_poll(
    database: str, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Subscribers without notifications get all events."""
    monkeypatch.setattr(follow, "_SQL", {**follow._SQL, "listen": "select 1"})
    await append(committer, 1)
    following = asyncio.create_task(positions(database, 0, 2))
    await asyncio.sleep(0.3)
    await append(committer, 1, "more")
    assert [1, 2] == await following


async def test_a_follower_that_loses_its_connection_goes_on_after_its_last_event(database: str, committer: Committer) -> None:
    """No event is missed or repeated, whether it was waiting or reading."""
    following = asyncio.create_task(positions(database, 0, 90, batch_events_max=4))
    kills = 0
    for burst in range(9):
        await append(committer, 10, f"b{burst}-")
        await asyncio.sleep(0.1 * (burst % 2))
        with psycopg.connect(database, autocommit=True) as connection:
            killed = connection.execute(
                "select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'icecore-subscriber' and datname = current_database()) k"
            ).fetchone()
            assert killed is not None
            kills += killed[0]
    assert list(range(1, 91)) == await following
    assert kills > 0


async def test_a_follower_stops_on_request(database: str, committer: Committer) -> None:
    """While it waits, at once, without leaving anything open."""
    await append(committer, 3)
    stop = asyncio.Event()
    followed = []

    async def run() -> None:
        async for event in follow_events(database, 0, stop=stop):
            followed.append(event.position)

    running = asyncio.create_task(run())
    while len(followed) < 3:
        await asyncio.sleep(0.01)
    stop.set()
    async with asyncio.timeout(2):
        await running
    assert [1, 2, 3] == followed
    with psycopg.connect(database) as connection:
        left = connection.execute("select count(*) from pg_stat_activity where application_name = 'icecore-subscriber'").fetchone()
    assert (0,) == left


async def test_a_page_is_bounded_by_what_its_states_are_inflated_to(
    database: str, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit applies to the inflated JSON, which a subscriber holds in memory."""
    monkeypatch.setattr(follow, "BATCH_BYTES_MAX", 250_000)
    append_request, state = namespace("n")
    for n in range(5):
        await committer.submit(append_request)
        append_request, state = changed(state, text=f"{n}" * 100_000)
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        assert [1, 2, 3] == [event.position for event in await read_events(connection, 0)]
    assert [1, 2, 3, 4, 5] == await positions(database, 0, 5)


@pytest.mark.parametrize("stop", [None, asyncio.Event()], ids=["until an event", "or the end"])
async def test_after_a_wait_for_events_the_connection_is_free(database: str, stop: asyncio.Event | None) -> None:
    """A generator of notifications that is not finished keeps the connection's lock until it is collected."""
    async with await connect_listener(database) as connection, await connect_subscriber(database) as other:
        await other.execute("select pg_notify('events', '')")
        await wait_for_events(connection, stop)
        assert not connection.lock.locked()
