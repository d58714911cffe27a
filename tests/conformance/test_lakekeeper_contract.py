"""Lakekeeper's clients can use the management API: its OpenAPI document and real responses, compared with Lakekeeper's document.

`openapi/lakekeeper-management.json` is an extract of Lakekeeper's document, made by `lakekeeper_extract.py`.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from icecore.api.openapi.documents import load_document
from tests.conformance.lakekeeper_deviations import DIFFERENCES, MISSING_OPERATIONS, NEVER_SUCCESSFUL
from tests.conformance.schema_differences import Comparison, Document
from tests.fixtures.catalog import served_catalog
from tests.fixtures.existing_objects import ExistingObjects, create_objects, hold_table_commits
from tests.fixtures.lakekeeper_responses import LAKEKEEPER, check_readable_by_lakekeeper_s_clients
from tests.fixtures.rest_client import RestClient

JSON = "application/json"
MANAGEMENT = "/management/v1"


def own_operation(document: Mapping[str, Any], name: str) -> tuple[dict[str, Any], list[dict[str, Any]], Mapping[str, str]] | None:
    """The operation of `document` at an address of Lakekeeper's, its parameters, and the values that the address has for some of them."""
    method, path = name.split(" ")
    resolve = Document(document).resolved
    for template, item in document["paths"].items():
        fixed = _matched(template, path)
        if fixed is not None and method.lower() in item:
            operation = item[method.lower()]
            parameters = [resolve(each) for each in (*item.get("parameters", ()), *operation.get("parameters", ()))]
            permitted = {each["name"]: resolve(each["schema"]).get("enum", ()) for each in parameters}
            if all(value in permitted[parameter] for parameter, value in fixed.items()):
                return operation, parameters, fixed
    return None


def _matched(template: str, path: str) -> dict[str, str] | None:
    """The values of the placeholders that `path` has no placeholder for; None if the addresses differ."""
    own, theirs = template.split("/"), path.split("/")
    if len(own) != len(theirs):
        return None
    fixed = {}
    for one, other in zip(own, theirs, strict=True):
        if one != other:
            if not one.startswith("{") or other.startswith("{"):
                return None
            fixed[one[1:-1]] = other
    return fixed


def differences(lakekeeper: Mapping[str, Any], own: Mapping[str, Any]) -> set[str]:
    """Texts about the operations that both documents have."""
    theirs, ours = Document(lakekeeper), Document(own)
    requests, responses = Comparison(theirs, ours, of_responses=False), Comparison(ours, theirs, of_responses=True)
    found: set[str] = set()
    for name, operation in lakekeeper["operations"].items():
        described = own_operation(own, name)
        if described is None:
            continue
        mine, parameters, fixed = described
        found |= _of_parameters(name, operation["parameters"], [each for each in parameters if each["name"] not in fixed], requests)
        if operation["request"] is not None:
            body = mine["requestBody"]["content"][JSON]["schema"] if "requestBody" in mine else {"enum": []}
            found |= requests.differences(f"request {name}", operation["request"], body)
        elif mine.get("requestBody", {}).get("required"):
            found.add(f"{name}: needs a body")
        for status, schema in operation["responses"].items():
            response = ours.resolved(mine["responses"].get(status))
            if response is None:
                found.add(f"{name}: is never {status}")
            elif schema is not None:
                found |= responses.differences(f"response {name}", response.get("content", {}).get(JSON, {}).get("schema", {}), schema)
    return found


def _of_parameters(name: str, theirs: list[dict[str, Any]], ours: list[dict[str, Any]], comparison: Comparison) -> set[str]:
    own = {(each["in"], each["name"]): each for each in ours}
    found = {f"{name}: {each['name']} is required" for each in ours if each.get("required") and not _has(theirs, each)}
    for each in theirs:
        if (mine := own.get((each["in"], each["name"]))) is None:
            found.add(f"{name}: {each['in']} parameter {each['name']} is unknown")
            continue
        # A parameter is left out, and never null.
        sent = {word: [kind for kind in value if kind != "null"] if word == "type" and isinstance(value, list) else value
                for word, value in each["schema"].items()}  # fmt: skip
        found |= comparison.differences(f"parameter {each['name']}", sent, mine["schema"])
    return found


def _has(parameters: list[dict[str, Any]], one: dict[str, Any]) -> bool:
    return any((each["in"], each["name"]) == (one["in"], one["name"]) for each in parameters)


def missing(own: Mapping[str, Any]) -> set[str]:
    """The operations of Lakekeeper that a document does not have."""
    return {name for name in LAKEKEEPER["operations"] if own_operation(own, name) is None}


def listed(reasons: Mapping[str, Sequence[str]]) -> set[str]:
    """What is listed by its reason, each once."""
    found = [each for group in reasons.values() for each in group]
    assert len(found) == len({*found})
    return {*found}


def test_every_operation_of_lakekeeper_exists_or_is_listed() -> None:
    """An operation that exists is removed from the list."""
    assert listed(MISSING_OPERATIONS) == missing(load_document("management"))


