"""Warehouses over HTTP: created, listed and loaded in Lakekeeper's format, within what the operator permits."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest
from uuid_utils.compat import uuid7

from icecore.approval.contract import Hold, Refuse
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.repeating_servers import CANARY, without_canary
from tests.fixtures.rest_client import RestClient, RestResponse
from tests.integration.approval.judging import Judge, asking
from tests.integration.approval.program import serving

ENDPOINT = "http://127.0.0.1:9"
S3 = {"type": "s3", "bucket": "lake", "region": "mars-1", "endpoint": ENDPOINT, "path-style-access": True, "flavor": "s3-compat"}
KEY = {"type": "s3", "credential-type": "access-key", "access-key-id": f"id-{CANARY}", "secret-access-key": CANARY}
GCS = {"type": "gcs", "bucket": "lake"}
ADLS = {"type": "adls", "account-name": "account", "filesystem": "lake"}
MISSING = (400, "MissingCredentialError")
PROJECT = str(UUID(int=0))
NOWHERE: dict[str, Any] = {"warehouse_endpoints": (ENDPOINT,), "skip_storage_validation": True}
"""Settings of a server that accepts a store that does not exist."""


class Management(RestClient):
    """Requests to `/management/v1/warehouse`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._root = "/management/v1/warehouse"

    def create(self, name: str, profile: Any, credential: Any = None, *, key: object = None, **more: Any) -> RestResponse:
        body = {"warehouse-name": name, "storage-profile": profile, **more}
        return self.call_root("POST", "", body if credential is None else body | {"storage-credential": credential}, key=key)

    def create_together(self, name: str, profile: Any, *, key: object, times: int) -> list[RestResponse]:
        """Sends the same request concurrently on as many connections."""
        with ThreadPoolExecutor(times) as threads:
            return list(threads.map(lambda _: self.create(name, profile, key=key), range(times)))

    def names(self) -> list[str]:
        return [each["name"] for each in self.call_root("GET", "").json["warehouses"]]


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """Where clients may create local warehouses."""
    directory = tmp_path / "lakes"
    directory.mkdir()
    return directory


@pytest.fixture
def server(database: str, tmp_path: Path, roots: Path) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "demo", local_warehouse_roots=(roots,), **NOWHERE) as served:
        yield served


@pytest.fixture
def management(server: CatalogServer) -> Iterator[Management]:
    client = Management(server.url)
    yield client
    client.close()


def local(directory: Path) -> dict[str, Any]:
    return {"type": "local", "directory": str(directory)}


def test_a_warehouse_is_created_listed_loaded_and_used(management: Management, server: CatalogServer, roots: Path) -> None:
    """The three responses are equal, with every field that Lakekeeper requires and its type."""
    created = management.create("lake", local(roots / "lake"))
    assert 201 == created.status
    created_warehouse = created.json
    assert created_warehouse == {
        "id": created_warehouse["warehouse-id"],
        "warehouse-id": str(UUID(created_warehouse["warehouse-id"])),
        "name": "lake",
        "project-id": PROJECT,
        "storage-profile": local(roots / "lake") | {"allowed-locations": []},
        "delete-profile": {"type": "hard"},
        "purge-default": False,
        "status": "active",
        "protected": False,
        "managed-by": "self-managed",
        "allowed-format-versions": [1, 2, 3],
        "updated-at": None,
        "exact-names": False,
        "read-only": False,
        "config": {"defaults": {}, "overrides": {}},
    }
    assert created_warehouse == management.call_root("GET", f"/{created_warehouse['warehouse-id']}").json
    assert ["demo", "lake"] == sorted(management.names())
    assert created_warehouse in management.call_root("GET", "").json["warehouses"]
    client = RestClient(server.url, "lake")
    assert created_warehouse["warehouse-id"] == client.call_root("GET", "/config?warehouse=lake").json["overrides"]["prefix"]
    assert 200 == client.create_namespace("a").status
    table = client.create_table(["a"], "t")
    assert table.json["metadata-location"].startswith(f"file://{roots}/lake/")
    assert created.position < table.position
    client.close()


