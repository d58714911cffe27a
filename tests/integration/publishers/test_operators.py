"""Operators' commands for sinks: show, replay and skip; and errors for invalid commands and refusing brokers."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import nats as nats_client
import psycopg
import pytest
import structlog
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from nats.js.api import StreamConfig
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr
from rich.console import Console
from uuid_utils.compat import uuid7

from icecore import sink_commands
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.domain.commands import CreateNamespace, CreateTable
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.publishers import checkpoints, standard_output
from icecore.publishers.checkpoints import leading
from icecore.publishers.event_filter import EventFilter
from icecore.publishers.kafka import EVENTS_PER_TRANSACTION, Kafka
from icecore.publishers.sink import Checkpoint, SinkRefusedError
from icecore.publishers.sink_settings import KafkaSink
from icecore.settings import Settings
from icecore.sinks import run_publishers
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.command_runs import SCHEMA, CommandRun, Step
from tests.fixtures.operator_commands import operator_on
from tests.integration.publishers.publishing import (
    FAULTLESS,
    SINK,
    KafkaUnderTest,
    NatsUnderTest,
    Writer,
    commit_property,
    judge,
    log_ids,
    messages,
    row,
    until,
    until_published,
)
from tests.servers.kafka import KafkaBroker
from tests.servers.nats import NatsServer
from tests.servers.paths import ROOT


def settings_of(database: str, **sinks: dict[str, Any]) -> Settings:
    return Settings(database_url=SecretStr(database), sinks=sinks)  # type: ignore[arg-type]


@asynccontextmanager
async def publishing(settings: Settings) -> AsyncIterator[None]:
    """A publisher in this process."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_publishers(settings, stop))
    try:
        yield
    finally:
        stop.set()
        await task


