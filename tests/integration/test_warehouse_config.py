"""The configuration of a warehouse's clients: set over HTTP and at the command line, and read in /v1/config."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pyarrow
import pytest
from pyiceberg.catalog import load_catalog
from uuid_utils.compat import uuid7

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.approval.contract import Hold, Refuse
from icecore.compose import Application
from icecore.database.named_sql import named_sql
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from icecore.queries.load_warehouse import load_config
from icecore.security.client_properties import PERMITTED
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, context, opened_catalog, served_catalog
from tests.fixtures.command_runs import CommandRun, Step
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import RestClient, RestResponse
from tests.integration.approval.judging import Judge, asking
from tests.integration.test_append_plans import nodes, rows_read
from tests.integration.test_warehouse_routes import KEY, NOWHERE, S3

NOTHING: dict[str, Any] = {"defaults": {}, "overrides": {}}
# Permitted, with any value.
FIRST, SECOND, THIRD, FOURTH = (f"table-default.write.{name}" for name in ("first", "second", "third", "fourth"))


class Operator(RestClient):
    """Requests to `/management/v1/warehouse` for the warehouse `demo`, and its clients' configuration."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._root = "/management/v1/warehouse"
        self.catalog = RestClient(url)
        (self.id,) = (each["warehouse-id"] for each in self.call_root("GET", "").json["warehouses"] if each["name"] == "demo")

    def close(self) -> None:
        super().close()
        self.catalog.close()

    def update(self, body: Any, *, key: object = None) -> RestResponse:
        return self.call_root("POST", f"/{self.id}/config", body, key=key)

    def set(self, defaults: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None) -> RestResponse:
        return self.update({"defaults": {"updates": defaults or {}}, "overrides": {"updates": overrides or {}}})

    def shown(self) -> Any:
        return self.call_root("GET", f"/{self.id}").json["config"]

    def client_config(self, warehouse: str = "demo") -> tuple[dict[str, str], dict[str, str]]:
        """The defaults and the overrides that a client receives, without the defaults that every client receives."""
        response = self.catalog.call_root("GET", f"/config?warehouse={warehouse}")
        assert 200 == response.status, response.body
        defaults = response.json["defaults"]
        assert "true" == defaults.pop("rest-catalog-purge")
        assert response.json["overrides"]["prefix"] == defaults.pop("prefix")
        return defaults, response.json["overrides"]


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "demo", **NOWHERE) as served:
        yield served


@pytest.fixture
def operator(server: CatalogServer) -> Iterator[Operator]:
    opened = Operator(server.url)
    yield opened
    opened.close()


def events(database: str) -> list[tuple[str, Any]]:
    """Topic and state of the events of warehouses, oldest first."""
    query = "select topic, convert_from(state, 'utf8')::jsonb from icecore.events where topic like 'warehouse.%' order by notification_id"
    with psycopg.connect(database) as connection:
        return connection.execute(query).fetchall()


def test_clients_receive_what_the_operator_sets(operator: Operator, server: CatalogServer) -> None:
    """Beside what Icecore sets itself. It is shown with the warehouse, and one event has the change."""
    before = operator.client_config()
    changed = operator.set({"snapshot-loading-mode": "refs"}, {"rest-page-size": "50"})
    assert (200, {"defaults": {"snapshot-loading-mode": "refs"}, "overrides": {"rest-page-size": "50"}}) == (changed.status, changed.json)
    assert (before[0] | {"snapshot-loading-mode": "refs"}, before[1] | {"rest-page-size": "50"}) == operator.client_config()
    assert before != operator.client_config()
    assert changed.json == operator.shown() == operator.call_root("GET", "").json["warehouses"][0]["config"]
    assert [topic for topic, _ in events(server.dsn)] == ["warehouse.created.v1", "warehouse.config-changed.v1"]
    assert events(server.dsn)[-1][1] == {
        "defaults-updates": {"snapshot-loading-mode": "refs"}, "defaults-removals": [],
        "overrides-updates": {"rest-page-size": "50"}, "overrides-removals": [],
    }  # fmt: skip
    removed = operator.update({"defaults": {"removals": ["snapshot-loading-mode", "never-set"]}})
    assert (200, {"defaults": {}, "overrides": {"rest-page-size": "50"}}) == (removed.status, removed.json)
    assert changed.position < removed.position
    assert (before[0], before[1] | {"rest-page-size": "50"}) == operator.client_config()
    assert operator.update({"overrides": {"removals": ["rest-page-size"]}}).json == NOTHING == operator.shown()
    assert before == operator.client_config()