def test_what_lakekeeper_s_clients_send_by_default_is_taken(management: Management) -> None:
    """Every field with the value that is supported. The credential is shown by its type only."""
    body = {
        "delete-profile": {"type": "hard"},
        "purge-default": False,
        "project-id": PROJECT,
        "allowed-format-versions": [3, 1, 2],
        "default-format-version": 2,
        "managed-by": "self-managed",
        "exact-names": True,
    }
    created = management.create("lake", S3 | {"sts-enabled": False}, KEY, **body)
    assert 201 == created.status, created.body
    assert {"type": "s3", "credential-type": "access-key"} == created.json["storage-credential-type"]
    assert created.json["exact-names"]
    assert created.json == management.call_root("GET", f"/{created.json['id']}", headers={"x-project-id": PROJECT}).json
    assert (
        created.json
        in management.call_root("GET", f"?projectId={PROJECT}&warehouseStatus=inactive&warehouseStatus=active").json["warehouses"]
    )
    assert [] == management.call_root("GET", "?warehouseStatus=inactive").json["warehouses"]


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"delete-profile": {"type": "soft"}}, (400, "BadRequestException"), "delete-profile.expiration-seconds"),
        ({"delete-profile": {"type": "soft", "expiration-seconds": 0}}, (400, "BadRequestException"), "delete-profile"),
        ({"delete-profile": {"type": "never"}}, (400, "BadRequestException"), "delete-profile.type"),
        ({"delete-profile": "hard"}, (400, "BadRequestException"), "delete-profile"),
        ({"allowed-format-versions": ["2"]}, (400, "BadRequestException"), "allowed-format-versions"),
        ({"managed-by": "instance-admin"}, (406, "UnsupportedOperationException"), "managed-by"),
        ({"project-id": str(UUID(int=1))}, (404, "NoSuchProjectException"), str(UUID(int=1))),
        ({"storage-credentials": KEY}, (400, "BadRequestException"), "storage-credentials"),
        ({"warehouse-name": "a/b"}, (400, "BadRequestException"), "'/'"),
        ({"warehouse-name": None}, (400, "BadRequestException"), "warehouse-name"),
        ({"warehouse-name": "DEMO"}, (409, "AlreadyExistsException"), "DEMO"),
        ({"storage-profile": {"type": "memory"}}, (400, "BadRequestException"), "type must be one of"),
        (
            {"storage-profile": S3 | {"storage-layout": {"type": "full-hierarchy"}}},
            (406, "UnsupportedOperationException"),
            "full-hierarchy",
        ),
        ({"storage-profile": S3}, MISSING, "ICECORE_WAREHOUSES_WITHOUT_CREDENTIAL"),
        ({"storage-profile": S3, "storage-credential": None}, MISSING, "A storage-credential is required"),
        ({"storage-profile": GCS}, MISSING, "A storage-credential is required for the storage-profile gcs: one of the type gcs"),
        ({"storage-profile": ADLS}, MISSING, "A storage-credential is required for the storage-profile adls: one of the type az"),
        (
            {"storage-profile": S3 | {"endpoint": "http://127.0.0.1:10"}, "storage-credential": KEY},
            (403, "ForbiddenException"),
            "ICECORE_WAREHOUSE_ENDPOINTS",
        ),
        (
            {"storage-profil": S3},
            (400, "BadRequestException"),
            "Unknown field 'storage-profil'; did you mean 'storage-profile'?",
        ),
        (
            {"storage-profile": {**S3, "buckt": "lake"}},
            (400, "BadRequestException"),
            "Invalid storage-profile: 'buckt': no such field; did you mean 'bucket'?",
        ),
        ({"storage-profile": S3, "storage-credential": {**KEY, "type": "az"}}, (400, "BadRequestException"), "storage-credential"),
    ],
)
def test_what_is_not_served_is_refused(
    management: Management, roots: Path, more: dict[str, Any], error: tuple[int, str], message: str
) -> None:
    """With an error type and the field's name. Nothing is created."""
    refused = management.call_root("POST", "", {"warehouse-name": "lake", "storage-profile": local(roots / "lake"), **more})
    assert error == refused.error
    assert message in refused.message
    assert ["demo"] == management.names()


@pytest.mark.parametrize(
    ("path", "headers", "error"),
    [
        ("/nobody", {}, (404, "NoSuchWarehouseException")),
        (f"/{UUID(int=7)}", {}, (404, "NoSuchWarehouseException")),
        ("?warehouseStatus=gone", {}, (400, "BadRequestException")),
        (f"?projectId={UUID(int=1)}", {}, (404, "NoSuchProjectException")),
        ("?projectId=x&projectId=y", {}, (400, "BadRequestException")),
        ("?status=active", {}, (400, "BadRequestException")),
        ("", {"x-project-id": str(UUID(int=1))}, (404, "NoSuchProjectException")),
        (f"/{UUID(int=7)}", {"x-project-id": str(UUID(int=1))}, (404, "NoSuchProjectException")),
    ],
)
def test_what_is_not_there_is_not_found(management: Management, path: str, headers: dict[str, str], error: tuple[int, str]) -> None:
    assert error == management.call_root("GET", path, headers=headers).error


def test_a_name_instead_of_an_id_gets_a_hint_where_ids_are(management: Management) -> None:
    """The warehouse `demo` exists."""
    for route in ("/demo", "/demo/statistics"):
        assert "demo (must be an id; GET /management/v1/warehouse lists ids)" in management.call_root("GET", route).message


