"""Limits on trees of namespaces: how much metadata, and how many soft-deleted objects, one command drops or undrops."""

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.api.iceberg.drop_plans import written_plan
from icecore.commands.execution.clock import now_ms
from icecore.commands.namespaces import drop_namespace_tree as tree_module
from icecore.commands.namespaces import tree_states
from icecore.commands.namespaces.drop_namespace_tree import drop_namespace_tree, plan_namespace_drop
from icecore.commands.namespaces.update_namespace_properties import update_namespace_properties
from icecore.commands.protection.set_protection import set_view_protection
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tabulars.undrop_tabulars import undrop_tabulars
from icecore.commands.views.create_view import create_view
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import (
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    SetViewProtection,
    UndropTabulars,
    UndropTarget,
    UpdateNamespaceProperties,
)
from icecore.domain.errors import NamespaceDropExpired, NamespaceTreeTooLarge, ServiceUnavailable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.warehouse import DeleteProfile, SetWarehousePurgeDefault, UpdateWarehouseDeleteProfile
from icecore.projections import namespace_trees, soft_deleted, tables
from icecore.projections.verify import verify
from icecore.storage.large_documents import LARGE_BYTES_MIN
from tests.fixtures.catalog import PROJECT_ID, before_append, context, served_catalog
from tests.fixtures.rest_client import SCHEMA, view_version
from tests.integration.approval.judging import Judge, asking
from tests.integration.approval.test_webhook import SECRET, Endpoint, endpoint
from tests.integration.test_namespace_tree_races import M, N, Processes, drop, make_namespaces, make_table, processes, root, undrop
from tests.integration.test_namespace_trees import TreeClient

__all__ = ["endpoint", "processes"]

K = NamespaceIdentifier(("n", "m", "k"))
MANY = tree_module.TREE_OBJECTS_MAX + 1
BYTES_MAX = 1_500_000
LARGE_SCHEMA = {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "doc": "x" * 400_000}]}


async def make_large_tables(catalog: Application, warehouse: Warehouse, count: int) -> None:
    for number in range(count):
        command = CreateTable(M, f"large{number}", None, LARGE_SCHEMA, None, None, {"owner": "sales"}, stage_create=False)
        await create_table(catalog.commands, context("createTable"), warehouse, command)


async def drop_tables(catalog: Application, warehouse: Warehouse, count: int, *, namespace: NamespaceIdentifier = M) -> None:
    """Creates tables and soft-deletes them. The files of the first one are to be deleted."""

    async def run(numbers: range) -> None:
        for number in numbers:
            await make_table(catalog, warehouse, namespace, f"gone{number}")
            command = DropTable(TabularIdentifier(namespace, f"gone{number}"), number == 0)
            await drop_table(catalog.commands, context("dropTable"), warehouse, command)

    await asyncio.gather(*(run(range(worker, count, 16)) for worker in range(16)))


async def deleted(catalog: Application, warehouse: Warehouse) -> dict[UUID, int]:
    """The moments of expiry of all that is soft-deleted, by id."""
    async with catalog.backends.connection() as connection:
        found = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 10_000, soft_deleted.EVERY_KIND)
    return {each.object_id: each.expires_at_ms for each in found}


