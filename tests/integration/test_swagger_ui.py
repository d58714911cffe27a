"""The OpenAPI documents over HTTP, and Swagger UI in a real browser."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from icecore.api.openapi import swagger_ui
from icecore.api.openapi.documents import APIS, load_document
from tests.fixtures.catalog import CatalogServer
from tests.fixtures.shared_catalog import shared_catalog
from tests.servers.chromium import FLAGS, chromium

DOCUMENT_SECONDS_MAX = 120
NOWHERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""The browser reaches the catalog alone."""


@pytest.fixture(scope="module")
def server(admin_dsn: str, template_database: str) -> Iterator[CatalogServer]:
    with shared_catalog(admin_dsn, template_database) as shared:
        yield shared


@pytest.mark.parametrize("api", APIS)
def test_a_document_is_served(server: CatalogServer, api: str) -> None:
    address = f"{server.url}/api-docs/{api}/v1/openapi.json"
    response = requests.get(address, timeout=30)
    assert (200, "application/json", load_document(api)) == (response.status_code, response.headers["Content-Type"], response.json())
    assert 200 == requests.head(address, timeout=30).status_code


def test_the_page_is_found_without_its_slash(server: CatalogServer) -> None:
    response = requests.get(f"{server.url}/swagger-ui", timeout=30)
    assert (200, f"{server.url}/swagger-ui/") == (response.status_code, response.url)
    assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    assert "text/html" in response.headers["Content-Type"]


@pytest.mark.parametrize("name", ["index.html", "initializer.js", "swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"])
def test_a_file_is_served_with_its_type(server: CatalogServer, name: str) -> None:
    response = requests.get(f"{server.url}/swagger-ui/{name}", timeout=30)
    assert 200 == response.status_code
    assert response.content
    kind = {"html": "text/html", "js": "javascript", "css": "text/css", "png": "image/png"}[name.rpartition(".")[2]]
    assert kind in response.headers["Content-Type"]


@pytest.mark.parametrize("name", ["VERSION", "..%2F__init__.py", "%2e%2e", "documents.py", "management.json", "%00"])
def test_no_other_file_is_served(server: CatalogServer, name: str) -> None:
    response = requests.get(f"{server.url}/swagger-ui/{name}", timeout=30)
    assert response.status_code in (400, 404)
    assert response.json()["error"]["type"] in ("BadRequestException", "NotFoundException")


def test_without_the_package_the_page_says_what_to_install(server: CatalogServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swagger_ui, "_PACKAGE", "icecore_missing_package")
    swagger_ui._directory.cache_clear()
    try:
        response = requests.get(f"{server.url}/swagger-ui/", timeout=30)
    finally:
        swagger_ui._directory.cache_clear()
    assert 404 == response.status_code
    assert response.json()["error"]["message"] == "Swagger UI is not installed: install Icecore with the extra swagger-ui"


def test_a_browser_shows_the_operations(server: CatalogServer, tmp_path: Path) -> None:
    """It requests nothing from anywhere else: no other name resolves."""
    page = f"{server.url}/swagger-ui/"
    command = [chromium(), *FLAGS, f"--user-data-dir={tmp_path}", NOWHERE, "--virtual-time-budget=30000", "--dump-dom", page]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=DOCUMENT_SECONDS_MAX, check=True).stdout
    for summary in ("List warehouses", "Approve and execute a change", "Load the JSON Schema of a type of events"):
        assert summary in shown
    assert "Failed to load" not in shown
