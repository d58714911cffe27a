"""Trino as users run it, with the settings of the page on engines: all statements on local files and on an S3 server."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.acceptance.story import Result, Step, check, tell
from tests.acceptance.table_files import files_of, now, wait_until_purged
from tests.fixtures.readme import CATALOG_URI, pieces, properties
from tests.servers.icecore import Icecore
from tests.servers.moto import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, moto_s3
from tests.servers.trino import StatementRefusedError, Trino, trino

pytestmark = pytest.mark.timeout(300)

WAREHOUSES = {"files": "demo", "s3": "lake"}
"""Trino's catalogs: local files and S3. `files_past` and `s3_past` are the same warehouses at an earlier time."""

STORY = (
    Step("create schema", "CREATE SCHEMA story"),
    Step("refuse an existing schema", "CREATE SCHEMA story", refused="already exists"),
    Step("list schemas", "SHOW SCHEMAS LIKE 'story'", rows=[["story"]]),
    Step("create", "CREATE TABLE story.trips (id bigint, city varchar, fare double, day date) WITH (partitioning = ARRAY['month(day)'])"),
    Step("refuse an existing table", "CREATE TABLE story.trips (id bigint)", refused="already exists"),
    Step("leave an existing table", "CREATE TABLE IF NOT EXISTS story.trips (id bigint)"),
    Step(
        "insert",
        "INSERT INTO story.trips VALUES (1, 'Oslo', 10, DATE '2024-01-01'), (2, 'Lima', 20, DATE '2024-02-02'), "
        "(3, 'Oslo', 30, DATE '2024-02-03')",
        rows=[[3]],
    ),
    Step("select", "SELECT id, city, fare FROM story.trips ORDER BY id", rows=[[1, "Oslo", 10.0], [2, "Lima", 20.0], [3, "Oslo", 30.0]]),
    Step("first snapshot", 'SELECT snapshot_id FROM story."trips$snapshots" ORDER BY committed_at DESC LIMIT 1', remember="first"),
    Step("update", "UPDATE story.trips SET fare = fare + 1 WHERE city = 'Oslo'", rows=[[2]]),
    Step("delete", "DELETE FROM story.trips WHERE id = 2", rows=[[1]]),
    Step("select after both", "SELECT id, fare FROM story.trips ORDER BY id", rows=[[1, 11.0], [3, 31.0]]),
    Step(
        "merge",
        "MERGE INTO story.trips t USING (VALUES (1, 'Bern'), (4, 'Rome')) s (id, city) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET city = s.city WHEN NOT MATCHED THEN INSERT (id, city) VALUES (s.id, s.city)",
        rows=[[2]],
    ),
    Step("select merged", "SELECT id, city FROM story.trips ORDER BY id", rows=[[1, "Bern"], [3, "Oslo"], [4, "Rome"]]),
    Step("time travel", "SELECT id FROM story.trips FOR VERSION AS OF {first} ORDER BY id", rows=[[1], [2], [3]]),
    Step(
        "first time",
        """SELECT CAST(committed_at AS varchar) FROM story."trips$snapshots" WHERE snapshot_id = {first}""",
        remember="first_time",
    ),
    Step(
        "time travel by time", "SELECT id FROM story.trips FOR TIMESTAMP AS OF TIMESTAMP '{first_time}' ORDER BY id", rows=[[1], [2], [3]]
    ),
    Step("create by select", "CREATE TABLE story.cities AS SELECT DISTINCT city FROM story.trips", rows=[[3]]),
    Step("select from it", "SELECT city FROM story.cities ORDER BY city", rows=[["Bern"], ["Oslo"], ["Rome"]]),
    Step("replace by select", "CREATE OR REPLACE TABLE story.cities AS SELECT 'Bonn' AS city", rows=[[1]]),
    Step("select from the replaced", "SELECT city FROM story.cities", rows=[["Bonn"]]),
    Step("replace", "CREATE OR REPLACE TABLE story.cities (town varchar)"),
    Step("select from the empty", "SELECT town FROM story.cities", rows=[]),
    Step("insert into the replaced", "INSERT INTO story.cities VALUES 'Bonn', 'Köln'", rows=[[2]]),
    Step("truncate", "TRUNCATE TABLE story.cities"),
    Step("select from the truncated", "SELECT count(*) FROM story.cities", rows=[[0]]),
    Step("add column", "ALTER TABLE story.trips ADD COLUMN paid boolean"),
    Step("rename column", "ALTER TABLE story.trips RENAME COLUMN city TO town"),
    Step("drop column", "ALTER TABLE story.trips DROP COLUMN fare"),
    Step("widen column", "CREATE TABLE story.narrow (n integer)"),
    Step("widen", "ALTER TABLE story.narrow ALTER COLUMN n SET DATA TYPE bigint"),
    Step("change partitions", "ALTER TABLE story.trips SET PROPERTIES partitioning = ARRAY['bucket(id, 4)']"),
    Step("insert into the new partitions", "INSERT INTO story.trips VALUES (5, 'Kyiv', DATE '2024-03-01', true)", rows=[[1]]),
    Step(
        "select the new schema",
        "SELECT id, town, paid FROM story.trips ORDER BY id",
        rows=[[1, "Bern", None], [3, "Oslo", None], [4, "Rome", None], [5, "Kyiv", True]],
    ),
    Step("comment", "COMMENT ON TABLE story.trips IS 'of a taxi'"),
    Step("create view", "CREATE VIEW story.dear AS SELECT id FROM story.trips WHERE id > 3"),
    Step("select from the view", "SELECT id FROM story.dear ORDER BY id", rows=[[4], [5]]),
    Step("replace view", "CREATE OR REPLACE VIEW story.dear AS SELECT id FROM story.trips WHERE id > 4"),
    Step("select from the replaced view", "SELECT id FROM story.dear", rows=[[5]]),
    Step("list tables", "SHOW TABLES FROM story", rows=[["cities"], ["dear"], ["narrow"], ["trips"]]),
    Step("rename view", "ALTER VIEW story.dear RENAME TO story.costly"),
    Step("select from the renamed view", "SELECT id FROM story.costly", rows=[[5]]),
    Step("refuse a materialized view", "CREATE MATERIALIZED VIEW story.held AS SELECT 1 AS one", refused="not supported"),
    Step("create schema of another", "CREATE SCHEMA archive"),
    Step("rename into another schema", "ALTER TABLE story.trips RENAME TO archive.rides"),
    Step("select the renamed", "SELECT count(*) FROM archive.rides", rows=[[4]]),
    Step("insert into the renamed", "INSERT INTO archive.rides VALUES (6, 'Riga', DATE '2024-03-02', false)", rows=[[1]]),
    Step("create under the old name", "CREATE TABLE story.trips AS SELECT 1 AS one", rows=[[1]]),
    Step("optimize", "ALTER TABLE archive.rides EXECUTE optimize"),
    Step("select the optimized", "SELECT count(*) FROM archive.rides", rows=[[5]]),
    *(Step(f"create {name}", f'CREATE TABLE story."{name}" AS SELECT 1 AS one', rows=[[1]]) for name in ("a b", "a.b", "a/b", "straße")),
    *(Step(f"select {name}", f'SELECT one FROM story."{name}"', rows=[[1]]) for name in ("a b", "a.b", "a/b", "straße")),
    *(
        Step(f"refuse {name}", f'CREATE TABLE story."{name}" (one bigint)', refused="Invalid table name: must not contain any of")
        for name in ("a%b", "a*b", "a'b", "a#b")
    ),
    *(Step(f"drop {name}", f'DROP TABLE story."{name}"') for name in ("a b", "a.b", "a/b", "straße")),
    Step("refuse to drop a schema with tables", "DROP SCHEMA story", refused="non-empty schema"),
    Step("drop view", "DROP VIEW story.costly"),
    *(Step(f"drop {name}", f"DROP TABLE {name}") for name in ("story.cities", "story.narrow", "story.trips")),
    Step("drop schema", "DROP SCHEMA story"),
    Step("select after the drop", "SELECT count(*) FROM archive.rides", rows=[[5]]),
    Step("read the past", "SELECT name FROM {past}.before.people", rows=[["Ada"]]),
    Step("list the past", "SHOW SCHEMAS FROM {past} LIKE 'archive'", rows=[]),
    Step("refuse to change the past", "INSERT INTO {past}.before.people VALUES 'Grace'", refused="past"),
    Step("read the present", "SELECT count(*) FROM before.people", rows=[[2]]),
    Step("drop the moved", "DROP TABLE archive.rides"),
    Step("drop the other schema", "DROP SCHEMA archive"),
)


