"""Every operation asks whether the principal may do it, by the ids of what it reads or changes, before it does anything."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from access.authorization import Resource, ResourceKind
from access.request_context import ANONYMOUS, Principal, RequestContext
from api.operations import OPERATIONS
from domain.errors import Forbidden, NotAuthorized
from icecore.compose import Catalog
from tests.fixtures.catalog import served_catalog
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
UNCHANGED: dict[str, Any] = {"requirements": [], "updates": []}
REPORT = {"report-type": "scan-report", "table-name": "t", "snapshot-id": 1, "filter": True, "schema-id": 0, "metrics": {}}
IDENTIFIER = {"namespace": ["n"], "name": "t"}

OPEN = {operation.name for operation in OPERATIONS if operation.open}

# Each operation: its address below the server's root, its body, and the kinds of what it is permitted on.
W = "/catalog/v1/demo"
N, T, V = f"{W}/namespaces/n", f"{W}/namespaces/n/tables/t", f"{W}/namespaces/n/views/v"
REQUESTS: dict[str, tuple[str, Any, Sequence[ResourceKind]]] = {
    "getConfig": ("/catalog/v1/config?warehouse=demo", None, ["warehouse"]),
    "listNamespaces": (f"{W}/namespaces", None, ["warehouse"]),
    "createNamespace": (f"{W}/namespaces", {"namespace": ["other"]}, ["warehouse"]),
    "loadNamespaceMetadata": (N, None, ["namespace"]),
    "namespaceExists": (N, None, ["namespace"]),
    "dropNamespace": (f"{W}/namespaces/empty", None, ["namespace"]),
    "updateProperties": (f"{N}/properties", {"updates": {"k": "v"}}, ["namespace"]),
    "listTables": (f"{N}/tables", None, ["namespace"]),
    "createTable": (f"{N}/tables", {"name": "u", "schema": SCHEMA}, ["namespace"]),
    "registerTable": (f"{N}/register", {"name": "r", "metadata-location": "file:///nowhere/1.metadata.json"}, ["namespace"]),
    "loadTable": (T, None, ["table"]),
    "updateTable": (T, {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}, ["table"]),
    "dropTable": (T, None, ["table"]),
    "tableExists": (T, None, ["table"]),
    "unregisterTable": (f"{T}/unregister", None, ["table"]),
    "loadCredentials": (f"{T}/credentials", None, ["table"]),
    "renameTable": (f"{W}/tables/rename", {"source": IDENTIFIER, "destination": {**IDENTIFIER, "name": "x"}}, ["table", "namespace"]),
    "reportMetrics": (f"{T}/metrics", REPORT, ["table"]),
    "commitTransaction": (
        f"{W}/transactions/commit",
        {
            "table-changes": [
                {"identifier": IDENTIFIER, "requirements": [], "updates": []},
                {"identifier": {**IDENTIFIER, "name": "c"}, **CREATED},
            ]
        },
        ["table", "namespace"],
    ),
    "listViews": (f"{N}/views", None, ["namespace"]),
    "createView": (f"{N}/views", {"name": "w", **VIEW}, ["namespace"]),
    "loadView": (V, None, ["view"]),
    "replaceView": (V, {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}, ["view"]),
    "dropView": (V, None, ["view"]),
    "viewExists": (V, None, ["view"]),
    "renameView": (
        f"{W}/views/rename",
        {"source": {"namespace": ["n"], "name": "v"}, "destination": {"namespace": ["n"], "name": "x"}},
        ["view", "namespace"],
    ),
    "registerView": (f"{N}/register-view", {"name": "r", "metadata-location": "file:///nowhere/1.metadata.json"}, ["namespace"]),
    "queryEvents": (f"{W}/events", {}, ["warehouse"]),
    "createWarehouse": (
        "/management/v1/warehouse",
        {"warehouse-name": "w", "storage-profile": {"type": "local", "directory": "/nowhere"}},
        ["project"],
    ),
    "listWarehouses": ("/management/v1/warehouse", None, ["project"]),
    "getWarehouse": ("/management/v1/warehouse/{warehouse}", None, ["warehouse"]),
    "listProposals": ("/management/v1/proposals", None, ["project"]),
    "loadProposal": (f"/management/v1/proposals/{uuid4()}", None, ["proposal"]),
    "approveProposal": (f"/management/v1/proposals/{uuid4()}/approve", None, ["proposal"]),
    "rejectProposal": (f"/management/v1/proposals/{uuid4()}/reject", {"reason": "no"}, ["proposal"]),
    "listEvents": ("/history/v1/events", None, ["server"]),
    "loadEvent": (f"/history/v1/events/{uuid4()}", None, ["server"]),
    "wait": ("/history/v1/wait?position=1", None, ["server"]),
}


class Recorder:
    """Notes what it is asked, and refuses everything while `denies`."""

    def __init__(self) -> None:
        self.denies = False
        self.asked: list[tuple[RequestContext, Sequence[Resource]]] = []

    async def authorize(self, context: RequestContext, resources: Sequence[Resource]) -> None:
        self.asked.append((context, list(resources)))
        if self.denies:
            raise Forbidden("Not permitted")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr("icecore.compose.AllowAll", lambda: recorder)
    return recorder


@dataclass(frozen=True)
class Served:
    """`client` takes whole addresses."""

    client: RestClient
    warehouse_directory: Path
    warehouse_id: str


@pytest.fixture
def server(recorder: Recorder, database: str, tmp_path: Path) -> Iterator[Served]:
    with served_catalog(database, tmp_path / "warehouse") as served, closing(RestClient(served.url)) as client:
        client._root = ""
        for name in ("n", "empty"):
            assert 200 == client.call_root("POST", f"{W}/namespaces", {"namespace": [name]}).status
        assert 200 == client.call_root("POST", f"{N}/tables", {"name": "t", "schema": SCHEMA}).status
        assert 200 == client.call_root("POST", f"{N}/views", {"name": "v", **VIEW}).status
        warehouse_id = client.call_root("GET", "/catalog/v1/config?warehouse=demo").json["overrides"]["prefix"]
        recorder.asked.clear()
        recorder.denies = True
        yield Served(client, served.warehouse_directory, warehouse_id)


def test_every_operation_is_listed_here() -> None:
    """A new operation says what it is permitted on, or that it is open to everybody."""
    assert {"getHealth", "listEventSchemas", "loadEventSchema"} == OPEN
    assert {operation.name for operation in OPERATIONS} - OPEN == set(REQUESTS)


def test_what_is_not_permitted_does_nothing(server: Served, recorder: Recorder) -> None:
    """Refused by the ids of what it is about, with nothing in the log and no file written."""
    client, files, head = server.client, sorted(server.warehouse_directory.rglob("*")), _head(server, recorder)
    for operation in OPERATIONS:
        if operation.name in OPEN:
            continue
        address, body, kinds = REQUESTS[operation.name]
        recorder.asked.clear()
        answer = client.call_root(operation.method, address.format(warehouse=server.warehouse_id), body)
        assert 403 == answer.status, operation.name
        assert operation.method == "HEAD" or answer.error[1] == "ForbiddenException"
        ((context, resources),) = recorder.asked
        assert (ANONYMOUS, operation.name) == (context.principal, context.operation)
        assert [*kinds] == [resource.kind for resource in resources], operation.name
        assert all(isinstance(resource.id, UUID) for resource in resources)
        assert head == _head(server, recorder), operation.name
    assert files == sorted(server.warehouse_directory.rglob("*"))


def test_what_is_kept_in_memory_is_permitted_each_time(server: Served, recorder: Recorder) -> None:
    """An answer that one principal was given is not given to the next unasked."""
    client = server.client
    recorder.denies = False
    assert [200, 200] == [client.call_root("GET", T).status for _ in range(2)]
    recorder.denies = True
    assert 403 == client.call_root("GET", T).status


def test_who_asks_is_found_out_first(database: str, tmp_path: Path, recorder: Recorder) -> None:
    """The principal of the context is the one that the headers prove; without one nothing is looked at, an unknown address apart."""

    class ByHeader:
        async def authenticate(self, headers: Mapping[str, str]) -> Principal:
            if "X-Who" not in headers:
                raise NotAuthorized("Not authenticated")
            return Principal(headers["X-Who"])

    def authenticated(catalog: Catalog) -> None:
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
    """Who is permitted later may send the same request again."""
    client, key = server.client, uuid4()
    request = ("POST", f"{W}/namespaces", {"namespace": ["later"]})
    assert 403 == client.call_root(*request, key=key).status
    recorder.denies = False
    assert 200 == client.call_root(*request, key=key).status


def _head(server: Served, recorder: Recorder) -> int:
    """The end of the log, which health tells everybody."""
    asked = len(recorder.asked)
    position = server.client.call_root("GET", "/health").json["log"]["position"]
    assert asked == len(recorder.asked)
    return int(position)
