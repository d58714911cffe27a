"""What single engines need: a base address per warehouse, folders of a staged table, and a configuration that replaces no key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from uuid_utils.compat import uuid7

from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from tests.fixtures.catalog import context
from tests.fixtures.object_stores import S3_CREDENTIAL, S3Server, s3_profile
from tests.fixtures.repeating_servers import CANARY
from tests.fixtures.rest_client import SCHEMA, RestClient
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog

TABLES = "/namespaces/a/tables"


class BaseAddress(RestClient):
    """Requests below `/catalog/w/<warehouse>/v1`."""

    def __init__(self, client: RestClient, url: str) -> None:
        super().__init__(url, client.warehouse)
        self.at(f"/catalog/w/{client.warehouse}/v1")

    def at(self, root: str) -> None:
        """Sends the requests below that path."""
        self._root = root


@pytest.fixture
def address(client: RestClient, shared_catalog: SharedCatalog) -> Iterator[BaseAddress]:
    opened = BaseAddress(client, shared_catalog.server.url)
    yield opened
    opened.close()


def test_the_base_address_of_a_warehouse_needs_no_prefix(address: BaseAddress, client: RestClient) -> None:
    """Several warehouses exist. Every operation is the same with the prefix and without."""
    assert 400 == client.call_root("GET", TABLES).status
    assert 200 == address.call_root("POST", TABLES, {"name": "t", "schema": SCHEMA}).status
    assert ["t"] == client.table_names("a")
    loaded = address.call_root("GET", f"{TABLES}/t")
    assert loaded.body == address.call("GET", f"{TABLES}/t").body == client.call("GET", f"{TABLES}/t").body
    assert 204 == address.call_root("DELETE", f"{TABLES}/t").status
    assert [] == client.table_names("a")


def test_the_base_address_configures_its_warehouse(address: BaseAddress, client: RestClient, warehouse: FreshWarehouse) -> None:
    """`warehouse` may be left out, name the same warehouse, also by its id, and set a position."""
    expected = client.call_root("GET", f"/config?warehouse={warehouse.name}").json
    position = client.create_namespace("b").position
    for query in ("", f"?warehouse={warehouse.name}", f"?warehouse={warehouse.id}"):
        assert expected == address.call_root("GET", f"/config{query}").json
    past = address.call_root("GET", f"/config?warehouse={warehouse.name}@{position}").json
    assert f"{warehouse.id}@{position}" == past["overrides"]["prefix"]


def test_another_warehouse_than_that_of_the_address_is_refused(address: BaseAddress, shared_catalog: SharedCatalog) -> None:
    """In `/v1/config` and as the prefix of a request."""
    other = shared_catalog.new_warehouse()
    for path in (f"/config?warehouse={other.name}", f"/{other.id}{TABLES}"):
        refused = address.call_root("GET", path)
        assert (400, "BadRequestException") == refused.error
        assert f"the base path already names warehouse '{address.warehouse}'" in refused.message


def test_the_base_address_may_name_a_past_state(address: BaseAddress, client: RestClient, shared_catalog: SharedCatalog) -> None:
    position = client.create_table(["a"], "t").position
    assert 204 == client.drop_table(["a"], "t").status
    past = BaseAddress(client.at(position), shared_catalog.server.url)
    assert 200 == past.call_root("GET", f"{TABLES}/t").status
    assert 406 == past.call_root("DELETE", f"{TABLES}/t").status
    assert 404 == address.call_root("GET", f"{TABLES}/t").status
    past.close()


def test_an_address_of_a_past_state_never_reads_or_writes_the_present(
    address: BaseAddress, client: RestClient, warehouse: FreshWarehouse
) -> None:
    """Whatever the client adds: the warehouse's name without a position, or the prefix of its present."""
    position = client.create_namespace("b").position
    client.create_namespace("c")
    pinned = f"/catalog/w/{warehouse.name}@{position}/v1"
    present, past = f"/{warehouse.id}/namespaces", [["a"], ["b"]]
    assert [["a"], ["b"], ["c"]] == client.call("GET", "/namespaces").json["namespaces"]
    address.at(pinned)
    for _ in range(2):
        # The second response may come from a cache.
        assert past == address.call_root("GET", present).json["namespaces"]
    assert [["a"], ["b"], ["c"]] == client.call("GET", "/namespaces").json["namespaces"]
    assert f"{warehouse.id}@{position}" == address.call_root("GET", f"/config?warehouse={warehouse.name}").json["overrides"]["prefix"]
    assert 404 == address.call_root("GET", f"{present}/c").status
    assert 406 == address.call_root("POST", present, {"namespace": ["d"]}).status
    for query in (f"/config?warehouse={warehouse.name}@{position - 1}", f"/{warehouse.id}@{position - 1}/namespaces"):
        refused = address.call_root("GET", query)
        assert (400, "BadRequestException") == refused.error
        assert f"the base path already names the past state '{warehouse.id}@{position}'" in refused.message


