"""Recursive drops, undrops and expiries of namespaces against commands in the tree at the same time, with two processes on one log."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.clock import now_ms
from icecore.commands.execution.resolver import OutdatedRead
from icecore.commands.namespaces import drop_namespace_tree as tree_module
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace_tree import drop_namespace_tree
from icecore.commands.namespaces.undrop_namespace import undrop_namespace
from icecore.commands.namespaces.update_namespace_properties import update_namespace_properties
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tables.rename_table import rename_table
from icecore.commands.tabulars.undrop_tabulars import undrop_tabulars
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import (
    CommitTable,
    CreateNamespace,
    CreateTable,
    DropNamespace,
    DropTable,
    RenameTable,
    UndropNamespace,
    UndropTabulars,
    UndropTarget,
    UpdateNamespaceProperties,
)
from icecore.domain.errors import (
    CatalogError,
    CommitFailed,
    NamespaceDropExpired,
    NamespaceSoftDeleted,
    NamespaceTreeTooLarge,
    NoSuchNamespace,
    WarehouseInactive,
)
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.warehouse import DeleteProfile, SetWarehouseStatus, UpdateWarehouseDeleteProfile
from icecore.projections import namespace_trees, soft_deleted
from icecore.projections.verify import verify
from tests.fixtures.catalog import PROJECT_ID, before_append, context, opened_catalog
from tests.fixtures.clocks import clocks_behind
from tests.fixtures.rest_client import SCHEMA, set_properties
from tests.integration.test_soft_deletion import CHECKOUT

N, M, OUTSIDE = (NamespaceIdentifier(levels) for levels in (("n",), ("n", "m"), ("outside",)))
Processes = tuple[Application, Application, Warehouse]


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[Processes]:
    """Two processes on one log. The warehouse soft-deletes for an hour and contains `n.m`."""
    async with AsyncExitStack() as opened:
        first, second = [await opened.enter_async_context(opened_catalog(database, tmp_path / "demo")) for _ in range(2)]
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
        command = UpdateWarehouseDeleteProfile(DeleteProfile(3600))
        await change_warehouse(first.commands, context("updateWarehouseDeleteProfile"), warehouse, command)
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
        await make_namespaces(first, warehouse, N, M, OUTSIDE)
        yield first, second, warehouse


async def make_namespaces(catalog: Application, warehouse: Warehouse, *namespaces: NamespaceIdentifier) -> None:
    for each in namespaces:
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(each, {}))


async def make_table(catalog: Application, warehouse: Warehouse, namespace: NamespaceIdentifier, name: str = "t") -> None:
    table = CreateTable(namespace, name, None, SCHEMA, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), warehouse, table)


async def drop(catalog: Application, warehouse: Warehouse, ago_seconds: int = 0, *, force: bool = False) -> None:
    """Drops `n` by clocks that are behind."""
    with clocks_behind(catalog.commands, ago_seconds * 1000):
        await drop_namespace_tree(catalog.commands, context("dropNamespace"), warehouse, DropNamespace(N, force=force, recursive=True))


async def root(catalog: Application, warehouse: Warehouse) -> UndropNamespace:
    """The command that undrops the newest soft-deleted tree."""
    async with catalog.backends.connection() as connection:
        found = await namespace_trees.list_roots(connection, warehouse.id, None, 100)
    return UndropNamespace(max(found, key=lambda each: each.dropped_at).object_id)


async def undrop(catalog: Application, warehouse: Warehouse, command: UndropNamespace) -> None:
    await undrop_namespace(catalog.commands, context("undropNamespace"), warehouse, command)


async def orphans(database: str) -> int:
    """Live objects in namespaces that are not live."""
    async with await psycopg.AsyncConnection.connect(database) as connection:
        cursor = await connection.execute(
            "select count(*) from icecore.names child join icecore.names parent on parent.object_id = child.parent_id"
            " where child.to_position is null and parent.kind = 'namespace' and parent.to_position is not null"
            " and not exists (select 1 from icecore.names again where again.object_id = parent.object_id and again.to_position is null)"
        )
        ((count,),) = await cursor.fetchall()
    return int(count)


def within(name: str) -> dict[str, Callable[[Application, Warehouse], Awaitable[Any]]]:
    """Commands in the tree on its table `name`, by what they do."""
    inside, outside = TabularIdentifier(M, name), TabularIdentifier(OUTSIDE, name)

    def run(execute: Any, operation: str, command: Any) -> Callable[[Application, Warehouse], Awaitable[Any]]:
        return lambda catalog, warehouse: execute(catalog.commands, context(operation), warehouse, command)

    return {
        "create table": lambda catalog, warehouse: make_table(catalog, warehouse, M, "new"),
        "create namespace": lambda catalog, warehouse: make_namespaces(catalog, warehouse, NamespaceIdentifier(("n", "m", "k"))),
        "commit": run(commit_table, "updateTable", CommitTable(inside, [], [set_properties(k="v")])),
        "rename out": run(rename_table, "renameTable", RenameTable(inside, replace(outside, name="moved"))),
        "rename in": run(rename_table, "renameTable", RenameTable(outside, replace(inside, name="moved"))),
        "properties": run(update_namespace_properties, "updateProperties", UpdateNamespaceProperties(M, [], {"k": "v"})),
    }


@pytest.mark.parametrize("what", sorted(within("t")))
@pytest.mark.parametrize("force", [False, True])
async def test_a_command_in_the_tree_comes_before_the_drop_or_is_refused(
    processes: Processes, database: str, what: str, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is appended after the drop was decided and before it is appended: the drop is decided again, and includes its effect."""
    first, second, warehouse = processes
    for namespace in (M, OUTSIDE):
        await make_table(first, warehouse, namespace)
    appends = before_append(monkeypatch, first, lambda: within("t")[what](second, warehouse))
    await drop(first, warehouse, force=force)
    assert 2 == len(appends)
    assert 0 == await orphans(database)
    with pytest.raises(CatalogError):
        await within("t")[what](second, warehouse)
    assert (await verify(database)).ok


