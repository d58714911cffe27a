"""Time travel: the listings after each command are the same as of its position, read from the same rows as the current state."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from psycopg import AsyncConnection
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.domain.commands import CreateNamespace, CreateTable
from icecore.domain.errors import BadRequest, CatalogError, NoSuchNamespace, NoSuchWarehouse, ServiceUnavailable, UnsupportedOperation
from icecore.domain.events import NamespaceCreated
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.log.positions import APPENDS_WAIT_SECONDS_MAX, appends_in_flight, position_at
from icecore.projections.rebuild import rebuild
from icecore.queries.list_namespaces import list_namespaces
from icecore.queries.list_tabulars import list_tables, list_views
from icecore.queries.load_namespace import load_namespace
from icecore.queries.load_table import load_table
from icecore.queries.load_view import load_view
from icecore.queries.results import PageRequest
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.command_runs import EVERY_KIND, NAMES, CommandRun, Step, steps
from tests.integration.test_append import append

ALL = PageRequest()


async def listing(catalog: Application, warehouse: Warehouse) -> dict[str, Any]:
    """Everything that a client can read: namespaces with properties, tables with their documents (all snapshots, and referenced ones),
    views.
    """
    asked = (catalog.queries, context("loadTable"), warehouse)
    found: dict[str, Any] = {}

    async def below(parent: NamespaceIdentifier | None) -> None:
        above = () if parent is None else parent.levels
        for level in (await list_namespaces(*asked, parent, ALL)).items:
            namespace = NamespaceIdentifier((*above, level))
            found[str(namespace)] = dict((await load_namespace(*asked, namespace)).properties)
            for name in (await list_tables(*asked, namespace, ALL)).items:
                table = TabularIdentifier(namespace, name)
                for snapshots in ("all", "refs"):
                    answer = await load_table(*asked, table, snapshots)
                    found[f"table {table} {snapshots}"] = (answer.etag, answer.body)
            for name in (await list_views(*asked, namespace, ALL)).items:
                view = TabularIdentifier(namespace, name)
                found[f"view {view}"] = await load_view(*asked, view)
            await below(namespace)

    await below(None)
    return found


async def as_of(catalog: Application, point: int | str) -> dict[str, Any]:
    return await listing(catalog, await resolve_warehouse(catalog.backends, PROJECT_ID, f"demo@{point}"))


def head(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select max(notification_id) from icecore.events").fetchone()
    assert row is not None
    position: int = row[0]
    return position


@dataclass(frozen=True, slots=True)
class Recording:
    """The listing at every position between two commands."""

    listed: dict[int, dict[str, Any]]
    head: int

    def at(self, position: int) -> dict[str, Any]:
        """The expected result of a read as of `position`, which never contains part of a command."""
        return self.listed[max(ended for ended in self.listed if ended <= position)]


async def recorded(catalog: Application, drawn: list[Step]) -> Recording:
    run = await CommandRun.on(catalog)
    listed = {head(catalog.dsn): await listing(catalog, run.warehouse)}
    for step in drawn:
        await run.step(step)
        listed[head(catalog.dsn)] = await listing(catalog, run.warehouse)
    return Recording(listed, head(catalog.dsn))


async def test_every_position_reads_as_it_was(catalog: Application) -> None:
    """For a run with every kind of event, and again after a rebuild."""
    recording = await recorded(catalog, list(EVERY_KIND))
    assert recording.head + 1 > len(recording.listed), "some commands have several events"
    for position in range(1, recording.head + 1):
        assert recording.at(position) == await as_of(catalog, position), position
    await rebuild(catalog.dsn)
    for position in range(1, recording.head + 1):
        assert recording.at(position) == await as_of(catalog, position), position


def test_whatever_was_commanded_every_position_reads_as_it_was(new_database: Callable[[], str], tmp_path: Path) -> None:
    """Random runs."""
    count = 0

    async def run(drawn: list[Step]) -> None:
        nonlocal count
        count += 1
        async with opened_catalog(new_database(), tmp_path / f"warehouse{count}") as catalog:
            recording = await recorded(catalog, drawn)
            for position in range(1, recording.head + 1):
                assert recording.at(position) == await as_of(catalog, position), position

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps(max_size=18, min_size=6))
    def same(drawn: list[Step]) -> None:
        asyncio.run(run(drawn))

    same()


async def test_a_position_inside_a_command_is_rounded_down(catalog: Application) -> None:
    """A transaction over two tables is two events. As of the first one, neither is visible."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table", name=0), Step("create_table", name=2)):
        await run.step(step)
    before, position = await listing(catalog, run.warehouse), head(catalog.dsn)
    await run.step(Step("transaction", 0, 0, 2))
    after = await listing(catalog, run.warehouse)
    assert position + 2 == head(catalog.dsn)
    assert before == await as_of(catalog, position + 1)
    assert after == await as_of(catalog, position + 2)
    assert before["table a.t all"] != after["table a.t all"]
    assert before["table a.u all"] != after["table a.u all"]


