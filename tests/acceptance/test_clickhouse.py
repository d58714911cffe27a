"""ClickHouse with the settings of the documentation, on S3, and two engines on one table."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tests.fixtures.readme import CATALOG_URI, pieces, statements
from tests.servers.engines import EngineShell, SqlRefusedError, engine_shell
from tests.servers.icecore import Icecore
from tests.servers.moto import S3, moto_s3


@pytest.fixture(scope="module")
def s3(scratch: Path) -> Iterator[S3]:
    with moto_s3(scratch) as running:
        yield running


@pytest.fixture(scope="module")
def clickhouse(server: Icecore, s3: S3) -> Iterator[EngineShell]:
    """The warehouse `lake` as the page connects to it, beside the warehouse `demo`."""
    server.create_warehouse("lake", s3.storage_profile, s3.storage_credential)
    with engine_shell("clickhouse") as shell:
        for statement in statements(pieces()["clickhouse"]):
            shell.sql(statement.replace(CATALOG_URI, server.catalog_uri).replace("http://127.0.0.1:9000", s3.endpoint))
        yield shell


@pytest.fixture(scope="module")
def pyiceberg(server: Icecore, s3: S3, clickhouse: EngineShell) -> Catalog:
    """The same warehouse in PyIceberg, with the namespace `town`. The catalog names the store; the client has only keys."""
    keys = {"s3.access-key-id": s3.environment["AWS_ACCESS_KEY_ID"], "s3.secret-access-key": s3.environment["AWS_SECRET_ACCESS_KEY"]}
    catalog = load_catalog("lake", type="rest", uri=server.catalog_uri, warehouse="lake", **keys)
    catalog.create_namespace("town")
    return catalog


def create(clickhouse: EngineShell, s3: S3, table: str, columns: str) -> None:
    """CREATE TABLE, for which ClickHouse needs the folder in the bucket."""
    keys = f"'{s3.environment['AWS_ACCESS_KEY_ID']}', '{s3.environment['AWS_SECRET_ACCESS_KEY']}'"
    folder = f"{s3.endpoint}/{s3.bucket}/{s3.storage_profile['key-prefix']}/clickhouse/{table}/"
    clickhouse.sql(f"CREATE TABLE lake.`town.{table}` ({columns}) ENGINE = IcebergS3('{folder}', {keys})")


def names(catalog: Catalog, table: str) -> list[str]:
    column: list[str] = catalog.load_table(f"town.{table}").scan().to_arrow()["name"].to_pylist()
    return sorted(column)


@pytest.mark.parametrize("whole_paths", [0, 1])
def test_a_table_is_created_written_and_dropped(clickhouse: EngineShell, pyiceberg: Catalog, s3: S3, whole_paths: int) -> None:
    """ClickHouse sends the location as a path in the bucket, or as a URI if its setting says so. It drops the table without the prefix."""
    clickhouse.sql(f"SET write_full_path_in_iceberg_metadata = {whole_paths}")
    table = f"people_{whole_paths}"
    create(clickhouse, s3, table, "name String, born Int32")
    location = f"s3://{s3.bucket}/{s3.storage_profile['key-prefix']}/clickhouse/{table}"
    assert location == pyiceberg.load_table(f"town.{table}").location()
    clickhouse.sql(f"INSERT INTO lake.`town.{table}` VALUES ('Ada', 1815), ('Grace', 1906)")
    assert [["Ada"], ["Grace"]] == clickhouse.sql(f"SELECT name FROM lake.`town.{table}` ORDER BY name")
    assert ["Ada", "Grace"] == names(pyiceberg, table)
    clickhouse.sql(f"DROP TABLE lake.`town.{table}`")
    assert ("town", table) not in pyiceberg.list_tables("town")


def test_two_engines_change_one_table(clickhouse: EngineShell, pyiceberg: Catalog, s3: S3) -> None:
    """Rows of both, a deletion and a new column are seen by both."""
    create(clickhouse, s3, "shared", "name String")
    clickhouse.sql("INSERT INTO lake.`town.shared` VALUES ('Ada')")
    table = pyiceberg.load_table("town.shared")
    table.append(table.scan().to_arrow())
    assert [["Ada"], ["Ada"]] == clickhouse.sql("SELECT name FROM lake.`town.shared`")
    clickhouse.sql("INSERT INTO lake.`town.shared` VALUES ('Grace')")
    clickhouse.sql("ALTER TABLE lake.`town.shared` DELETE WHERE name = 'Ada'")
    assert ["Grace"] == names(pyiceberg, "shared")
    clickhouse.sql("ALTER TABLE lake.`town.shared` ADD COLUMN born Nullable(Int32)")
    assert ["name", "born"] == [field.name for field in pyiceberg.load_table("town.shared").schema().fields]


def test_a_past_state_is_a_database(clickhouse: EngineShell, pyiceberg: Catalog, s3: S3, server: Icecore) -> None:
    """The base path names the warehouse at a position of the log."""
    create(clickhouse, s3, "past", "name String")
    clickhouse.sql("INSERT INTO lake.`town.past` VALUES ('Ada')")
    past = f"lake@{server.position()}"
    clickhouse.sql("INSERT INTO lake.`town.past` VALUES ('Grace')")
    (connect,) = (each for each in statements(pieces()["clickhouse"]) if each.startswith("CREATE DATABASE"))
    connect = connect.replace("DATABASE lake", "DATABASE past").replace("/w/lake/", f"/w/{past}/").replace("'lake'", f"'{past}'")
    clickhouse.sql(connect.replace(CATALOG_URI, server.catalog_uri).replace("http://127.0.0.1:9000", s3.endpoint))
    assert [["Ada"]] == clickhouse.sql("SELECT name FROM past.`town.past`")
    with pytest.raises(SqlRefusedError, match="past"):
        clickhouse.sql("INSERT INTO past.`town.past` VALUES ('Edsger')")


def test_the_log_rebuilds_what_clickhouse_reads(clickhouse: EngineShell, server: Icecore) -> None:
    """`icecore verify` finds no difference after all this, nor after a rebuild."""
    assert clickhouse.sql("SHOW TABLES FROM lake")
    server.check_against_log()