def test_none_is_created_in_another_project(management: Management, roots: Path) -> None:
    """A header names the project, as with Lakekeeper's clients."""
    body = {"warehouse-name": "lake", "storage-profile": local(roots / "lake")}
    refused = management.call_root("POST", "", body, headers={"x-project-id": str(UUID(int=1))})
    assert (404, "NoSuchProjectException") == refused.error
    assert ["demo"] == management.names()


def test_local_folders_are_the_operator_s_to_permit(management: Management, roots: Path, tmp_path: Path) -> None:
    """Neither folders beside a root, nor targets of links in it. `..` is not a valid segment."""
    (roots / "out").symlink_to(tmp_path)
    for directory in (tmp_path / "other", roots, roots / "out" / "other"):
        refused = management.create("lake", local(directory))
        assert (403, "ForbiddenException") == refused.error
        assert "ICECORE_LOCAL_WAREHOUSE_ROOTS" in refused.message
        assert "icecore warehouse create" in refused.message
    assert (400, "BadRequestException") == management.create("lake", local(roots / ".." / "other")).error
    allowed = local(roots / "lake") | {"allowed-locations": [f"file://{tmp_path}/other"]}
    assert (403, "ForbiddenException") == management.create("lake", allowed).error
    assert ["demo"] == management.names()


def test_without_settings_no_folder_is_permitted(database: str, tmp_path: Path, roots: Path) -> None:
    with served_catalog(database, tmp_path / "demo") as served:
        client = Management(served.url)
        assert (403, "ForbiddenException") == client.create("lake", local(roots / "lake")).error
        assert (403, "ForbiddenException") == client.create("lake", S3, KEY).error
        client.close()


def test_a_key_gets_its_response_again(management: Management, server: CatalogServer, roots: Path) -> None:
    """Byte for byte. Another request with the key is refused. A refusal is stored too."""
    key, other = uuid7(), uuid7()
    first = management.create("lake", local(roots / "lake"), key=key)
    assert 201 == first.status
    assert first.replayable == management.create("lake", local(roots / "lake"), key=key).replayable
    assert (422, "UnprocessableEntityException") == management.create("lake", local(roots / "other"), key=key).error
    taken = management.create("lake", local(roots / "lake"), key=other)
    assert (409, "AlreadyExistsException") == taken.error
    assert taken.body == management.create("lake", local(roots / "lake"), key=other).body
    together = management.create_together("lake2", local(roots / "lake2"), key=uuid7(), times=4)
    assert {201} == {each.status for each in together}
    assert 1 == len({each.body for each in together})
    assert ["demo", "lake", "lake2"] == sorted(management.names())


def test_what_a_key_keeps_tells_no_weak_credential(management: Management, server: CatalogServer) -> None:
    """A weak credential could be guessed from a plain hash of the request."""

    def plain_hash(target: list[Any], body: bytes) -> bytes:
        encoded = orjson.dumps(target)
        return hashlib.sha256(len(encoded).to_bytes(8, "big") + encoded + body).digest()

    warehouse_body = json.dumps({"warehouse-name": "lake", "storage-profile": S3, "storage-credential": KEY}).encode()
    assert 201 == management.call_root("POST", "", warehouse_body, key=uuid7()).status
    client = RestClient(server.url)
    prefix = client.call_root("GET", "/config?warehouse=demo").json["overrides"]["prefix"]
    body = json.dumps({"namespace": ["a"]}).encode()
    assert 200 == client.call("POST", "/namespaces", body, key=uuid7()).status
    client.close()
    with psycopg.connect(server.dsn) as connection:
        kept = dict(connection.execute("select operation, request_hash from icecore.idempotency").fetchall())
    assert plain_hash(["createNamespace", prefix, [], []], body) == bytes(kept["createNamespace"])
    assert plain_hash(["createWarehouse", None, [], []], warehouse_body) != bytes(kept["createWarehouse"])


def test_a_credential_of_a_warehouse_that_is_not_created_is_destroyed(database: str, tmp_path: Path) -> None:
    """It is stored before a hook is asked. That of a created warehouse stays."""
    judge = Judge()
    with served_catalog(database, tmp_path / "demo", prepare=asking(judge), **NOWHERE) as served:
        client, key = Management(served.url), uuid7()
        for verdict in (Refuse("no"), Hold("somebody must look", 60.0)):
            judge.always(verdict)
            assert (409, "ChangeRefusedException") == client.create("lake", S3, KEY).error
        refused = client.create("lake", S3, KEY, key=key)
        judge.say = None
        assert 201 == client.create("lake", S3, KEY).status
        assert refused.body == client.create("lake", S3, KEY, key=key).body
        client.close()
    with psycopg.connect(database) as connection:
        stored, kept = connection.execute("select count(*), count(ciphertext) from icecore.secrets").fetchall()[0]
    assert (4, 1) == (stored, kept)


