"""Warehouses with Lakekeeper's credential of Cloudflare R2, on a store that is as R2 is: S3 with an access key."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.object_stores import S3Server, s3_profile
from tests.fixtures.rest_client import SCHEMA, set_properties
from tests.integration.test_storage_updates import KeyedStore
from tests.integration.test_warehouse_changes import Management

SECRETS = ("secret-of-one", "token-of-one", "secret-of-two", "token-of-two")
KIND = {"type": "s3", "credential-type": "cloudflare-r2"}


def credential(key: str) -> dict[str, str]:
    """As in Lakekeeper's documentation."""
    return {**KIND, "access-key-id": key, "secret-access-key": f"secret-of-{key}", "token": f"token-of-{key}", "account-id": "0123abcd"}


@pytest.fixture
def store(s3_server: S3Server) -> Iterator[KeyedStore]:
    with closing(KeyedStore(s3_server.endpoint)) as store:
        yield store


@pytest.fixture
def server(database: str, tmp_path: Path, store: KeyedStore) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "demo", warehouse_endpoints=(store.endpoint,), jobs=False) as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[Management]:
    with closing(Management(server.url)) as client:
        client.warehouse = "lake"
        yield client


@pytest.fixture
def profile(s3_server: S3Server, store: KeyedStore) -> dict[str, Any]:
    """With the endpoint as Cloudflare shows it, with the bucket, and without what Lakekeeper sets itself."""
    given = s3_profile(s3_server)
    return {
        "type": "s3",
        "bucket": given["bucket"],
        "region": "weur",
        "key-prefix": "lake",
        "endpoint": f"{store.endpoint}/{given['bucket']}",
        "path-style-access": True,
    }


def created(client: Management, profile: dict[str, Any], credential: dict[str, str]) -> Any:
    response = client.call_management("POST", "", {"warehouse-name": "lake", "storage-profile": profile, "storage-credential": credential})
    assert 201 == response.status, response.body
    client.prefix = response.json["warehouse-id"]
    return response.json


def test_a_warehouse_is_created_and_used_with_the_key(
    client: Management, profile: dict[str, Any], store: KeyedStore, server: CatalogServer
) -> None:
    """The flavor and `sts-enabled` are set as Lakekeeper sets them. Nothing that is secret is shown or stored in plain text."""
    warehouse = created(client, profile | {"sts-enabled": True, "flavor": "aws", "assume-role-arn": None}, credential("one"))
    shown = warehouse["storage-profile"]
    assert ("s3-compat", True, store.endpoint) == (shown["flavor"], shown["sts-enabled"], shown["endpoint"])
    assert KIND == warehouse["storage-credential-type"] == client.call_warehouse("GET").json["storage-credential-type"]
    assert ["storage-profile: sts-enabled has no effect: Icecore does not vend credentials yet"] == warehouse["warnings"]
    assert 200 == client.create_namespace("n").status
    assert 200 == client.create_table(["n"], "t").status
    assert 200 == client.commit(["n"], "t", set_properties(k="v")).status
    assert {"one"} == {*store.used}
    with psycopg.connect(server.dsn) as connection:
        stored = str(connection.execute("select state from icecore.events").fetchall())
        stored += str(connection.execute("select * from icecore.secrets").fetchall())
        stored += str(connection.execute("select to_jsonb(w)::text from icecore.warehouses w").fetchall())
    assert not [secret for secret in SECRETS if secret in stored + str(warehouse)]
    config = client.call_root("GET", "/config?warehouse=lake").body.decode()
    assert not [secret for secret in SECRETS if secret in config]


def test_it_is_changed_to_and_from_other_credentials(client: Management, profile: dict[str, Any], store: KeyedStore) -> None:
    """By a change of the credential, which leaves the profile as it is, and by one of the storage."""
    key = {"type": "s3", "credential-type": "access-key", "access-key-id": "key", "secret-access-key": "secret"}
    before = created(client, profile, key)["storage-profile"]
    assert ("aws", False) == (before["flavor"], before["sts-enabled"])
    changed = client.call_warehouse("POST", "/storage-credential", {"new-storage-credential": credential("one")})
    assert (200, KIND, before) == (changed.status, changed.json["storage-credential-type"], changed.json["storage-profile"])
    changed = client.call_warehouse("POST", "/storage", {"storage-profile": profile, "storage-credential": credential("two")})
    assert (200, KIND, "s3-compat") == (
        changed.status,
        changed.json["storage-credential-type"],
        changed.json["storage-profile"]["flavor"],
    )
    store.revoked |= {"key", "one"}
    assert 200 == client.create_namespace("n").status
    assert 200 == client.call("POST", "/namespaces/n/tables", {"name": "t", "schema": SCHEMA}).status
    changed = client.call_warehouse("POST", "/storage-credential", {"new-storage-credential": {**key, "access-key-id": "new"}})
    assert (200, "access-key") == (changed.status, changed.json["storage-credential-type"]["credential-type"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"endpoint": None}, "a credential of the type cloudflare-r2 needs endpoint"),
        ({"flavor": "r2"}, "flavor"),
        ({"type": "gcs"}, "no such field"),
    ],
)
def test_a_profile_that_r2_cannot_have_is_refused(client: Management, profile: dict[str, Any], changed: dict[str, Any], said: str) -> None:
    """Nothing is created."""
    body = {"warehouse-name": "lake", "storage-profile": profile | changed, "storage-credential": credential("one")}
    refused = client.call_management("POST", "", body)
    assert (400, "BadRequestException") == refused.error
    assert said in refused.message
    assert ["demo"] == [each["name"] for each in client.call_management("GET", "").json["warehouses"]]