def test_what_lakekeeper_s_clients_send_and_read_differs_only_as_listed() -> None:
    """Parameters, bodies and responses. A difference that is mended is removed from the list."""
    assert listed(DIFFERENCES) == differences(LAKEKEEPER, load_document("management"))


def _without(document: dict[str, Any], schema: str, member: str) -> None:
    del document["components"]["schemas"][schema]["properties"][member]
    document["components"]["schemas"][schema]["required"].remove(member)


def _retyped(document: dict[str, Any], schema: str, member: str, changed: dict[str, Any]) -> None:
    document["components"]["schemas"][schema]["properties"][member] = changed


def _required(document: dict[str, Any], schema: str, member: str) -> None:
    document["components"]["schemas"][schema].setdefault("required", []).append(member)


FAULTS = {
    "a member is not sent": (
        lambda document: _without(document, "GetWarehouseResponse", "protected"),
        "response GetWarehouseResponse.protected: may be missing",
    ),
    "a member has another type": (
        lambda document: _retyped(document, "GetProjectResponse", "project-name", {"type": "integer"}),
        "response GetProjectResponse.project-name: integer is unknown",
    ),
    "a value is not one of Lakekeeper's": (
        lambda document: document["components"]["schemas"]["WarehouseStatus"]["enum"].append("sleeping"),
        "response WarehouseStatus: 'sleeping' is unknown",
    ),
    "a value of Lakekeeper's is refused": (
        lambda document: document["components"]["schemas"]["TaskStatus"]["enum"].remove("FAILED"),
        "request TaskStatus: 'FAILED' is refused",
    ),
    "a field is refused": (
        lambda document: document["components"]["schemas"]["CreateWarehouseRequest"]["properties"].pop("storage-credential"),
        "request CreateWarehouseRequest.storage-credential: is refused",
    ),
    "a field is required": (
        lambda document: _required(document, "CreateWarehouseRequest", "storage-credential"),
        "request CreateWarehouseRequest.storage-credential: is required",
    ),
    "a parameter is unknown": (
        lambda document: document["components"]["parameters"]["NumAttempts"].update(name="attempts"),
        "GET /management/v1/warehouse/{warehouse_id}/task/by-id/{task_id}: query parameter numAttempts is unknown",
    ),
    "a status is another": (
        lambda document: document["paths"]["/management/v1/project/rename"]["post"]["responses"].pop("200"),
        "POST /management/v1/project/rename: is never 200",
    ),
    "an operation is missing": (
        lambda document: document["paths"].pop("/management/v1/project-list"),
        "GET /management/v1/project-list",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_document_is_found(fault: str) -> None:
    """A negative control for each kind of difference."""
    document = copy.deepcopy(load_document("management"))
    change, text = FAULTS[fault]
    change(document)
    found = differences(LAKEKEEPER, document) | missing(document)
    assert {text} <= found - listed(DIFFERENCES) - listed(MISSING_OPERATIONS)


@pytest.fixture
def existing(database: str, tmp_path: Path) -> Iterator[tuple[RestClient, ExistingObjects]]:
    """A client with whole paths, and objects on its server."""
    roots = tmp_path / "lakes"
    roots.mkdir()
    settings: dict[str, Any] = {"jobs": False, "local_warehouse_roots": (roots,)}
    with (
        served_catalog(database, tmp_path / "demo", prepare=hold_table_commits, **settings) as served,
        closing(RestClient(served.url)) as client,
    ):
        client._root = ""
        yield client, create_objects(served.url, roots)


def requests_of(objects: ExistingObjects) -> list[tuple[str, Any]]:
    """A successful request to each operation, with its project in the header; the last ones end what others need."""
    in_warehouse = f"{MANAGEMENT}/warehouse/{objects.warehouse_id}"
    kinds = {"namespace": objects.namespace_id, "table": objects.table_id, "view": objects.view_id}
    window = {"type": "window", "end": "2030-01-01T00:00:00Z", "interval": "PT1H"}
    local = {"type": "local", "directory": objects.free_directory}
    cancelled = {"action": {"action-type": "cancel"}, "task-ids": [objects.purge_task_id]}
    return [
        (f"GET {MANAGEMENT}/info", None),
        (f"GET {MANAGEMENT}/server/actions", None),
        (f"GET {MANAGEMENT}/project/actions", None),
        (f"GET {in_warehouse}/actions", None),
        *((f"GET {in_warehouse}/{kind}/{each}/actions", None) for kind, each in kinds.items()),
        *((f"GET {in_warehouse}/{kind}/{each}/protection", None) for kind, each in kinds.items()),
        *((f"POST {in_warehouse}/{kind}/{each}/protection", {"protected": False}) for kind, each in kinds.items()),
        (f"GET {MANAGEMENT}/project-list", None),
        (f"GET {MANAGEMENT}/project", None),
        (f"GET {MANAGEMENT}/project/{objects.project_id}", None),
        (f"POST {MANAGEMENT}/project", {"project-name": "another", "project-id": None}),
        (f"POST {MANAGEMENT}/project/rename", {"new-name": "renamed"}),
        (f"POST {MANAGEMENT}/project/{objects.project_id}/rename", {"new-name": "renamed again"}),
        (f"POST {MANAGEMENT}/endpoint-statistics", {"warehouse": {"type": "all"}, "range-specifier": window, "status-codes": None}),
        (f"POST {MANAGEMENT}/project/task/list", {}),
        (f"POST {MANAGEMENT}/project/task/control", {"action": {"action-type": "stop"}, "task-ids": []}),
        (f"GET {MANAGEMENT}/project/task-queue/task_log_cleanup/config", None),
        (f"POST {MANAGEMENT}/project/task-queue/task_log_cleanup/config", {"queue-config": {}}),
        (f"GET {MANAGEMENT}/warehouse?warehouseStatus=active&warehouseStatus=inactive", None),
        (f"POST {MANAGEMENT}/warehouse", {"warehouse-name": "another", "storage-profile": local, "default-format-version": None}),
        (f"GET {in_warehouse}", None),
        (f"POST {in_warehouse}/rename", {"new-name": "renamed"}),
        (f"POST {in_warehouse}/deactivate", None),
        (f"POST {in_warehouse}/activate", None),
        (f"POST {in_warehouse}/protection", {"protected": False}),
        (f"POST {in_warehouse}/format-version-policy", {"allowed-format-versions": [1, 2, 3], "default-format-version": 2}),
        (f"POST {in_warehouse}/delete-profile", {"delete-profile": {"type": "soft", "expiration-seconds": 3_600}}),
        (f"POST {in_warehouse}/storage-credential", {}),
        (f"GET {in_warehouse}/deleted-tabulars?pageSize=1", None),
        (f"GET {in_warehouse}/statistics?page_size=1", None),
        (f"POST {in_warehouse}/search-tabular", {"search": "t"}),
        (f"POST {in_warehouse}/task/list", {"entities": [{"type": "table", "table-id": objects.deleted_table_id}]}),
        (f"GET {in_warehouse}/task/by-id/{objects.purge_task_id}?numAttempts=1", None),
        (f"POST {in_warehouse}/task/control", cancelled),
        *((f"GET {in_warehouse}/task-queue/{queue}/config", None) for queue in ("tabular_expiration", "tabular_purge")),
        *((f"POST {in_warehouse}/task-queue/{queue}/config", {"queue-config": {}}) for queue in ("tabular_expiration", "tabular_purge")),
        (f"POST {in_warehouse}/deleted-tabulars/undrop", {"targets": [{"type": "table", "id": objects.deleted_table_id}]}),
    ]  # fmt: skip


def test_real_responses_are_as_lakekeeper_describes_them(existing: tuple[RestClient, ExistingObjects]) -> None:
    """A successful response of every operation that both have, except those listed."""
    client, objects = existing
    compared: set[str] = set()

    def send(method: str, path: str, body: Any, project: str = objects.project_id) -> Any:
        response = client.call_root(method, path, body, headers={"x-project-id": project})
        name = check_readable_by_lakekeeper_s_clients(method, path, response.status, response.body)
        assert name is not None, (method, path, response.status, response.body)
        compared.add(name)
        return response.json if response.body else None

    for request, body in requests_of(objects):
        method, path = request.split(" ")
        send(method, path, body)
    in_warehouse = f"{MANAGEMENT}/warehouse/{objects.warehouse_id}"
    profile = send("GET", in_warehouse, None)["storage-profile"]
    send("POST", f"{in_warehouse}/storage", {"storage-profile": profile})
    send("DELETE", f"{MANAGEMENT}/project/{objects.empty_project_id}", None, objects.empty_project_id)
    another = send("POST", f"{MANAGEMENT}/project", {"project-name": "deleted"})["project-id"]
    send("DELETE", f"{MANAGEMENT}/project", None, another)
    emptied = send(
        "POST",
        f"{MANAGEMENT}/warehouse",
        {"warehouse-name": "emptied", "storage-profile": {**profile, "directory": f"{objects.free_directory}-2"}},
    )
    send("DELETE", f"{MANAGEMENT}/warehouse/{emptied['warehouse-id']}", None)
    assert set(LAKEKEEPER["operations"]) - listed(MISSING_OPERATIONS) - set(NEVER_SUCCESSFUL) == compared


TASKS = f"{MANAGEMENT}/warehouse/019ab5f0-0000-7000-8000-000000000000/task/list"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (202, {"tasks": []}),
        (200, {}),
        (200, {"tasks": None}),
        (200, {"tasks": [{"task-id": "no id"}]}),
        (200, {"tasks": [], "next-page-token": 3}),
    ],
)
def test_another_response_is_found(status: int, body: Any) -> None:
    """A negative control: a status, a member that is missing, and types and formats."""
    assert f"POST {TASKS.replace('019ab5f0-0000-7000-8000-000000000000', '{warehouse_id}')}" == check_readable_by_lakekeeper_s_clients(
        "POST", TASKS, 200, b'{"tasks": []}'
    )
    with pytest.raises(AssertionError, match="task/list"):
        check_readable_by_lakekeeper_s_clients("POST", TASKS, status, json.dumps(body).encode())