def icecore(database: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line, as operators use it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    environment |= {"ICECORE_DATABASE_URL": database} | {f"ICECORE_SINKS__{name}": value for name, value in variables.items()}
    command = [sys.executable, "-m", "icecore", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


async def create_in_namespaces(run: CommandRun, *names: str) -> None:
    """Dotted namespaces with their parents, and a table `t` in each."""
    there: set[NamespaceIdentifier] = set()
    for name in names:
        levels = name.split(".")
        for depth in range(1, len(levels) + 1):
            namespace = NamespaceIdentifier(tuple(levels[:depth]))
            if namespace not in there:
                there.add(namespace)
                await create_namespace(run.catalog.commands, context("createNamespace"), run.warehouse, CreateNamespace(namespace, {}))
        command = CreateTable(namespace, "t", None, SCHEMA, None, None, {}, stage_create=False)
        await create_table(run.catalog.commands, context("createTable"), run.warehouse, command)


async def blocked_at(database: str, position: int) -> None:
    async def holds() -> bool:
        return await row(database, "blocked_position") == (position,)

    await until(holds, what=f"position {position} is named as refused")


async def test_a_replay_whose_session_ends_says_that_the_database_is_away(database: str, log: list[str], unused_tcp_port: int) -> None:
    """With the exit code for the database and without a trace."""
    sink = {"S__TYPE": "nats", "S__URL": f"nats://127.0.0.1:{unused_tcp_port}"}
    replaying = asyncio.create_task(asyncio.to_thread(icecore, database, "sinks", "replay", "s", "--from", "3", **sink))
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:

        async def asked() -> bool:
            return (await (await connection.execute("select count(*) from icecore.sink_replays")).fetchone()) == (1,)

        await until(asked, what="the replay is asked for")
        await connection.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'icecore-command'")
    ended = await replaying
    assert ExitCode.DATABASE == ended.returncode, ended.stderr
    # Between two statements, the end of the session is noticed by the closed connection alone.
    reasons = ("AdminShutdown", "server closed the connection unexpectedly")
    assert any(f"The database cannot be reached: {reason}" in ended.stderr for reason in reasons), ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_command_line_from_end_to_end(database: str, log: list[str], nats: NatsServer) -> None:
    """`replay` leads if there is no leader, and `sinks` shows the state; each with its exit code."""
    sink = {"S__TYPE": "nats", "S__URL": nats.url}
    operator = operator_on(database, **{f"ICECORE_SINKS__{name}": value for name, value in sink.items()})
    code, printed, _ = operator("sinks", "--json")
    assert (1, ["not started: is `icecore serve` or `icecore worker` running?"]) == (code, json.loads(printed)[0]["problems"])
    published = icecore(database, "sinks", "replay", "s", "--from", "3", "--to", "9", "--filter", "type=table.*", **sink)
    assert (0, "") == (
        published.returncode,
        "" if "events of positions 3 to 9 published again to s" in published.stdout else published.stdout + published.stderr,
    )
    state = json.loads(operator("sinks", "--json")[1])[0]
    assert (len(log), 0, None, True) == (state["position"], state["lag-events"], state["last-error"], state["configured"])


async def test_a_replay_is_marked_and_goes_through_the_leader(database: str, log: list[str], nats: NatsServer) -> None:
    """A filtered part of the log beside live events. Done twice, with different ids."""
    broker = NatsUnderTest(nats)
    settings = settings_of(database, broker=broker.sink)
    async with publishing(settings):
        await until_published(database)
        for _ in range(2):
            event_filter = EventFilter.parse(types=("table.created",))
            assert ExitCode.OK == await sink_commands.replay_to_sink(settings, Console(quiet=True), SINK, 1, len(log), event_filter)
    published = await broker.read()
    assert FAULTLESS == judge(log, published)
    again = [each for each in published if each.replay_of is not None]
    assert 6 == len(again) == len({each.id for each in again})
    assert {"io.icecore.table.created.v1"} == {each.event["type"] for each in again}
    first = {each.id: each.event["data"] for each in published if each.replay_of is None}
    assert [first[each.replay_of or ""] for each in again] == [each.event["data"] for each in again]


async def test_a_replay_that_is_stopped_at_once_says_where(database: str, log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its progress was read once. It is cancelled."""

    async def stopped(*_: Any) -> None:
        await request_replay(*_)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.1)

    request_replay = checkpoints.request_replay
    monkeypatch.setattr(checkpoints, "request_replay", stopped)
    out = io.StringIO()
    settings = settings_of(database, broker={"type": "nats", "url": "nats://127.0.0.1:1"})
    code = await sink_commands.replay_to_sink(settings, Console(file=out), SINK, 3, None, EventFilter())
    assert (ExitCode.NO, "stopped at position 2; continue with --from 3\n") == (code, out.getvalue())
    with psycopg.connect(database) as connection:
        assert (1,) == connection.execute("select count(*) from icecore.sink_replays where cancelled_at is not null").fetchone()


def start_replay(database: str, port: int) -> subprocess.Popen[str]:
    """A replay to a broker that is not there, once it is requested. The caller ends it."""
    environment = os.environ | {"ICECORE_DATABASE_URL": database, "ICECORE_SINKS__S__TYPE": "nats"}
    process = subprocess.Popen(
        [sys.executable, "-m", "icecore", "sinks", "replay", "s", "--from", "3"],
        cwd=ROOT,
        env=environment | {"ICECORE_SINKS__S__URL": f"nats://127.0.0.1:{port}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    with psycopg.connect(database, autocommit=True) as connection:
        while (0,) == connection.execute("select count(*) from icecore.sink_replays where cancelled_at is null").fetchone():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return process


def test_a_replay_to_a_broker_that_is_not_there_says_what_it_waits_for(database: str, log: list[str], unused_tcp_port: int) -> None:
    """After a few seconds, also if standard error is no terminal."""
    with start_replay(database, unused_tcp_port) as waiting:
        late = threading.Timer(8, waiting.kill)
        late.start()
        assert waiting.stderr is not None
        # Beside the log records of the publisher.
        said = next((line for line in waiting.stderr if line.startswith("waiting for")), "")
        late.cancel()
        waiting.terminate()
    assert "waiting for the sink s to accept position 3\n" == said


def test_a_replay_whose_command_was_killed_can_be_cancelled(database: str, log: list[str], unused_tcp_port: int) -> None:
    """The next replay publishes only its own events."""
    with start_replay(database, unused_tcp_port) as killed:
        killed.kill()
    operator = operator_on(database, ICECORE_SINKS__S__TYPE="stdout")
    code, printed, said = operator("sinks", "replay", "s", "--cancel")
    assert (0, "") == (code, said)
    assert re.fullmatch(r"replay [0-9a-f-]{36} to s cancelled after position 2\n", printed)
    assert (0, "s has no replay to cancel\n") == operator("sinks", "replay", "s", "--cancel")[:2]
    published = icecore(database, "sinks", "replay", "s", "--from", "1", "--to", "2", S__TYPE="stdout")
    events = [json.loads(line) for line in published.stdout.splitlines() if line.startswith("{")]
    assert log[:2] == [event["replayof"] for event in events if "replayof" in event]


def test_a_cancelled_replay_ends_its_command(database: str, log: list[str], unused_tcp_port: int) -> None:
    """As Ctrl-C does."""
    with start_replay(database, unused_tcp_port) as running:
        try:
            assert 0 == operator_on(database, ICECORE_SINKS__S__TYPE="stdout")("sinks", "replay", "s", "--cancel")[0]
            said, _ = running.communicate(timeout=30)
        finally:
            running.kill()
    assert (ExitCode.NO, "stopped at position 2; continue with --from 3\n") == (running.returncode, said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--from is required, or --cancel"),
        (["--cancel", "--from", "1"], "--cancel cannot be combined with --from, --to or --filter"),
        (["--cancel", "--filter", "type=table.*"], "--cancel cannot be combined with --from, --to or --filter"),
    ],
)
def test_a_replay_is_either_requested_or_cancelled(arguments: list[str], said: str) -> None:
    """The wrong command line does not use the database."""
    operator = operator_on("postgresql://127.0.0.1:1/none", ICECORE_SINKS__S__TYPE="stdout")
    code, _, error = operator("sinks", "replay", "s", *arguments)
    assert (ExitCode.USAGE, True) == (code, said in error), error


async def test_a_cancelled_replay_does_not_move(database: str, log: list[str]) -> None:
    """A leader may publish a batch of it after the cancellation."""
    replay_id = uuid7()
    async with leading(database, "s", "beginning") as leadership:
        assert leadership is not None
        await checkpoints.request_replay(leadership.connection, replay_id, "s", 1, len(log), EventFilter())
        replay = (await leadership.operator_requests()).replay
        assert replay is not None
        await checkpoints.cancel_replay(leadership.connection, replay_id)
        await leadership.move_replay(replay, len(log), len(log))
        state = await checkpoints.replay_progress(leadership.connection, replay_id)
    assert (0, 0, False, True) == (state.replayed_position, state.replayed_events, state.finished, state.cancelled)


async def test_a_batch_that_ends_after_the_stop_is_counted(database: str, log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The position is that of the last event that was published. The message is one line."""

    def write(lines: bytes) -> None:
        if b'"replayof"' in lines:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.5)

    monkeypatch.setattr(standard_output, "_write", write)
    out = io.StringIO()
    settings = settings_of(database, broker={"type": "stdout"})
    code = await sink_commands.replay_to_sink(settings, Console(file=out, width=40), SINK, 1, len(log), EventFilter())
    assert (ExitCode.OK, 1) == (code, len(out.getvalue().splitlines())), out.getvalue()
    assert out.getvalue().startswith(f"{len(log)} events of positions 1 to {len(log)} published again")


async def test_a_replay_into_kafka_leaves_the_live_position(database: str, log: list[str], kafka: KafkaBroker) -> None:
    """After it and a restart, live publishing continues from its position."""
    broker = KafkaUnderTest(kafka)
    settings = settings_of(database, broker=broker.sink)
    async with publishing(settings):
        await until_published(database)
        assert ExitCode.OK == await sink_commands.replay_to_sink(settings, Console(quiet=True), SINK, 2, 5, EventFilter())
    async with publishing(settings):
        await until_published(database)
        await asyncio.sleep(0.5)
    published = await broker.read()
    assert log == [each.id for each in published if each.replay_of is None]
    assert log[1:5] == [each.replay_of for each in published if each.replay_of is not None]


async def test_a_replay_tells_a_sink_nothing_that_its_own_filter_excludes(database: str, nats: NatsServer, tmp_path: Path) -> None:
    """Both filters apply: by type, namespace and warehouse. A sink for one team gets only that team's events."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        await create_in_namespaces(await CommandRun.on(catalog), "a", "ab", "b")
    broker = NatsUnderTest(nats, types=["table.*", "namespace.*"], namespaces=["a"], warehouses=["demo"])
    settings = settings_of(database, broker=broker.sink)
    head = len(log_ids(database))
    orders = [EventFilter(), EventFilter.parse(("table.created",)), EventFilter.parse(namespaces=("a", "b"))]
    orders += [EventFilter.parse(namespaces=("b",)), EventFilter.parse(warehouses=("other",))]
    async with publishing(settings):
        await until_published(database)
        for event_filter in orders:
            assert ExitCode.OK == await sink_commands.replay_to_sink(settings, Console(quiet=True), SINK, 1, head, event_filter)
    published = await broker.read()
    live = [each.id for each in published if each.replay_of is None]
    again = [each.replay_of for each in published if each.replay_of is not None]
    created = [each.id for each in published if each.replay_of is None and each.event["type"] == "io.icecore.table.created.v1"]
    assert (2, 1) == (len(live), len(created))
    assert [*live, *created, *live] == again


@pytest.mark.parametrize(("first", "last"), [(0, None), (-1, 3), (1_000, None), (5, 4), (1, 1_000)])
async def test_positions_that_are_no_part_of_the_log(database: str, log: list[str], nats: NatsServer, first: int, last: int | None) -> None:
    """The message has the existing positions. The leader gets no request."""
    settings = settings_of(database, broker=NatsUnderTest(nats).sink)
    with pytest.raises(CommandFailed, match=f"is not in the log, which has positions 1 to {len(log)}"):
        await sink_commands.replay_to_sink(settings, Console(quiet=True), SINK, first, last, EventFilter())
    with psycopg.connect(database) as connection:
        assert (0,) == connection.execute("select count(*) from icecore.sink_replays").fetchone()


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (
            lambda s: sink_commands.replay(s, Console(quiet=True), "other", 1, None, []),
            "the settings have no sink other; configured sinks: broker",
        ),
        (lambda s: sink_commands.replay(s, Console(quiet=True), SINK, 1, None, ["kind=x"]), "--filter kind=x is not type="),
        (lambda s: sink_commands.replay(s, Console(quiet=True), SINK, 1, None, ["type=tabel.*"]), "types: .* matches none"),
        (lambda s: sink_commands.skip(s, Console(quiet=True), "other", 1, "r"), "no sink other"),
        (lambda s: sink_commands.skip(s, Console(quiet=True), SINK, 1, " "), "--reason must not be blank"),
        (lambda s: sink_commands.skip(s, Console(quiet=True), SINK, 9_999, "r"), "position 9999 is not in the log"),
    ],
)
def test_wrong_orders(database: str, order: Callable[[Settings], ExitCode], said: str) -> None:
    """Each is refused with a message and changes nothing."""
    with pytest.raises(CommandFailed, match=said):
        order(settings_of(database, broker={"type": "stdout"}))
    with psycopg.connect(database) as connection:
        assert (0, 0) == connection.execute(
            "select (select count(*) from icecore.sink_skips), (select count(*) from icecore.sink_replays)"
        ).fetchone()


async def test_a_filter_that_matches_nothing_tells_nothing_and_keeps_up(database: str, log: list[str], nats: NatsServer) -> None:
    """The position advances, so that the lag is correct."""
    broker = NatsUnderTest(nats, warehouses=["nowhere"])
    async with publishing(settings_of(database, broker=broker.sink)):
        await until_published(database)
    assert (len(log), 0) == await row(database, "position, broker_sequence")
    assert [] == await broker.read()


async def test_filters_leave_gaps_and_lose_nothing(database: str, nats: NatsServer, tmp_path: Path) -> None:
    """By namespace and type, across a restart: exactly the matching events are published."""
    broker = NatsUnderTest(nats, types=["table.*"], namespaces=["a"])
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        await create_in_namespaces(run, "b", "a", "ab", "a.b", "ab.a", "a-b")
        for number in range(3):
            async with publishing(settings_of(database, broker=broker.sink)):
                await until_published(database)
            await run.step(Step("properties", 0, 0, 8))
            for namespace in ("ab", "a", "b", "a.b"):
                await commit_property(run, "t", "k", str(number), namespace=namespace)
    async with publishing(settings_of(database, broker=broker.sink)):
        await until_published(database)
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select e.event_id::text from icecore.events e where topic like 'table.%%' and exists"
            " (select from icecore.tables t join icecore.namespaces n on t.namespace_id = n.namespace_id"
            "   left join icecore.namespaces parent on n.parent_id = parent.namespace_id"
            "  where t.table_id = e.originator_id and coalesce(parent.name || '.', '') || n.name = any(%s)) order by notification_id",
            (["a", "a.b"],),
        ).fetchall()
    assert 8 == len(rows)
    assert [row[0] for row in rows] == [each.id for each in await broker.read()]


@pytest.mark.parametrize("kind", ["nats", "kafka"])
async def test_a_property_of_two_megabytes_goes_out_by_reference(
    request: pytest.FixtureRequest, database: str, tmp_path: Path, kind: str
) -> None:
    """It exceeds the broker's limit, so it is published with `dataref` instead of its data. Later events follow."""
    server = request.getfixturevalue(kind)
    broker = NatsUnderTest(server) if kind == "nats" else KafkaUnderTest(server)
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        for step in (Step("create_namespace"), Step("create_table")):
            await run.step(step)
        await commit_property(run, "t", "large", "x" * 2 * 1024 * 1024)
        await commit_property(run, "t", "small", "y")
    settings = settings_of(database, broker=broker.sink).model_copy(update={"public_url": "https://catalog.example"})
    with structlog.testing.capture_logs() as logged:
        async with publishing(settings):
            await until_published(database)
    assert "sink_failed" not in [each["event"] for each in logged]
    published = await broker.read()
    assert log_ids(database) == [each.id for each in published]
    assert f"https://catalog.example/history/v1/events/{published[-2].id}" == published[-2].event["dataref"]
    assert "data" not in published[-2].event
    assert {"small": "y"} == published[-1].event["data"]["properties-set"]


async def test_a_broker_that_refuses_an_event_names_it_and_the_operator_decides(database: str, log: list[str], nats: NatsServer) -> None:
    """The stream's limit is below the smallest form. Earlier events are published, the skip is recorded, and later events follow."""
    client = await nats_client.connect(nats.url)
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name="ICECORE", subjects=["icecore.>"], max_msg_size=600))
    broker = NatsUnderTest(nats)
    settings = settings_of(database, broker=broker.sink)
    async with publishing(settings):
        await blocked_at(database, 1)
        reported = await row(database, "last_error")
        assert "the sink rejected the event at position 1 (warehouse.created.v1)" in (reported or ("",))[0]
        await stream.update_stream(StreamConfig(name="ICECORE", subjects=["icecore.>"], max_msg_size=-1))
        await until_published(database)
    await client.close()
    assert log == [each.id for each in await broker.read()]


