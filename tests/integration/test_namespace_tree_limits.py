"""Limits on trees of namespaces: how much metadata, and how many soft-deleted objects, one command drops or undrops."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from icecore.commands.namespaces.update_namespace_properties import update_namespace_properties
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.domain.commands import CreateTable, UpdateNamespaceProperties
from icecore.domain.errors import NamespaceTreeTooLarge
from icecore.projections import tables
from icecore.projections.verify import verify
from tests.fixtures.catalog import context, served_catalog
from tests.fixtures.rest_client import SCHEMA
from tests.integration.approval.judging import Judge, asking
from tests.integration.approval.test_webhook import SECRET, Endpoint, endpoint
from tests.integration.test_namespace_tree_races import M, Processes, drop, processes, root, undrop
from tests.integration.test_namespace_trees import TreeClient

__all__ = ["endpoint", "processes"]

BYTES_MAX = 1_500_000
LARGE_SCHEMA = {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "doc": "x" * 400_000}]}


async def make_large_tables(catalog: Application, warehouse: Any, count: int) -> None:
    for number in range(count):
        command = CreateTable(M, f"large{number}", None, LARGE_SCHEMA, None, None, {"owner": "sales"}, stage_create=False)
        await create_table(catalog.commands, context("createTable"), warehouse, command)


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


async def table_ids(connection: Any) -> list[Any]:
    rows = await (await connection.execute("select distinct table_id from icecore.tables order by 1")).fetchall()
    return [table_id for (table_id,) in rows]


async def test_a_drop_with_hooks_reads_all_metadata_or_is_refused(processes: Processes) -> None:
    """Unlike an undrop, it can be done in parts, so hooks see everything."""
    first, _, warehouse = processes
    await make_large_tables(first, warehouse, 5)
    asking(Judge())(first)
    first.backends.large_documents.bytes_max = BYTES_MAX
    with pytest.raises(NamespaceTreeTooLarge, match="Drop its child namespaces or tables first"):
        await drop(first, warehouse)


async def test_a_tree_is_undropped_after_the_limit_on_documents_was_lowered(processes: Processes) -> None:
    """It waits until no other request works on a large document."""
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
    assert [] == [each["snapshots-added"] for each in partial if each["snapshots-added"]]