@pytest.mark.parametrize("what", ["table", "namespace"])
@pytest.mark.parametrize("force", [False, True])
async def test_what_is_created_in_the_dropped_namespace_itself_is_dropped_with_it(
    processes: Processes, database: str, what: str, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content counts as that of the namespaces below it."""
    first, second, warehouse = processes

    async def create() -> None:
        if what == "table":
            await make_table(second, warehouse, N, "new")
        else:
            await make_namespaces(second, warehouse, NamespaceIdentifier(("n", "new")))

    appends = before_append(monkeypatch, first, create)
    await drop(first, warehouse, force=force)
    assert (2, 0) == (len(appends), await orphans(database))


@pytest.mark.parametrize("kind", ["table", "namespace"])
async def test_the_undrop_of_a_part_comes_before_the_drop_of_its_namespace_or_is_refused(
    processes: Processes, database: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace above it is dropped after the undrop was decided."""
    first, second, warehouse = processes
    await make_table(first, warehouse, M)
    if kind == "table":
        await drop_table(first.commands, context("dropTable"), warehouse, DropTable(TabularIdentifier(M, "t"), False))
    else:
        await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, DropNamespace(M, recursive=True))
    async with first.backends.connection() as connection:
        (table_id,) = [each.object_id for each in await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 10)]
    targets = UndropTabulars([UndropTarget("table", table_id)])
    run = partial(undrop_tabulars, first.commands, context("undropTabulars"), warehouse, targets)
    if kind == "namespace":
        run = partial(undrop, first, warehouse, await root(first, warehouse))
    before_append(monkeypatch, first, lambda: drop(second, warehouse))
    with pytest.raises(NamespaceSoftDeleted):
        await run()
    assert 0 == await orphans(database)