def test_pyiceberg_uses_a_default_and_an_override(operator: Operator, server: CatalogServer) -> None:
    """A client's own value replaces a default and not an override. Tables can be used as before."""
    assert 200 == operator.set({FIRST: "catalog", SECOND: "catalog"}, {THIRD: "catalog"}).status
    mine = {SECOND: "client", THIRD: "client", FOURTH: "client"}
    with closing(load_catalog("icecore", type="rest", uri=f"{server.url}/catalog", warehouse="demo", **mine)) as catalog:
        found = {name: catalog.properties.get(name) for name in (FIRST, SECOND, THIRD, FOURTH)}
        assert {FIRST: "catalog", SECOND: "client", THIRD: "catalog", FOURTH: "client"} == found
        catalog.create_namespace("n")
        assert [("n",)] == catalog.list_namespaces()


@pytest.mark.parametrize("end", [0, -1])
def test_pyiceberg_works_with_every_permitted_property(operator: Operator, server: CatalogServer, end: int) -> None:
    """At the lowest and at the highest value of each. No value keeps a client from starting."""
    assert 200 == operator.set(overrides={name: str(values[end]) for name, values in PERMITTED.items()}).status
    with closing(load_catalog("icecore", type="rest", uri=f"{server.url}/catalog", warehouse="demo")) as catalog:
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", pyarrow.schema([("a", pyarrow.int64())]))
        table.append(pyarrow.table({"a": [1]}))
        assert [{"a": 1}] == catalog.load_table("n.t").scan().to_arrow().to_pylist()
        assert [("n", "t")] == catalog.list_tables("n")


def test_every_server_and_the_command_line_see_a_change_at_the_next_request(
    operator: Operator, server: CatalogServer, tmp_path: Path
) -> None:
    """Each process has cached the configuration. A change by any of them is in the next response of all."""
    with served_catalog(server.dsn, tmp_path / "demo", **NOWHERE) as other_server:
        other = Operator(other_server.url)
        for turn in range(10):
            writer, reader = (operator, other) if turn % 2 else (other, operator)
            assert 200 == writer.set(overrides={FIRST: str(turn)}).status
            for each in (reader, writer, reader):
                assert str(turn) == each.client_config()[1][FIRST]
        done = icecore(server.dsn, "warehouse", "config", "demo", "--override", f"{FIRST}=last", "--json")
        assert (0, {"defaults": {}, "overrides": {FIRST: "last"}}) == (done.returncode, json.loads(done.stdout)), done.stderr
        assert ["last"] * 2 == [each.client_config()[1][FIRST] for each in (operator, other)]
        assert json.loads(done.stdout) == other.shown()
        other.close()


async def test_a_cached_configuration_is_read_again_after_its_change_alone(catalog: Application, database: str, tmp_path: Path) -> None:
    """It is in the cache of responses: a change of another object keeps it, and a change in another process drops it."""
    warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")

    async def hits() -> tuple[int, Mapping[str, str]]:
        before = catalog.queries.cache.metrics.hits
        found = await load_config(catalog.queries, context("getConfig"), warehouse)
        return catalog.queries.cache.metrics.hits - before, found.overrides

    # The first read of the log empties the cache.
    await hits()
    await hits()
    assert (1, {}) == await hits()
    held = catalog.queries.cache.metrics.bytes_held
    async with opened_catalog(database, tmp_path / "warehouse") as other:
        run = await CommandRun.on(other)
        await run.step(Step("create_namespace"))
        assert (1, {}) == await hits()
        await run.step(Step("configure", 0, 2))
    assert (0, {"s3.retry.num-retries": "2"}) == await hits()
    assert (1, {"s3.retry.num-retries": "2"}) == await hits()
    assert held + len("s3.retry.num-retries" + "2") == catalog.queries.cache.metrics.bytes_held


