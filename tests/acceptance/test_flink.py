"""Flink SQL as users run it, with the settings of the page on engines: on local files, on an S3 server, and as connector tables."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tests.acceptance.story import Result, Step, check, tell
from tests.acceptance.table_files import files_of, now, wait_until_purged
from tests.fixtures.readme import CATALOG_URI, pieces, statements
from tests.servers.flink import Flink, StatementRefusedError, flink
from tests.servers.icecore import Icecore, operate
from tests.servers.moto import ACCESS_KEY_ID, SECRET_ACCESS_KEY, moto_s3

pytestmark = pytest.mark.timeout(300)

WAREHOUSES = ("demo", "lake")
"""The warehouses, which are catalogs of their own names: local files and S3."""
KEYS = {"s3.access-key-id": ACCESS_KEY_ID, "s3.secret-access-key": SECRET_ACCESS_KEY}

STORY = (
    Step("create database", "CREATE DATABASE story"),
    Step("refuse an existing database", "CREATE DATABASE story", refused="Namespace already exists: story"),
    Step("leave an existing database", "CREATE DATABASE IF NOT EXISTS story"),
    Step("create nested database", "CREATE DATABASE `story.inner`"),
    Step("list databases", "SHOW DATABASES", among=[["story"]]),
    Step("set properties of the database", "ALTER DATABASE story SET ('colour' = 'grey')"),
    Step(
        "refuse another location of the database",
        "ALTER DATABASE story SET ('location' = 'file:///elsewhere')",
        refused="the location of a namespace cannot be changed or removed",
    ),
    Step("create", "CREATE TABLE story.trips (id BIGINT, city STRING, fare DOUBLE) PARTITIONED BY (city)"),
    Step("refuse an existing table", "CREATE TABLE story.trips (id BIGINT)", refused="Table already exists: story.trips"),
    Step("leave an existing table", "CREATE TABLE IF NOT EXISTS story.trips (id BIGINT)"),
    Step("insert", "INSERT INTO story.trips VALUES (1, 'Oslo', 10), (2, 'Lima', 20), (3, 'Oslo', 30)"),
    Step("first snapshot", "SELECT snapshot_id FROM story.`trips$snapshots`", remember="first"),
    Step(
        "first time",
        "SELECT EXTRACT(EPOCH FROM committed_at) * 1000 + EXTRACT(MILLISECOND FROM committed_at) FROM story.`trips$snapshots`",
        remember="first_milliseconds",
    ),
    Step("overwrite a partition", "INSERT OVERWRITE story.trips VALUES (4, 'Lima', 40)"),
    Step("select", "SELECT id, city, fare FROM story.trips ORDER BY id", rows=[[1, "Oslo", 10.0], [3, "Oslo", 30.0], [4, "Lima", 40.0]]),
    Step("time travel", "SELECT id FROM story.trips /*+ OPTIONS('snapshot-id' = '{first}') */ ORDER BY id", rows=[[1], [2], [3]]),
    Step(
        "time travel by time",
        "SELECT id FROM story.trips /*+ OPTIONS('as-of-timestamp' = '{first_milliseconds}') */ ORDER BY id",
        rows=[[1], [2], [3]],
    ),
    Step("refuse to update", "UPDATE story.trips SET fare = 1 WHERE id = 1", refused="Can't perform update operation"),
    Step("refuse to delete", "DELETE FROM story.trips WHERE id = 1", refused="Can't perform delete operation"),
    Step("refuse to change partitions", "ALTER TABLE story.trips ADD PARTITION (city = 'Rome')", refused="UnsupportedOperationException"),
    Step("refuse a view", "CREATE VIEW story.dear AS SELECT id FROM story.trips", refused="table should be resolved"),
    Step("create like", "CREATE TABLE `story.inner`.trips LIKE story.trips"),
    Step("set property", "ALTER TABLE story.trips SET ('write.format.default' = 'orc')"),
    Step("remove property", "ALTER TABLE story.trips RESET ('write.format.default')"),
    Step("add column", "ALTER TABLE story.trips ADD (paid INT)"),
    Step("widen column", "ALTER TABLE story.trips MODIFY (paid BIGINT)"),
    Step("drop column", "ALTER TABLE story.trips DROP (fare)"),
    Step("rename", "ALTER TABLE story.trips RENAME TO `a b`"),
    Step("create by select", "CREATE TABLE story.cities AS SELECT DISTINCT city, paid FROM story.`a b`"),
    Step("select from it", "SELECT city, paid FROM story.cities ORDER BY city", rows=[["Lima", None], ["Oslo", None]]),
    Step("replace", "CREATE OR REPLACE TABLE story.cities AS SELECT 1 AS n"),
    Step("select from the replaced", "SELECT n FROM story.cities", rows=[[1]]),
    Step("a replaced table is another table", "SELECT count(*) FROM story.`cities$snapshots`", rows=[[1]]),
    Step("list tables", "SHOW TABLES FROM story", rows=[["a b"], ["cities"]]),
    Step("refuse a name", "CREATE TABLE story.`a%b` (id BIGINT)", refused="Invalid table name: must not contain any of"),
    Step("refuse to drop a database with tables", "DROP DATABASE story", refused="Database story in catalog"),
    Step("refuse to purge", "DROP TABLE story.cities PURGE", refused='Encountered "PURGE"'),
    *(Step(f"drop {name}", f"DROP TABLE {name}") for name in ("`story.inner`.trips", "story.`a b`", "story.cities")),
    *(Step(f"drop database {name}", f"DROP DATABASE `{name}`") for name in ("story.inner", "story")),
    Step("list databases after the drop", "SHOW DATABASES LIKE 'story'", rows=[]),
)


def options(values: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in values.items())


@pytest.fixture(scope="module")
def engine(server: Icecore, scratch: Path) -> Iterator[Flink]:
    """A session without catalogs of Icecore, beside the warehouse `lake` on S3."""
    with moto_s3(scratch / "s3") as s3, flink(scratch / "flink") as running:
        server.create_warehouse("lake", s3.storage_profile, s3.storage_credential)
        yield running


@pytest.fixture(scope="module")
def catalogs(engine: Flink, server: Icecore) -> Flink:
    """The session with a catalog of each warehouse, by the settings of the page; that on S3 has the keys of the store."""
    create, *_ = statements(pieces()["flink"])
    for warehouse, keys in zip(WAREHOUSES, ({}, KEYS), strict=True):
        named = create.replace("CATALOG icecore", f"CATALOG {warehouse}").replace(CATALOG_URI, server.catalog_uri)
        engine.sql(named.replace("'warehouse' = 'demo'", options({"warehouse": warehouse, **keys})))
    return engine


@pytest.fixture(scope="module", params=WAREHOUSES)
def story(request: pytest.FixtureRequest, catalogs: Flink) -> dict[str, Result]:
    """The outcome of each statement on one store, in order."""
    catalogs.sql(f"USE CATALOG {request.param}")
    results = tell(STORY, catalogs.sql, StatementRefusedError)
    catalogs.sql("USE CATALOG default_catalog")
    return results


@pytest.mark.parametrize("step", STORY, ids=lambda step: step.name)
def test_statement(story: dict[str, Result], step: Step) -> None:
    """Each statement has its expected result or error."""
    check(step, story[step.name])


def test_statements_of_the_page(engine: Flink, server: Icecore) -> None:
    """The upsert replaces a row."""
    *before, select = statements(pieces()["flink"].replace(CATALOG_URI, server.catalog_uri))
    for statement in before:
        engine.sql(statement)
    assert [[1, "tea"], [2, "cake"]] == sorted(engine.sql(select))


def pyiceberg(server: Icecore, warehouse: str) -> Catalog:
    return load_catalog(warehouse, type="rest", uri=server.catalog_uri, warehouse=warehouse, **KEYS)


@pytest.mark.parametrize(
    "kind", [{"catalog-type": "rest"}, {"catalog-impl": "org.apache.iceberg.rest.RESTCatalog"}], ids=lambda kind: next(iter(kind))
)
def test_a_connector_table_is_written_and_its_options_are_not_stored(engine: Flink, server: Icecore, kind: dict[str, str]) -> None:
    """Flink creates the table when it is first written. The connector takes the class of its catalog instead of the type."""
    (create,) = statements(pieces()["flink connector"])
    sent = {"catalog-name": "icecore", **kind, "catalog-database": "cafe", "uri": server.catalog_uri, "warehouse": "lake", **KEYS}
    name = f"orders_{next(iter(kind)).removeprefix('catalog-')}"
    create = create.replace("TABLE orders", f"TABLE {name}").replace("'catalog-type' = 'rest'", options(kind))
    create = create.replace(CATALOG_URI, server.catalog_uri).replace("AKIA...", ACCESS_KEY_ID).replace("'...'", f"'{SECRET_ACCESS_KEY}'")
    assert sent.items() <= dict(part.strip(" ,'").split("' = '") for part in create.splitlines()[1:-1]).items()
    engine.sql(create)
    engine.sql(f"INSERT INTO {name} VALUES (1, 'tea')")
    table = pyiceberg(server, "lake").load_table(f"cafe.{name}")
    assert [{"id": 1, "item": "tea"}] == table.scan().to_arrow().to_pylist()
    assert sent.keys().isdisjoint(table.properties)
    log = operate("log", "--json", "--data", str(server.data))
    created = next(line for line in log.splitlines() if json.loads(line)["name"] == ["lake", "cafe", name])
    assert set() == {option for option in sent if f'"{option}"' in created}
    assert SECRET_ACCESS_KEY not in log


@pytest.mark.parametrize("warehouse", WAREHOUSES)
def test_a_past_state_is_a_catalog(catalogs: Flink, server: Icecore, warehouse: str) -> None:
    """`warehouse@time`, with the keys of the store. It has the rows of then."""
    catalogs.sql(f"CREATE DATABASE {warehouse}.was")
    catalogs.sql(f"CREATE TABLE {warehouse}.was.people (name STRING)")
    catalogs.sql(f"INSERT INTO {warehouse}.was.people VALUES ('Ada')")
    moment = now()
    catalogs.sql(f"INSERT INTO {warehouse}.was.people VALUES ('Grace')")
    then = {"type": "iceberg", "catalog-type": "rest", "uri": server.catalog_uri, "warehouse": f"{warehouse}@{moment}", **KEYS}
    catalogs.sql(f"CREATE CATALOG {warehouse}_past WITH ({options(then)})")
    assert [["Ada"]] == catalogs.sql(f"SELECT name FROM {warehouse}_past.was.people")
    assert [["Ada"], ["Grace"]] == sorted(catalogs.sql(f"SELECT name FROM {warehouse}.was.people"))


@pytest.mark.parametrize("warehouse", WAREHOUSES)
@pytest.mark.parametrize("statement", ["DROP TABLE", "CREATE OR REPLACE TABLE"], ids=["drop", "replace"])
def test_a_drop_purges(catalogs: Flink, server: Icecore, warehouse: str, statement: str) -> None:
    """Flink requests a purge with every `DROP TABLE`, and when it replaces a table: the files are deleted."""
    catalogs.sql(f"CREATE DATABASE IF NOT EXISTS {warehouse}.purge")
    catalogs.sql(f"CREATE TABLE {warehouse}.purge.gone AS SELECT 1 AS n")
    table = pyiceberg(server, warehouse).load_table("purge.gone")
    files = files_of(table)
    catalogs.sql(f"{statement} {warehouse}.purge.gone{' AS SELECT 2 AS m' * statement.startswith('CREATE')}")
    wait_until_purged(table, files)


@pytest.mark.parametrize("warehouse", WAREHOUSES)
def test_a_taken_location_is_no_success(catalogs: Flink, server: Icecore, warehouse: str) -> None:
    """`IF NOT EXISTS` ignores only an existing table of that name."""
    catalogs.sql(f"CREATE DATABASE {warehouse}.places")
    catalogs.sql(f"CREATE TABLE {warehouse}.places.first (id BIGINT)")
    location = pyiceberg(server, warehouse).load_table("places.first").location()
    for taken in (location, f"{location}/data"):
        with pytest.raises(StatementRefusedError, match="Location is already taken"):
            catalogs.sql(f"CREATE TABLE IF NOT EXISTS {warehouse}.places.other (id BIGINT) WITH ({options({'location': taken})})")
    assert [["first"]] == catalogs.sql(f"SHOW TABLES FROM {warehouse}.places")


def test_log_rebuilds_what_flink_reads(catalogs: Flink, server: Icecore) -> None:
    """At the end `icecore verify` finds no difference, nor after a rebuild."""
    server.check_against_log()