async def test_a_topic_that_refuses_an_event_names_it_and_the_operator_decides(database: str, kafka: KafkaBroker, tmp_path: Path) -> None:
    """Kafka refuses a whole request. The event is identified, earlier ones are published, and later ones after the skip."""
    broker = KafkaUnderTest(kafka)
    topic = NewTopic(broker.topic, 1, 1, config={"max.message.bytes": "15000"})
    admin = AdminClient({"bootstrap.servers": kafka.url})
    admin.create_topics([topic])[broker.topic].result()
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        for step in (Step("create_namespace"), Step("create_table")):
            await run.step(step)
        for value in ("1", "2", "x" * 20_000, "3"):
            await commit_property(run, "t", "k", value)
    ids = log_ids(database)
    position = len(ids) - 1
    async with publishing(settings_of(database, broker=broker.sink)):
        await blocked_at(database, position)
        assert ids[: position - 1] == [each.id for each in await broker.read()]
        settings = {"BROKER__TYPE": "kafka", "BROKER__URL": kafka.url}
        assert 0 == icecore(database, "sinks", "skip", SINK, str(position), "--reason", "too large", **settings).returncode
        await until_published(database)
    assert [*ids[: position - 1], ids[position]] == [each.id for each in await broker.read()]


def test_skipping_a_published_event_affects_only_replays(database: str, log: list[str]) -> None:
    """Published events cannot be withdrawn. A later replay skips the event."""

    async def publish() -> None:
        async with publishing(settings_of(database, s={"type": "stdout"})):
            await until_published(database, "s")

    asyncio.run(publish())
    operator = operator_on(database, ICECORE_SINKS__S__TYPE="stdout")
    code, printed, _ = operator("sinks", "skip", "s", "2", "--reason", "r")
    said = f"s is already at position {len(log)}: only replays will skip position 2"
    assert (0, said) == (code, printed.strip())
    # The position of the sink is that of the last event it published.
    _, printed, _ = operator("sinks", "skip", "s", str(len(log)), "--reason", "r")
    assert f"s is already at position {len(log)}: only replays will skip position {len(log)}" == printed.strip()
    again = icecore(database, "sinks", "replay", "s", "--from", "1", "--to", "3", S__TYPE="stdout")
    published = [json.loads(line)["replayof"] for line in again.stdout.splitlines() if line.startswith("{")]
    assert [log[0], log[2]] == published


