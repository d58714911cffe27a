"""Valid and invalid requests generated from our own OpenAPI documents: no 5xx, and every error is an Iceberg error model."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

from icecore.api.openapi.documents import APIS, load_document
from tests.conformance.generated_requests import CASES_PER_OPERATION_MIN, check_error_model, send_generated
from tests.fixtures.catalog import CatalogServer
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


@pytest.fixture(scope="module")
def server(admin_dsn: str, template_database: str) -> Iterator[CatalogServer]:
    with shared_catalog(admin_dsn, template_database) as shared:
        yield shared


@pytest.fixture(scope="module")
def ids(server: CatalogServer) -> dict[str, str]:
    """Things that exist, by the names of path parameters."""
    (demo,) = requests.get(f"{server.url}/management/v1/warehouse", timeout=30).json()["warehouses"]
    response = requests.post(f"{server.url}/catalog/v1/demo/namespaces", json={"namespace": ["shop"]}, timeout=30)
    assert 200 == response.status_code
    events = requests.get(f"{server.url}/history/v1/events", timeout=30).json()["events"]
    return {"warehouse_id": demo["warehouse-id"], "event_id": events[-1]["id"], "type": "io.icecore.namespace.created.v1"}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("api", "method", "path"), OPERATIONS, ids=[f"{method} {path}" for _, method, path in OPERATIONS])
def test_every_response_is_a_right_one(
    server: CatalogServer, ids: dict[str, str], api: str, method: str, path: str, mode: GenerationMode
) -> None:
    operation = schemathesis.openapi.from_dict(DOCUMENTS[api])[path][method]

    def aimed(case: Any, draw: Any) -> Any:
        for name in case.path_parameters or {}:
            if name in ids and draw(st.integers(0, 9)) > 1:
                case.path_parameters[name] = ids[name]
        if "wait-seconds" in str(operation.query) and case.query is not None:
            case.query["wait-seconds"] = WAIT_SECONDS
        return case

    def check(response: Any) -> None:
        if response.status_code >= 400:
            check_error_model(response)

    statuses = send_generated(operation, mode, server.url, aimed, check)
    assert len(statuses) >= CASES_PER_OPERATION_MIN