def statuses(database: str) -> list[str]:
    """Of all tables, now."""
    with psycopg.connect(database) as connection:
        newest = "select distinct on (table_id) status from icecore.tables order by table_id, version desc"
        return sorted(status for (status,) in connection.execute(newest))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One command drops at most three objects of a namespace."""
    monkeypatch.setattr(tree_module, "TREE_OBJECTS_MAX", 3)
    monkeypatch.setattr(tree_module, "_NODES_MAX", 4)


# Soft-deleted objects


async def test_what_is_soft_deleted_already_does_not_count(processes: Processes, database: str) -> None:
    """A soft drop leaves it as it is, and the tree does not expire before it. The dry run lists some and counts the others."""
    first, _, warehouse = processes
    await make_table(first, warehouse, M)
    await drop_tables(first, warehouse, MANY)
    before = await deleted(first, warehouse)
    command = DropNamespace(N, recursive=True)
    plan = await plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, command)
    assert (3, tree_module.TREE_OBJECTS_MAX, MANY, "keep") == (
        len(plan.drops),
        len(plan.soft_deleted),
        plan.soft_deleted_count,
        plan.soft_deleted_action,
    )
    assert {("n", "m")} == {each.path[:-1] for each in plan.soft_deleted}
    assert {True, False} == {each.purges for each in plan.soft_deleted}
    await drop(first, warehouse, 3500)
    after = await deleted(first, warehouse)
    assert before == {each: after[each] for each in before}
    assert {max(before.values())} == {moment for each, moment in after.items() if each not in before}
    await undrop(first, warehouse, await root(first, warehouse))
    assert before == await deleted(first, warehouse)
    assert (await verify(database)).ok


@pytest.mark.parametrize("how", ["force", "hard"])
async def test_a_final_drop_with_many_soft_deleted_objects_expires_at_once(processes: Processes, database: str, how: str) -> None:
    """It needs no other step: the job makes everything final, and deletes the files of which the drop requested it."""
    first, second, warehouse = processes
    await make_namespaces(first, warehouse, K)
    await make_table(first, warehouse, K)
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, DropNamespace(K, recursive=True))
    await make_table(first, warehouse, M)
    await drop_tables(first, warehouse, MANY)
    if how == "hard":
        change = UpdateWarehouseDeleteProfile(DeleteProfile(None))
        await change_warehouse(first.commands, context("updateWarehouseDeleteProfile"), warehouse, change)
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
    command = DropNamespace(N, force=how == "force", recursive=True)
    plan = await plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, command)
    assert plan.expires_at_ms is not None
    assert (3, MANY + 2, "expire") == (len(plan.drops), plan.soft_deleted_count, plan.soft_deleted_action)
    assert {("n", "m")} == {each.path[:-1] for each in plan.soft_deleted}
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, command)
    command_of_undrop = await root(first, warehouse)
    await undrop(first, warehouse, command_of_undrop)
    assert MANY + 2 == len(await deleted(first, warehouse)), "an undrop before the job"
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, command)
    assert MANY + 5 == sum(await asyncio.gather(first.soft_deletion.run_once(), second.soft_deletion.run_once()))
    assert {} == await deleted(first, warehouse)
    assert ["dropped"] * (MANY + 1) + ["purging"] == statuses(database)
    with pytest.raises(NamespaceDropExpired):
        await undrop(second, warehouse, command_of_undrop)
    await make_namespaces(first, warehouse, N)
    assert (await verify(database)).ok


async def test_a_dry_run_lists_what_is_in_soft_deleted_namespaces_if_it_expires(processes: Processes, few: None) -> None:
    """Each after its namespace. A soft drop lists only the namespace, which keeps its moment with all that is in it. What is not listed is
    counted.
    """
    first, _, warehouse = processes
    await make_namespaces(first, warehouse, K)
    for number in range(3):
        await make_table(first, warehouse, K, f"t{number}")
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, DropNamespace(K, recursive=True))
    listed = []
    for force in (False, True):
        command = DropNamespace(N, force=force, recursive=True)
        plan = await plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, command)
        not_listed = written_plan(plan)["soft-deleted-not-listed"]
        listed.append(([(each.kind, each.path[:3]) for each in plan.soft_deleted], plan.soft_deleted_count, not_listed))
    inner = ("namespace", ("n", "m", "k"))
    assert [([inner], 1, 0), ([inner, ("table", ("n", "m", "k")), ("table", ("n", "m", "k"))], 4, 1)] == listed


async def test_a_dry_run_says_which_soft_deleted_views_are_protected(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A protected one is soft-deleted by a forced drop that is too large for one command."""
    first, _, warehouse = processes
    for name in ("protected", "other"):
        view = CreateView(M, name, None, SCHEMA, view_version("select 1"), {})
        created = await create_view(first.commands, context("createView"), warehouse, view)
        if name == "protected":
            protect = SetViewProtection(UUID(json.loads(created.body or b"")["metadata"]["view-uuid"]), protected=True)
            await set_view_protection(first.commands, context("setViewProtection"), warehouse, protect)
    await drop_tables(first, warehouse, 4)
    monkeypatch.setattr(tree_module, "_NODES_MAX", 4)
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, DropNamespace(M, force=True, recursive=True))
    command = DropNamespace(N, force=True, recursive=True)
    written = written_plan(await plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, command))
    views = {each["name"]: (each["soft-deleted"], each["protected"]) for each in written["objects"] if each["type"] == "view"}
    assert {"protected": (True, True), "other": (True, False)} == views


async def test_only_what_is_below_a_due_namespace_expires_early(processes: Processes, few: None) -> None:
    """Beside it, and in a namespace that is soft-deleted and not due, everything keeps its moment."""
    first, _, warehouse = processes
    beside = NamespaceIdentifier(("beside",))
    await make_namespaces(first, warehouse, beside)
    await drop_tables(first, warehouse, 2, namespace=beside)
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, DropNamespace(beside, recursive=True))
    kept = await deleted(first, warehouse)
    await drop_tables(first, warehouse, 4)
    await drop(first, warehouse, force=True)
    assert 6 == await first.soft_deletion.run_once()
    assert kept == await deleted(first, warehouse)


