"""Warehouses that are renamed, deactivated, protected, limited to format versions and deleted, while other processes use them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.approval.contract import Hold, Refuse
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.warehouses.change_warehouse import change_warehouse, delete_warehouse
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable
from icecore.domain.errors import AlreadyExists, BadRequest, NoSuchWarehouse, WarehouseInactive, WarehouseNotEmpty
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.warehouse import DeleteWarehouse, FormatVersionPolicy, SetWarehousePurgeDefault, SetWarehouseStatus
from icecore.projections import warehouse_content
from icecore.projections.verify import verify
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, before_append, context, opened_catalog, served_catalog
from tests.fixtures.command_runs import CommandRun, Step
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import SCHEMA, RestClient, RestResponse, set_properties, staged_create_updates, table_path
from tests.integration.approval.judging import Judge, asking
from tests.servers.icecore import icecore as icecore_server

NAMESPACE = NamespaceIdentifier(("n",))
TABLE = TabularIdentifier(NAMESPACE, "t")
NOT_FOUND = (404, "NoSuchWarehouseException")


class Management(RestClient):
    """Requests to `/management/v1/warehouse`."""

    def __init__(self, url: str, name: str | None = "demo") -> None:
        """name -- of the warehouse that `call_warehouse` is about."""
        super().__init__(url)
        if name is not None:
            self.prefix = self.call_root("GET", f"/config?warehouse={name}").json["overrides"]["prefix"]

    def call_management(self, method: str, path: str, body: Any = None, *, key: object = None) -> RestResponse:
        root, self._root = self._root, "/management/v1/warehouse"
        try:
            return self.call_root(method, path, body, key=key)
        finally:
            self._root = root

    def call_warehouse(self, method: str, path: str = "", body: Any = None, *, key: object = None) -> RestResponse:
        return self.call_management(method, f"/{self.prefix}{path}", body, key=key)

    def names(self, query: str = "") -> list[str]:
        return sorted(each["name"] for each in self.call_management("GET", query).json["warehouses"])

    def loaded(self, *fields: str) -> list[Any]:
        warehouse = self.call_warehouse("GET").json
        return [warehouse.get(field) for field in fields]


@pytest.fixture
def servers(database: str, tmp_path: Path) -> Iterator[tuple[CatalogServer, CatalogServer]]:
    """Two servers on one log."""
    roots = (tmp_path,)
    with (
        served_catalog(database, tmp_path / "demo", local_warehouse_roots=roots) as first,
        served_catalog(database, tmp_path / "demo", local_warehouse_roots=roots) as second,
    ):
        yield first, second


@pytest.fixture
def client(servers: tuple[CatalogServer, CatalogServer]) -> Iterator[Management]:
    with closing(Management(servers[0].url)) as client:
        yield client


@pytest.fixture
def other(servers: tuple[CatalogServer, CatalogServer]) -> Iterator[RestClient]:
    """A client of the second server."""
    with closing(RestClient(servers[1].url)) as client:
        yield client


def with_table(client: RestClient, *others: RestClient) -> None:
    """Creates the table `n.t`, and lets other servers cache what they read of it."""
    assert 200 == client.create_namespace("n").status
    assert 200 == client.create_table(["n"], "t").status
    for each in (client, *others):
        for _ in range(2):
            assert 200 == each.load_table(["n"], "t").status
            assert 200 == each.commit(["n"], "t", set_properties(seen="1")).status


def test_a_renamed_warehouse_has_its_new_name_everywhere_at_once(client: Management, other: RestClient) -> None:
    """Clients that have its prefix go on. The old name is free."""
    with_table(client, other)
    assert [None] == client.loaded("updated-at"), "not since its creation"
    renamed = client.call_warehouse("POST", "/rename", {"new-name": "Lake"})
    assert (200, "Lake") == (renamed.status, renamed.json["name"])
    assert renamed.json == client.call_warehouse("GET").json == client.call_management("GET", "").json["warehouses"][0]
    assert abs(datetime.fromisoformat(renamed.json["updated-at"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert NOT_FOUND == other.load_table(["n"], "t").error
    for reached_as in ("lake", client.prefix):
        other.warehouse = reached_as
        assert 200 == other.load_table(["n"], "t").status
        assert 200 == other.commit(["n"], "t", set_properties(after=reached_as)).status
    assert ["Lake"] == client.names()
    assert NOT_FOUND == client.call_root("GET", "/config?warehouse=demo").error
    assert client.prefix == client.call_root("GET", "/config?warehouse=LAKE").json["overrides"]["prefix"]


def test_a_rename_to_a_name_that_is_taken_or_refused_changes_nothing(client: Management, tmp_path: Path) -> None:
    """In any case of letters. To its own name in another case it is renamed."""
    profile = {"type": "local", "directory": str(tmp_path / "sea")}
    assert 201 == client.call_management("POST", "", {"warehouse-name": "sea", "storage-profile": profile}).status
    assert (409, "AlreadyExistsException") == client.call_warehouse("POST", "/rename", {"new-name": "SEA"}).error
    for name in ("", "a@7", "a/b", "a\nb", 7, None):
        assert (400, "BadRequestException") == client.call_warehouse("POST", "/rename", {"new-name": name}).error
    assert (400, "BadRequestException") == client.call_warehouse("POST", "/rename", {"name": "x"}).error
    assert ["demo", "sea"] == client.names()
    before = client.call_warehouse("POST", "/rename", {"new-name": "demo"}).position
    assert before == client.call_warehouse("POST", "/rename", {"new-name": "demo"}).position
    assert before + 1 == client.call_warehouse("POST", "/rename", {"new-name": "DEMO"}).position
    assert ["DEMO", "sea"] == client.names()


def test_an_inactive_warehouse_does_not_exist_for_any_client(client: Management, other: RestClient) -> None:
    """From the response on, on every server, for reads, changes and past states, until it is activated."""
    with_table(client, other)
    position = client.commit(["n"], "t", set_properties(before="1")).position
    deactivated = client.call_warehouse("POST", "/deactivate")
    assert (200, b"") == (deactivated.status, deactivated.body)
    for each in (other, client):
        for past in (each, each.at(position)):
            assert NOT_FOUND == past.load_table(["n"], "t").error
            assert NOT_FOUND == past.call_root("GET", f"/config?warehouse={past.warehouse}").error
        assert "Warehouse is inactive: demo" == each.load_table(["n"], "t").message
        assert NOT_FOUND == each.commit(["n"], "t", set_properties(never="1")).error
        assert NOT_FOUND == each.create_namespace("m").error
        assert NOT_FOUND == each.drop_table(["n"], "t").error
    assert ([], ["demo"], ["demo"]) == tuple(
        client.names(query) for query in ("", "?warehouseStatus=inactive", "?warehouseStatus=inactive&warehouseStatus=active")
    )
    assert ["inactive"] == client.loaded("status")
    assert 200 == client.call_warehouse("POST", "/deactivate").status
    assert 200 == client.call_warehouse("POST", "/config", {"defaults": {"updates": {"rest-page-size": "5"}}}).status
    assert 200 == client.call_warehouse("POST", "/activate").status
    for each in (other, client):
        assert 200 == each.commit(["n"], "t", set_properties(after="1")).status
        assert "never" not in each.load_table(["n"], "t").json["metadata"]["properties"]
        assert "1" == each.at(position).load_table(["n"], "t").json["metadata"]["properties"]["before"]


def test_a_key_that_an_inactive_warehouse_refused_can_be_used_again(client: Management, other: RestClient) -> None:
    """Once the warehouse is active again. What was done before it was deactivated is repeated meanwhile."""
    with_table(client, other)
    path, body = table_path(["n"], "t"), {"requirements": [], "updates": [set_properties(once="1")]}
    done, refused = uuid4(), uuid4()
    first = client.call("POST", path, body, key=done)
    assert 200 == first.status
    assert 200 == client.call_warehouse("POST", "/deactivate").status
    for each in (other, client):
        assert NOT_FOUND == each.load_table(["n"], "t").error, "its cached warehouse is the inactive one now"
        assert first.replayable == each.call("POST", path, body, key=done).replayable
        again = each.call("POST", path, body, key=refused)
        assert (*NOT_FOUND, "Warehouse is inactive: demo") == (*again.error, again.message)
        assert NOT_FOUND == each.call("POST", f"{path}/metrics", {"report-type": "scan-report"}, key=uuid4()).error
        assert NOT_FOUND == each.call("DELETE", "/namespaces/n?recursive=true&dryRun=true", key=uuid4()).error
    assert 200 == client.call_warehouse("POST", "/activate").status
    again = client.call("POST", path, body, key=refused)
    assert 200 == again.status
    for each in (other, client):
        assert again.replayable == each.call("POST", path, body, key=refused).replayable
        assert 422 == each.call("POST", path, {**body, "updates": []}, key=refused).status


def test_only_an_empty_warehouse_is_deleted(client: Management, other: RestClient, database: str, tmp_path: Path) -> None:
    """Its name can be used again, and its past cannot be read by it."""
    with_table(client, other)
    refused = client.call_warehouse("DELETE")
    assert ((409, "WarehouseNotEmptyException"), "Warehouse is not empty: demo; it contains a namespace") == (
        refused.error,
        refused.message,
    )
    assert (409, "WarehouseNotEmptyException") == client.call_warehouse("DELETE", "?force=true").error
    assert 204 == client.drop_table(["n"], "t").status
    assert 204 == client.call("DELETE", "/namespaces/n").status
    position = int(client.create_namespace("m").position)
    assert 204 == client.call("DELETE", "/namespaces/m").status
    key = uuid4()
    deleted = client.call_warehouse("DELETE", key=key)
    assert (204, b"") == (deleted.status, deleted.body)
    assert deleted.replayable == client.call_warehouse("DELETE", key=key).replayable
    assert NOT_FOUND == client.call_warehouse("DELETE").error
    for each in (other, other.at(position), client):
        assert NOT_FOUND == each.call("GET", "/namespaces").error
    for path in ("/activate", "/rename", "/config"):
        assert NOT_FOUND == client.call_warehouse("POST", path, {"new-name": "x"} if path == "/rename" else {}).error
    assert [] == client.names("?warehouseStatus=active&warehouseStatus=inactive")
    profile = {"type": "local", "directory": str(tmp_path / "demo")}
    created = client.call_management("POST", "", {"warehouse-name": "demo", "storage-profile": profile})
    assert client.prefix != created.json["id"]
    assert 200 == other.create_namespace("n").status
    assert asyncio.run(verify(database)).ok


def test_a_protected_warehouse_is_deleted_by_force_only(client: Management) -> None:
    """`protected` must be given."""
    protection = client.call_warehouse("POST", "/protection", {"protected": True})
    assert (200, True) == (protection.status, protection.json["protected"])
    assert [protection.json["updated_at"]] == client.loaded("updated-at")
    assert [True] == client.loaded("protected")
    assert (409, "WarehouseProtectedException") == client.call_warehouse("DELETE").error
    assert (409, "WarehouseProtectedException") == client.call_warehouse("DELETE", "?force=false").error
    for body in ({}, {"protected": "yes"}, {"protect": True}):
        assert (400, "BadRequestException") == client.call_warehouse("POST", "/protection", body).error
    assert (400, "BadRequestException") == client.call_warehouse("DELETE", "?force=maybe").error
    assert ["demo"] == client.names()
    assert 204 == client.call_warehouse("DELETE", "?force=true").status
    assert [] == client.names()


def test_a_table_has_a_format_version_that_the_warehouse_allows(client: Management, other: RestClient) -> None:
    """At its creation, registration and upgrade, on every server; a request without a version gets the default."""
    with_table(client, other)
    kept = client.load_table(["n"], "t").json["metadata-location"]
    policy = {"allowed-format-versions": [3, 3], "default-format-version": 3}
    changed = client.call_warehouse("POST", "/format-version-policy", policy)
    assert (200, [3], 3) == (changed.status, changed.json["allowed-format-versions"], changed.json["default-format-version"])
    for each, name in ((other, "u"), (client, "v")):
        assert 3 == each.create_table(["n"], name).json["metadata"]["format-version"]
    for version in ("1", "2"):
        refused = other.create_table(["n"], "w", properties={"format-version": version})
        message = f"The warehouse does not allow tables of format version {version}; it allows 3"
        assert ((400, "BadRequestException"), message) == (refused.error, refused.message)
    assert 200 == other.commit(["n"], "t", set_properties(kept="version 2")).status
    assert 200 == client.call("POST", f"{table_path(['n'], 't')}/unregister").status
    body = {"name": "t", "metadata-location": kept}
    assert (400, "BadRequestException") == client.call("POST", "/namespaces/n/register", body).error
    staged = client.create_table(["n"], "s", **{"stage-create": True}).json["metadata"]
    assert 3 == staged["format-version"]
    updates = staged_create_updates(staged["table-uuid"], staged["location"])
    created = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert (400, "BadRequestException") == client.call("POST", table_path(["n"], "s"), created).error
    assert 200 == client.call_warehouse("POST", "/format-version-policy", {"allowed-format-versions": [1, 2]}).status
    assert 1 == client.create_table(["n"], "x", properties={"format-version": "1"}).json["metadata"]["format-version"]
    assert 2 == client.create_table(["n"], "y").json["metadata"]["format-version"]
    upgrade = {"action": "upgrade-format-version", "format-version": 3}
    assert (400, "BadRequestException") == client.commit(["n"], "x", upgrade).error
    assert 200 == client.commit(["n"], "x", {**upgrade, "format-version": 2}).status


def test_a_table_created_by_a_commit_has_the_default_format_version(client: Management) -> None:
    """A commit with `assert-create` need not name a version."""
    assert 200 == client.create_namespace("n").status
    assert 200 == client.call_warehouse("POST", "/format-version-policy", {"allowed-format-versions": [3]}).status
    staged = client.create_table(["n"], "t", **{"stage-create": True}).json["metadata"]
    updates = [
        update for update in staged_create_updates(staged["table-uuid"], staged["location"]) if update["action"] != "upgrade-format-version"
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert 3 == client.call("POST", table_path(["n"], "t"), body).json["metadata"]["format-version"]


def test_the_only_active_warehouse_needs_no_name(client: Management, tmp_path: Path) -> None:
    """An inactive one beside it does not exist to clients."""
    profile = {"type": "local", "directory": str(tmp_path / "sea")}
    created = client.call_management("POST", "", {"warehouse-name": "sea", "storage-profile": profile})
    assert (400, "BadRequestException") == client.call_root("GET", "/namespaces").error
    assert 200 == client.call_management("POST", f"/{created.json['id']}/deactivate").status
    assert 200 == client.call_root("GET", "/namespaces").status


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"allowed-format-versions": []},
        {"allowed-format-versions": [4]},
        {"allowed-format-versions": [0, 1]},
        {"allowed-format-versions": ["2"]},
        {"allowed-format-versions": [True]},
        {"allowed-format-versions": [1], "default-format-version": 2},
        {"allowed-format-versions": [1, 2], "default-format-version": "2"},
        {"default-format-version": 2},
        {"allowed-format-versions": [2], "default": 2},
    ],
)
def test_a_wrong_policy_is_refused(client: Management, policy: dict[str, Any], tmp_path: Path) -> None:
    """Also for a new warehouse, if it names one."""
    assert (400, "BadRequestException") == client.call_warehouse("POST", "/format-version-policy", policy).error
    assert [[1, 2, 3], None] == client.loaded("allowed-format-versions", "default-format-version")
    if "allowed-format-versions" in policy:
        body = {"warehouse-name": "sea", "storage-profile": {"type": "local", "directory": str(tmp_path / "sea")}, **policy}
        assert (400, "BadRequestException") == client.call_management("POST", "", body).error
    assert ["demo"] == client.names()


def test_a_new_warehouse_may_have_a_policy(client: Management, tmp_path: Path) -> None:
    """It has it from the first table on."""
    profile = {"type": "local", "directory": str(tmp_path / "sea")}
    body = {"warehouse-name": "sea", "storage-profile": profile, "allowed-format-versions": [3, 1]}
    created = client.call_management("POST", "", body)
    assert (201, [1, 3]) == (created.status, created.json["allowed-format-versions"])
    client.warehouse = "sea"
    assert 200 == client.create_namespace("n").status
    assert 3 == client.create_table(["n"], "t").json["metadata"]["format-version"]


def test_a_hook_sees_each_change_and_may_refuse_it(database: str, tmp_path: Path) -> None:
    """With the warehouse before and after."""
    judge = Judge()
    changes: list[tuple[str, str, Any, str, Any]] = [
        ("POST", "/protection", {"protected": True}, "protected", True),
        ("POST", "/protection", {"protected": False}, "protected", None),
        ("POST", "/format-version-policy", {"allowed-format-versions": [2]}, "allowed-format-versions", [2]),
        ("POST", "/deactivate", None, "status", "inactive"),
        ("POST", "/activate", None, "status", None),
        ("POST", "/rename", {"new-name": "lake"}, "type", "local"),
        ("DELETE", "", None, "type", None),
    ]
    with served_catalog(database, tmp_path / "demo", prepare=asking(judge)) as served, closing(Management(served.url)) as client:
        for method, path, body, field, expected in changes:
            judge.always(Refuse("no"))
            before = client.loaded("name", "status", "protected", "allowed-format-versions")
            assert (409, "ChangeRefusedException") == client.call_warehouse(method, path, body).error
            assert before == client.loaded("name", "status", "protected", "allowed-format-versions")
            (change,) = judge.shown[-1].objects
            assert expected == (change.after or {}).get(field)
            judge.say = None
            assert client.call_warehouse(method, path, body).status in (200, 204)
        assert [("demo",), ("lake",), None] == [
            judge.shown[-3].objects[0].name_before,
            judge.shown[-3].objects[0].name_after,
            change.name_after,
        ]


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[tuple[Application, Application, Warehouse]]:
    """Two processes on one log, and the warehouse as the first has cached it. It contains the table `n.t`."""
    async with AsyncExitStack() as opened:
        first, second = [await opened.enter_async_context(opened_catalog(database, tmp_path / "demo")) for _ in range(2)]
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
        await create_namespace(first.commands, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
        table = CreateTable(NAMESPACE, "t", None, SCHEMA, None, None, {}, stage_create=False)
        await create_table(first.commands, context("createTable"), warehouse, table)
        yield first, second, warehouse


async def deactivated_meanwhile(processes: tuple[Application, Application, Warehouse]) -> None:
    """Runs commands of each way to the log that were decided before the second process deactivated the warehouse."""
    first, second, warehouse = processes
    await change_warehouse(second.commands, context("deactivateWarehouse"), warehouse, SetWarehouseStatus(active=False))
    commits = [
        commit_table(first.commands, context("updateTable"), warehouse, CommitTable(TABLE, [], [set_properties({f"p{n}": "1"})]))
        for n in range(5)
    ]
    creation = create_namespace(first.commands, context("createNamespace"), warehouse, CreateNamespace(NamespaceIdentifier(("m",)), {}))
    outcomes = await asyncio.gather(*commits, creation, return_exceptions=True)
    assert [WarehouseInactive] * 6 == [type(outcome) for outcome in outcomes]


async def test_no_change_decided_before_a_deactivation_comes_after_it(processes: tuple[Application, Application, Warehouse]) -> None:
    """The append compares the warehouse's last event."""
    await deactivated_meanwhile(processes)


