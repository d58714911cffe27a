"""Moves of namespaces: paths, refusals, caches of other processes, races, the past and events."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.executor import CommandExecutor
from icecore.commands.namespaces import move_namespace as moves
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.commands.namespaces.move_namespace import move_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable, DropNamespace, MoveNamespace
from icecore.domain.errors import CatalogError, NoSuchNamespace, NoSuchTable
from icecore.domain.identifiers import NAMESPACE_LEVELS_MAX, NamespaceIdentifier, TabularIdentifier
from icecore.projections import names
from icecore.projections.names import NameLookup
from icecore.projections.verify import verify
from icecore.queries.list_tabulars import list_tables
from icecore.queries.load_namespace import load_namespace
from icecore.queries.load_table import load_table, table_exists
from icecore.queries.results import PageRequest
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, before_append, context, opened_catalog, served_catalog
from tests.fixtures.operator_commands import icecore
from tests.fixtures.readme import pieces
from tests.fixtures.rest_client import SCHEMA, RestClient, RestResponse, namespace_path, set_properties, table_path
from tests.servers.paths import ROOT

Levels = Sequence[str]
RACES = 25


class Moving(RestClient):
    """A client that moves namespaces by their paths."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.warehouse_id = self.call_root("GET", "/config?warehouse=demo").json["overrides"]["prefix"]

    def namespace_id(self, *levels: str) -> str:
        parent = f"&parent={'%1F'.join(levels[:-1])}" if levels[:-1] else ""
        listed = self.call("GET", f"/namespaces?returnUuids=true{parent}").json
        return dict(zip((each[-1] for each in listed["namespaces"]), listed["namespace-uuids"], strict=True))[levels[-1]]

    def address(self, namespace_id: str) -> str:
        return f"/management/v1/warehouse/{self.warehouse_id}/namespace/{namespace_id}/move"

    def move(self, source: Levels | str, destination: Any, key: object = None, **body: Any) -> RestResponse:
        """source -- a path, or an id."""
        namespace_id = source if isinstance(source, str) else self.namespace_id(*source)
        return self.management(self.address(namespace_id), {"destination": destination, **body}, key)

    def management(self, address: str, body: Any, key: object = None) -> RestResponse:
        root, self._root = self._root, ""
        try:
            return self.call_root("POST", address, body, key=key)
        finally:
            self._root = root


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "warehouse") as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[Moving]:
    """Namespaces a, a.b, a.b.c and d, and a table in a.b.c."""
    with closing(Moving(server.url)) as opened:
        for levels in (["a"], ["a", "b"], ["a", "b", "c"], ["d"]):
            assert 200 == opened.create_namespace(*levels).status
        assert 200 == opened.create_table(["a", "b", "c"], "t").status
        yield opened


def events(dsn: str) -> list[tuple[str, Any]]:
    """Topic and state of the events of moves, oldest first."""
    query = """select topic, convert_from(state, 'utf8')::jsonb from icecore.events
               where topic in ('namespace.moved.v1', 'warehouse.namespace-moved.v1') order by notification_id"""
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


def test_a_namespace_is_moved_with_all_that_it_contains(client: Moving, server: CatalogServer) -> None:
    """Two events, whatever it contains. Ids, documents and locations are the same under the new path, and the old path is gone."""
    before = client.load_table(["a", "b", "c"], "t").json
    moved_id, parent_id = client.namespace_id("a", "b"), client.namespace_id("d")
    done = client.move(["a", "b"], ["D", "x"])
    assert (200, {"namespace": ["d", "x"], "namespace-id": moved_id, "parent-namespace-id": parent_id}) == (done.status, done.json)
    assert before == client.load_table(["d", "x", "c"], "t").json
    assert moved_id == client.namespace_id("d", "x")
    assert (404, "NoSuchTableException") == client.load_table(["a", "b", "c"], "t").error
    assert (404, "NoSuchTableException") == client.commit(["a", "b", "c"], "t", set_properties(k="v")).error
    assert 404 == client.call("HEAD", table_path(["a", "b", "c"], "t")).status
    for levels in (["a", "b"], ["a", "b", "c"]):
        assert (404, "NoSuchNamespaceException") == client.call("GET", namespace_path(levels)).error
        assert (404, "NoSuchNamespaceException") == client.call("GET", f"{namespace_path(levels)}/tables").error
    assert 200 == client.commit(["d", "x", "c"], "t", set_properties(k="v")).status
    assert [
        ("namespace.moved.v1", {"parent-id": parent_id, "name": "x", "name-key": "x"}),
        ("warehouse.namespace-moved.v1", {"namespace-id": moved_id}),
    ] == events(server.dsn)
    assert asyncio.run(verify(server.dsn)).ok