async def test_a_transaction_that_fails_behind_another_loses_no_event(database: str, kafka: KafkaBroker, tmp_path: Path) -> None:
    """Each transaction contains its own position. The next leader publishes the events of the failed one."""
    broker = KafkaUnderTest(kafka)
    topic = NewTopic(broker.topic, 1, 1, config={"max.message.bytes": "500000"})
    admin = AdminClient({"bootstrap.servers": kafka.url})
    admin.create_topics([topic])[broker.topic].result()
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        for step in (Step("create_namespace"), Step("create_table")):
            await run.step(step)
        for number in range(EVENTS_PER_TRANSACTION + 20):
            await commit_property(run, "t", "k", "x" * 700_000 if number == EVENTS_PER_TRANSACTION + 10 else str(number))
    ids = log_ids(database)
    sink = Kafka(SINK, KafkaSink(**broker.sink), "")
    await sink.open()
    with pytest.raises(SinkRefusedError):
        await sink.publish(await messages(database), None)
    await sink.close()
    assert ids[:EVENTS_PER_TRANSACTION] == [each.id for each in await broker.read()]
    after = Kafka(SINK, KafkaSink(**broker.sink), "")
    tail = await after.open()
    await after.close()
    assert Checkpoint(EVENTS_PER_TRANSACTION, UUID(ids[EVENTS_PER_TRANSACTION - 1])) == tail.checkpoint
    refused = EVENTS_PER_TRANSACTION + 14
    async with publishing(settings_of(database, broker=broker.sink)):
        await blocked_at(database, refused)
    assert ids[: refused - 1] == [each.id for each in await broker.read()]


