"""Fault injection for promise P8: publishers are killed and frozen, brokers killed, restarted, frozen and wiped, and leaders compete.

The quick form kills twenty times per broker, the long form (ICECORE_TEST_LONG=1) two hundred times.
"""

import asyncio
import random
import signal
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from rich.console import Console

from icecore import sink_commands
from icecore.compose import Application
from icecore.exit_codes import ExitCode
from icecore.publishers import checkpoints
from icecore.publishers.event_filter import EventFilter
from icecore.settings import Settings
from icecore.sinks import run_publishers
from tests.fixtures.catalog import opened_catalog
from tests.integration.publishers.publishing import (
    FAULTLESS,
    SINK,
    Broker,
    KafkaUnderTest,
    NatsUnderTest,
    Nursery,
    PublishingProcess,
    Writer,
    judge,
    log_ids,
    row,
    until,
    until_published,
)
from tests.long_form import LONG

pytestmark = pytest.mark.timeout(3600 if LONG else 300)

KILLS = 200 if LONG else 20
FROZEN_SECONDS = 30.0 if LONG else 3.0


@pytest.fixture(params=["nats", "kafka"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each of the two brokers with exactly-once sinks."""
    server = request.getfixturevalue(request.param)
    under_test: Broker = NatsUnderTest(server) if request.param == "nats" else KafkaUnderTest(server)
    return under_test


@asynccontextmanager
async def writing(database: str, directory: Path, *, pause_seconds: float = 0.01) -> AsyncIterator[tuple[Application, Writer]]:
    """A catalog with a writer."""
    async with opened_catalog(database, directory / "warehouse") as catalog:
        writer = await Writer.on(catalog, pause_seconds=pause_seconds)
        writer.start()
        yield catalog, writer


@pytest.fixture
async def publishing(database: str, broker: Broker, tmp_path: Path, nursery: Nursery) -> AsyncIterator[Callable[[], PublishingProcess]]:
    """Starts publishing processes and ends those that still run."""
    started: list[PublishingProcess] = []

    def start() -> PublishingProcess:
        started.append(nursery.start(database, {SINK: broker.sink}, tmp_path))
        return started[-1]

    yield start
    for process in started:
        if process.runs:
            process.send(signal.SIGCONT)
            process.kill()


async def leader_of(database: str, processes: list[PublishingProcess], epoch: int) -> tuple[PublishingProcess, int]:
    """The process that leads in an epoch after `epoch`."""
    found: list[tuple[PublishingProcess, int]] = []

    async def led() -> bool:
        state = await row(database, "epoch, leader")
        if state is None or state[0] <= epoch or state[1] is None:
            return False
        found.extend((process, state[0]) for process in processes if state[1].endswith(f":{process.pid}"))
        return bool(found)

    await until(led, what="a publisher leads")
    return found[0]


def end_session(database: str) -> None:
    """Ends the leader's session in Postgres, as a network failure would."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", (f"icecore-sink-{SINK}",))


async def test_kills_lose_nothing_and_invent_nothing(
    database: str, broker: Broker, publishing: Callable[[], PublishingProcess], tmp_path: Path
) -> None:
    """Leaders are killed, or frozen, replaced and resumed, at random moments during commits. The broker is killed too."""
    chance = random.Random(11)
    processes = [publishing(), publishing()]
    async with writing(database, tmp_path) as (_, writer):
        epoch = 0
        for number in range(KILLS):
            leader, epoch = await leader_of(database, processes, epoch)
            await asyncio.sleep(chance.uniform(0, 0.5))
            processes.remove(leader)
            if number % 7 == 3:
                leader.send(signal.SIGSTOP)
                end_session(database)
                processes.append(publishing())
                _, epoch = await leader_of(database, processes, epoch)
                epoch -= 1
                leader.send(signal.SIGCONT)
                processes.append(leader)
            else:
                leader.kill()
                processes.append(publishing())
            if number % 9 == 5:
                broker.kill()
                await asyncio.sleep(chance.uniform(0, 0.5))
                await asyncio.to_thread(broker.start)
        await writer.stop()
        await until_published(database)
    published = await broker.read()
    assert FAULTLESS == judge(log_ids(database), published)
    assert log_ids(database) == [each.id for each in published], "one partition, one stream: the order of the log"


async def test_commits_go_on_while_the_broker_is_frozen(
    database: str, broker: Broker, publishing: Callable[[], PublishingProcess], tmp_path: Path
) -> None:
    """SIGSTOP in alternating blocks: the duration of commits does not change, and nothing is lost or repeated."""
    process = publishing()
    # The quick form compares medians, because a shared machine's tail latencies vary. The long form compares the tail.
    place = 99 if LONG else 50
    times: dict[bool, list[float]] = {False: [], True: []}
    async with writing(database, tmp_path, pause_seconds=0.02) as (_, writer):
        await leader_of(database, [process], 0)
        # Pairs in alternating order, because commits take longer as tables grow.
        for frozen in (False, True, True, False) * 2:
            if frozen:
                broker.freeze()
            begun = len(writer.seconds)
            await asyncio.sleep(FROZEN_SECONDS / 2)
            taken = writer.seconds[begun:]
            assert len(taken) > 10
            times[frozen].append(statistics.quantiles(taken, n=100)[place - 1])
            broker.thaw()
        await writer.stop()
        await until_published(database)
    assert FAULTLESS == judge(log_ids(database), await broker.read())
    held_up = statistics.median(frozen / thawed for thawed, frozen in zip(times[False], times[True], strict=True))
    assert held_up <= (1.2 if LONG else 1.5), times


async def test_a_wiped_broker_gets_all_events_by_a_replay(
    database: str, broker: Broker, publishing: Callable[[], PublishingProcess], tmp_path: Path
) -> None:
    """New events are published, the loss is reported, and a replay from 1 restores all events."""
    first = publishing()
    async with writing(database, tmp_path) as (_, writer):
        await leader_of(database, [first], 0)
        await asyncio.sleep(1)
        await writer.stop()
        await until_published(database)
        first.stop()
        lost = len(log_ids(database))
        broker.stop()
        broker.wipe()
        await asyncio.to_thread(broker.start)
        publishing()

        async def noticed() -> bool:
            return await row(database, "lost_position") == (lost,)

        await until(noticed, what="the loss is noticed")
        writer.start()
        await asyncio.sleep(0.5)
        await writer.stop()
        await until_published(database)
    log = log_ids(database)
    assert log[lost:] == [each.id for each in await broker.read()], "what is new goes out once"
    await replay(database, broker)
    published = await broker.read()
    assert FAULTLESS == judge(log[lost:], published)
    assert log == [each.replay_of for each in published if each.replay_of is not None]
    assert (None,) == await row(database, "lost_position")


async def replay(database: str, broker: Broker) -> None:
    """`icecore sinks replay --from 1`, beside the leader."""
    settings = Settings(database_url=SecretStr(database), sinks={SINK: broker.sink})  # type: ignore[dict-item]
    code = await sink_commands.replay_to_sink(settings, Console(quiet=True), SINK, 1, None, EventFilter())
    assert ExitCode.OK == code


async def test_two_leaders_that_fight_tell_everything_once(
    database: str, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the election both publish at once. The broker's sequence or fencing lets only one through."""
    unelected = "select true, set_config('idle_session_timeout', %(silence_ms)s, false), %(name)s"
    monkeypatch.setitem(checkpoints._SQL, "try_lock", unelected)
    settings = Settings(database_url=SecretStr(database), sinks={SINK: broker.sink})  # type: ignore[dict-item]
    async with AsyncExitStack() as opened:
        _, writer = await opened.enter_async_context(writing(database, tmp_path))
        stops = [asyncio.Event(), asyncio.Event()]
        fighting = [asyncio.create_task(run_publishers(settings, stop)) for stop in stops]
        await asyncio.sleep(30 if LONG else 8)
        await writer.stop()
        stops[0].set()
        await fighting[0]
        await until_published(database)
        stops[1].set()
        await fighting[1]
    state = await row(database, "epoch")
    assert state is not None
    assert state[0] > 2, "they took the lead from each other"
    assert FAULTLESS == judge(log_ids(database), await broker.read())


async def test_a_lost_row_and_a_passed_duplicate_window_tell_nothing_twice(
    database: str, broker: Broker, publishing: Callable[[], PublishingProcess], tmp_path: Path
) -> None:
    """The sink stores its position, so neither the row in Postgres nor the server's memory of ids is needed."""
    if "stream" in broker.sink:
        broker.sink["duplicate_window_seconds"] = 0.1
    process = publishing()
    async with writing(database, tmp_path) as (_, writer):
        await leader_of(database, [process], 0)
        await asyncio.sleep(1)
        process.kill()
        await writer.stop()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("update icecore.sinks set position = 0, broker_sequence = 0")
        await asyncio.sleep(0.5)
        publishing()
        await until_published(database)
    published = await broker.read()
    assert log_ids(database) == [each.id for each in published]