def test_a_namespace_is_moved_to_the_top_renamed_and_respelled(client: Moving, server: CatalogServer) -> None:
    """The former names are free."""
    top = client.move(["a", "b"], ["top"])
    assert (["top"], None) == (top.json["namespace"], top.json["parent-namespace-id"])
    assert ["renamed"] == client.move(["top"], ["renamed"]).json["namespace"]
    assert ["ReNamed"] == client.move(["renamed"], ["ReNamed"]).json["namespace"]
    assert [["a"], ["d"], ["ReNamed"]] == client.call("GET", "/namespaces").json["namespaces"]
    assert 200 == client.load_table(["RENAMED", "c"], "t").status
    for levels in (["a", "b"], ["top"]):
        assert 200 == client.create_namespace(*levels).status
    assert 6 == len(events(server.dsn))
    assert asyncio.run(verify(server.dsn)).ok


def test_a_move_to_itself_is_no_event(client: Moving, server: CatalogServer) -> None:
    """Also of a protected namespace, and in a repeated request with its key."""
    assert ["a", "b"] == client.move(["a", "b"], ["A", "b"]).json["namespace"]
    assert [] == events(server.dsn)
    key, moved_id = uuid4(), client.namespace_id("a", "b")
    first = client.move(moved_id, ["d", "b"], key=key)
    assert first.replayable == client.move(moved_id, ["d", "b"], key=key).replayable
    assert 2 == len(events(server.dsn))


def test_what_is_refused_changes_nothing(client: Moving, server: CatalogServer) -> None:
    """A typed error for each rule."""
    assert 200 == client.create_namespace("d", "b").status
    for destination, expected in (
        (["a", "b", "x"], (400, "BadRequestException")),
        (["a", "b", "c", "x"], (400, "BadRequestException")),
        (["nowhere", "b"], (404, "NoSuchNamespaceException")),
        (["d", "B"], (409, "AlreadyExistsException")),
        (["System"], (400, "ReservedNamespace")),
        ([], (400, "BadRequestException")),
        (["a", ""], (400, "BadRequestException")),
        ("d", (400, "BadRequestException")),
        (["x"] * (NAMESPACE_LEVELS_MAX + 1), (400, "BadRequestException")),
    ):
        assert expected == client.move(["a", "b"], destination).error, destination
    assert (404, "NoSuchNamespaceException") == client.move(str(uuid4()), ["x"]).error
    assert (404, "NoSuchNamespaceException") == client.move("no-id", ["x"]).error
    assert (400, "BadRequestException") == client.move(["a", "b"], ["x"], unknown=1).error
    assert "inside it" in client.move(["a", "b"], ["a", "b", "x"]).message
    assert [] == events(server.dsn)


def test_a_protected_namespace_is_moved_by_force_only(client: Moving) -> None:
    """Its content is not protected."""
    moved_id = client.namespace_id("a", "b")
    protection = client.address(moved_id).replace("/move", "/protection")
    assert 200 == client.management(protection, {"protected": True}).status
    assert (409, "NamespaceProtectedException") == client.move(moved_id, ["d", "b"]).error
    assert 200 == client.move(moved_id, ["a", "b"]).status
    assert 200 == client.move(["a", "b", "c"], ["a", "b", "e"]).status
    assert 200 == client.move(moved_id, ["d", "b"], force=True).status


def test_nothing_gets_deeper_than_the_limit(client: Moving) -> None:
    """The deepest namespace below counts. A tree with the depth of the limit can be moved on its level."""
    deep = ["d", *(f"l{number}" for number in range(2, NAMESPACE_LEVELS_MAX))]
    for depth in range(2, len(deep) + 1):
        assert 200 == client.create_namespace(*deep[:depth]).status
    assert NAMESPACE_LEVELS_MAX - 1 == len(deep)
    assert (400, "BadRequestException") == client.move(["a", "b"], [*deep, "b"]).error
    assert 200 == client.move(["a", "b", "c"], [*deep, "c"]).status
    assert (400, "BadRequestException") == client.move(["d"], ["a", "d"]).error
    assert 200 == client.move(["d"], ["e"]).status