async def test_a_stream_of_another_log_is_not_gone_on_with(
    new_database: Callable[[], str], database: str, log: list[str], nats: NatsServer, tmp_path: Path
) -> None:
    """Its position would hide every event up to it. The sink stops with an error and publishes nothing."""
    broker = NatsUnderTest(nats)
    async with publishing(settings_of(database, broker=broker.sink)):
        await until_published(database)
    other = new_database()
    async with opened_catalog(other, tmp_path / "other") as catalog:
        await Writer.on(catalog)
    async with publishing(settings_of(other, broker=broker.sink)):

        async def refused() -> bool:
            return "filled from another" in str(await row(other, "last_error"))

        await until(refused, what="the other log's stream is refused")
    assert log == [each.id for each in await broker.read()]


@pytest.mark.parametrize("events_since", [0, 40], ids=["behind the stream", "ahead of it with other events"])
async def test_a_stream_ahead_of_a_restored_log_is_not_gone_on_with(
    admin_dsn: str, database: str, log: list[str], nats: NatsServer, tmp_path: Path, events_since: int
) -> None:
    """The sink stops with an error, and publishes all events since the backup after its stream was emptied."""
    broker = NatsUnderTest(nats)
    async with publishing(settings_of(database, broker=broker.sink)):
        await until_published(database)
    restored = make_conninfo(database, dbname=f"{conninfo_to_dict(database)['dbname']}_restored")
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        names = [sql.Identifier(str(conninfo_to_dict(dsn)["dbname"])) for dsn in (restored, database)]
        connection.execute(sql.SQL("create database {} template {} strategy file_copy").format(*names))
        try:
            async with opened_catalog(database, tmp_path / "warehouse") as catalog:
                await append_properties(catalog, 10)
            async with publishing(settings_of(database, broker=broker.sink)):
                await until_published(database)
            lost = log_ids(database)
            async with opened_catalog(restored, tmp_path / "warehouse") as catalog:
                await append_properties(catalog, events_since)
            async with publishing(settings_of(restored, broker=broker.sink)):

                async def refused() -> bool:
                    return "restored to an earlier point" in str(await row(restored, "last_error"))

                await until(refused, what="the stream that is ahead is refused")
            assert lost == [each.id for each in await broker.read()]
            shown = icecore(restored, "sinks", BROKER__TYPE="nats", BROKER__URL=nats.url)
            assert (1, True) == (shown.returncode, "restored to an" in shown.stdout + shown.stderr), shown.stdout + shown.stderr
            client = await nats_client.connect(nats.url)
            await client.jetstream().purge_stream(broker.stream)
            await client.close()
            async with opened_catalog(restored, tmp_path / "warehouse") as catalog:
                await append_properties(catalog, 1)
            async with publishing(settings_of(restored, broker=broker.sink)):
                await until_published(restored)
            assert log_ids(restored)[len(log) :] == [each.id for each in await broker.read()]
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(names[0]))