async def test_a_change_that_names_no_event_of_the_warehouse_is_seen(
    processes: tuple[Application, Application, Warehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control."""
    monkeypatch.setattr(AppendRequest, "_writes", lambda append_request, stream_id: True)
    with pytest.raises(AssertionError, match="CommandResponse"):
        await deactivated_meanwhile(processes)


async def test_no_proposal_is_opened_after_a_deactivation(processes: tuple[Application, Application, Warehouse]) -> None:
    """Though the hook gave its verdict before."""
    first, second, warehouse = processes
    judge = Judge()
    asking(judge)(first)
    judge.always(Hold("somebody must look", 60.0))
    await change_warehouse(second.commands, context("deactivateWarehouse"), warehouse, SetWarehouseStatus(active=False))
    with pytest.raises(NoSuchWarehouse):
        await commit_table(first.commands, context("updateTable"), warehouse, CommitTable(TABLE, [], [set_properties(held="1")]))
    assert 1 == len(judge.shown)


async def test_a_purge_that_begins_during_a_deletion_prevents_it(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table and its namespace were created and dropped after the deletion had looked for content: its purge needs the credential."""
    async with opened_catalog(database, tmp_path / "demo") as catalog:
        run = await CommandRun.on(catalog)
        content_kind = warehouse_content.content_kind

        async def empty_a_moment_ago(connection: Any, warehouse_id: UUID) -> str | None:
            found = await content_kind(connection, warehouse_id)
            if found is None:
                for step in (Step("create_namespace"), Step("create_table"), Step("purge_table"), Step("drop_namespace")):
                    assert not isinstance(await run.step(step), Exception)
            return found

        monkeypatch.setattr(warehouse_content, "content_kind", empty_a_moment_ago)
        with pytest.raises(WarehouseNotEmpty, match="it contains a dropped table whose files are being deleted"):
            await delete_warehouse(catalog.commands, context("deleteWarehouse"), run.warehouse, DeleteWarehouse())
        await run.step(Step("run_purge"))
        monkeypatch.undo()
        assert 204 == (await delete_warehouse(catalog.commands, context("deleteWarehouse"), run.warehouse, DeleteWarehouse())).status


async def test_the_purge_of_another_warehouse_prevents_no_deletion(database: str, tmp_path: Path) -> None:
    """Negative control: the other warehouse itself cannot be deleted."""
    async with opened_catalog(database, tmp_path / "demo", local_warehouse_roots=(tmp_path,)) as catalog:
        run = await CommandRun.on(catalog)
        await asyncio.to_thread((tmp_path / "other").mkdir)
        other = CreateWarehouse("other", {"type": "local", "directory": str(tmp_path / "other")})
        await create_warehouse(catalog.commands, context("createWarehouse"), other)
        for step in (Step("create_namespace"), Step("create_table"), Step("purge_table"), Step("drop_namespace")):
            assert not isinstance(await run.step(step), Exception)
        with pytest.raises(WarehouseNotEmpty, match="files are being deleted"):
            await delete_warehouse(catalog.commands, context("deleteWarehouse"), run.warehouse, DeleteWarehouse())
        empty = await resolve_warehouse(catalog.backends, PROJECT_ID, "other")
        assert 204 == (await delete_warehouse(catalog.commands, context("deleteWarehouse"), empty, DeleteWarehouse())).status


async def test_a_metadata_file_that_waits_for_its_deletion_keeps_its_warehouse(database: str, tmp_path: Path) -> None:
    """A job deletes it with the warehouse's credential."""
    async with opened_catalog(database, tmp_path / "demo") as catalog:
        warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
        async with catalog.backends.connection() as connection:
            row = "insert into icecore.old_metadata_files values ('k/', %s, %s, 'file:///k')"
            await connection.execute(row, (uuid4(), warehouse.id))
            with pytest.raises(WarehouseNotEmpty, match="metadata file that is being deleted"):
                await delete_warehouse(catalog.commands, context("deleteWarehouse"), warehouse, DeleteWarehouse())
            await connection.execute("delete from icecore.old_metadata_files where key = 'k/'")
        assert 204 == (await delete_warehouse(catalog.commands, context("deleteWarehouse"), warehouse, DeleteWarehouse())).status


async def test_a_policy_that_is_refused_leaves_no_credential(database: str, tmp_path: Path) -> None:
    """It is checked before the store is."""
    async with opened_catalog(database, tmp_path / "demo") as catalog:
        catalog.commands.skip_storage_validation = True
        profile = {"type": "s3", "bucket": "lake", "region": "mars-1"}
        key = {"type": "s3", "credential-type": "access-key", "access-key-id": "id", "secret-access-key": "key"}
        command = CreateWarehouse("lake", profile, key, format_versions=FormatVersionPolicy((4,)))
        with pytest.raises(BadRequest, match="allowed-format-versions"):
            await create_warehouse(catalog.commands, context("createWarehouse"), command)
        async with catalog.backends.connection() as connection:
            assert [] == await (await connection.execute("select id from icecore.secrets")).fetchall()


async def test_commits_go_on_after_a_change_of_the_warehouse(processes: tuple[Application, Application, Warehouse]) -> None:
    """They are decided again on its newest state, each once."""
    first, second, warehouse = processes
    for active in (False, True):
        await change_warehouse(second.commands, context("setStatus"), warehouse, SetWarehouseStatus(active=active))
    commands = [CommitTable(TABLE, [], [set_properties({f"p{n}": "1"})]) for n in range(5)]
    responses = await asyncio.gather(*(commit_table(first.commands, context("updateTable"), warehouse, command) for command in commands))
    assert [200] * 5 == [response.status for response in responses]
    assert 5 == len({response.position for response in responses})


@pytest.mark.parametrize("changed", [True, False])
async def test_a_process_refreshes_its_warehouses_after_a_change_that_a_command_met(
    processes: tuple[Application, Application, Warehouse], monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    """Else each further command through the outdated one is decided twice. Another conflict refreshes nothing."""
    first, second, warehouse = processes
    command, refreshed = CreateNamespace(NamespaceIdentifier(("m",)), {}), list[None]()

    async def meanwhile() -> None:
        if changed:
            purge = SetWarehousePurgeDefault(purge=True)
            await change_warehouse(second.commands, context("setWarehousePurgeDefault"), warehouse, purge)
        else:
            await create_namespace(second.commands, context("createNamespace"), warehouse, command)

    first.commands.on_warehouse_changed = lambda: refreshed.append(None)
    appends = before_append(monkeypatch, first, meanwhile)
    creation = create_namespace(first.commands, context("createNamespace"), warehouse, command)
    if changed:
        assert 200 == (await creation).status
        assert 2 == len(appends)
    else:
        with pytest.raises(AlreadyExists):
            await creation
    assert (1 if changed else 0) == len(refreshed)


def test_an_operator_changes_a_warehouse_at_the_command_line(client: Management, database: str) -> None:
    """By its name or id, active or not. The server's next response is that of the change."""

    def run(*arguments: str) -> tuple[int, str]:
        done = icecore(database, "warehouse", *arguments)
        return done.returncode, done.stdout + done.stderr

    assert (0, f"lake  {client.prefix}  active, format versions 1, 2, 3, hard deletion\n") == run("rename", "demo", "lake")
    assert ["lake"] == client.names()
    code, printed = run("protect", "LAKE", "--json")
    assert (0, True) == (code, json.loads(printed)["protected"])
    code, printed = run("get", "lake", "--json")
    assert (0, client.call_warehouse("GET").json) == (code, json.loads(printed))
    assert (0, f"lake  {client.prefix}  active, protected, format versions 1, 2, 3, hard deletion\n") == run("get", client.prefix)
    assert (0, f"lake  {client.prefix}  inactive, protected, format versions 1, 2, 3, hard deletion\n") == run("deactivate", client.prefix)
    assert NOT_FOUND == client.call_root("GET", "/config?warehouse=lake").error
    code, printed = run("list")
    assert f"lake  {client.prefix}  inactive  file:///" in printed
    assert (0, f"lake  {client.prefix}  active, protected, format versions 1, 2, 3, hard deletion\n") == run("activate", "lake")
    versions = run("format-versions", "lake", "--allow", "3", "--allow", "2", "--default", "3")
    assert (0, f"lake  {client.prefix}  active, protected, format versions 2, 3 (default 3), hard deletion\n") == versions
    code, printed = run("format-versions", "lake", "--allow", "4")
    assert (2, "icecore: Invalid allowed-format-versions: must be one or more of 1, 2, 3\n") == (code, printed)
    code, printed = run("rename", "lake@1", "sea")
    assert (2, "a past state cannot be changed" in printed) == (code, True)
    code, printed = run("delete", "lake")
    assert (1, "Warehouse is protected: lake" in printed) == (code, True)
    assert 0 == run("protect", "lake", "--off")[0]
    assert (0, "") == run("delete", "lake")
    assert [] == client.names("?warehouseStatus=active&warehouseStatus=inactive")
    code, printed = run("activate", "lake")
    assert (1, "icecore: Warehouse does not exist: lake\n") == (code, printed)


def test_the_demo_warehouse_is_not_created_again(tmp_path: Path) -> None:
    """After it was deleted, a start finds a log with events."""
    for expected in (["demo"], []):
        with icecore_server(tmp_path / "data") as started, closing(Management(started.uri, None if expected == [] else "demo")) as client:
            assert expected == client.names()
            if expected:
                assert 204 == client.call_warehouse("DELETE").status


def test_a_command_for_a_name_that_another_warehouse_has_by_now_reaches_that_one(
    client: Management, other: RestClient, tmp_path: Path
) -> None:
    """The second server has cached which warehouse `demo` was."""
    assert 200 == other.create_namespace("n").status
    assert 200 == other.create_namespace("m").status
    assert 200 == client.call_warehouse("POST", "/rename", {"new-name": "old"}).status
    profile = {"type": "local", "directory": str(tmp_path / "sea")}
    assert 201 == client.call_management("POST", "", {"warehouse-name": "demo", "storage-profile": profile}).status
    assert 200 == other.create_namespace("n").status
    client.warehouse = "demo"
    assert [["n"]] == client.call("GET", "/namespaces").json["namespaces"]
    client.warehouse = "old"
    assert [["m"], ["n"]] == sorted(client.call("GET", "/namespaces").json["namespaces"])


def test_no_refusal_rests_on_an_outdated_warehouse(client: Management, other: RestClient) -> None:
    """The second server, which has no requests in between, refuses nothing that is permitted again."""
    assert 200 == client.call_warehouse("POST", "/format-version-policy", {"allowed-format-versions": [2]}).status
    assert 200 == other.create_namespace("n").status
    properties = {"format-version": "3"}
    assert (400, "BadRequestException") == other.create_table(["n"], "t", properties=properties).error
    assert 200 == client.call_warehouse("POST", "/format-version-policy", {"allowed-format-versions": [3]}).status
    assert 200 == other.create_table(["n"], "t", properties=properties).status
    assert 200 == client.call_warehouse("POST", "/deactivate").status
    assert NOT_FOUND == other.create_namespace("m").error
    assert 200 == client.call_warehouse("POST", "/activate").status
    assert 200 == other.create_namespace("m").status