def test_what_storage_needs_stays(operator: Operator, server: CatalogServer) -> None:
    """On S3 the profile sets four defaults. They cannot be set, and others stand beside them."""
    body = {"warehouse-name": "lake", "storage-profile": S3, "storage-credential": KEY}
    operator.id = operator.call_root("POST", "", body).json["warehouse-id"]
    needed = {"client.region": "mars-1", "s3.region": "mars-1", "s3.endpoint": S3["endpoint"], "s3.path-style-access": "true"}
    before = operator.client_config("lake")
    assert needed == before[0]
    for key in needed:
        for kind in NOTHING:
            refused = operator.update({kind: {"updates": {key: "elsewhere"}}})
            assert (400, "BadRequestException") == refused.error
            assert f"Invalid {kind}: the property '{key}' is not permitted" in refused.message
    assert before == operator.client_config("lake")
    assert 200 == operator.set({"s3.multipart.part-size-bytes": "8388608"}).status
    assert (needed | {"s3.multipart.part-size-bytes": "8388608"}, before[1]) == operator.client_config("lake")
    assert ({}, {"prefix"}) == (operator.client_config()[0], {*operator.client_config()[1]}), "of the other warehouse"


@pytest.mark.parametrize("seconds", [None, 60])
@pytest.mark.parametrize("pushed", [None, False, True])
def test_clients_delete_no_files_if_the_profile_of_a_soft_deleting_warehouse_says_so(
    operator: Operator, pushed: bool | None, seconds: int | None
) -> None:
    """Lakekeeper's `push-s3-delete-disabled`, which is on there unless it is switched off. What the operator sets counts."""
    profile = S3 if pushed is None else S3 | {"push-s3-delete-disabled": pushed}
    delete_profile = {"type": "hard"} if seconds is None else {"type": "soft", "expiration-seconds": seconds}
    body = {"warehouse-name": "lake", "storage-profile": profile, "storage-credential": KEY, "delete-profile": delete_profile}
    operator.id = operator.call_root("POST", "", body).json["warehouse-id"]
    assert ("false" if pushed and seconds else None) == operator.client_config("lake")[0].get("s3.delete-enabled")
    assert 200 == operator.set({"s3.delete-enabled": "true"}).status
    assert "true" == operator.client_config("lake")[0]["s3.delete-enabled"]


NOT_PERMITTED = "is not permitted: see 'Warehouses' in the documentation"
REFUSALS: tuple[tuple[Any, tuple[int, str], str], ...] = (
    ({"overrides": {"updates": {"prefix": "x"}}}, (400, "BadRequestException"), f"'prefix' {NOT_PERMITTED}"),
    ({"defaults": {"updates": {"uri": "http://x"}}}, (400, "BadRequestException"), f"'uri' {NOT_PERMITTED}"),
    ({"overrides": {"updates": {"ssl": "x"}}}, (400, "BadRequestException"), f"'ssl' {NOT_PERMITTED}"),
    ({"overrides": {"updates": {"s3.secret-access-key": "x"}}}, (400, "BadRequestException"), f"'s3.secret-access-key' {NOT_PERMITTED}"),
    ({"defaults": {"updates": {"Rest-Page-Size": "1"}}}, (400, "BadRequestException"), f"'Rest-Page-Size' {NOT_PERMITTED}"),
    ({"defaults": {"updates": {"rest-page-size": "x"}}}, (400, "BadRequestException"), "'rest-page-size' must be a whole number from 1 to"),
    ({"defaults": {"updates": {FIRST: "x\ny"}}}, (400, "BadRequestException"), f"the value of '{FIRST}' contains a control character"),
    ({"defaults": {"updates": {FIRST: "x" * 4097}}}, (400, "BadRequestException"), "longer than 4096 bytes"),
    ({"defaults": {"updates": {f"{FIRST}{n}": "x" for n in range(101)}}}, (400, "BadRequestException"), "more than 100 properties"),
    ({"defaults": {"updates": {FIRST: 1}}}, (400, "BadRequestException"), "defaults.updates"),
    ({"defaults": {FIRST: "1"}}, (400, "BadRequestException"), f"Unknown field 'defaults.{FIRST}'"),
    ({"default": {"updates": {}}}, (400, "BadRequestException"), "did you mean 'defaults'?"),
    ({"defaults": [FIRST]}, (400, "BadRequestException"), "must be an object"),
    (
        {"defaults": {"updates": {FIRST: "1"}, "removals": [FIRST]}},
        (422, "UnprocessableEntityException"),
        f"set and remove keys: [{FIRST}]",
    ),
)


def test_what_is_wrong_is_refused_and_changes_nothing(operator: Operator) -> None:
    """Also what is right in the same request."""
    operator.set({FIRST: "1"})
    before = operator.client_config()
    for body, error, message in REFUSALS:
        refused = operator.update({"overrides": {"updates": {SECOND: "1"}}} | body)
        assert error == refused.error, body
        assert message in refused.message
        assert before == operator.client_config()
        assert {"defaults": {FIRST: "1"}, "overrides": {}} == operator.shown()