async def append_properties(catalog: Application, count: int) -> None:
    run = await CommandRun.on(catalog)
    for number in range(count):
        await commit_property(run, "t", "k", str(number))


async def test_a_stream_with_foreign_messages_is_refused(database: str, log: list[str], nats: NatsServer) -> None:
    """A sink needs a dedicated stream, because its last message has the position."""
    client = await nats_client.connect(nats.url)
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name="ICECORE", subjects=["icecore.>"]))
    await stream.publish("icecore.hello", b"from somebody else")
    async with publishing(settings_of(database, broker=NatsUnderTest(nats).sink)):

        async def refused() -> bool:
            return "a stream of its own" in str(await row(database, "last_error"))

        await until(refused, what="the foreign message is named")
    await client.close()


async def test_old_messages_may_age_out_of_the_stream(database: str, log: list[str], nats: NatsServer, tmp_path: Path) -> None:
    """An emptied stream has no position. That of the row is used, and nothing is repeated or reported as lost."""
    broker = NatsUnderTest(nats)
    async with publishing(settings_of(database, broker=broker.sink)):
        await until_published(database)
    client = await nats_client.connect(nats.url)
    await client.jetstream().purge_stream("ICECORE")
    await client.close()
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        await commit_property(await CommandRun.on(catalog), "t", "k", "v")
    async with publishing(settings_of(database, broker=broker.sink)):
        await until_published(database)
    assert log_ids(database)[len(log) :] == [each.id for each in await broker.read()]
    assert (None,) == await row(database, "lost_position")


async def test_a_sink_may_begin_at_the_end(database: str, log: list[str], nats: NatsServer, tmp_path: Path) -> None:
    """`start = now`: earlier events are not published."""
    broker = NatsUnderTest(nats, start="now")
    async with publishing(settings_of(database, broker=broker.sink)):
        await until_published(database)
        async with opened_catalog(database, tmp_path / "warehouse") as catalog:
            await commit_property(await CommandRun.on(catalog), "t", "k", "v")
        await until_published(database)
    assert log_ids(database)[len(log) :] == [each.id for each in await broker.read()]


def test_standard_output_is_a_sink(database: str, log: list[str]) -> None:
    """`icecore sinks replay` leads it: one JSON object per line, live or replayed."""
    done = icecore(database, "sinks", "replay", "out", "--from", "2", "--to", "2", OUT__TYPE="stdout", OUT__DIALECT="lakekeeper")
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert log == [event["id"] for event in events if "replayof" not in event]
    assert [log[1]] == [event["replayof"] for event in events if "replayof" in event]
    assert "createTable" in {event["type"] for event in events}