def test_the_command_line_moves_as_the_server_does(client: Moving, server: CatalogServer) -> None:
    """By path or id, as on the page. The server follows at its next request."""
    page = pieces((ROOT / "docs" / "how-to" / "namespaces.md").read_text())["move"].split()
    assert ["icecore", "namespace", "move", "lake", "sales.eu", "archive.sales_eu"] == page
    moved_id = client.namespace_id("a", "b")
    done = icecore(server.dsn, *page[1:3], "demo", "a.b", "d.b_eu")
    assert (0, f"d.b_eu  {moved_id}\n", "") == (done.returncode, done.stdout, done.stderr)
    assert 200 == client.load_table(["d", "b_eu", "c"], "t").status
    done = icecore(server.dsn, *page[1:3], "demo", moved_id, "top", "--force", "--json")
    assert (0, ["top"]) == (done.returncode, json.loads(done.stdout)["namespace"])
    for arguments, code, message in (
        (["demo", "a.b", "d.b"], 1, "icecore: Namespace does not exist: a.b"),
        (["nowhere", "a", "d"], 1, "icecore: Warehouse does not exist: nowhere"),
        (["demo@1", "a", "x"], 2, "a past state cannot be changed"),
        (["demo", "a", "a.x"], 2, "icecore: Cannot move namespace a to a.x: the destination is inside it"),
    ):
        done = icecore(server.dsn, "namespace", "move", *arguments)
        assert (code, "") == (done.returncode, done.stdout), done.stderr
        assert message in done.stderr
    assert 4 == len(events(server.dsn))


async def warehouse_of(catalog: Application) -> Warehouse:
    return await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")


@pytest.fixture
async def other(catalog: Application, database: str, tmp_path: Path) -> AsyncIterator[Application]:
    """A second process on the same database."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(opened_catalog(database, tmp_path / "warehouse"))


async def make(catalog: Application, *levels: str) -> UUID:
    """Creates a namespace and returns its id."""
    warehouse = await warehouse_of(catalog)
    namespace = NamespaceIdentifier(levels)
    await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(namespace, {}))
    async with catalog.backends.connection() as connection:
        return await names.find_namespace(connection, warehouse.name_lookup, namespace)


async def make_table(catalog: Application, *levels: str) -> TabularIdentifier:
    command = CreateTable(NamespaceIdentifier(levels[:-1]), levels[-1], None, SCHEMA, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), await warehouse_of(catalog), command)
    return TabularIdentifier(command.namespace, command.name)


async def move(catalog: Application, namespace_id: UUID, *destination: str) -> None:
    command = MoveNamespace(namespace_id, NamespaceIdentifier(destination))
    await move_namespace(catalog.commands, context("moveNamespace"), await warehouse_of(catalog), command)


async def commit(catalog: Application, warehouse: Warehouse, table: TabularIdentifier, *updates: Any, requirements: Any = ()) -> None:
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(table, requirements, updates))


async def warmed(other: Application, table: TabularIdentifier) -> Warehouse:
    """The warehouse as the other process knows it. It has cached the table's name, state, loads and listings."""
    warehouse = await warehouse_of(other)
    await commit(other, warehouse, table, set_properties(warm="1"))
    for _ in range(3):
        await load_table(other.queries, context("loadTable"), warehouse, table)
        await table_exists(other.queries, context("tableExists"), warehouse, table)
        await list_tables(other.queries, context("listTables"), warehouse, table.namespace, PageRequest())
        await load_namespace(other.queries, context("loadNamespaceMetadata"), warehouse, table.namespace)
    return warehouse


FAILING = [{"type": "assert-table-uuid", "uuid": str(uuid4())}]


async def refusals(other: Application, warehouse: Warehouse, table: TabularIdentifier) -> list[type[Exception] | None]:
    """What the other process answers to commands and queries by a path, with the warehouse that it has cached."""
    queries = other.queries
    found: list[type[Exception] | None] = []
    for request in (
        commit(other, warehouse, table),
        commit(other, warehouse, table, set_properties(k="v"), requirements=FAILING),
        commit(other, warehouse, table, set_properties(k="v")),
        load_table(queries, context("loadTable"), warehouse, table),
        table_exists(queries, context("tableExists"), warehouse, table),
        list_tables(queries, context("listTables"), warehouse, table.namespace, PageRequest()),
        load_namespace(queries, context("loadNamespaceMetadata"), warehouse, table.namespace),
    ):
        try:
            await request
            found.append(None)
        except CatalogError as refusal:
            found.append(type(refusal))
    return found