async def test_without_the_number_of_its_objects_a_table_would_be_left_in_a_dropped_namespace(
    processes: Processes, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control of the test above: append is not given the contents of the namespaces."""
    first, second, warehouse = processes
    append = first.commands.decision_writer.append

    async def late(given_warehouse: Any, decision: Any) -> Any:
        decision.append_request.expected_live_child_counts = []
        await make_table(second, warehouse, M)
        return await append(given_warehouse, decision)

    monkeypatch.setattr(first.commands.decision_writer, "append", late)
    await drop(first, warehouse)
    assert 1 == await orphans(database)


async def test_drops_and_commands_in_the_tree_at_once_leave_nothing_behind(processes: Processes, database: str) -> None:
    """Whichever is appended second is decided again. Then everything is undropped, as it was."""
    first, second, warehouse = processes
    for turn in range(4):
        await make_table(first, warehouse, M, f"t{turn}")
        await make_table(first, warehouse, OUTSIDE, f"t{turn}")
        works = [drop(first, warehouse), *(act(second, warehouse) for act in within(f"t{turn}").values())]
        outcomes = await asyncio.gather(*works, return_exceptions=True)
        assert outcomes[0] is None
        assert all(isinstance(each, CatalogError) for each in outcomes if isinstance(each, BaseException))
        assert 0 == await orphans(database)
        await undrop(second, warehouse, await root(second, warehouse))
    assert (await verify(database)).ok


async def test_of_two_drops_and_of_two_undrops_one_wins(processes: Processes, database: str) -> None:
    """The second undrop finds the tree live, and changes nothing."""
    first, second, warehouse = processes
    await make_table(first, warehouse, M)
    outcomes = await asyncio.gather(*(drop(each, warehouse) for each in (first, second)), return_exceptions=True)
    assert [NoSuchNamespace] == [type(each) for each in outcomes if each is not None]
    command = await root(first, warehouse)
    await asyncio.gather(*(undrop(each, warehouse, command) for each in (first, second)))
    with psycopg.connect(database) as connection:
        assert (2,) == connection.execute("select count(*) from icecore.events where topic = 'namespace.undropped.v1'").fetchone()
    assert (await verify(database)).ok


# Expiry


async def test_a_tree_expires_from_the_inside(processes: Processes, database: str) -> None:
    """In one round of the job, each namespace after what is in it. Then it cannot be undropped, and its location is free."""
    first, second, warehouse = processes
    await make_table(first, warehouse, N)
    await make_table(first, warehouse, M)
    await drop(first, warehouse, 3601)
    command = await root(first, warehouse)
    assert 4 == sum(await asyncio.gather(first.soft_deletion.run_once(), second.soft_deletion.run_once()))
    with psycopg.connect(database) as connection:
        found = connection.execute("select topic from icecore.events where topic like '%expired%' order by notification_id").fetchall()
    assert ["table.expired.v1"] * 2 + ["namespace.expired.v1"] * 2 == [topic for (topic,) in found]
    with pytest.raises(NamespaceDropExpired):
        await undrop(second, warehouse, command)
    await make_namespaces(first, warehouse, N)
    assert (await verify(database)).ok


async def test_a_tree_that_has_begun_to_expire_is_not_undropped(
    processes: Processes, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job stopped half-way: the refusal names what is final, and nothing changes."""
    first, second, warehouse = processes
    for name in ("t", "u"):
        await make_table(first, warehouse, M, name)
    await drop(first, warehouse, 3601)
    command = await root(first, warehouse)
    attempt, done = first.soft_deletion._attempt, 0

    async def once(due: Any) -> bool:
        nonlocal done
        done += 1
        return await attempt(due) if done == 1 else False

    monkeypatch.setattr(first.soft_deletion, "_attempt", once)
    assert 1 == await first.soft_deletion.run_once()
    with pytest.raises(NamespaceDropExpired, match="table t"):
        await undrop(second, warehouse, command)
    async with second.backends.connection() as connection:
        left = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 9, soft_deleted.EVERY_KIND)
    assert {"n", "m", "u"} == {each.name for each in left}
    assert 3 == await second.soft_deletion.run_once()
    assert (await verify(database)).ok


