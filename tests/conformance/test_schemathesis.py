"""Valid and invalid requests generated from Iceberg's OpenAPI document: no 5xx, and every error is an Iceberg error model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
import yaml
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.conformance.generated_requests import CASES_PER_OPERATION_MIN, check_error_model, send_generated
from tests.fixtures.catalog import CatalogServer
from tests.fixtures.shared_catalog import shared_catalog

DOCUMENT = Path(__file__).parent / "openapi" / "rest-catalog-open-api.yaml"
WAREHOUSE = "demo"
NAMESPACE, TABLE, VIEW = "schemathesis", "orders", "recent_orders"

METHODS = ("get", "post", "delete", "head")
OPERATIONS = sorted(
    (method.upper(), path) for path, item in yaml.safe_load(DOCUMENT.read_text())["paths"].items() for method in METHODS if method in item
)

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}
VIEW_VERSION: dict[str, Any] = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "schema-id": 0,
    "summary": {},
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    "default-namespace": [NAMESPACE],
}


@pytest.fixture(scope="module")
def document() -> Any:
    return schemathesis.openapi.from_path(str(DOCUMENT))


@pytest.fixture(scope="module")
def server(admin_dsn: str, template_database: str) -> Iterator[CatalogServer]:
    with shared_catalog(admin_dsn, template_database) as shared:
        yield shared


@pytest.fixture
def populated(server: CatalogServer) -> str:
    """The server, with a namespace, a table and a view, so that requests get past 404."""
    base = f"{server.url}/catalog/v1/{WAREHOUSE}"
    for address, body in (
        (f"{base}/namespaces", {"namespace": [NAMESPACE]}),
        (f"{base}/namespaces/{NAMESPACE}/tables", {"name": TABLE, "schema": SCHEMA}),
        (f"{base}/namespaces/{NAMESPACE}/views", {"name": VIEW, "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}),
    ):
        assert requests.post(address, json=body, timeout=30).status_code in (200, 409)
    return f"{server.url}/catalog"


def aimed(case: Any, draw: Any) -> Any:
    """`case` with names that mostly exist."""
    existing = {"prefix": WAREHOUSE, "namespace": NAMESPACE, "table": TABLE, "view": VIEW}
    for name in case.path_parameters or {}:
        if name in existing and draw(st.integers(0, 9)) > 1:
            case.path_parameters[name] = existing[name]
    return case


TOKENS = "/v1/oauth/tokens"


def check_response(response: Any, method: str) -> None:
    if response.status_code < 400:
        return
    if method == "HEAD":
        assert b"" == response.content
        return
    if urlsplit(response.request.url).path.endswith(TOKENS) and response.status_code in (400, 401):
        # The specification's OAuthError.
        assert {"error", "error_description"} <= response.json().keys()
        assert response.json()["error"] in ("unsupported_grant_type", "invalid_request")
        return
    check_error_model(response)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{method} {path}" for method, path in OPERATIONS])
def test_every_response_is_a_right_one(document: Any, populated: str, method: str, path: str, mode: GenerationMode) -> None:
    """No 5xx, and an Iceberg error model with every 4xx, for served and other operations, with enough cases of each kind."""
    statuses = send_generated(document[path][method], mode, populated, aimed, lambda response: check_response(response, method))
    assert len(statuses) >= CASES_PER_OPERATION_MIN