async def test_a_time_means_the_position_the_log_had_reached(catalog: Application) -> None:
    """Every event's own time, and the microsecond before it. A future time is refused."""
    recording = await recorded(catalog, list(EVERY_KIND[:14]))
    with psycopg.connect(catalog.dsn) as connection:
        times = connection.execute(
            "select recorded_at, max(notification_id) from icecore.events group by 1 having max(notification_id) > 1 order by 1"
        ).fetchall()
    for recorded_at, position in times:
        at: datetime = recorded_at.astimezone(UTC)
        assert recording.at(position) == await as_of(catalog, at.isoformat())
        assert recording.at(position - 1) == await as_of(catalog, (at - timedelta(microseconds=1)).isoformat())
    assert recording.at(recording.head) == await as_of(catalog, datetime.now(UTC).isoformat())
    for beyond in ((datetime.now(UTC) + timedelta(days=1)).isoformat(), str(recording.head + 1)):
        with pytest.raises(BadRequest, match="beyond the end of the log"):
            await as_of(catalog, beyond)


@asynccontextmanager
async def paused_append(catalog: Application) -> AsyncIterator[tuple[AsyncConnection[Any], datetime]]:
    """A command that is appended and not committed, and a later time. The connection commits it."""
    warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    append_request = AppendRequest(context("createNamespace"))
    append_request.add(
        uuid7(), warehouse.id, None, [NamespaceCreated(warehouse.id, "late", "late", "local|file:///late/", {"location": "file:///late"})]
    )
    async with await AsyncConnection.connect(catalog.dsn) as held:
        await append(held, [append_request])
        row = await (await held.execute("select clock_timestamp()")).fetchone()
        assert row is not None
        yield held, row[0].astimezone(UTC)


async def waits_for_append_lock(dsn: str, asking: "asyncio.Task[Any]") -> bool:
    """Whether the query waits for the append lock instead of having a result."""
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        waiting = "select from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and not granted"
        while not asking.done():
            if (await connection.execute(waiting)).rowcount:
                return True
            await asyncio.sleep(0.01)
    return False


ASKED_BY_TIME: dict[str, Callable[[Application, datetime], Awaitable[Any]]] = {
    "warehouse": lambda catalog, at: as_of(catalog, at.isoformat()),
    "events before a time": lambda catalog, at: catalog.events.position_before(at),
}


@pytest.mark.parametrize("asked", ASKED_BY_TIME)
async def test_a_time_has_one_answer_whatever_is_being_appended(catalog: Application, asked: str) -> None:
    """A command in flight may have been recorded before that time, so the result waits for its commit."""
    ask = ASKED_BY_TIME[asked]
    async with paused_append(catalog) as (held, at):
        asking = asyncio.create_task(ask(catalog, at))
        waited = await waits_for_append_lock(catalog.dsn, asking)
        await held.commit()
        first = await asking
    assert await ask(catalog, at) == first
    assert waited