GONE = [NoSuchTable] * 5 + [NoSuchNamespace] * 2


async def test_the_old_path_is_gone_in_every_process_at_once(catalog: Application, other: Application) -> None:
    """Also for commands that change nothing or whose requirements fail, in a process that has cached all of it."""
    await make(catalog, "a")
    moved = await make(catalog, "a", "b")
    await make(catalog, "a", "b", "c")
    table = await make_table(catalog, "a", "b", "c", "t")
    warehouse = await warmed(other, table)
    await move(catalog, moved, "a", "x")
    assert GONE == await refusals(other, warehouse, table)


async def test_control_the_checks_find_a_process_that_knows_old_paths(
    catalog: Application, other: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the tag of paths, and with a move that is no event of the warehouse, the old path is served."""
    moved = await make(catalog, "a")
    table = await make_table(catalog, "a", "t")
    warehouse = await warmed(other, table)
    monkeypatch.setattr(moves.AppendRequest, "add", _without_warehouse(moves.AppendRequest.add))
    await move(catalog, moved, "x")
    assert [None, None] == [each for each in await refusals(other, warehouse, table) if each is None][:2]


def _without_warehouse(add: Any) -> Any:
    def added(self: Any, *arguments: Any, shown_to_hooks: bool = True, **named: Any) -> Any:
        return add(self, *arguments, shown_to_hooks=shown_to_hooks, **named) if shown_to_hooks else None

    return added


async def test_a_path_that_is_taken_by_another_table_is_that_tables(catalog: Application, other: Application) -> None:
    """The commit of a process that knows the earlier path changes the table that has it now, and not the earlier one."""
    first, second = await make(catalog, "a"), await make(catalog, "b")
    table, there = await make_table(catalog, "a", "t"), await make_table(catalog, "b", "t")
    warehouse = await warmed(other, table)
    await move(catalog, first, "old")
    await move(catalog, second, "a")
    await commit(other, warehouse, table, set_properties(whose="the second"))
    body = await load_table(other.queries, context("loadTable"), await warehouse_of(other), table)
    assert b"the second" in bytes(body.body or b"")  # type: ignore[arg-type]
    with pytest.raises(NoSuchTable):
        await table_exists(other.queries, context("tableExists"), await warehouse_of(other), there)


async def paths(catalog: Application, as_of: int | None = None) -> list[str]:
    """The paths of all namespaces that are reached from the top, with dots."""
    warehouse = await warehouse_of(catalog)
    found: list[str] = []

    async def walk(parent_id: UUID, above: str) -> None:
        async with catalog.backends.connection() as connection:
            lookup = NameLookup(warehouse.id, warehouse.exact_names, as_of)
            listed = await names.list_page(connection, lookup, parent_id, "namespace", None, None, with_objects=True)
        for name, namespace_id in zip(listed.names, listed.ids or (), strict=True):
            found.append(f"{above}{name}")
            await walk(namespace_id, f"{above}{name}.")

    await walk(warehouse.id, "")
    return found


async def attempt(*requests: Any) -> list[Exception | None]:
    done = await asyncio.gather(*requests, return_exceptions=True)
    assert all(each is None or isinstance(each, CatalogError) for each in done), done
    return done  # type: ignore[return-value]


async def test_two_moves_at_once_make_no_cycle(catalog: Application, other: Application, database: str) -> None:
    """a into b and b into a, by two processes and in one: one of them is refused, and both trees stay reachable."""
    for number in range(RACES):
        a, b = await make(catalog, f"a{number}"), await make(catalog, f"b{number}")
        second = other if number % 2 else catalog
        done = await attempt(move(catalog, a, f"b{number}", "x"), move(second, b, f"a{number}", "y"))
        assert 1 == len([each for each in done if each is None]), done
        reached = await paths(catalog)
        assert (f"b{number}.x" in reached) != (f"a{number}.y" in reached)
        assert 2 * (number + 1) == len(reached)
    assert (await verify(database)).ok


async def test_control_without_the_event_of_the_warehouse_a_cycle_arises(
    catalog: Application, other: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: two moves that both were decided before either was appended, and that do not depend on other namespaces."""

    async def end_of_log(_: object) -> int:
        return 2**62

    monkeypatch.setattr(moves.AppendRequest, "add", _without_warehouse(moves.AppendRequest.add))
    monkeypatch.setattr(moves, "log_head", end_of_log)
    both, waiting = asyncio.Event(), 0
    find = names.names_above

    async def together(*arguments: Any) -> Any:
        nonlocal waiting
        found = await find(*arguments)
        waiting += 1
        if waiting == 2:
            both.set()
        await both.wait()
        return found

    monkeypatch.setattr(moves.names, "names_above", together)
    a, b = await make(catalog, "a"), await make(catalog, "b")
    assert [None, None] == await attempt(move(catalog, a, "b", "x"), move(other, b, "a", "y"))
    assert [] == await paths(catalog)


async def test_a_move_at_the_same_time_as_other_changes(catalog: Application, other: Application, database: str) -> None:
    """Commits, creations and drops by the old path are before the move or are refused; nothing is lost or found twice."""
    root = await make(catalog, "root")
    await make(catalog, "root", "in")
    table = await make_table(catalog, "root", "in", "t")
    warehouse = await warmed(other, table)
    for number in range(RACES):
        place, new_place = (("root",), ("moved",)) if number % 2 == 0 else (("moved",), ("root",))
        old = TabularIdentifier(NamespaceIdentifier((*place, "in")), "t")
        new = TabularIdentifier(NamespaceIdentifier((*new_place, "in")), "t")
        create = CreateNamespace(NamespaceIdentifier((*place, f"n{number}")), {})
        _, committed, created = await attempt(
            move(catalog, root, *new_place),
            commit(other, warehouse, old, set_properties(turn=str(number))),
            _silent(create_namespace(other.commands, context("createNamespace"), warehouse, create)),
        )
        assert committed is None or isinstance(committed, NoSuchTable)
        assert created is None or isinstance(created, NoSuchNamespace)
        loaded = bytes((await load_table(other.queries, context("loadTable"), await warehouse_of(other), new)).body or b"")  # type: ignore[arg-type]
        assert (committed is None) == (f'"turn":"{number}"'.encode() in loaded)
        assert (created is None) == (f"{new_place[0]}.n{number}" in await paths(catalog))
        assert GONE[2:5] == (await refusals(other, await warehouse_of(other), old))[2:5]
    assert (await verify(database)).ok


async def _silent(request: Any) -> None:
    await request


async def test_no_namespace_gets_too_deep_while_it_is_moved(catalog: Application, other: Application) -> None:
    """A namespace that is created below while the move is decided counts."""
    top = tuple(f"l{number}" for number in range(1, NAMESPACE_LEVELS_MAX))
    for depth in range(1, len(top) + 1):
        await make(catalog, *top[:depth])
    moved = await make(catalog, "m")
    for number in range(RACES):
        place = (*top, "m")
        source = "m" if number == 0 else f"m{number}"
        create = CreateNamespace(NamespaceIdentifier((source, "n")), {})
        warehouse = await warehouse_of(other)
        done = await attempt(
            move(catalog, moved, *place), _silent(create_namespace(other.commands, context("createNamespace"), warehouse, create))
        )
        assert 1 == len([each for each in done if each is None]), done
        assert NAMESPACE_LEVELS_MAX >= max(each.count(".") + 1 for each in await paths(catalog))
        if done[0] is None:
            await move(catalog, moved, f"m{number + 1}")
        else:
            moved = await make(catalog, f"m{number + 1}")


async def test_the_past_keeps_its_paths(catalog: Application) -> None:
    """Before, between and after two moves, and by the path of each time."""
    await make(catalog, "a")
    moved = await make(catalog, "a", "b")
    table = await make_table(catalog, "a", "b", "t")
    positions = []
    for destination in (("b",), ("a", "c"), None):
        async with catalog.backends.connection() as connection:
            row = await (await connection.execute("select max(notification_id) from icecore.events")).fetchone()
        assert row is not None
        positions.append(row[0])
        if destination is not None:
            await move(catalog, moved, *destination)
    assert [["a", "a.b"], ["a", "b"], ["a", "a.c"]] == [await paths(catalog, as_of) for as_of in positions]
    for position, namespace in zip(positions, (("a", "b"), ("b",), ("a", "c")), strict=True):
        warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, f"demo@{position}")
        for levels in (("a", "b"), ("b",), ("a", "c")):
            there = TabularIdentifier(NamespaceIdentifier(levels), table.name)
            asked = load_table(catalog.queries, context("loadTable"), warehouse, there)
            if levels == namespace:
                await asked
            else:
                with pytest.raises(NoSuchTable):
                    await asked