async def test_an_undrop_before_an_early_expiry_wins(processes: Processes, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace is undropped after the job decided on what is in it: that keeps its moment."""
    first, second, warehouse = processes
    await drop_tables(first, warehouse, 4)
    kept = await deleted(first, warehouse)
    await drop(first, warehouse, force=True)
    submit, command = first.commands.committer.submit, await root(first, warehouse)
    submitted = list[Any]()

    async def late(request: Any) -> Any:
        submitted.append(request)
        if len(submitted) == 1:
            await undrop(second, warehouse, command)
        return await submit(request)

    monkeypatch.setattr(first.commands.committer, "submit", late)
    assert 0 == await first.soft_deletion.run_once()
    assert submitted
    assert kept == await deleted(first, warehouse)


async def test_an_undrop_and_a_new_drop_before_an_early_expiry_win(
    processes: Processes, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace is soft-deleted again, and not due any more."""
    first, second, warehouse = processes
    await drop_tables(first, warehouse, 4)
    kept = await deleted(first, warehouse)
    await drop(first, warehouse, force=True)
    expire, command = first.soft_deletion._expire, await root(first, warehouse)
    tried = list[Any]()

    async def late(due: Any) -> bool:
        tried.append(due)
        if len(tried) == 1:
            await undrop(second, warehouse, command)
            await drop(second, warehouse)
        return await expire(due)

    monkeypatch.setattr(first.soft_deletion, "_expire", late)
    assert 0 == await first.soft_deletion.run_once()
    assert tried[0].due_namespace_id is not None
    assert kept.items() <= (await deleted(first, warehouse)).items()


async def test_a_final_drop_by_a_process_whose_clock_is_ahead_expires_at_once(processes: Processes, few: None) -> None:
    """For the jobs of others too."""
    first, second, warehouse = processes
    await drop_tables(first, warehouse, 4)
    first.commands.now_ms = lambda: now_ms() + 3_000_000
    command = DropNamespace(N, force=True, recursive=True)
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, command)
    assert 6 == await second.soft_deletion.run_once()