@pytest.fixture(scope="module")
def engine(server: Icecore, scratch: Path) -> Iterator[Trino]:
    """A server with catalogs for each store, by the settings of the page."""
    page = pieces()
    with moto_s3(scratch / "s3") as s3:
        server.create_warehouse("lake", s3.storage_profile, s3.storage_credential)
        files = properties(page["trino files"])
        lake = properties(page["trino"]) | {
            "s3.endpoint": s3.endpoint,
            "s3.region": REGION,
            "s3.path-style-access": "true",
            "s3.aws-access-key": ACCESS_KEY_ID,
            "s3.aws-secret-key": SECRET_ACCESS_KEY,
        }
        catalogs = {}
        for name, settings in (("files", files), ("s3", lake)):
            assert CATALOG_URI == settings["iceberg.rest-catalog.uri"]
            assert WAREHOUSES[name] == settings["iceberg.rest-catalog.warehouse"]
            catalogs[name] = settings | {"iceberg.rest-catalog.uri": server.catalog_uri}
            moment = people_before(pyiceberg(server, name))
            catalogs[f"{name}_past"] = catalogs[name] | {"iceberg.rest-catalog.warehouse": f"{WAREHOUSES[name]}@{moment}"}
        with trino(scratch / "trino", catalogs) as running:
            yield running