@pytest.mark.parametrize("asked", ASKED_BY_TIME)
async def test_a_time_up_to_the_last_event_waits_for_no_append(catalog: Application, asked: str) -> None:
    """Later events have later times. A time that would have to wait too long results in 503."""
    ask = ASKED_BY_TIME[asked]
    with psycopg.connect(catalog.dsn) as connection:
        row = connection.execute("select max(recorded_at) from icecore.events").fetchone()
    assert row is not None
    async with paused_append(catalog) as (held, at):
        async with asyncio.timeout(1):
            settled = await ask(catalog, row[0].astimezone(UTC))
        async with asyncio.timeout(2 * APPENDS_WAIT_SECONDS_MAX):
            with pytest.raises(ServiceUnavailable, match="commits are in progress"):
                await ask(catalog, at)
        await held.commit()
    assert settled == await ask(catalog, row[0].astimezone(UTC))


async def test_a_time_before_the_last_event_has_come_although_the_clock_was_set_back(catalog: Application) -> None:
    """The last event was recorded a day ahead of Postgres's current clock."""
    await (await CommandRun.on(catalog)).step(Step("create_namespace"))
    async with await AsyncConnection.connect(catalog.dsn, autocommit=True) as connection:
        await connection.execute("set session_replication_role = replica")
        last = "notification_id = (select max(notification_id) from icecore.events)"
        changed = (
            f"update icecore.events set recorded_at = recorded_at + interval '1 day' where {last} returning notification_id, recorded_at"
        )
        row = await (await connection.execute(changed)).fetchone()
        assert row is not None
        position, recorded_at = row
        assert position - 1 == await position_at(connection, recorded_at - timedelta(hours=1))
        assert position == await position_at(connection, recorded_at)
        assert await position_at(connection, recorded_at + timedelta(hours=1)) is None


async def test_a_stalled_read_by_time_blocks_no_append(catalog: Application) -> None:
    """Postgres releases the lock at the end of the statement, even if the caller is slow."""
    run = await CommandRun.on(catalog)
    async with catalog.backends.connection() as connection:
        await appends_in_flight(connection)
        async with asyncio.timeout(1):
            assert not isinstance(await run.step(Step("create_namespace")), CatalogError)


async def test_what_comes_on_the_connection_of_who_asked_by_time_waits_for_locks_as_before(catalog: Application) -> None:
    """The limit on waiting for appends applies only to that statement. A read behind a rebuild may wait longer."""
    async with catalog.backends.connection() as connection:
        before = await (await connection.execute("show lock_timeout")).fetchone()
        await appends_in_flight(connection)
        assert before == await (await connection.execute("show lock_timeout")).fetchone()


@pytest.mark.parametrize("point", ["0", "1999-12-31T23:59:59Z"])
async def test_before_its_beginning_there_is_no_warehouse(catalog: Application, point: str) -> None:
    """As of the position of its creation it exists and is empty."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace"))
    with pytest.raises(NoSuchWarehouse):
        await as_of(catalog, point)
    assert {} == await as_of(catalog, 1)


async def test_what_was_dropped_is_there_as_of_then_and_gone_now(catalog: Application, tmp_path: Path) -> None:
    """Its files are deleted. The past is read from the rows."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table", name=0), Step("commit", name=0, other=1)):
        await run.step(step)
    position, there = head(catalog.dsn), await listing(catalog, run.warehouse)
    assert [*(tmp_path / "warehouse").rglob("*.metadata.json")]
    for step in (Step("purge_table", name=0), Step("run_purge"), Step("drop_namespace")):
        await run.step(step)
    assert [] == [*(tmp_path / "warehouse").rglob("*.metadata.json")]
    assert {} == await listing(catalog, run.warehouse)
    assert there == await as_of(catalog, position)
    past = await resolve_warehouse(catalog.backends, PROJECT_ID, f"demo@{position}")
    assert f"{past.id}@{position}" == past.prefix
    with pytest.raises(NoSuchNamespace):
        await list_tables(catalog.queries, context("listTables"), run.warehouse, NamespaceIdentifier(("a",)), ALL)