def test_events_have_the_paths_of_their_time(client: Moving) -> None:
    """Of the moved namespace both, and of what it contains the one as of each event; filters follow."""
    for levels in (["a", "b", "c"], ["d", "x", "c"]):
        if levels[0] == "d":
            assert 200 == client.move(["a", "b"], ["d", "x"]).status
        assert 200 == client.commit(levels, "t", set_properties(k=levels[0])).status

    def page(query: str) -> list[Any]:
        root, client._root = client._root, ""
        try:
            return client.call_root("GET", f"/history/v1/events?{query}").json["events"]
        finally:
            client._root = root

    for _ in range(2):
        commits = page("types=table.committed")
        assert [["a", "b", "c"], ["d", "x", "c"]] == [each["data"]["table"]["namespace"]["name"] for each in commits]
        (moved,) = page("types=namespace.moved")
        assert (["d", "x"], ["a", "b"]) == (moved["data"]["namespace"]["name"], moved["data"]["previous-name"])
        assert "d.x" == moved["subject"]
        (of_warehouse,) = page("types=warehouse.namespace-moved")
        assert moved["data"]["namespace"]["id"] == of_warehouse["data"]["namespace-id"]
        assert moved["command"] == of_warehouse["command"]
        assert ["table.committed"] == [each["type"].removeprefix("io.icecore.")[:-3] for each in page("types=table.committed&namespaces=d")]
    asked = client.call("POST", "/events", {"operation-types": ["x-icecore-namespace-moved"]}).json
    (operation,) = [each["operation"] for each in asked["events"]]
    assert (["a", "b"], ["d", "x"]) == (operation["source"], operation["destination"])