async def test_what_is_soft_deleted_again_during_a_soft_drop_expires_at_its_own_moment(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drop of the tree has been decided, with an earlier moment. Its namespaces wait for the table."""
    first, second, warehouse = processes
    change = UpdateWarehouseDeleteProfile(DeleteProfile(2))
    await change_warehouse(first.commands, context("updateWarehouseDeleteProfile"), warehouse, change)
    warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
    await drop_tables(first, warehouse, 1)
    (table_id,) = await deleted(first, warehouse)

    async def drop_again() -> None:
        command = UndropTabulars([UndropTarget("table", table_id)], force=True)
        await undrop_tabulars(second.commands, context("undropTabulars"), warehouse, command)
        await asyncio.sleep(1)
        await drop_table(second.commands, context("dropTable"), warehouse, DropTable(TabularIdentifier(M, "gone0"), False))

    before_append(monkeypatch, first, drop_again)
    await drop(first, warehouse)
    moments = await deleted(first, warehouse)
    assert min(moments.values()) + 500 < moments[table_id]
    await asyncio.sleep(max(0, min(moments.values()) - now_ms() + 100) / 1_000)
    assert now_ms() < moments[table_id], "the test was too slow"
    assert 0 == await first.soft_deletion.run_once()


@pytest.mark.parametrize("fails", [False, True])
async def test_what_expires_early_is_attempted_once_in_a_round(
    processes: Processes, few: None, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Although it is below two namespaces that were dropped finally."""
    first, _, warehouse = processes
    await drop_tables(first, warehouse, 4)
    await drop(first, warehouse, force=True)
    expire, tried = first.soft_deletion._expire, list[UUID]()

    async def attempt(due: Any) -> bool:
        tried.append(due.object_id)
        if fails:
            raise ServiceUnavailable("the test refuses it")
        return await expire(due)

    monkeypatch.setattr(first.soft_deletion, "_expire", attempt)
    await first.soft_deletion.run_once()
    assert len(set(tried)) == len(tried)


async def test_what_becomes_too_much_while_it_is_decided_expires_at_once(
    processes: Processes, few: None, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drop is decided again, as one that the job completes."""
    first, second, warehouse = processes
    await drop_tables(second, warehouse, 1)
    read, reads = tree_module._DropHandler.read, list[Any]()

    async def later(self: Any) -> Any:
        reads.append(self.with_deleted)
        if len(reads) == 1:
            await drop_tables(second, warehouse, 4)
        return await read(self)

    monkeypatch.setattr(tree_module._DropHandler, "read", later)
    await drop(first, warehouse, force=True)
    assert [True, False] == reads
    assert 7 == await first.soft_deletion.run_once()
    assert (await verify(database)).ok


async def test_too_much_metadata_of_what_is_soft_deleted_blocks_no_drop(processes: Processes) -> None:
    """Neither a soft nor a final one."""
    first, _, warehouse = processes
    for number in range(5):
        create = CreateTable(M, f"t{number}", None, SCHEMA, None, None, {"comment": "x" * 400_000}, stage_create=False)
        await create_table(first.commands, context("createTable"), warehouse, create)
        command = DropTable(TabularIdentifier(M, f"t{number}"), False)
        await drop_table(first.commands, context("dropTable"), warehouse, command)
    first.backends.large_documents.bytes_max = BYTES_MAX
    await drop(first, warehouse)
    await undrop(first, warehouse, await root(first, warehouse))
    await drop(first, warehouse, force=True)
    assert 7 == await first.soft_deletion.run_once()


def plan_of(connection: psycopg.Connection[Any], query: Any, parameters: Any) -> tuple[str, int]:
    """How Postgres executes a query, and the pages that it reads."""
    rows = connection.execute(b"explain (analyze, buffers, format json) " + query.encode(), parameters).fetchall()
    ((((plan,),),)) = rows
    return str(plan), plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]


def test_a_page_of_namespaces_costs_the_same_with_many_soft_deleted_tables(database: str) -> None:
    """By an index of its own. Without it, all tables of the warehouse are read."""
    warehouse_id, namespace_id = uuid4(), uuid4()
    row = "insert into icecore.soft_deleted select 1, gen_random_uuid(), g, null, %s, %s, %s, 'o' || g, 9e12 from generate_series(1, %s) g"
    parameters = {"warehouse_id": warehouse_id, "after": soft_deleted.BEFORE_ALL, "size": 101}
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(row, [warehouse_id, namespace_id, "table", 100_000])
        connection.execute(row, [warehouse_id, warehouse_id, "namespace", 1])
        connection.execute("analyze icecore.soft_deleted")
        plan, pages = plan_of(connection, namespace_trees._SQL["roots"], parameters)
        assert "soft_deleted_namespaces_idx" in plan
        assert pages < 20, plan
        with connection.transaction(force_rollback=True):
            connection.execute("drop index icecore.soft_deleted_namespaces_idx")
            assert plan_of(connection, namespace_trees._SQL["roots"], parameters)[1] > 300, "a negative control"


# Metadata


@pytest.mark.parametrize(("count", "partial"), [(2, False), (5, True)])
async def test_a_tree_that_was_dropped_without_hooks_is_undropped_with_them(
    processes: Processes, database: str, count: int, partial: bool
) -> None:
    """Its metadata may be larger than what a process reads at a time: then hooks see the tables without their lists, and are told so."""
    first, _, warehouse = processes
    await make_large_tables(first, warehouse, count)
    async with first.backends.connection() as connection:
        before = [await tables.read_state_within(connection, each, 1 << 40) for each in await table_ids(connection)]
    await drop(first, warehouse)
    judge = Judge()
    asking(judge)(first)
    first.backends.large_documents.bytes_max = BYTES_MAX
    await undrop(first, warehouse, await root(first, warehouse))
    (shown,) = judge.shown
    found = [each for each in shown.objects if each.kind == "table"]
    assert (count, {partial}) == (len(found), {each.partial for each in found})
    for each in found:
        assert each.after is not None
        assert "sales" == each.after["properties"]["owner"]
        assert partial == ("schemas" not in each.after) == ("snapshots" not in each.after)
    assert {False} == {each.partial for each in shown.objects if each.kind == "namespace"}
    async with first.backends.connection() as connection:
        after = [await tables.read_state_within(connection, each, 1 << 40) for each in await table_ids(connection)]
    assert [each[0].document.value for each in before] == [each[0].document.value for each in after]  # type: ignore[index, union-attr]
    assert (await verify(database)).ok


async def test_hooks_see_all_metadata_of_a_table_that_is_undropped(processes: Processes) -> None:
    """Reviewers decide on its schemas and snapshots, as on those of a tree."""
    first, _, warehouse = processes
    await drop_tables(first, warehouse, 1)
    (table_id,) = await deleted(first, warehouse)
    judge = Judge()
    asking(judge)(first)
    command = UndropTabulars([UndropTarget("table", table_id)])
    await undrop_tabulars(first.commands, context("undropTabulars"), warehouse, command)
    ((shown,),) = [change.objects for change in judge.shown]
    assert shown.after is not None
    assert not shown.partial
    assert {"schemas", "snapshots"} <= shown.after.keys()


async def test_an_undrop_that_is_decided_again_reads_large_tables_in_reserved_memory(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hooks, after a conflict: the memory of the first attempt is released, and refusals are found without whole tables."""
    first, second, warehouse = processes
    await make_large_tables(first, warehouse, 3)
    await drop(first, warehouse)
    asking(Judge())(first)
    add, reserved = tree_states.add_whole_tables, list[int]()

    async def noted(executor: Any, reservation: Any, *given: Any) -> None:
        reserved.append(reservation.size)
        await add(executor, reservation, *given)

    async def change() -> None:
        command = SetWarehousePurgeDefault(purge=True)
        await change_warehouse(second.commands, context("setWarehousePurgeDefault"), warehouse, command)

    monkeypatch.setattr(tree_states, "add_whole_tables", noted)
    before_append(monkeypatch, first, change)
    await undrop(first, warehouse, await root(first, warehouse))
    assert 2 == len(reserved)
    assert min(reserved) > LARGE_BYTES_MIN


async def table_ids(connection: Any) -> list[Any]:
    rows = await (await connection.execute("select distinct table_id from icecore.tables order by 1")).fetchall()
    return [table_id for (table_id,) in rows]


async def test_of_two_undrops_with_hooks_both_succeed(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one comes between the reading of the tree and that of its tables."""
    first, second, warehouse = processes
    await make_table(first, warehouse, M)
    await drop(first, warehouse)
    asking(Judge())(first)
    add, calls, command = tree_states.add_whole_tables, list[int](), await root(first, warehouse)

    async def late(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            await undrop(second, warehouse, command)
        await add(*given)

    monkeypatch.setattr(tree_states, "add_whole_tables", late)
    await undrop(first, warehouse, command)
    assert calls
    assert {} == await deleted(first, warehouse)


async def test_a_drop_with_hooks_reads_all_metadata_or_is_refused(processes: Processes) -> None:
    """Unlike an undrop, it can be done in parts, so hooks see everything."""
    first, _, warehouse = processes
    await make_large_tables(first, warehouse, 5)
    asking(Judge())(first)
    first.backends.large_documents.bytes_max = BYTES_MAX
    with pytest.raises(NamespaceTreeTooLarge, match="Drop its child namespaces or tables first"):
        await drop(first, warehouse)


async def test_a_tree_is_undropped_after_the_limit_on_documents_was_lowered(processes: Processes) -> None:
    """Its metadata is larger than the limit, which one request alone may exceed."""
    first, _, warehouse = processes
    update = UpdateNamespaceProperties(M, [], {"k": "x" * 2_000_000})
    await update_namespace_properties(first.commands, context("updateProperties"), warehouse, update)
    await drop(first, warehouse)
    first.backends.large_documents.bytes_max = BYTES_MAX
    await undrop(first, warehouse, await root(first, warehouse))
    assert 0 == first.backends.large_documents._bytes_in_use


def test_a_webhook_is_told_that_documents_are_partial(database: str, tmp_path: Path, endpoint: Endpoint) -> None:
    """Over HTTP, with the hook of a server's settings."""
    hook = {"type": "webhook", "url": endpoint.url, "secret": SECRET, "operations": ["undropNamespace"]}
    limits: list[Any] = []

    def prepare(catalog: Application) -> None:
        limits.append(catalog.backends.large_documents)

    with (
        served_catalog(database, tmp_path / "demo", jobs=False, hooks={"all": hook}, prepare=prepare) as server,
        closing(TreeClient(server.url)) as client,
    ):
        client.dsn = server.dsn
        client.soft_delete()
        assert 200 == client.create_namespace("n").status
        for number in range(5):
            assert 200 == client.create_table(["n"], f"t{number}", schema=LARGE_SCHEMA).status
        for limit in (limits[0].bytes_max, BYTES_MAX):
            assert 204 == client.drop_tree().status
            limits[0].bytes_max = limit
            assert 204 == client.undrop_tree(client.ids()["n"]).status
        whole, partial = ([each for each in message["changes"] if each["kind"] == "table"] for message in endpoint.sent)
    assert {(5, False, True)} == {(len(whole), each["partial"], "schemas" in each["after"]) for each in whole}
    assert {(5, True, False)} == {(len(partial), each["partial"], "schemas" in each["after"]) for each in partial}
