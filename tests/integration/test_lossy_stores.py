"""Metadata files on an S3 server whose responses are lost: a write that was stored is not refused."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from uuid_utils.compat import uuid7

from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from tests.fixtures.catalog import context
from tests.fixtures.lossy_store_proxy import Fault, LossyStoreProxy
from tests.fixtures.object_stores import S3_CREDENTIAL, S3Server, s3_profile
from tests.fixtures.rest_client import SCHEMA, RestClient
from tests.fixtures.shared_server import SharedCatalog

TABLES = "/namespaces/a/tables"


@pytest.fixture
def store_proxy(s3_server: S3Server) -> Iterator[LossyStoreProxy]:
    """A proxy in front of the session's S3 server."""
    proxy = LossyStoreProxy(s3_server.endpoint)
    yield proxy
    proxy.close()


@pytest.fixture
def s3_client(shared_catalog: SharedCatalog, s3_server: S3Server, store_proxy: LossyStoreProxy) -> Iterator[RestClient]:
    """A client of a warehouse in a new bucket behind the proxy."""
    name = f"lossy-{uuid4().hex[:8]}"
    profile = s3_profile(s3_server) | {"endpoint": store_proxy.endpoint}
    command = CreateWarehouse(name, profile, S3_CREDENTIAL)
    shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), command))
    client = RestClient(shared_catalog.server.url, name)
    assert 200 == client.create_namespace("a").status
    yield client
    client.close()


@pytest.mark.parametrize("fault", ["lost", "error"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_file_that_was_kept_without_a_response_is_ours(
    s3_client: RestClient, store_proxy: LossyStoreProxy, fault: Fault, codec: str
) -> None:
    """The retry of the store's client finds the first write. The create and the commit succeed, and so does the repeated key."""
    properties = {"write.metadata.compression-codec": codec}
    create_key, commit_key = uuid7(), uuid7()
    store_proxy.fault = fault
    created = s3_client.call("POST", TABLES, {"name": "t", "schema": SCHEMA, "properties": properties}, key=create_key)
    assert 200 == created.status, created.body
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"x": "y"}}]}
    store_proxy.fault = fault
    committed = s3_client.call("POST", f"{TABLES}/t", commit, key=commit_key)
    assert 200 == committed.status, committed.body
    assert 2 == store_proxy.faults
    assert committed.replayable == s3_client.call("POST", f"{TABLES}/t", commit, key=commit_key).replayable
    assert 200 == s3_client.call("GET", f"{TABLES}/t").status


def test_other_bytes_under_the_name_are_no_response_for_good(s3_client: RestClient, store_proxy: LossyStoreProxy) -> None:
    """503, which is not stored for the key: the same request succeeds once the store works."""
    key = uuid7()
    store_proxy.fault = "changed"
    assert (503, "ServiceUnavailableException") == s3_client.call("POST", TABLES, {"name": "t", "schema": SCHEMA}, key=key).error
    assert 200 == s3_client.call("POST", TABLES, {"name": "t", "schema": SCHEMA}, key=key).status


def test_an_unreachable_store_is_503_with_its_reason(s3_client: RestClient, store_proxy: LossyStoreProxy) -> None:
    """For requests that write or read a file. A table is loaded from the log. Once the store works, the same requests succeed."""
    created = s3_client.call("POST", TABLES, {"name": "t", "schema": SCHEMA})
    assert 200 == created.status
    other = created.json["metadata"]["location"] + "-other/metadata/00000-a.metadata.json"
    requests = {
        TABLES: {"name": "u", "schema": SCHEMA},
        f"{TABLES}/t": {"requirements": [], "updates": [{"action": "set-properties", "updates": {"x": "y"}}]},
        "/namespaces/a/register": {"name": "r", "metadata-location": other},
    }
    store_proxy.is_away = True
    for path, body in requests.items():
        response = s3_client.call("POST", path, body)
        assert (503, "ServiceUnavailableException") == response.error
        assert "the connection was closed before a response" in response.message
        assert "1" == response.headers["retry-after"]
    assert 200 == s3_client.call("GET", f"{TABLES}/t").status
    store_proxy.is_away = False
    assert [200, 200, 404] == [s3_client.call("POST", path, body).status for path, body in requests.items()]