async def test_an_ordinary_commit_is_one_statement_more_only_if_it_is_refused(
    catalog: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the warehouse has changed is asked after a command that appended nothing."""
    asked = 0
    is_outdated = CommandExecutor._is_outdated

    async def counted(self: CommandExecutor, warehouse: Warehouse | None) -> bool:
        nonlocal asked
        asked += 1
        return await is_outdated(self, warehouse)

    monkeypatch.setattr(CommandExecutor, "_is_outdated", counted)
    await make(catalog, "a")
    table = await make_table(catalog, "a", "t")
    warehouse = await warehouse_of(catalog)
    await commit(catalog, warehouse, table, set_properties(k="v"))
    assert 0 == asked
    await commit(catalog, warehouse, table)
    with pytest.raises(CatalogError):
        await commit(catalog, warehouse, table, set_properties(k="w"), requirements=FAILING)
    assert 2 == asked


def test_a_soft_deleted_namespace_below_counts(client: Moving) -> None:
    """It may be undropped, and would be deeper than the limit."""
    deep = ["d", *(f"l{number}" for number in range(2, NAMESPACE_LEVELS_MAX + 1))]
    for depth in range(2, len(deep) + 1):
        assert 200 == client.create_namespace(*deep[:depth]).status
    profile = {"delete-profile": {"type": "soft", "expiration-seconds": 3600}}
    assert 200 == client.management(f"/management/v1/warehouse/{client.warehouse_id}/delete-profile", profile).status
    assert 204 == client.call("DELETE", f"{namespace_path(deep)}?recursive=true").status
    assert (400, "BadRequestException") == client.move(["d"], ["a", "d"]).error
    assert 200 == client.move(["d"], ["e"]).status


async def test_nothing_is_moved_into_a_namespace_that_is_dropped_meanwhile(
    catalog: Application, other: Application, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drop is appended after the move was decided and before it is appended. The namespace does not get deeper."""
    for each in ("x", "d"):
        await make(catalog, each)
    moved = await make(catalog, "x", "m")
    command = DropNamespace(NamespaceIdentifier(("d",)))
    dropped = partial(drop_namespace, other.commands, context("dropNamespace"), await warehouse_of(other), command)
    before_append(monkeypatch, catalog, dropped)
    with pytest.raises(NoSuchNamespace):
        await move(catalog, moved, "d", "m")
    assert ["x", "x.m"] == await paths(catalog)
    assert (await verify(database)).ok
