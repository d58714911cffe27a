"""Concurrent loads share statements: each gets its own, current response, and is not affected by others' failures."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.database.connections import Connection
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable
from icecore.domain.errors import NoSuchTable, ServiceUnavailable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.projections import tables
from icecore.projections.bounded_reads import LargeDocument
from icecore.projections.tables import TABLES_PER_STATEMENT_MAX, LoadedTable, TableLookup
from icecore.queries import table_loads
from icecore.queries.load_table import load_table
from icecore.queries.table_loads import SEPARATE_STATEMENT_BYTES_MIN
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog

NAMESPACES = (NamespaceIdentifier(("a",)), NamespaceIdentifier(("a", "b")), NamespaceIdentifier(("a", "b", "c")))
COUNT = 2 * TABLES_PER_STATEMENT_MAX
_LOAD_NOW = tables.load_current


@dataclass(slots=True)
class Statements:
    """Observes the statements for tables, and delays their results until `let_go` is set."""

    begun: list[list[str]] = field(default_factory=list)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    before: Callable[[Connection, Sequence[TableLookup]], Awaitable[None]] | None = None

    async def load_current(
        self, connection: Connection, requested: Sequence[TableLookup], bytes_max: int
    ) -> list[LoadedTable | LargeDocument | None]:
        if self.before is not None:
            await self.before(connection, requested)
        found = await _LOAD_NOW(connection, requested, bytes_max)
        self.begun.append([one.keys[-1] for one in requested])
        await self.let_go.wait()
        return found


@pytest.fixture
async def catalog(database: str, tmp_path: Path) -> AsyncIterator[Application]:
    """A catalog without a cache."""
    async with opened_catalog(database, tmp_path / "warehouse", cache_bytes_max=0) as opened:
        yield opened


@pytest.fixture
async def warehouse(catalog: Application) -> Warehouse:
    """Tables `t0` … in three nested namespaces, each with its number as a property."""
    found = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    for namespace in NAMESPACES:
        await create_namespace(catalog.commands, context("createNamespace"), found, CreateNamespace(namespace, {}))
    await asyncio.gather(*(_create(catalog, found, number) for number in range(COUNT)))
    return found


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    """One shared statement at a time: loads that arrive meanwhile join the next one."""
    seen = Statements()
    seen.let_go.set()
    monkeypatch.setattr(tables, "load_current", seen.load_current)
    monkeypatch.setattr(table_loads, "STATEMENTS_CONCURRENT_MAX", 1)
    return seen


def _table(number: int) -> TabularIdentifier:
    return TabularIdentifier(NAMESPACES[number % len(NAMESPACES)], f"t{number}")


async def _create(catalog: Application, warehouse: Warehouse, number: int) -> None:
    table = _table(number)
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    command = CreateTable(table.namespace, table.name, None, schema, None, None, {"called": str(number)}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), warehouse, command)


async def _call(catalog: Application, warehouse: Warehouse, number: int, called: str) -> None:
    command = CommitTable(_table(number), [], [{"action": "set-properties", "updates": {"called": called}}])
    await commit_table(catalog.commands, context("updateTable"), warehouse, command)


async def _called(catalog: Application, warehouse: Warehouse, number: int) -> str:
    response = await load_table(catalog.queries, context("loadTable"), warehouse, _table(number))
    assert response.body is not None
    called: str = orjson.loads(joined(response.body))["metadata"]["properties"]["called"]
    return called


async def _until_begun(statements: Statements, count: int) -> None:
    async with asyncio.timeout(30):
        while len(statements.begun) < count:
            await asyncio.sleep(0.001)


async def _held(catalog: Application, warehouse: Warehouse, statements: Statements) -> list[asyncio.Task[str]]:
    """Two loads of `t0` that are delayed: a direct one, and one in the shared statement."""
    statements.let_go.clear()
    loads = []
    for count in (1, 2):
        loads.append(asyncio.create_task(_called(catalog, warehouse, 0)))
        await _until_begun(statements, count)
    return loads


async def _after(catalog: Application, warehouse: Warehouse, statements: Statements, numbers: Sequence[int]) -> list[asyncio.Task[str]]:
    """Loads that wait behind the delayed ones."""
    loads = [asyncio.create_task(_called(catalog, warehouse, number)) for number in numbers]
    # After the next turn of the loop, all of them are waiting.
    for _ in range(3):
        await asyncio.sleep(0)
    return loads


async def test_each_gets_its_own_response(catalog: Application, warehouse: Warehouse, statements: Statements) -> None:
    """From several namespaces, including missing tables, in statements of limited size. The same table is requested once."""
    held = await _held(catalog, warehouse, statements)
    absent = COUNT + 1
    numbers = [*range(COUNT), 1, 1, 2]
    loads = await _after(catalog, warehouse, statements, [*numbers, absent])
    statements.let_go.set()
    assert ["0", "0"] == await asyncio.gather(*held)
    *found, missing = await asyncio.gather(*loads, return_exceptions=True)
    assert [str(number) for number in numbers] == found
    assert isinstance(missing, NoSuchTable)
    assert [1, 1, TABLES_PER_STATEMENT_MAX, TABLES_PER_STATEMENT_MAX, 1] == [len(names) for names in statements.begun]
    assert {f"t{number}" for number in (*range(COUNT), absent)} == {name for names in statements.begun[2:] for name in names}


async def test_a_single_load_runs_at_once(catalog: Application, warehouse: Warehouse, statements: Statements) -> None:
    """One after the other, each with its own statement."""
    for number in range(4):
        assert str(number) == await _called(catalog, warehouse, number)
    assert [["t0"], ["t1"], ["t2"], ["t3"]] == statements.begun


async def test_what_was_written_before_the_request_came_is_seen(catalog: Application, warehouse: Warehouse, statements: Statements) -> None:
    """Although earlier statements for the same table are in flight."""
    held = await _held(catalog, warehouse, statements)
    await _call(catalog, warehouse, 0, "anew")
    late = await _after(catalog, warehouse, statements, [0, 1, 0])
    statements.let_go.set()
    assert ["0", "0"] == await asyncio.gather(*held)
    assert ["anew", "1", "anew"] == await asyncio.gather(*late)


async def test_every_response_is_as_fresh_as_its_request(catalog: Application, warehouse: Warehouse) -> None:
    """With a writer and all kinds of statements: none misses a commit that was acknowledged before it began."""
    written = -1
    checked, stale = 0, list[int]()

    async def read(number: int) -> None:
        nonlocal checked
        while written < 100:
            before = written
            if number % 4:
                await _called(catalog, warehouse, number)
            else:
                found = int(await _called(catalog, warehouse, 0))
                checked += before >= 0
                if found < before:
                    stale.append(before)

    readers = [asyncio.create_task(read(number)) for number in range(COUNT)]
    for turn in range(101):
        await _call(catalog, warehouse, 0, str(turn))
        written = turn
    await asyncio.gather(*readers)
    assert [] == stale
    assert checked > COUNT // 4, "they read while the table was written to"


async def test_a_cancelled_load_does_not_affect_others(catalog: Application, warehouse: Warehouse, statements: Statements) -> None:
    """Before the statement its table is not requested. During the statement the others get their responses."""
    held = await _held(catalog, warehouse, statements)
    early, *others = await _after(catalog, warehouse, statements, [3, 4, 5, 5])
    early.cancel()
    await asyncio.wait([early])
    statements.let_go.set()
    await asyncio.gather(*held)
    assert ["4", "5", "5"] == await asyncio.gather(*others)
    assert ["t4", "t5"] == statements.begun[-1]

    statements.begun.clear()
    held = await _held(catalog, warehouse, statements)
    loads = await _after(catalog, warehouse, statements, [3, 4, 5])
    held[1].cancel()
    loads[1].cancel()
    statements.let_go.set()
    assert ["3", "5"] == await asyncio.gather(*loads[::2])
    assert "0" == await held[0]


async def test_what_cannot_be_read_fails_by_itself(catalog: Application, warehouse: Warehouse, statements: Statements) -> None:
    """An invalid row fails only its own load."""
    async with await psycopg.AsyncConnection.connect(catalog.dsn) as connection:
        named = "select object_id from icecore.names where name = 't3'"
        await connection.execute(f"update icecore.table_parts set kind = 99 where kind = 1 and table_id in ({named})")
    held = await _held(catalog, warehouse, statements)
    loads = await _after(catalog, warehouse, statements, [2, 3, 4])
    statements.let_go.set()
    await asyncio.gather(*held)
    found = await asyncio.gather(*loads, return_exceptions=True)
    assert ["2", "4"] == [found[0], found[2]]
    assert isinstance(found[1], IndexError)


async def test_a_line_that_breaks_under_several_breaks_none_of_them(
    catalog: Application, warehouse: Warehouse, statements: Statements
) -> None:
    """They are loaded again separately. A single one gets 503."""
    asked: list[list[str]] = []

    async def end(connection: Connection, requested: Sequence[TableLookup]) -> None:
        asked.append([one.keys[-1] for one in requested])
        if len(requested) > 1 or requested[0].keys[-1] == "t7":
            async with await psycopg.AsyncConnection.connect(catalog.dsn) as other:
                await other.execute("select pg_terminate_backend(%s, 30000)", (connection.info.backend_pid,))

    held = await _held(catalog, warehouse, statements)
    loads = await _after(catalog, warehouse, statements, [2, 3, 4])
    statements.before = end
    statements.let_go.set()
    await asyncio.gather(*held)
    assert ["2", "3", "4"] == await asyncio.gather(*loads)
    assert ["t2", "t3", "t4"] == asked[0]
    assert [["t2"], ["t3"], ["t4"]] == sorted(asked[1:])
    with pytest.raises(ServiceUnavailable):
        await _called(catalog, warehouse, 7)


async def test_no_client_waits_for_a_large_table_twice(catalog: Application, warehouse: Warehouse, statements: Statements) -> None:
    """Once it is known to be large, it has separate statements, which its concurrent loads share."""
    await _call(catalog, warehouse, 6, "6" * SEPARATE_STATEMENT_BYTES_MIN)
    await _called(catalog, warehouse, 6)
    statements.begun.clear()
    held = await _held(catalog, warehouse, statements)
    loads = await _after(catalog, warehouse, statements, [1, 6, 2])
    await _until_begun(statements, 3)
    assert ["t6"] == statements.begun[-1]
    loads += await _after(catalog, warehouse, statements, [6, 6, 6])
    await _until_begun(statements, 4)
    statements.let_go.set()
    await asyncio.gather(*held, *loads)
    assert [["t0"], ["t0"], ["t6"], ["t6"], ["t1", "t2"]] == statements.begun
    await _call(catalog, warehouse, 6, "small again")
    assert "small again" == await _called(catalog, warehouse, 6)
    statements.begun.clear()
    held = await _held(catalog, warehouse, statements)
    loads = await _after(catalog, warehouse, statements, [1, 6])
    statements.let_go.set()
    await asyncio.gather(*held, *loads)
    assert ["t1", "t6"] == statements.begun[-1]