async def test_pages_of_the_past_are_pages_of_that_past(catalog: Application) -> None:
    """Later names and drops do not affect them."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace"))
    for name in range(len(NAMES)):
        await run.step(Step("create_table", name=name))
    position = head(catalog.dsn)
    await run.step(Step("drop_table", name=0))
    # Its name is between existing ones, and its predecessor's name is reused.
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    for name in ("t", "ta"):
        command = CreateTable(NamespaceIdentifier(("a",)), name, None, schema, None, None, {}, stage_create=False)
        await create_table(catalog.commands, context("createTable"), run.warehouse, command)
    await run.step(Step("drop_table", name=2))
    past = await resolve_warehouse(catalog.backends, PROJECT_ID, f"demo@{position}")
    namespace, names, after = NamespaceIdentifier(("a",)), list[str](), None
    while True:
        page = await list_tables(catalog.queries, context("listTables"), past, namespace, PageRequest(after, 1))
        names += page.items
        after = page.next_key
        if after is None:
            break
    assert ["t", "u", "été"] == names
    assert ["t", "ta", "été"] == (await list_tables(catalog.queries, context("listTables"), run.warehouse, namespace, ALL)).items


# Jobs, commands that require an unregistered table or a purge, commands on a proposal, on another warehouse, and on projects.
NO_COMMAND = {
    "fail_purge",
    "control_purge",
    "delete_warehouse",
    "change_credential",
    "project",
    "rename_default_project",
    "maintain_table",
    "run_purge",
    "run_expiry",
    "close_removed_parts",
    "register",
    "register_over",
    "register_view",
    "expire",
    "approve",
    "reject",
}


@pytest.mark.parametrize("kind", sorted({step.kind for step in EVERY_KIND} - NO_COMMAND))
async def test_a_past_cannot_be_changed(catalog: Application, kind: str) -> None:
    """Every command on `demo@<position>` is refused before any other check, without a trace."""
    run = await CommandRun.on(catalog)
    for step in (
        Step("create_namespace", 0),
        Step("create_namespace", 1),
        Step("create_table", 0, 0),
        Step("create_table", 0, 2),
        Step("create_view", 0, 3),
    ):
        await run.step(step)
    position = head(catalog.dsn)
    past = await CommandRun.on(catalog, f"demo@{position}")
    name = 3 if kind.endswith("_view") and kind != "create_view" else 0
    refused = await past.step(Step(kind, 1 if kind in ("drop_namespace",) else 0, name, 2))
    assert isinstance(refused, UnsupportedOperation), refused
    assert position == head(catalog.dsn)


async def test_a_past_cannot_be_changed_by_a_new_name_either(catalog: Application) -> None:
    """The refusal says what the client did."""
    run = await CommandRun.on(catalog, f"demo@{head(catalog.dsn)}")
    with pytest.raises(UnsupportedOperation, match="a past state cannot be changed"):
        await create_namespace(
            catalog.commands, context("createNamespace"), run.warehouse, CreateNamespace(NamespaceIdentifier(("z",)), {})
        )


async def test_a_document_of_the_past_names_the_file_of_the_past(catalog: Application) -> None:
    """Metadata location and metadata are of the same version."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table", other=1), Step("commit", other=1)):
        await run.step(step)
    table = TabularIdentifier(NamespaceIdentifier(("a",)), "t")
    position, then = head(catalog.dsn), await run.metadata(table)
    await run.step(Step("commit", other=2))
    now = await run.metadata(table)
    past = await resolve_warehouse(catalog.backends, PROJECT_ID, f"demo@{position}")
    body = (await load_table(catalog.queries, context("loadTable"), past, table)).body
    assert body is not None
    assert then == orjson.loads(body)
    assert then["metadata-location"] == now["metadata"]["metadata-log"][-1]["metadata-file"]