async def test_an_undrop_and_an_expiry_of_a_tree_at_once_have_one_winner(processes: Processes, database: str) -> None:
    """All of the tree is live, or nothing of it."""
    first, second, warehouse = processes
    for turn in range(6):
        await make_table(first, warehouse, M, f"t{turn}")
        await drop(first, warehouse, 3601)
        command = await root(first, warehouse)

        async def undropped(command: UndropNamespace = command, delay: float = turn / 200) -> bool:
            await asyncio.sleep(delay)
            try:
                await undrop(first, warehouse, command)
            except NamespaceDropExpired:
                return False
            return True

        by_undrop, by_expiry = await asyncio.gather(undropped(), second.soft_deletion.run_once())
        assert by_undrop == (by_expiry == 0)
        if not by_undrop:
            await second.soft_deletion.run_once()
            await make_namespaces(first, warehouse, N, M)
    assert 0 == await orphans(database)
    assert (await verify(database)).ok


# Limits


async def test_the_largest_tree_is_dropped_and_undropped_by_one_command_each(processes: Processes, database: str) -> None:
    """One object more is refused, also by the dry run, and changes nothing."""
    first, _, warehouse = processes
    tables = tree_module.TREE_OBJECTS_MAX - 1

    async def fill(numbers: range) -> None:
        for number in numbers:
            await make_table(first, warehouse, M, f"t{number}")

    await asyncio.gather(*(fill(range(worker, tables, 16)) for worker in range(16)))
    await drop(first, warehouse)
    await undrop(first, warehouse, await root(first, warehouse))
    await make_table(first, warehouse, N)
    with pytest.raises(NamespaceTreeTooLarge, match=f"more than {tree_module.TREE_OBJECTS_MAX} objects"):
        await drop(first, warehouse)
    plan = DropNamespace(N, recursive=True)
    with pytest.raises(NamespaceTreeTooLarge):
        await tree_module.plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, plan)
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, DropNamespace(M, force=True, recursive=True))
    await drop(first, warehouse)
    assert (await verify(database)).ok


@pytest.mark.parametrize("drops", [1, 0])
async def test_a_dry_run_of_what_is_dropped_meanwhile_is_no_internal_error(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, drops: int
) -> None:
    """The namespace is gone when the tree is read. The second case is a tree that keeps changing."""
    first, second, warehouse = processes
    read = tree_module._DropHandler.read
    reads = list[Any]()

    async def dropped_first(self: Any, **options: bool) -> Any:
        if self.executor is first.commands:
            reads.append(self)
            if not drops:
                raise OutdatedRead
            await drop(second, warehouse)
        return await read(self, **options)

    plan = DropNamespace(N, recursive=True)
    with monkeypatch.context() as patched:
        patched.setattr(tree_module._DropHandler, "read", dropped_first)
        with pytest.raises(NoSuchNamespace if drops else CommitFailed):
            await tree_module.plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, plan)
    assert (1 if drops else tree_module.PLAN_ATTEMPTS_MAX) == len(reads)


