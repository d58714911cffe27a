"""Valid and invalid requests generated from our own OpenAPI documents, about objects that exist.

No response is 5xx, and every error is an Iceberg error model.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

from icecore.api.openapi.documents import APIS, load_document
from tests.conformance.generated_requests import CASES_PER_OPERATION_MIN, check_error_model, send_generated
from tests.fixtures.catalog import CatalogServer
from tests.fixtures.existing_objects import ExistingObjects, create_objects, hold_table_commits
from tests.fixtures.shared_catalog import shared_catalog

METHODS = ("get", "post", "put", "delete")
DOCUMENTS = {api: load_document(api) for api in APIS}
OPERATIONS = [
    (api, method.upper(), path)
    for api, document in DOCUMENTS.items()
    for path, item in document["paths"].items()  # type: ignore[attr-defined]
    for method in METHODS
    if method in item and {"parameters", "requestBody"} & {*item, *item[method]}
]
"""Those that can be requested in more than one way."""
# One of a request's time limits would hold up the tests.
WAIT_SECONDS = "0.01"
NEVER_SUCCESSFUL = {"bootstrap", "getProjectTaskDetails"}
"""Operations that refuse every request."""
CONSUMING = {
    "deleteWarehouse", "deleteProject", "deleteProjectById", "undropTabulars", "undropNamespace", "controlTasks", "approveProposal",
    "rejectProposal", "createWarehouse", "moveNamespace",
}  # fmt: skip
"""Operations whose success leaves less for the next request."""
OF_THE_EMPTY_PROJECT = {"deleteProject", "deleteProjectById", "renameProject", "renameProjectById"}


@pytest.fixture(scope="module")
def server(admin_dsn: str, template_database: str) -> Iterator[CatalogServer]:
    """No store is contacted: generated profiles name buckets of the clouds. Without jobs, so that tasks wait."""
    with shared_catalog(
        admin_dsn, template_database, prepare=hold_table_commits, local_warehouses=True, jobs=False, skip_storage_validation=True
    ) as shared:
        yield shared


class Aim:
    """Changes generated requests so that they are about objects that exist. New ones are made when a request has used them up."""

    def __init__(self, server: CatalogServer, name: str, mode: GenerationMode) -> None:
        self._server, self._name, self._mode = server, name, mode
        self._objects = self._created()

    def _created(self) -> ExistingObjects:
        return create_objects(self._server.url, self._server.warehouse_directory.parent)

    def used(self, status: int) -> None:
        if status < 300 and self._name in CONSUMING:
            self._objects = self._created()

    def __call__(self, case: Any, draw: Any) -> Any:
        def often() -> bool:
            return bool(draw(st.integers(0, 9)) > 1)

        ids = self._ids(draw)
        for name in case.path_parameters or {}:
            if name in ids and often():
                case.path_parameters[name] = ids[name]
        if often():
            self._choose_project(case)
        if self._mode is GenerationMode.POSITIVE:
            for name in list(case.query or {}):
                if not often():
                    continue
                if name in ("warehouse", "warehouses"):
                    case.query[name] = self._objects.warehouse_id
                elif name in ("namespaceId", "projectId"):
                    case.query[name] = ids["namespace_id" if name == "namespaceId" else "project_id"]
                elif draw(st.booleans()):
                    del case.query[name]
            if self._name == "wait" and draw(st.booleans()):
                # Either a position or a snapshot, never both.
                case.query = {"position": 1}
            if isinstance(case.body, dict) and often():
                self._aim_body(case.body, draw)
        return case

    def _ids(self, draw: Any) -> dict[str, str]:
        """By the names of path parameters."""
        ids = {**asdict(self._objects), "type": "io.icecore.namespace.created.v1"}
        ids["task_id"] = ids[draw(st.sampled_from(["purge_task_id", "expiration_task_id"]))]
        if self._name == "undropNamespace":
            ids["namespace_id"] = ids["deleted_namespace_id"]
        if self._name == "deleteWarehouse":
            ids["warehouse_id"] = ids["empty_warehouse_id"]
        if self._name in OF_THE_EMPTY_PROJECT:
            ids["project_id"] = ids["empty_project_id"]
        return ids

    def _choose_project(self, case: Any) -> None:
        """One project in all places that name one."""
        objects = self._objects
        project = objects.empty_project_id if self._name in OF_THE_EMPTY_PROJECT else objects.project_id
        if "project_id" in (case.path_parameters or {}):
            project = case.path_parameters["project_id"]
        case.headers["x-project-id"] = project
        if "projectId" in (case.query or {}):
            case.query["projectId"] = project
        if isinstance(case.body, dict) and self._name in ("createWarehouse", "validateWarehouse"):
            case.body.pop("project-id", None)

    def _aim_body(self, body: dict[str, Any], draw: Any) -> None:
        objects = self._objects
        match self._name:
            case "createWarehouse" | "validateWarehouse" if draw(st.booleans()):
                body |= {"storage-profile": {"type": "local", "directory": objects.free_directory}, "storage-credential": None}
                body |= {"warehouse-name": "another", "allowed-format-versions": None, "default-format-version": None}
            case "updateStorageProfile" | "validateStorageProfile" if draw(st.booleans()):
                body |= {"storage-profile": {"type": "local", "directory": objects.directory}, "storage-credential": None}
            case "updateStorageCredential" | "validateStorageCredential" if draw(st.booleans()):
                body["new-storage-credential"] = None
            case "undropTabulars":
                body["targets"] = [{"type": "table", "id": objects.deleted_table_id}]
            case "controlTasks":
                body["task-ids"] = [objects.purge_task_id]
                if body["action"]["action-type"] == "run-at" and draw(st.booleans()):
                    body["action"]["scheduled-for"] = "2027-01-01T00:00:00Z"
            case "controlProjectTasks" if draw(st.booleans()):
                body["task-ids"] = []
            case "listTasks" | "listProjectTasks":
                body.pop("page-token", None)
                for each in body.get("entities") or []:
                    each |= {"table-id": objects.deleted_table_id} if each["type"] == "table" else {}
            case "moveNamespace":
                body["destination"] = body["destination"][:1] if draw(st.booleans()) else ["moved"]
            case "getEndpointStatistics":
                if body["warehouse"]["type"] == "warehouse-id":
                    body["warehouse"]["id"] = objects.warehouse_id
                if draw(st.booleans()):
                    body["range-specifier"] = None
            case "setTaskQueueConfig" | "setTaskLogCleanupConfig":
                body["queue-config"] = {}
                if draw(st.booleans()):
                    body["max-seconds-since-last-heartbeat"] = None
            case "updateWarehouseFormatVersionPolicy" if draw(st.booleans()):
                body["default-format-version"] = None
            case "updateWarehouseConfig" if draw(st.booleans()):
                body |= {"defaults": {"updates": {"table-default.a": "b"}}, "overrides": {"removals": ["rest-page-size"]}}
            case "renameWarehouse" if draw(st.booleans()):
                body["new-name"] = objects.warehouse_id.replace("-", "x")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("api", "method", "path"), OPERATIONS, ids=[f"{method} {path}" for _, method, path in OPERATIONS])
def test_every_response_is_a_right_one(server: CatalogServer, api: str, method: str, path: str, mode: GenerationMode) -> None:
    """Right requests reach their objects: some of them succeed."""
    operation = schemathesis.openapi.from_dict(DOCUMENTS[api])[path][method]
    name = DOCUMENTS[api]["paths"][path][method.lower()]["operationId"]  # type: ignore[index]
    aim = Aim(server, name, mode)

    def aimed(case: Any, draw: Any) -> Any:
        case = aim(case, draw)
        if "wait-seconds" in str(operation.query) and case.query is not None:
            case.query["wait-seconds"] = WAIT_SECONDS
        return case

    def check(response: Any) -> None:
        if response.status_code >= 400:
            check_error_model(response)
        aim.used(response.status_code)

    statuses = send_generated(operation, mode, server.url, aimed, check)
    assert len(statuses) >= CASES_PER_OPERATION_MIN
    if mode is GenerationMode.POSITIVE:
        assert (name in NEVER_SUCCESSFUL) == all(status >= 300 for status in statuses), statuses