def test_removals_have_a_limit(operator: Operator) -> None:
    """That of the properties of a request."""
    keys = [f"k{number}" for number in range(10_001)]
    for kind in NOTHING:
        assert 200 == operator.update({kind: {"removals": keys[1:]}}).status
        refused = operator.update({kind: {"removals": keys}})
        assert (400, "BadRequestException") == refused.error
        assert f"Invalid field '{kind}.removals': has more than 10000 elements" == refused.message


@pytest.mark.parametrize("reference", [str(UUID(int=7)), "demo"])
def test_an_unknown_warehouse_is_not_found(operator: Operator, reference: str) -> None:
    """A name is not an id."""
    operator.id = reference
    assert (404, "NoSuchWarehouseException") == operator.set({FIRST: "1"}).error


def test_a_change_that_is_none_writes_no_event(operator: Operator, server: CatalogServer) -> None:
    """The response is the present configuration. The same value for another key is a change."""
    operator.set({FIRST: "1"}, {SECOND: "2"})
    count = len(events(server.dsn))
    for body in ({}, {"defaults": {"updates": {FIRST: "1"}}}, {"overrides": {"removals": [FIRST]}}, {"defaults": None}):
        response = operator.update(body)
        assert (200, {"defaults": {FIRST: "1"}, "overrides": {SECOND: "2"}}) == (response.status, response.json)
        assert count == len(events(server.dsn))
    operator.set({THIRD: "1"})
    assert count + 1 == len(events(server.dsn))


def test_a_key_gets_its_response_again(operator: Operator) -> None:
    """Also after a later change, a refusal, and a change that was none. Another request with the key is refused."""
    bodies: list[Any] = [{"defaults": {"updates": {FIRST: "1"}}}, {"defaults": {"updates": {"prefix": "x"}}}, {}]
    keys = [uuid7() for _ in bodies]
    first = [operator.update(body, key=key) for body, key in zip(bodies, keys, strict=True)]
    assert [200, 400, 200] == [each.status for each in first]
    operator.set({FIRST: "2"})
    assert [each.replayable for each in first] == [
        operator.update(body, key=key).replayable for body, key in zip(bodies, keys, strict=True)
    ]
    assert {"defaults": {FIRST: "2"}, "overrides": {}} == operator.shown()
    assert (422, "UnprocessableEntityException") == operator.update({"defaults": {"updates": {SECOND: "1"}}}, key=keys[0]).error


def test_changes_at_once_are_all_kept(operator: Operator, server: CatalogServer, tmp_path: Path) -> None:
    """From two servers: each sets a key of its own, and none loses another's."""
    with served_catalog(server.dsn, tmp_path / "demo", **NOWHERE) as other_server:
        other = Operator(other_server.url)
        with ThreadPoolExecutor(8) as threads:
            done = list(threads.map(lambda n: (operator if n % 2 else other).set(overrides={f"{FIRST}{n}": str(n)}), range(40)))
        assert {200} == {each.status for each in done}
        assert {f"{FIRST}{n}": str(n) for n in range(40)} == operator.shown()["overrides"] == other.shown()["overrides"]
        other.close()
    assert 41 == len(events(server.dsn))


def test_the_past_is_read_with_the_configuration_of_now(operator: Operator) -> None:
    """As with the storage profile: it says how a client works today. A past state cannot be changed."""
    before = operator.catalog.create_namespace("n").position
    operator.set(overrides={FIRST: "1"})
    defaults, overrides = operator.client_config(f"demo@{before}")
    assert ({}, {FIRST: "1", "prefix": f"{operator.id}@{before}"}) == (defaults, overrides)


def test_a_loaded_table_has_no_configuration_of_the_operator(operator: Operator) -> None:
    """Neither its `config` nor its ETag changes: the defaults and overrides are only in /v1/config."""
    operator.catalog.create_namespace("n")
    operator.catalog.create_table(["n"], "t")
    before = operator.catalog.call("GET", "/namespaces/n/tables/t")
    operator.set({FIRST: "1"}, {SECOND: "1"})
    after = operator.catalog.call("GET", "/namespaces/n/tables/t")
    assert (before.body, before.headers["etag"]) == (after.body, after.headers["etag"])


