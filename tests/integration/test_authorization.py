"""Every operation is authorized with the ids of its resources before it does anything."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access.authorization import SERVER, Resource
from icecore.access.request_context import ANONYMOUS, Principal, RequestContext
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.api.operations import OPERATIONS
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.rename_table import rename_table
from icecore.compose import Application
from icecore.domain.commands import CreateNamespace, CreateTable, DropNamespace, RenameTable
from icecore.domain.errors import Forbidden, NotAuthorized
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.project import PROJECT_ID_DEFAULT
from icecore.projections.names import find_namespace
from tests.fixtures.catalog import context, served_catalog
from tests.fixtures.rest_client import SCHEMA, RestClient

VIEW = {
    "schema": {**SCHEMA, "schema-id": 0},
    "view-version": {
        "version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": ["n"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    },
    "properties": {},
}  # fmt: skip
CREATED = {"requirements": [{"type": "assert-create"}], "updates": []}
REPORT = {"report-type": "scan-report", "table-name": "t", "snapshot-id": 1, "filter": True, "schema-id": 0, "metrics": {}}
IDENTIFIER = {"namespace": ["n"], "name": "t"}
ELSEWHERE = {"namespace": ["empty"], "name": "x"}

OPEN = {operation.name for operation in OPERATIONS if operation.public}

# Each operation: its path below the server's root, its body, and its resources by kind and name.
W = "/catalog/v1/demo"
N, T, V = f"{W}/namespaces/n", f"{W}/namespaces/n/tables/t", f"{W}/namespaces/n/views/v"
PROPOSAL = uuid4()
DROPPED = uuid4()
PLACEHOLDERS = {"warehouse": "demo", "namespace": "n", "table": "t", "view": "v"}
REQUESTS: dict[str, tuple[str, Any, Sequence[str]]] = {
    "getConfig": ("/catalog/v1/config?warehouse=demo", None, ["warehouse demo"]),
    "listNamespaces": (f"{W}/namespaces", None, ["warehouse demo"]),
    "createNamespace": (f"{W}/namespaces", {"namespace": ["other"]}, ["warehouse demo"]),
    "loadNamespaceMetadata": (N, None, ["namespace n"]),
    "namespaceExists": (N, None, ["namespace n"]),
    "dropNamespace": (f"{W}/namespaces/empty", None, ["namespace empty"]),
    "updateProperties": (f"{N}/properties", {"updates": {"k": "v"}}, ["namespace n"]),
    "listTables": (f"{N}/tables", None, ["namespace n"]),
    "createTable": (f"{N}/tables", {"name": "u", "schema": SCHEMA}, ["namespace n"]),
    "registerTable": (f"{N}/register", {"name": "r", "metadata-location": "file:///nowhere/1.metadata.json"}, ["namespace n"]),
    "loadTable": (T, None, ["table t"]),
    "updateTable": (T, {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}, ["table t"]),
    "dropTable": (T, None, ["table t"]),
    "tableExists": (T, None, ["table t"]),
    "unregisterTable": (f"{T}/unregister", None, ["table t"]),
    "loadCredentials": (f"{T}/credentials", None, ["table t"]),
    "renameTable": (f"{W}/tables/rename", {"source": IDENTIFIER, "destination": ELSEWHERE}, ["table t", "namespace empty"]),
    "reportMetrics": (f"{T}/metrics", REPORT, ["table t"]),
    "commitTransaction": (
        f"{W}/transactions/commit",
        {
            "table-changes": [
                {"identifier": IDENTIFIER, "requirements": [], "updates": []},
                {"identifier": ELSEWHERE, **CREATED},
            ]
        },
        ["table t", "namespace empty"],
    ),
    "listViews": (f"{N}/views", None, ["namespace n"]),
    "createView": (f"{N}/views", {"name": "w", **VIEW}, ["namespace n"]),
    "loadView": (V, None, ["view v"]),
    "replaceView": (V, {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}, ["view v"]),
    "dropView": (V, None, ["view v"]),
    "viewExists": (V, None, ["view v"]),
    "renameView": (
        f"{W}/views/rename",
        {"source": {"namespace": ["n"], "name": "v"}, "destination": ELSEWHERE},
        ["view v", "namespace empty"],
    ),
    "registerView": (f"{N}/register-view", {"name": "r", "metadata-location": "file:///nowhere/1.metadata.json"}, ["namespace n"]),
    "queryEvents": (f"{W}/events", {}, ["warehouse demo"]),
    "getServerInfo": ("/management/v1/info", None, ["server"]),
    "bootstrap": ("/management/v1/bootstrap", {"accept-terms-of-use": True}, ["server"]),
    "whoami": ("/management/v1/whoami", None, ["server"]),
    "getServerActions": ("/management/v1/server/actions", None, ["server"]),
    "getProjectActions": ("/management/v1/project/actions", None, ["project"]),
    "getWarehouseActions": ("/management/v1/warehouse/{warehouse}/actions", None, ["warehouse demo"]),
    "getNamespaceActions": ("/management/v1/warehouse/{warehouse}/namespace/{namespace}/actions", None, ["namespace n"]),
    "getTableActions": ("/management/v1/warehouse/{warehouse}/table/{table}/actions", None, ["table t"]),
    "getViewActions": ("/management/v1/warehouse/{warehouse}/view/{view}/actions", None, ["view v"]),
    "moveNamespace": (
        "/management/v1/warehouse/{warehouse}/namespace/{namespace}/move",
        {"destination": ["empty", "n"]},
        ["namespace n", "namespace empty"],
    ),
    "createProject": ("/management/v1/project", {"project-name": "tenant"}, ["server"]),
    "listProjects": ("/management/v1/project-list", None, ["server"]),
    "getProject": ("/management/v1/project", None, ["project"]),
    "renameProject": ("/management/v1/project/rename", {"new-name": "tenant"}, ["project"]),
    "deleteProject": ("/management/v1/project", None, ["project"]),
    "getProjectById": (f"/management/v1/project/{PROJECT_ID_DEFAULT}", None, ["project"]),
    "renameProjectById": (f"/management/v1/project/{PROJECT_ID_DEFAULT}/rename", {"new-name": "tenant"}, ["project"]),
    "deleteProjectById": (f"/management/v1/project/{PROJECT_ID_DEFAULT}", None, ["project"]),
    "createWarehouse": (
        "/management/v1/warehouse",
        {"warehouse-name": "w", "storage-profile": {"type": "local", "directory": "/nowhere"}},
        ["project"],
    ),
    "listWarehouses": ("/management/v1/warehouse", None, ["project"]),
    "getWarehouse": ("/management/v1/warehouse/{warehouse}", None, ["warehouse demo"]),
    "updateWarehouseConfig": (
        "/management/v1/warehouse/{warehouse}/config",
        {"overrides": {"updates": {"rest-page-size": "9"}}},
        ["warehouse demo"],
    ),
    "renameWarehouse": ("/management/v1/warehouse/{warehouse}/rename", {"new-name": "lake"}, ["warehouse demo"]),
    "activateWarehouse": ("/management/v1/warehouse/{warehouse}/activate", None, ["warehouse demo"]),
    "deactivateWarehouse": ("/management/v1/warehouse/{warehouse}/deactivate", None, ["warehouse demo"]),
    "setWarehouseProtection": ("/management/v1/warehouse/{warehouse}/protection", {"protected": True}, ["warehouse demo"]),
    "updateWarehouseFormatVersionPolicy": (
        "/management/v1/warehouse/{warehouse}/format-version-policy",
        {"allowed-format-versions": [3]},
        ["warehouse demo"],
    ),
    "setWarehouseReadOnly": ("/management/v1/warehouse/{warehouse}/read-only", {"read-only": True}, ["warehouse demo"]),
    "validateWarehouse": (
        "/management/v1/warehouse-creation-validation",
        {"warehouse-name": "w", "storage-profile": {"type": "local", "directory": "/nowhere"}},
        ["project"],
    ),
    "validateStorageProfile": (
        "/management/v1/warehouse/{warehouse}/storage/validate-profile",
        {"storage-profile": {"type": "local", "directory": "/nowhere"}},
        ["warehouse demo"],
    ),
    "validateStorageCredential": ("/management/v1/warehouse/{warehouse}/storage/validate-credential", {}, ["warehouse demo"]),
    "validateStorageAccess": ("/management/v1/warehouse/{warehouse}/storage/validate-access", None, ["warehouse demo"]),
    "updateStorageProfile": (
        "/management/v1/warehouse/{warehouse}/storage",
        {"storage-profile": {"type": "local", "directory": "/nowhere"}},
        ["warehouse demo"],
    ),
    "updateStorageCredential": ("/management/v1/warehouse/{warehouse}/storage-credential", {}, ["warehouse demo"]),
    "updateWarehouseDeleteProfile": (
        "/management/v1/warehouse/{warehouse}/delete-profile",
        {"delete-profile": {"type": "soft", "expiration-seconds": 60}},
        ["warehouse demo"],
    ),
    "setWarehousePurgeDefault": ("/management/v1/warehouse/{warehouse}/purge-default", {"purge-default": True}, ["warehouse demo"]),
    "listDeletedTabulars": ("/management/v1/warehouse/{warehouse}/deleted-tabulars", None, ["warehouse demo"]),
    "undropTabulars": (
        "/management/v1/warehouse/{warehouse}/deleted-tabulars/undrop",
        {"targets": [{"type": "table", "id": str(DROPPED)}]},
        ["table dropped"],
    ),
    "listDeletedNamespaces": ("/management/v1/warehouse/{warehouse}/deleted-namespaces", None, ["warehouse demo"]),
    "undropNamespace": ("/management/v1/warehouse/{warehouse}/deleted-namespaces/{namespace}/undrop", {}, ["namespace n"]),
    "deleteWarehouse": ("/management/v1/warehouse/{warehouse}", None, ["warehouse demo"]),
    "getNamespaceProtection": ("/management/v1/warehouse/{warehouse}/namespace/{namespace}/protection", None, ["namespace n"]),
    "setNamespaceProtection": (
        "/management/v1/warehouse/{warehouse}/namespace/{namespace}/protection",
        {"protected": True},
        ["namespace n"],
    ),
    "getTableProtection": ("/management/v1/warehouse/{warehouse}/table/{table}/protection", None, ["table t"]),
    "setTableProtection": ("/management/v1/warehouse/{warehouse}/table/{table}/protection", {"protected": True}, ["table t"]),
    "getViewProtection": ("/management/v1/warehouse/{warehouse}/view/{view}/protection", None, ["view v"]),
    "setViewProtection": ("/management/v1/warehouse/{warehouse}/view/{view}/protection", {"protected": True}, ["view v"]),
    "listTasks": ("/management/v1/warehouse/{warehouse}/task/list", {}, ["warehouse demo"]),
    "getTaskDetails": (f"/management/v1/warehouse/{{warehouse}}/task/by-id/{DROPPED}", None, ["warehouse demo"]),
    "controlTasks": (
        "/management/v1/warehouse/{warehouse}/task/control",
        {"action": {"action-type": "cancel"}, "task-ids": [str(DROPPED)]},
        ["warehouse demo"],
    ),
    "getTaskQueueConfig": ("/management/v1/warehouse/{warehouse}/task-queue/tabular_purge/config", None, ["warehouse demo"]),
    "setTaskQueueConfig": (
        "/management/v1/warehouse/{warehouse}/task-queue/tabular_purge/config",
        {"queue-config": {}, "max-seconds-since-last-heartbeat": 60},
        ["warehouse demo"],
    ),
    "listProjectTasks": ("/management/v1/project/task/list", {}, ["project"]),
    "getProjectTaskDetails": (f"/management/v1/project/task/by-id/{DROPPED}", None, ["project"]),
    "controlProjectTasks": (
        "/management/v1/project/task/control",
        {"action": {"action-type": "stop"}, "task-ids": [str(DROPPED)]},
        ["project"],
    ),
    "getTaskLogCleanupConfig": ("/management/v1/project/task-queue/task_log_cleanup/config", None, ["project"]),
    "setTaskLogCleanupConfig": ("/management/v1/project/task-queue/task_log_cleanup/config", {"queue-config": {}}, ["project"]),
    "getWarehouseStatistics": ("/management/v1/warehouse/{warehouse}/statistics", None, ["warehouse demo"]),
    "searchTabular": ("/management/v1/warehouse/{warehouse}/search-tabular", {"search": "t"}, ["warehouse demo"]),
    "getEndpointStatistics": ("/management/v1/endpoint-statistics", {"warehouse": {"type": "all"}}, ["project"]),
    "listProposals": ("/management/v1/proposals", None, ["project"]),
    "loadProposal": (f"/management/v1/proposals/{PROPOSAL}", None, ["proposal"]),
    "approveProposal": (f"/management/v1/proposals/{PROPOSAL}/approve", None, ["proposal"]),
    "rejectProposal": (f"/management/v1/proposals/{PROPOSAL}/reject", {"reason": "no"}, ["proposal"]),
    "listEvents": ("/history/v1/events", None, ["project"]),
    "loadEvent": (f"/history/v1/events/{uuid4()}", None, ["project"]),
    "wait": ("/history/v1/wait?position=1", None, ["project"]),
}

# The same operations for other resources: in a namespace, in a warehouse, and for objects that do not exist.
OTHERS: list[tuple[str, str, Any, Sequence[str]]] = [
    ("listNamespaces", f"{W}/namespaces?parent=n", None, ["namespace n"]),
    ("createNamespace", f"{W}/namespaces", {"namespace": ["n", "below"]}, ["namespace n"]),
    ("createNamespace", f"{W}/namespaces", {"namespace": ["missing", "below"]}, ["warehouse demo"]),
    ("dropNamespace", f"{W}/namespaces/n?recursive=true", None, ["namespace n"]),
    ("dropNamespace", f"{W}/namespaces/n?recursive=true&dryRun=true", None, ["namespace n"]),
    ("createTable", f"{W}/namespaces/missing/tables", {"name": "u", "schema": SCHEMA}, ["warehouse demo"]),
    ("createTable", f"{W}/namespaces/empty/tables", {"name": "u", "schema": SCHEMA, "stage-create": True}, ["namespace empty"]),
    ("updateTable", f"{W}/namespaces/empty/tables/c", CREATED, ["namespace empty"]),
    (
        "renameTable",
        f"{W}/tables/rename",
        {"source": IDENTIFIER, "destination": {"namespace": ["missing"], "name": "x"}},
        ["table t", "warehouse demo"],
    ),
    ("listProposals", "/management/v1/proposals?warehouse=demo", None, ["warehouse demo"]),
    ("listEvents", "/history/v1/events?warehouses=demo", None, ["warehouse demo"]),
    ("wait", "/history/v1/wait?warehouse=demo&namespace=n&table=t&snapshot-id=1", None, ["table t"]),
]


class Recorder:
    """Records requests, and refuses everything while `denies` is set. meanwhile -- executed before a rename is authorized."""

    def __init__(self) -> None:
        self.denies = False
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.asked: list[tuple[RequestContext, Sequence[Resource]]] = []

    async def authorize(self, context: RequestContext, resources: Sequence[Resource]) -> None:
        self.asked.append((context, list(resources)))
        if self.denies:
            raise Forbidden("Not permitted")
        if self.meanwhile is not None and context.operation == "renameTable":
            await self.meanwhile()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr("icecore.compose.AllowAll", lambda: recorder)
    return recorder


@dataclass(frozen=True)
class Served:
    """`client` takes whole paths. ids -- by kind and name."""

    client: RestClient
    warehouse_directory: Path
    ids: Mapping[str, UUID]


@pytest.fixture
def server(recorder: Recorder, database: str, tmp_path: Path) -> Iterator[Served]:
    with served_catalog(database, tmp_path / "warehouse") as served, closing(RestClient(served.url)) as client:
        client._root = ""
        for name in ("n", "empty"):
            assert 200 == client.call_root("POST", f"{W}/namespaces", {"namespace": [name]}).status
        assert 200 == client.call_root("POST", f"{N}/tables", {"name": "t", "schema": SCHEMA}).status
        assert 200 == client.call_root("POST", f"{N}/views", {"name": "v", **VIEW}).status
        ids = {"project": PROJECT_ID_DEFAULT, "server": SERVER.id, "proposal": PROPOSAL, "table dropped": DROPPED}
        with psycopg.connect(database) as connection:
            ids |= dict(connection.execute("select kind || ' ' || name, object_id from icecore.names").fetchall())
        recorder.asked.clear()
        recorder.denies = True
        yield Served(client, served.warehouse_directory, ids)


def test_every_operation_is_listed_here() -> None:
    """A new operation must list its resources, or be open."""
    assert {
        "getHealth", "getLiveness", "getReadiness", "getToken", "listEventSchemas", "loadEventSchema", "getManagementDocument",
        "getHistoryDocument", "redirectToSwaggerUi", "getSwaggerUi", "getSwaggerUiFile",
    } == OPEN  # fmt: skip
    assert {operation.name for operation in OPERATIONS} - OPEN == set(REQUESTS)


def test_what_is_not_permitted_does_nothing(server: Served, recorder: Recorder) -> None:
    """Refused with the ids of its resources. The log is unchanged and no file is written."""
    client, files, head = server.client, sorted(server.warehouse_directory.rglob("*")), _head(server, recorder)
    methods = {operation.name: operation.method for operation in OPERATIONS}
    for name, address, body, permitted_on in [*((name, *request) for name, request in REQUESTS.items()), *OTHERS]:
        recorder.asked.clear()
        ids = {
            kind: server.ids[f"{kind} {which}"]
            for kind, which in (("warehouse", "demo"), ("namespace", "n"), ("table", "t"), ("view", "v"))
        }
        response = client.call_root(methods[name], address.format(**ids), body)
        assert 403 == response.status, address
        assert methods[name] == "HEAD" or response.error[1] == "ForbiddenException"
        ((context, resources),) = recorder.asked
        assert (ANONYMOUS, name) == (context.principal, context.operation)
        expected = [(each.partition(" ")[0], server.ids[each]) for each in permitted_on]
        assert expected == [(resource.kind, resource.id) for resource in resources], address
        assert head == _head(server, recorder), address
    assert files == sorted(server.warehouse_directory.rglob("*"))


def test_what_is_kept_in_memory_is_permitted_each_time(server: Served, recorder: Recorder) -> None:
    """A cached response is authorized for each request."""
    client = server.client
    recorder.denies = False
    assert [200, 200] == [client.call_root("GET", T).status for _ in range(2)]
    recorder.denies = True
    assert 403 == client.call_root("GET", T).status


def test_authentication_comes_first(database: str, tmp_path: Path, recorder: Recorder) -> None:
    """The principal of the context is that of the headers. Without one the request is refused, except for an unknown path."""

    class ByHeader:
        async def authenticate(self, headers: Mapping[str, str]) -> Principal:
            if "X-Who" not in headers:
                raise NotAuthorized("Not authenticated")
            return Principal(headers["X-Who"])

    def authenticated(catalog: Application) -> None:
        recorder.asked.clear()
        catalog.authenticator = ByHeader()

    with served_catalog(database, tmp_path / "warehouse", prepare=authenticated) as served, closing(RestClient(served.url)) as client:
        client._root = ""
        create = ("POST", f"{W}/namespaces", {"namespace": ["mine"]})
        assert (401, "NotAuthorizedException") == client.call_root(*create).error
        assert 200 == client.call_root("GET", "/health").status
        assert [] == recorder.asked
        assert 200 == client.call_root(*create, headers={"X-Who": "somebody"}).status
        assert ["somebody"] == [context.principal.id for context, _ in recorder.asked]
        events = client.call_root("GET", "/history/v1/events?types=io.icecore.namespace.created.v1", headers={"X-Who": "somebody"}).json[
            "events"
        ]
    assert ["somebody"] == [event["actor"] for event in events]


def test_a_refusal_is_not_remembered_by_the_key(server: Served, recorder: Recorder) -> None:
    """The same request can be sent again once it is permitted."""
    client, key = server.client, uuid4()
    request = ("POST", f"{W}/namespaces", {"namespace": ["later"]})
    assert 403 == client.call_root(*request, key=key).status
    recorder.denies = False
    assert 200 == client.call_root(*request, key=key).status


@pytest.mark.parametrize("is_there", [True, False])
async def test_what_is_moved_goes_where_it_was_permitted(recorder: Recorder, catalog: Application, is_there: bool) -> None:
    """If the destination's name refers to another namespace by then, the principal needs permission for that one."""
    warehouse, source, destination = await resolve_warehouse(catalog.backends, PROJECT_ID_DEFAULT, "demo"), named("n"), named("there")

    async def create(namespace: NamespaceIdentifier) -> UUID:
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(namespace, {}))
        async with catalog.backends.connection() as connection:
            return await find_namespace(connection, warehouse.name_lookup, namespace)

    async def replace() -> None:
        recorder.meanwhile = None
        if is_there:
            await drop_namespace(catalog.commands, context("dropNamespace"), warehouse, DropNamespace(destination))
        found.append(Resource("namespace", await create(destination)))

    await create(source)
    found = [Resource("namespace", await create(destination)) if is_there else Resource("warehouse", warehouse.id)]
    table = CreateTable(source, "t", None, SCHEMA, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), warehouse, table)
    recorder.meanwhile = replace
    rename = RenameTable(TabularIdentifier(source, "t"), TabularIdentifier(destination, "t"))
    await rename_table(catalog.commands, context("renameTable"), warehouse, rename)
    assert 2 == len(found)
    assert found == [resources[1] for asked, resources in recorder.asked if asked.operation == "renameTable"]


def named(name: str) -> NamespaceIdentifier:
    return NamespaceIdentifier((name,))


def _head(server: Served, recorder: Recorder) -> int:
    """The end of the log, which health returns to everybody."""
    asked = len(recorder.asked)
    position = server.client.call_root("GET", "/health").json["log"]["position"]
    assert asked == len(recorder.asked)
    return int(position)