def test_a_credential_that_a_killed_creation_left_behind_is_destroyed_an_hour_later(database: str, tmp_path: Path) -> None:
    """By the next creation. Those of creations in progress and of warehouses stay."""
    with served_catalog(database, tmp_path / "demo", **NOWHERE) as served:
        client = Management(served.url)
        assert 201 == client.create("old", S3, KEY).status
        with psycopg.connect(database, autocommit=True) as connection:
            insert = (
                "insert into icecore.secrets (id, project_id, key_id, nonce, ciphertext, created_at) "
                "select %s, project_id, key_id, nonce, ciphertext, now() - %s::interval from icecore.secrets limit 1"
            )
            left, fresh = uuid7(), uuid7()
            connection.execute("update icecore.secrets set created_at = now() - interval '1 year'")
            connection.execute(insert, (left, "61 minutes"))
            connection.execute(insert, (fresh, "59 minutes"))
            assert 201 == client.create("new", S3 | {"bucket": "new"}, KEY).status
            destroyed = connection.execute("select id from icecore.secrets where ciphertext is null").fetchall()
            assert 4 == connection.execute("select count(*) from icecore.secrets").fetchall()[0][0]
        client.close()
    assert [left] == [secret_id for (secret_id,) in destroyed]


async def test_no_response_log_or_event_holds_a_credential(database: str, tmp_path: Path) -> None:
    """Neither for a created nor for a refused warehouse, at any log level."""
    log = tmp_path / "log"
    bodies: list[Any] = [
        {"warehouse-name": "lake", "storage-profile": S3, "storage-credential": KEY},
        {"warehouse-name": "lake", "storage-profile": S3, "storage-credential": KEY},
        {"warehouse-name": "two", "storage-profile": S3, "storage-credential": {**KEY, "type": CANARY}},
        {"warehouse-name": "two", "storage-profile": S3, "storage-credential": {**KEY, "more": CANARY}},
        {"warehouse-name": "two", "storage-profile": S3, "storage-credential": {**KEY, "access-key-id": [CANARY]}},
        {"warehouse-name": "two", "storage-profile": S3 | {"endpoint": f"http://u:{CANARY}@127.0.0.1"}, "storage-credential": KEY},
        {"warehouse-name": "two", "storage-profile": S3 | {"sts-session-tags": {"password": CANARY}}, "storage-credential": KEY},
        {"warehouse-name": "two", "storage-profile": S3 | {"endpoint": "http://10.0.0.1"}, "storage-credential": KEY},
        json.dumps({"storage-credential": KEY}).encode()[:-2],
    ]

    def ask(url: str) -> list[RestResponse]:
        client = Management(url)
        responses = [client.call_root("POST", "", body, key=key) for body in bodies for key in (None, uuid7())]
        lake = f"/{responses[0].json['id']}"
        responses += [client.call_root("POST", f"{lake}/storage-credential", {"new-storage-credential": KEY | {"external-id": CANARY}})]
        responses += [client.call_root("POST", f"{lake}/storage", {"storage-profile": S3, "storage-credential": KEY}, key=uuid7())]
        responses += [client.call_root("POST", f"{lake}/storage", {"storage-profile": S3, "storage-credential": {**KEY, "more": CANARY}})]
        responses += [client.call_root("GET", ""), client.call_root("GET", lake)]
        client.close()
        catalog = RestClient(url, "lake")
        responses += [catalog.create_namespace("a"), catalog.create_table(["a"], "t"), catalog.call_root("GET", "/config?warehouse=lake")]
        catalog.close()
        return responses

    settings = {"ICECORE_LOG_LEVEL": "debug", "ICECORE_WAREHOUSE_ENDPOINTS": f"http://other:9000, {ENDPOINT}"}
    settings["ICECORE_SKIP_STORAGE_VALIDATION"] = "true"
    with serving(database, log, **settings) as (url, _):
        responses = await asyncio.to_thread(ask, url)
    assert [201, 409, 409, 409] == [response.status for response in responses[:4]]
    assert {400, 403} == {response.status for response in responses[4 : 2 * len(bodies)]}
    assert [200, 200, 400] == [response.status for response in responses[2 * len(bodies) :][:3]]
    assert 503 == responses[-2].status, "the store does not respond"
    for response in responses:
        without_canary("a response", response.body.decode() + str(response.headers))
    without_canary("the log", log.read_text())
    with psycopg.connect(database) as connection:
        for query in (
            "select e::text, convert_from(state, 'utf8') from icecore.events e",
            "select convert_from(body, 'utf8') from icecore.idempotency",
        ):
            for row in connection.execute(query.encode()):
                without_canary("the database", str(row))
