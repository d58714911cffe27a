"""The commands and files of docs/how-to/warehouses.md and storage.md, as they are on the pages."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.readme import CATALOG_URI, pieces
from tests.fixtures.rest_client import RestClient
from tests.fixtures.waiting import wait_for
from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore
from tests.servers.moto import S3, moto_s3
from tests.servers.paths import ROOT

ENDPOINT = "http://127.0.0.1:9000"
SERVER_URI = CATALOG_URI.removesuffix("/catalog")
SECONDS_MAX = 120


@pytest.fixture(scope="module")
def page() -> dict[str, str]:
    return pieces("".join((ROOT / "docs" / "how-to" / name).read_text() for name in ("storage.md", "warehouses.md")))


@pytest.fixture(scope="module")
def s3(scratch: Path) -> Iterator[S3]:
    with moto_s3(scratch) as running:
        yield running


@pytest.fixture(scope="module")
def server(scratch: Path, page: dict[str, str], s3: S3) -> Iterator[Icecore]:
    """With the setting that the page names."""
    setting = f"ICECORE_WAREHOUSE_ENDPOINTS={ENDPOINT}"
    assert setting in (ROOT / "docs" / "how-to" / "warehouses.md").read_text()
    with icecore(scratch / "data", environment={"ICECORE_WAREHOUSE_ENDPOINTS": s3.endpoint}) as running:
        yield running


def test_s3_warehouse(server: Icecore, scratch: Path, page: dict[str, str], s3: S3) -> None:
    """The warehouse is created from the page's request and listed. PyIceberg writes and reads a table in it. Port, bucket and folder
    differ.
    """
    request = json.loads(page["minio"])
    assert ENDPOINT == request["storage-profile"]["endpoint"]
    (scratch / "profile.json").write_text(json.dumps({**request["storage-profile"], "endpoint": s3.endpoint, "bucket": s3.bucket}))
    (scratch / "credential.json").write_text(json.dumps(request["storage-credential"]))
    environment = clean_environment() | {
        "ICECORE_DATA_DIR": str(server.data), "PATH": os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"])),
    }  # fmt: skip
    assert "lake" in run(["bash", "-e", "-c", page["warehouse create"]], scratch, environment)
    local = page["create local"].replace("create lake", "create files").replace("/data/lake", str(scratch / "files"))
    assert "warehouse-id" in run(["bash", "-e", "-c", local], scratch, environment)
    program = page["s3 pyiceberg"].replace(CATALOG_URI, server.catalog_uri)
    assert "[{'name': 'Ada'}]\n" == run([sys.executable, "-c", program], scratch, clean_environment())


def test_warehouse_over_http(server: Icecore, scratch: Path, page: dict[str, str], s3: S3) -> None:
    """The three requests create a warehouse, and PyIceberg uses it."""
    request = json.loads(page["http request"])
    assert ENDPOINT == request["storage-profile"]["endpoint"]
    request["storage-profile"] |= {"endpoint": s3.endpoint, "bucket": s3.bucket}
    (scratch / "lake-request.json").write_text(json.dumps(request))

    def response(piece: str, **environment: str) -> Any:
        command = page[piece].replace(SERVER_URI, server.uri)
        return json.loads(run(["bash", "-e", "-c", command], scratch, clean_environment() | environment))

    created = response("http create")
    other = {**request, "warehouse-name": "other", "storage-profile": {**request["storage-profile"], "key-prefix": "other"}}
    (scratch / "warehouse.json").write_text(json.dumps(other))
    assert "other" == response("create request")["name"]
    assert created in response("http list")["warehouses"]
    assert created == response("http load", WAREHOUSE_ID=created["warehouse-id"])
    assert "password" not in json.dumps(created)
    program = page["s3 pyiceberg"].replace(CATALOG_URI, server.catalog_uri).replace('warehouse="lake"', f'warehouse="{created["name"]}"')
    assert "http-lake" in program
    assert "[{'name': 'Ada'}]\n" == run([sys.executable, "-c", program], scratch, clean_environment())
    with closing(RestClient(server.uri, created["name"])) as client:
        assert 200 == client.create_namespace("sales").status
        orders = client.create_table(["sales"], "orders")
        assert 200 == orders.status, orders.body
    (found,) = wait_for(lambda: response("http search", WAREHOUSE_ID=created["warehouse-id"])["tabulars"])
    assert {**found, "tabular-id": {"id": "019ab5…", "type": "table"}} == json.loads(page["search response"])["tabulars"][0]


def test_configuration_of_clients(server: Icecore, scratch: Path, page: dict[str, str]) -> None:
    """The page's commands set, remove and show it; clients receive what they leave. The warehouse is another, on local files."""
    server.create_warehouse("configured", {"type": "local", "directory": str(scratch / "configured")})
    environment = clean_environment() | {
        "ICECORE_DATA_DIR": str(server.data), "PATH": os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"])),
    }  # fmt: skip

    def config() -> tuple[dict[str, str], dict[str, str]]:
        found = json.loads(run(["curl", "-sS", f"{server.catalog_uri}/v1/config?warehouse=configured"], scratch, clean_environment()))
        assert "true" == found["defaults"].pop("rest-catalog-purge")
        assert found["overrides"]["prefix"] == found["defaults"].pop("prefix")
        return found["defaults"], found["overrides"]

    prefix = config()[1]
    shown = run(["bash", "-e", "-c", page["config set"].replace(" lake ", " configured ")], scratch, environment)
    assert "default   snapshot-loading-mode=refs\noverride  rest-page-size=500\n" == shown
    assert ({"snapshot-loading-mode": "refs"}, prefix | {"rest-page-size": "500"}) == config()
    shown = run(["bash", "-e", "-c", page["config unset"].replace(" lake ", " configured ")], scratch, environment)
    assert {"defaults": {}, "overrides": {"rest-page-size": "500"}} == json.loads(shown)
    command = page["config http"].replace(SERVER_URI, server.uri)
    shown = run(["bash", "-e", "-c", command], scratch, clean_environment() | {"WAREHOUSE_ID": prefix["prefix"]})
    assert {"defaults": {"snapshot-loading-mode": "refs"}, "overrides": {}} == json.loads(shown)
    assert ({"snapshot-loading-mode": "refs"}, prefix) == config()


def run(command: list[str], directory: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, cwd=directory, env=environment, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout
