"""Engines that share tables, views and namespaces of one warehouse on S3, one after the other and at the same time."""

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException

from tests.fixtures.readme import CATALOG_URI, pieces, properties, statements
from tests.long_form import LONG
from tests.servers.engines import EngineShell, SqlRefusedError, engine_shell
from tests.servers.icecore import Icecore
from tests.servers.moto import ACCESS_KEY_ID, REGION, S3, SECRET_ACCESS_KEY, moto_s3
from tests.servers.spark import catalog_settings, spark_4_1, spark_shell
from tests.servers.trino import StatementRefusedError, Trino, trino

pytestmark = pytest.mark.timeout(600)

PEOPLE = pyarrow.table({"name": ["Ada", "Grace"], "born": pyarrow.array([1815, 1906], pyarrow.int32())})
WRITERS = 2
"""The writers of each engine; Spark has one session and therefore one."""
ROWS_PER_WRITER = 3
ATTEMPTS_MAX = 40
REFUSALS = (SqlRefusedError, StatementRefusedError, CommitFailedException)
CONFLICT = re.compile(r"conflict|CommitFailed|Failed to commit|Requirement failed|branch main (?:was|has)", re.IGNORECASE)


@pytest.fixture(scope="module")
def s3(scratch: Path) -> Iterator[S3]:
    with moto_s3(scratch) as running:
        yield running


@pytest.fixture(scope="module")
def pyiceberg(server: Icecore, s3: S3) -> RestCatalog:
    """The warehouse `lake`, which the other engines share."""
    server.create_warehouse("lake", s3.storage_profile, s3.storage_credential)
    return RestCatalog(
        "lake", uri=server.catalog_uri, warehouse="lake", **{"s3.access-key-id": ACCESS_KEY_ID, "s3.secret-access-key": SECRET_ACCESS_KEY}
    )


@pytest.fixture(scope="module")
def spark_4(server: Icecore, s3: S3, pyiceberg: RestCatalog, scratch: Path) -> Iterator[EngineShell]:
    with spark_shell(spark_4_1(s3=True), catalog_settings(server.catalog_uri, "lake", s3), scratch / "spark", s3) as shell:
        yield shell


@pytest.fixture(scope="module")
def trino_476(server: Icecore, s3: S3, pyiceberg: RestCatalog, scratch: Path) -> Iterator[Trino]:
    settings = properties(pieces()["trino"]) | {
        "iceberg.rest-catalog.uri": server.catalog_uri,
        "s3.endpoint": s3.endpoint,
        "s3.region": REGION,
        "s3.path-style-access": "true",
        "s3.aws-access-key": ACCESS_KEY_ID,
        "s3.aws-secret-key": SECRET_ACCESS_KEY,
    }
    with trino(scratch / "trino", {"lake": settings}) as running:
        yield Trino(running.uri, running.process_id, "lake")


@pytest.fixture(scope="module")
def duckdbs(server: Icecore, s3: S3, pyiceberg: RestCatalog) -> Iterator[list[EngineShell]]:
    """Separate sessions, each with the warehouse attached as `lake`."""
    page = pieces()
    (secret,) = statements(page["duckdb secret"])
    (attach,) = (each for each in statements(page["duckdb"]) if each.startswith("ATTACH"))
    with engine_shell("duckdb") as one, engine_shell("duckdb") as other:
        for shell in (one, other):
            shell.sql(secret.replace("127.0.0.1:9000", s3.endpoint.removeprefix("http://")))
            shell.sql(attach.replace(CATALOG_URI, server.catalog_uri).replace("'demo'", "'lake'").replace("icecore", "lake"))
        yield [one, other]


@pytest.fixture(scope="module")
def clickhouses(server: Icecore, s3: S3, pyiceberg: RestCatalog) -> Iterator[list[EngineShell]]:
    """Separate sessions, each with the warehouse as the database `lake`."""
    with engine_shell("clickhouse") as one, engine_shell("clickhouse") as other:
        for shell, statement in itertools.product((one, other), statements(pieces()["clickhouse"])):
            shell.sql(statement.replace(CATALOG_URI, server.catalog_uri).replace("http://127.0.0.1:9000", s3.endpoint))
        yield [one, other]


@pytest.fixture
def town(pyiceberg: RestCatalog, request: pytest.FixtureRequest) -> str:
    """A new namespace for this test."""
    name = re.sub(r"\W+", "_", request.node.name).lower()
    pyiceberg.create_namespace(name)
    return name


def test_spark_and_pyiceberg_share_a_table(pyiceberg: RestCatalog, town: str, spark_4: EngineShell) -> None:
    """Each reads the rows and the schema that the other has written."""
    table = pyiceberg.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    assert [["Ada", 1815], ["Grace", 1906]] == spark_4.sql(f"SELECT name, born FROM ice.{town}.people ORDER BY name")
    spark_4.sql(f"ALTER TABLE ice.{town}.people ADD COLUMN field STRING")
    spark_4.sql(f"INSERT INTO ice.{town}.people VALUES ('Edsger', 1930, 'paths')")
    spark_4.sql(f"UPDATE ice.{town}.people SET field = 'engines' WHERE name = 'Ada'")
    rows = pyiceberg.load_table(f"{town}.people").scan().to_arrow().sort_by("name").to_pydict()
    assert {"name": ["Ada", "Edsger", "Grace"], "born": [1815, 1930, 1906], "field": ["engines", "paths", None]} == rows
    table = pyiceberg.load_table(f"{town}.people")
    with table.update_schema() as schema:
        schema.rename_column("born", "year")
    table.delete("name = 'Grace'")
    spark_4.sql(f"REFRESH TABLE ice.{town}.people")
    assert [["Ada", 1815], ["Edsger", 1930]] == spark_4.sql(f"SELECT name, year FROM ice.{town}.people ORDER BY name")


def test_a_view_of_spark_is_beside_the_tables_of_all(
    pyiceberg: RestCatalog,
    town: str,
    spark_4: EngineShell,
    trino_476: Trino,
    duckdbs: list[EngineShell],
    clickhouses: list[EngineShell],
) -> None:
    """PyIceberg and Trino list the view and drop it. DuckDB and ClickHouse have no views: they list and read the tables."""
    for name in ("recent", "old"):
        spark_4.sql(f"CREATE VIEW ice.{town}.{name} AS SELECT 1 AS one")
    pyiceberg.create_table(f"{town}.people", PEOPLE.schema).append(PEOPLE)
    assert [["old"], ["people"], ["recent"]] == sorted(trino_476.sql(f"SHOW TABLES FROM {town}"))
    assert [["people"]] == duckdbs[0].sql(f"SHOW TABLES FROM lake.{town}")
    assert [["Ada"], ["Grace"]] == duckdbs[0].sql(f"SELECT name FROM lake.{town}.people ORDER BY name")
    assert [[f"{town}.people"]] == clickhouses[0].sql(f"SHOW TABLES FROM lake LIKE '{town}.%'")
    assert [["Ada"], ["Grace"]] == clickhouses[0].sql(f"SELECT name FROM lake.`{town}.people` ORDER BY name")
    assert {(town, "recent"), (town, "old")} == set(pyiceberg.list_views(town))
    pyiceberg.drop_view(f"{town}.recent")
    trino_476.sql(f"DROP VIEW {town}.old")
    assert [] == spark_4.sql(f"SHOW VIEWS IN ice.{town}")


