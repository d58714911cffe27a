"""Maintenance mode: a read-only warehouse is not changed and loses no file, on any server, until the mode ends."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import CommitTable
from icecore.domain.errors import WarehouseReadOnly
from icecore.domain.warehouse import SetWarehouseReadOnly
from icecore.projections import warehouses
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, context
from tests.fixtures.command_runs import CommandRun, Step
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import SCHEMA, RestClient, set_properties
from tests.integration import test_warehouse_changes
from tests.integration.test_warehouse_changes import TABLE, Management, with_table
from tests.integration.test_warehouse_config import events

READ_ONLY = (503, "MaintenanceModeError")

servers, other, processes = test_warehouse_changes.servers, test_warehouse_changes.other, test_warehouse_changes.processes


@pytest.fixture
def client(servers: tuple[CatalogServer, CatalogServer]) -> Iterator[Management]:
    with closing(Management(servers[0].url)) as client:
        yield client


def read_only(client: Management, value: bool) -> int:
    changed = client.call_warehouse("POST", "/read-only", {"read-only": value})
    assert (200, value) == (changed.status, changed.json["read-only"])
    return changed.position


def changes(client: RestClient) -> list[Any]:
    """The responses to a change of each kind."""
    return [
        client.commit(["n"], "t", set_properties(read_only="1")),
        client.create_table(["n"], "u"),
        client.call("POST", "/namespaces/n/tables", {"name": "v", "schema": SCHEMA, "stage-create": True}),
        client.create_namespace("m"),
        client.call("POST", "/namespaces/n/properties", {"updates": {"a": "1"}}),
        client.call(
            "POST", "/tables/rename", {"source": {"namespace": ["n"], "name": "t"}, "destination": {"namespace": ["n"], "name": "w"}}
        ),
        client.call("DELETE", "/namespaces/n/tables/t?purgeRequested=true"),
        client.call("DELETE", "/namespaces/n"),
    ]


def test_a_read_only_warehouse_is_read_and_not_changed(client: Management, other: RestClient, database: str) -> None:
    """On every server from the response on, and changed again from the next response on. Other warehouses are not concerned."""
    with_table(client, other)
    position = read_only(client, True)
    for each in (other, client):
        for refused in changes(each):
            assert READ_ONLY == refused.error
            assert "demo" in refused.message
            assert "60" == refused.headers["retry-after"]
        assert 200 == each.load_table(["n"], "t").status
        assert 200 == each.at(position).load_table(["n"], "t").status
        assert [["n"]] == each.call("GET", "/namespaces").json["namespaces"]
    assert position == read_only(client, True)
    assert ("warehouse.read-only-changed.v1", {"read-only": True}) == events(database)[-1]
    read_only(client, False)
    for each in (other, client):
        assert 200 == each.commit(["n"], "t", set_properties(after="1")).status


def test_changes_of_the_warehouse_itself_go_on(client: Management) -> None:
    read_only(client, True)
    for path, body in (
        ("/rename", {"new-name": "lake"}),
        ("/protection", {"protected": True}),
        ("/config", {"overrides": {"updates": {"rest-page-size": "5"}}}),
        ("/deactivate", None),
        ("/activate", None),
    ):
        assert 200 == client.call_warehouse("POST", path, body).status
    assert [True, "lake"] == client.loaded("read-only", "name")
    for body in ({}, {"read-only": "yes"}, {"read-only": True, "more": 1}):
        assert (400, "BadRequestException") == client.call_warehouse("POST", "/read-only", body).error
    assert (404, "NoSuchWarehouseException") == client.call_management("POST", f"/{uuid7()}/read-only", {"read-only": True}).error


def test_a_refusal_is_not_remembered_by_the_key(client: Management) -> None:
    """The same request succeeds after the maintenance."""
    with_table(client)
    key, path = uuid7(), "/namespaces/n/properties"
    read_only(client, True)
    assert READ_ONLY == client.call("POST", path, {"updates": {"a": "1"}}, key=key).error
    read_only(client, False)
    assert 200 == client.call("POST", path, {"updates": {"a": "1"}}, key=key).status


async def decided_before(processes: tuple[Application, Application, Any]) -> None:
    """A commit that the first process decides on the warehouse as it was before the second one made it read-only."""
    first, second, warehouse = processes
    await change_warehouse(second.commands, context("setWarehouseReadOnly"), warehouse, SetWarehouseReadOnly(True))
    with pytest.raises(WarehouseReadOnly):
        await commit_table(first.commands, context("updateTable"), warehouse, CommitTable(TABLE, [], [set_properties(late="1")]))


async def test_nothing_that_was_decided_before_comes_after(processes: tuple[Application, Application, Any]) -> None:
    await decided_before(processes)


async def test_a_change_that_names_no_event_of_the_warehouse_is_seen(
    processes: tuple[Application, Application, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control."""
    monkeypatch.setattr(AppendRequest, "_writes", lambda append_request, stream_id: True)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await decided_before(processes)


async def test_no_file_is_deleted_meanwhile(catalog: Application, tmp_path: Path) -> None:
    """A purge that was requested before waits, and goes on afterwards."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table"), Step("purge_table")):
        assert not isinstance(await run.step(step), Exception)
    files = {file for file in (tmp_path / "warehouse").rglob("*") if file.is_file()}
    assert files

    async def set_read_only(value: bool) -> None:
        warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
        await change_warehouse(catalog.commands, context("setWarehouseReadOnly"), warehouse, SetWarehouseReadOnly(value))

    await set_read_only(True)
    assert 0 == await catalog.purge.run_once()
    assert files == {file for file in files if file.exists()}
    await set_read_only(False)
    assert 1 == await catalog.purge.run_once()
    assert set() == {file for file in files if file.exists()}


async def test_a_purge_in_progress_stops_before_its_next_page(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode begins after the purge has begun."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table"), Step("purge_table")):
        assert not isinstance(await run.step(step), Exception)
    files = {file for file in (tmp_path / "warehouse").rglob("*") if file.is_file()}
    read, asked = warehouses.is_read_only, 0

    async def begins_after_the_start(connection: Any, warehouse_id: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
            await change_warehouse(catalog.commands, context("setWarehouseReadOnly"), warehouse, SetWarehouseReadOnly(True))
        return await read(connection, warehouse_id)

    monkeypatch.setattr(warehouses, "is_read_only", begins_after_the_start)
    assert 0 == await catalog.purge.run_once()
    assert asked >= 1
    assert files == {file for file in files if file.exists()}


def test_an_operator_maintains_a_warehouse_at_the_command_line(client: Management, database: str) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = icecore(database, "warehouse", "read-only", *arguments)
        return done.returncode, done.stdout + done.stderr

    assert (0, f"demo  {client.prefix}  active, read-only, format versions 1, 2, 3, hard deletion\n") == run("demo")
    assert READ_ONLY == client.create_namespace("n").error
    assert (0, f"demo  {client.prefix}  active, format versions 1, 2, 3, hard deletion\n") == run("demo", "--off")
    assert 200 == client.create_namespace("n").status