def pyiceberg(server: Icecore, catalog: str) -> RestCatalog:
    """The warehouse of a catalog of Trino."""
    keys = {"s3.access-key-id": ACCESS_KEY_ID, "s3.secret-access-key": SECRET_ACCESS_KEY}
    return RestCatalog("pyiceberg", uri=server.catalog_uri, warehouse=WAREHOUSES[catalog], **keys)


def people_before(catalog: RestCatalog) -> str:
    """A time when `before.people` has one row. It has two now."""
    catalog.create_namespace("before")
    ada, grace = (pyarrow.table({"name": [name]}) for name in ("Ada", "Grace"))
    table = catalog.create_table("before.people", ada.schema)
    table.append(ada)
    moment = now()
    table.append(grace)
    return moment


@pytest.fixture(scope="module", params=WAREHOUSES)
def store(request: pytest.FixtureRequest) -> str:
    """The name of a catalog of Trino."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def story(store: str, engine: Trino) -> dict[str, Result]:
    """The outcome of each statement on one store, in order."""
    return tell(STORY, replace(engine, catalog=store).sql, StatementRefusedError, past=f"{store}_past")


@pytest.mark.parametrize("step", STORY, ids=lambda step: step.name)
def test_statement(story: dict[str, Result], step: Step) -> None:
    """Each statement has its expected result or error."""
    check(step, story[step.name])


def test_a_drop_purges(store: str, engine: Trino, server: Icecore) -> None:
    """Trino requests a purge with every `DROP TABLE`: the files are deleted."""
    sql = replace(engine, catalog=store).sql
    sql("CREATE SCHEMA purge")
    sql("CREATE TABLE purge.gone AS SELECT 1 AS one")
    table = pyiceberg(server, store).load_table("purge.gone")
    files = files_of(table)
    sql("DROP TABLE purge.gone")
    wait_until_purged(table, files)


def test_a_cascade_over_a_nested_namespace_purges_the_tables_and_fails(store: str, engine: Trino, server: Icecore) -> None:
    """Trino lists no nested namespaces, so it drops all tables that it sees before the catalog refuses to drop the schema."""
    sql = replace(engine, catalog=store).sql
    catalog = pyiceberg(server, store)
    for namespace in ("nest", "nest.inner"):
        catalog.create_namespace(namespace)
    sql("CREATE TABLE nest.gone AS SELECT 1 AS one")
    table = catalog.load_table("nest.gone")
    files = files_of(table)
    with pytest.raises(StatementRefusedError, match="not empty"):
        sql("DROP SCHEMA nest CASCADE")
    assert [] == catalog.list_tables("nest")
    wait_until_purged(table, files)


def test_log_rebuilds_what_trino_reads(engine: Trino, server: Icecore) -> None:
    """After the stories on both stores, `icecore verify` finds no difference, nor after a rebuild."""
    server.check_against_log()