@pytest.mark.parametrize(
    "together",
    [
        ("spark", "trino"),
        ("duckdb", "pyiceberg"),
        ("clickhouse", "trino"),
        *([("spark", "trino", "pyiceberg", "duckdb"), ("spark", "trino", "pyiceberg", "clickhouse")] if LONG else []),
    ],
    ids="+".join,
)
def test_engines_write_one_table_at_once(
    together: tuple[str, ...],
    pyiceberg: RestCatalog,
    town: str,
    spark_4: EngineShell,
    trino_476: Trino,
    duckdbs: list[EngineShell],
    clickhouses: list[EngineShell],
    server: Icecore,
) -> None:
    """Every writer inserts row by row, and repeats a statement that a concurrent commit has refused. No row is lost or doubled."""
    table = f"{town}.rows"
    schema = pyarrow.schema([("id", pyarrow.int64()), ("engine", pyarrow.string())])
    pyiceberg.create_table(table, schema, properties={"commit.retry.num-retries": "10", "commit.retry.max-wait-ms": "500"})

    def append(row: int) -> None:
        pyiceberg.load_table(table).append(pyarrow.table({"id": [row], "engine": ["pyiceberg"]}, schema=schema))

    inserts: dict[str, list[Callable[[int], object]]] = {
        "spark": [lambda row: spark_4.sql(f"INSERT INTO ice.{table} VALUES ({row}, 'spark')")],
        "trino": [lambda row: trino_476.sql(f"INSERT INTO {table} VALUES ({row}, 'trino')")] * WRITERS,
        "pyiceberg": [append] * WRITERS,
        "duckdb": [lambda row, shell=shell: shell.sql(f"INSERT INTO lake.{table} VALUES ({row}, 'duckdb')") for shell in duckdbs],
        "clickhouse": [
            lambda row, shell=shell: shell.sql(f"INSERT INTO lake.`{table}` VALUES ({row}, 'clickhouse')") for shell in clickhouses
        ],
    }
    writers = [(engine, insert) for engine in together for insert in inserts[engine]]
    start = threading.Barrier(len(writers))

    def write(number: int) -> list[list[object]]:
        engine, insert = writers[number]
        start.wait()
        rows = range(number * ROWS_PER_WRITER, (number + 1) * ROWS_PER_WRITER)
        for row in rows:
            until_committed(insert, row)
        return [[row, engine] for row in rows]

    with ThreadPoolExecutor(len(writers)) as threads:
        expected = [row for written in threads.map(write, range(len(writers))) for row in written]
    seen = pyiceberg.load_table(table).scan().to_arrow().sort_by("id").to_pydict()
    assert expected == [list(row) for row in zip(seen["id"], seen["engine"], strict=True)]
    spark_4.sql(f"REFRESH TABLE ice.{table}")
    assert expected == spark_4.sql(f"SELECT id, engine FROM ice.{table} ORDER BY id")
    assert expected == trino_476.sql(f"SELECT id, engine FROM {table} ORDER BY id")
    assert expected == duckdbs[0].sql(f"SELECT id, engine FROM lake.{table} ORDER BY id")
    assert expected == clickhouses[0].sql(f"SELECT id, engine FROM lake.`{table}` ORDER BY id")


def test_clickhouse_cannot_write_after_duckdb(
    pyiceberg: RestCatalog, town: str, duckdbs: list[EngineShell], clickhouses: list[EngineShell]
) -> None:
    """DuckDB's snapshots have no totals of the table, and ClickHouse needs those of the snapshot before its own. It reads the rows."""
    duckdbs[0].sql(f"CREATE TABLE lake.{town}.people AS SELECT 'Ada' AS name")
    with pytest.raises(SqlRefusedError, match="the parent snapshot's summary omits it"):
        clickhouses[0].sql(f"INSERT INTO lake.`{town}.people` VALUES ('Grace')")
    assert [["Ada"]] == clickhouses[0].sql(f"SELECT name FROM lake.`{town}.people`")
    pyiceberg.load_table(f"{town}.people").append(pyarrow.table({"name": ["Edsger"]}))
    assert [["Ada"], ["Edsger"]] == duckdbs[0].sql(f"SELECT name FROM lake.{town}.people ORDER BY name")


def until_committed(insert: Callable[[int], object], row: int) -> None:
    """Repeats an insert that is refused for a concurrent commit. Any other refusal is raised."""
    for attempt in itertools.count(1):
        try:
            insert(row)
        except REFUSALS as refusal:
            if not CONFLICT.search(str(refusal)) or attempt == ATTEMPTS_MAX:
                raise
        else:
            return


def test_the_log_rebuilds_what_all_have_written(pyiceberg: RestCatalog, server: Icecore) -> None:
    """`icecore verify` finds no difference after all this, nor after a rebuild."""
    assert pyiceberg.list_namespaces()
    server.check_against_log()