async def test_the_log_alone_is_enough(catalog: Application, database: str) -> None:
    """`verify` finds no difference, also for rows from before the column existed; it finds a changed row; a rebuild restores it."""
    run = await CommandRun.on(catalog)
    for step in (Step("configure", 0, 2, 1), Step("configure", 0, 2, 2), Step("configure", 0, 1)):
        await run.step(step)
    assert (await verify(database)).ok
    with psycopg.connect(database, autocommit=True) as connection:
        query = "select version, convert_from(config, 'utf8') from icecore.warehouses order by version"
        stored = connection.execute(query).fetchall()
        assert (1, None) == stored[0]
        assert {"defaults": {"table-default.write.p1": "v2", "table-default.write.p2": "v2"}, "overrides": {}} == json.loads(stored[3][1])
        connection.execute("update icecore.warehouses set config = null where version = 3")
        assert ["config"] == [each.column for each in (await verify(database)).differences]
        await rebuild(database)
        query = query.replace("order", "where generation = (select generation from icecore.read_models) order")
        assert stored == connection.execute(query).fetchall()
    assert (await verify(database)).ok


def test_a_change_is_published_and_printed(operator: Operator, server: CatalogServer) -> None:
    """As a CloudEvent with the keys that were set and removed, and as a line of `icecore log`."""
    operator.set({FIRST: "1", SECOND: "2"}, {THIRD: "3"})
    operator.update({"defaults": {"removals": [FIRST]}, "overrides": {"updates": {FOURTH: "4"}, "removals": [THIRD]}})
    history = RestClient(server.url)
    history._root = "/history/v1"
    listed = history.call_root("GET", "/events?types=io.icecore.warehouse.config-changed.v1").json["events"]
    history.close()
    named = {"warehouse": {"id": operator.id, "name": "demo"}}
    assert [event["data"] for event in listed] == [
        named | {"defaults-set": {FIRST: "1", SECOND: "2"}, "defaults-removed": [], "overrides-set": {THIRD: "3"}, "overrides-removed": []},
        named | {"defaults-set": {}, "defaults-removed": [FIRST], "overrides-set": {FOURTH: "4"}, "overrides-removed": [THIRD]},
    ]
    assert {("demo", operator.id)} == {(event["subject"], event["partitionkey"]) for event in listed}
    assert [f"urn:icecore:schema:{event['type']}" for event in listed] == [event["dataschema"] for event in listed]
    lines = icecore(server.dsn, "log").stdout.splitlines()[-2:]
    assert [
        f"demo v2  set default {FIRST}, {SECOND}, set override {THIRD}",
        f"demo v3  removed default {FIRST}, set override {FOURTH}, removed override {THIRD}",
    ] == [line[line.index("demo v") :] for line in lines]
    assert all("warehouse config-changed" in line for line in lines)


async def test_a_warehouse_is_read_without_its_former_versions(catalog: Application, database: str) -> None:
    """Each statement reads one row of a warehouse, and one to find the next, however often its configuration has changed."""
    warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    parameters = {"project_id": PROJECT_ID, "warehouse_id": warehouse.id, "name_key": "demo", "limit": None, "status": None, "as_of": 10**9}
    parameters |= {"type": "local", "names": None, "endpoint": None}
    statements = named_sql("icecore.projections", "warehouses.sql")
    read: dict[str, int] = {}
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "insert into icecore.warehouses (select (jsonb_populate_record(w, jsonb_build_object('version', n, 'position', n))).* "
            "from icecore.warehouses w, generate_series(2, 2000) n)"
        )
        connection.execute("analyze icecore.warehouses, icecore.names")
        for name, statement in statements.items():
            found = connection.execute("explain (analyze, format json) " + statement, parameters).fetchone()
            assert found is not None
            read[name] = sum(rows_read(node) for node in nodes(found[0][0]["Plan"]) if node.get("Relation Name") == "warehouses")
    assert dict.fromkeys(statements, 1) | {"sharing_storage": 2} == read