def test_a_key_is_that_of_one_request_under_every_address(address: BaseAddress, client: RestClient) -> None:
    """A retry through another address is the same request."""
    key, body = uuid7(), {"name": "t", "schema": SCHEMA}
    created = client.call("POST", TABLES, body, key=key)
    assert 200 == created.status
    assert created.replayable == address.call_root("POST", TABLES, body, key=key).replayable


def test_a_staged_table_on_local_files_has_its_folders(client: RestClient, warehouse: FreshWarehouse) -> None:
    """DuckDB writes to a staged table, and creates no folder. No file is written."""
    staged = client.create_table(["a"], "t", **{"stage-create": True})
    location = Path(staged.json["metadata"]["location"].removeprefix("file://"))
    assert location.is_relative_to(warehouse.directory)
    assert {location / "data", location / "metadata"} == {*location.iterdir()}
    assert [] == [path for path in location.rglob("*") if path.is_file()]


def test_clickhouse_drops_a_table_with_200(client: RestClient) -> None:
    """ClickHouse takes 204 for a failure. Other clients get 204, as the specification says."""
    for agent, status in (("ClickHouse/26.9.2.1", 200), ("Apache-HttpClient/5.4", 204)):
        assert 200 == client.create_table(["a"], "t").status
        assert status == client.call("DELETE", f"{TABLES}/t", headers={"User-Agent": agent}).status


def test_a_location_without_a_scheme_is_a_path_in_the_warehouse_s_store(client: RestClient, warehouse: FreshWarehouse) -> None:
    """ClickHouse sends it so. The same rules apply."""
    created = client.create_table(["a"], "t", location=f"{warehouse.directory}/x/t/")
    assert f"{warehouse.base}/x/t" == created.json["metadata"]["location"]
    for outside in ("/etc/t", f"{warehouse.directory}/../t", "//host/t", f"{warehouse.directory}"):
        assert (400, "BadRequestException") == client.create_table(["a"], "u", location=outside).error


TYPES = ({"catalog-type": "rest"}, {"catalog-impl": "org.apache.iceberg.rest.RESTCatalog"})
CONNECTOR = {"catalog-name": "icecore", "catalog-database": "a", "uri": "http://127.0.0.1:81", "warehouse": "demo"}
KEYS = {"s3.access-key-id": CANARY, "s3.secret-access-key": CANARY, "credential": f"id:{CANARY}", "header.Authorization": CANARY}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: next(iter(kind)))
def test_options_of_flink_s_connector_are_dropped(client: RestClient, shared_catalog: SharedCatalog, kind: dict[str, str]) -> None:
    """Flink copies them into the properties of a table that it creates. Neither the table nor its event has them."""
    options = {**CONNECTOR, **kind, **KEYS, "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    properties = {**options, "write.format.default": "orc", "comment": "c"}
    created = client.create_table(["a"], "t", properties=properties)
    kept = created.json["metadata"]["properties"]
    assert {"write.format.default": "orc", "comment": "c"} == {name: value for name, value in kept.items() if name in properties}
    ((event,),) = shared_catalog.rows("select state from icecore.events order by notification_id desc limit 1")
    assert CANARY.encode() not in event


@pytest.mark.parametrize("missing", ["catalog-name", "catalog-type"])
def test_credentials_of_a_table_that_is_not_the_connector_s_are_refused(client: RestClient, missing: str) -> None:
    """The connector needs both options. A commit is never one of a connector table."""
    options = CONNECTOR | TYPES[0] | KEYS
    properties = {name: value for name, value in options.items() if name != missing}
    assert (400, "BadRequestException") == client.create_table(["a"], "t", properties=properties).error
    assert 200 == client.create_table(["a"], "t").status
    committed = client.commit(["a"], "t", {"action": "set-properties", "updates": options})
    assert (400, "BadRequestException") == committed.error
    secret = {**CONNECTOR, **TYPES[0], "my.password": CANARY}
    assert (400, "BadRequestException") == client.create_table(["a"], "u", properties=secret).error


def test_store_location_only_in_config_defaults(shared_catalog: SharedCatalog, s3_server: S3Server) -> None:
    """An address without keys in the `config` of a table would replace the secret of DuckDB and ClickHouse."""
    name = f"s3-{uuid7().hex}"
    command = CreateWarehouse(name, s3_profile(s3_server), S3_CREDENTIAL)
    shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), command))
    client = RestClient(shared_catalog.server.url, name)
    defaults = client.call_root("GET", f"/config?warehouse={name}").json["defaults"]
    assert (s3_server.endpoint, "true") == (defaults["s3.endpoint"], defaults["s3.path-style-access"])
    assert defaults["s3.region"] == defaults["client.region"]
    assert 200 == client.create_namespace("a").status
    key, body = uuid7(), {"name": "t", "schema": SCHEMA}
    created = client.call("POST", TABLES, body, key=key)
    again = client.call("POST", TABLES, body, key=key)
    staged = client.create_table(["a"], "u", **{"stage-create": True})
    view = client.create_view(["a"], "v")
    loaded = [client.load_table(["a"], "t"), client.load_view(["a"], "v")]
    assert [{}] * 6 == [response.json["config"] for response in (created, again, staged, view, *loaded)]
    client.close()