async def test_a_dry_run_is_of_one_moment(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dropped while it reads is planned once, and not listed as soft-deleted too."""
    first, second, warehouse = processes
    last_expiry = namespace_trees.last_expiry
    table = TabularIdentifier(N, "t")
    await make_table(first, warehouse, N)
    dropped = list[Any]()

    async def dropped_meanwhile(*given: Any) -> Any:
        if not dropped:
            dropped.append(await drop_table(second.commands, context("dropTable"), warehouse, DropTable(table, None)))
        return await last_expiry(*given)

    monkeypatch.setattr(namespace_trees, "last_expiry", dropped_meanwhile)
    command = DropNamespace(N, recursive=True)
    plan = await tree_module.plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, command)
    assert ([], 0) == (plan.soft_deleted, plan.soft_deleted_count)
    assert 1 == [each.object.state.name for each in plan.drops].count(table.name)
    plan = await tree_module.plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, command)
    assert ([table.name], 1) == ([each.path[-1] for each in plan.soft_deleted], plan.soft_deleted_count)
    assert table.name not in [each.object.state.name for each in plan.drops if each.object.path[:-1] == ("n",)]


async def test_a_dry_run_is_of_the_newest_delete_profile(processes: Processes) -> None:
    """Also by a process that has an older one in its cache."""
    first, second, warehouse = processes
    command = UpdateWarehouseDeleteProfile(DeleteProfile(7200))
    await change_warehouse(second.commands, context("updateWarehouseDeleteProfile"), warehouse, command)
    began = now_ms()
    plan = await tree_module.plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, DropNamespace(N, recursive=True))
    assert plan.expires_at_ms is not None
    assert began + 7_200_000 - 1_000 <= plan.expires_at_ms


async def test_a_dry_run_in_a_warehouse_that_was_deactivated_is_refused(processes: Processes) -> None:
    """Also by a process that has the active one in its cache."""
    first, second, warehouse = processes
    await change_warehouse(second.commands, context("deactivateWarehouse"), warehouse, SetWarehouseStatus(active=False))
    with pytest.raises(WarehouseInactive):
        await tree_module.plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, DropNamespace(N, recursive=True))


async def test_a_tree_with_too_much_metadata_is_refused(processes: Processes) -> None:
    """The limit on all documents that a process works on; the message says what to do."""
    first, _, warehouse = processes
    update = UpdateNamespaceProperties(M, [], {"k": "x" * 2_000_000})
    await update_namespace_properties(first.commands, context("updateProperties"), warehouse, update)
    limit, first.backends.large_documents.bytes_max = first.backends.large_documents.bytes_max, 1_500_000
    with pytest.raises(NamespaceTreeTooLarge, match="Drop its child namespaces or tables first"):
        await drop(first, warehouse)
    first.backends.large_documents.bytes_max = limit
    await drop(first, warehouse)
    await undrop(first, warehouse, await root(first, warehouse))


_DROP = """
import asyncio, sys
from pathlib import Path
from tests.fixtures.catalog import before_append, PROJECT_ID, context, opened_catalog
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.namespaces.drop_namespace_tree import drop_namespace_tree
from icecore.domain.commands import DropNamespace
from icecore.domain.identifiers import NamespaceIdentifier

async def run() -> None:
    async with opened_catalog(sys.argv[1], Path(sys.argv[2])) as catalog:
        warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
        command = DropNamespace(NamespaceIdentifier(("n",)), recursive=True)
        await drop_namespace_tree(catalog.commands, context("dropNamespace"), warehouse, command)

asyncio.run(run())
"""


@pytest.mark.parametrize(("point", "dropped"), [("commit.before_append", 0), ("commit.after_append", 4)])
async def test_a_process_that_is_killed_drops_all_or_nothing(
    processes: Processes, database: str, tmp_path: Path, point: str, dropped: int
) -> None:
    first, _, warehouse = processes
    for namespace in (N, M):
        await make_table(first, warehouse, namespace)
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _DROP, database, str(tmp_path / "demo"),
        cwd=CHECKOUT, env={**os.environ, "ICECORE_TEST_FAULT": f"{point}:kill"}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, printed = await killed.communicate()
    assert (-9, True) == (killed.returncode, f"fault_point {point} kill" in printed.decode())
    async with first.backends.connection() as connection:
        found = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 9, soft_deleted.EVERY_KIND)
    assert dropped == len(found)
    if dropped:
        await undrop(first, warehouse, await root(first, warehouse))
    assert (await verify(database)).ok


async def test_what_is_undropped_in_a_tree_meanwhile_is_dropped_with_it(
    processes: Processes, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A soft drop keeps what is soft-deleted already. The number of objects does not change by an undrop."""
    first, second, warehouse = processes
    await make_table(first, warehouse, M)
    await drop_table(first.commands, context("dropTable"), warehouse, DropTable(TabularIdentifier(M, "t"), False))
    async with first.backends.connection() as connection:
        (deleted,) = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 10)
    command = UndropTabulars([UndropTarget("table", deleted.object_id)])
    undrop = partial(undrop_tabulars, second.commands, context("undropTabulars"), warehouse, command)
    appends = before_append(monkeypatch, first, undrop)
    await drop(first, warehouse)
    assert (2, 0) == (len(appends), await orphans(database))
    assert (await verify(database)).ok