def test_a_hook_sees_a_change_and_may_refuse_it(database: str, tmp_path: Path) -> None:
    """With the configuration before and after, beside the storage profile. A hold refuses it, as at the creation of a warehouse."""
    judge = Judge()
    with served_catalog(database, tmp_path / "demo", prepare=asking(judge)) as served:
        operator = Operator(served.url)
        for verdict in (Refuse("no"), Hold("somebody must look", 60.0)):
            judge.always(verdict)
            assert (409, "ChangeRefusedException") == operator.set({FIRST: "1"}).error
        judge.say = None
        assert 200 == operator.set({}, {SECOND: "2"}).status
        assert 200 == operator.set({FIRST: "1"}).status
        assert 200 == operator.update({"overrides": {"removals": [SECOND]}}).status
        shown = [(change.operation, each.name_before, each.name_after, each.topics) for change in judge.shown for each in change.objects]
        assert [("updateWarehouseConfig", ("demo",), ("demo",), ("warehouse.config-changed.v1",))] * 5 == shown
        documents = [(each.before or {}, each.after or {}) for change in judge.shown[-3:] for each in change.objects]
        overrides, both = ({"defaults": defaults, "overrides": {SECOND: "2"}} for defaults in ({}, {FIRST: "1"}))
        defaults = {"defaults": {FIRST: "1"}, "overrides": {}}
        assert [(None, overrides), (overrides, both), (both, defaults)] == [
            (before.get("config"), after.get("config")) for before, after in documents
        ]
        assert {"local"} == {document["type"] for pair in documents for document in pair}
        assert defaults == operator.shown()
        operator.close()


def test_the_command_line_sets_removes_and_shows(operator: Operator, server: CatalogServer) -> None:
    """By name or id. Every option may be repeated; a value may contain `=` and be empty."""
    empty = icecore(server.dsn, "warehouse", "config", "demo")
    assert (0, "no defaults, no overrides\n", "") == (empty.returncode, empty.stdout, empty.stderr)
    arguments = ["--default", f"{FIRST}=1=2", "--default", f"{SECOND}=", "--override", f"{THIRD}=3", f"--override={FOURTH}=4"]
    done = icecore(server.dsn, "warehouse", "config", *arguments, "demo")
    assert (0, f"default   {FIRST}=1=2\ndefault   {SECOND}=\noverride  {THIRD}=3\noverride  {FOURTH}=4\n") == (
        done.returncode,
        done.stdout,
    ), done.stderr
    assert {"defaults": {FIRST: "1=2", SECOND: ""}, "overrides": {THIRD: "3", FOURTH: "4"}} == operator.shown()
    arguments = ["--unset-default", FIRST, "--unset-override", THIRD, "--unset-override", FOURTH]
    done = icecore(server.dsn, "warehouse", "config", operator.id, *arguments)
    assert (0, f"default   {SECOND}=\n") == (done.returncode, done.stdout)
    done = icecore(
        server.dsn, "warehouse", "config", "demo", "--unset-default", SECOND, "--unset-default", FIRST, "--unset-override", THIRD
    )
    missing = f"no such default: {FIRST}\nno such override: {THIRD}\n"
    assert (0, "no defaults, no overrides\n", missing) == (done.returncode, done.stdout, done.stderr)
    count = len(events(server.dsn))
    shown = icecore(server.dsn, "warehouse", "config", "demo", "--json")
    assert (0, operator.shown()) == (shown.returncode, json.loads(shown.stdout))
    assert count == len(events(server.dsn)), "showing is no change"


MISTAKES: tuple[tuple[list[str], int, str], ...] = (
    (["nowhere"], 1, "icecore: Warehouse does not exist: nowhere"),
    (["demo", "--default", "a"], 2, "--default must be KEY=VALUE: 'a' has no '='"),
    (["demo", "--override", f"{FIRST}=1", "--override", f"{FIRST}=2"], 2, "--override names 'table-default.write.first' twice"),
    (["demo", "--override", "prefix=x"], 2, f"the property 'prefix' {NOT_PERMITTED}"),
    (["demo", "--default", "s3.secret-access-key=hunter2"], 2, f"'s3.secret-access-key' {NOT_PERMITTED}"),
    (
        ["demo", "--default", f"{FIRST}=1", "--unset-default", FIRST],
        1,
        "cannot simultaneously set and remove keys: [table-default.write.first]",
    ),
    (["demo@1", "--default", f"{FIRST}=1"], 2, "name the warehouse without a position or time"),
    (["demo@1", "--json"], 2, "a past state has the current configuration; name the warehouse without a position or time"),
)


def test_a_mistake_at_the_command_line_changes_nothing(operator: Operator, server: CatalogServer) -> None:
    """One line with the reason, without the value."""
    for arguments, code, message in MISTAKES:
        done = icecore(server.dsn, "warehouse", "config", *arguments)
        assert (code, "") == (done.returncode, done.stdout), arguments
        assert message in done.stderr
        assert "hunter2" not in done.stderr
        assert 1 == len(done.stderr.splitlines())
        assert operator.shown() == NOTHING, arguments
