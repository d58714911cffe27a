"""ClickHouse with the settings of the documentation, on S3, and two engines on one table."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tests.acceptance.table_files import existing, files_of, now
from tests.acceptance.views import ONE_COLUMN, create_view
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


def create(clickhouse: EngineShell, s3: S3, table: str, columns: str, more: str = "") -> None:
    """CREATE TABLE, for which ClickHouse needs the folder in the bucket."""
    keys = f"'{s3.environment['AWS_ACCESS_KEY_ID']}', '{s3.environment['AWS_SECRET_ACCESS_KEY']}'"
    folder = f"{s3.endpoint}/{s3.bucket}/{s3.storage_profile['key-prefix']}/clickhouse/{table}/"
    clickhouse.sql(f"CREATE TABLE lake.`town.{table}` {columns and f'({columns})'} ENGINE = IcebergS3('{folder}', {keys}) {more}")


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


def test_rows_and_columns_change(clickhouse: EngineShell, s3: S3, pyiceberg: Catalog) -> None:
    """UPDATE, DELETE, every change of a column, and reads of the first snapshot."""
    create(clickhouse, s3, "changed", "name String, born Int32")
    clickhouse.sql("INSERT INTO lake.`town.changed` VALUES ('Ada', 1815), ('Grace', 1906)")
    (first,) = pyiceberg.load_table("town.changed").snapshots()
    clickhouse.sql("ALTER TABLE lake.`town.changed` UPDATE born = 1816 WHERE name = 'Ada'")
    clickhouse.sql("DELETE FROM lake.`town.changed` WHERE name = 'Grace'")
    assert [["Ada", 1816]] == clickhouse.sql("SELECT * FROM lake.`town.changed`")
    for then in (f"iceberg_snapshot_id = {first.snapshot_id}", f"iceberg_timestamp_ms = {first.timestamp_ms}"):
        assert [[1815], [1906]] == clickhouse.sql(f"SELECT born FROM lake.`town.changed` ORDER BY born SETTINGS {then}")
    for change in ("ADD COLUMN field Nullable(String)", "MODIFY COLUMN born Int64", "RENAME COLUMN born TO year", "DROP COLUMN field"):
        clickhouse.sql(f"ALTER TABLE lake.`town.changed` {change}")
    assert [["Ada", 1816]] == clickhouse.sql("SELECT name, year FROM lake.`town.changed`")
    assert ["name", "year"] == [field.name for field in pyiceberg.load_table("town.changed").schema().fields]


def test_a_table_is_created_from_a_query_and_with_partitions(clickhouse: EngineShell, s3: S3, pyiceberg: Catalog) -> None:
    create(clickhouse, s3, "copied", "", "AS SELECT 'Ada' AS name")
    assert ["Ada"] == names(pyiceberg, "copied")
    create(clickhouse, s3, "parted", "name String, born Int32", "PARTITION BY (icebergBucket(4, born))")
    clickhouse.sql("INSERT INTO lake.`town.parted` VALUES ('Ada', 1815), ('Grace', 1906)")
    assert [["Grace"]] == clickhouse.sql("SELECT name FROM lake.`town.parted` WHERE born = 1906")
    assert ["bucket[4]"] == [str(field.transform) for field in pyiceberg.load_table("town.parted").spec().fields]


def test_a_dropped_table_keeps_its_files(clickhouse: EngineShell, s3: S3, pyiceberg: Catalog) -> None:
    """ClickHouse requests no purge."""
    create(clickhouse, s3, "dropped", "name String")
    clickhouse.sql("SET write_full_path_in_iceberg_metadata = 1")
    clickhouse.sql("INSERT INTO lake.`town.dropped` VALUES ('Ada')")
    table = pyiceberg.load_table("town.dropped")
    files = files_of(table)
    clickhouse.sql("DROP TABLE lake.`town.dropped`")
    assert not pyiceberg.table_exists("town.dropped")
    assert files == existing(table, files)


def test_views_of_others_are_not_seen(clickhouse: EngineShell, s3: S3, pyiceberg: Catalog) -> None:
    """ClickHouse lists and reads the tables beside a view."""
    pyiceberg.create_namespace("views")
    create_view(pyiceberg, "views", "seen")
    assert [] == clickhouse.sql("SHOW TABLES FROM lake LIKE 'views.%'")
    pyiceberg.create_table("views.t", ONE_COLUMN)
    assert [["views.t"]] == clickhouse.sql("SHOW TABLES FROM lake LIKE 'views.%'")
    assert [] == clickhouse.sql("SELECT * FROM lake.`views.t`")


def test_a_column_that_was_just_added_is_not_dropped(clickhouse: EngineShell, s3: S3, pyiceberg: Catalog) -> None:
    """ClickHouse adds the former schema again and makes it the last added one, which Iceberg's Java code refuses too."""
    create(clickhouse, s3, "undone", "name String")
    clickhouse.sql("ALTER TABLE lake.`town.undone` ADD COLUMN born Nullable(Int32)")
    with pytest.raises(SqlRefusedError, match="retries to alter iceberg table"):
        clickhouse.sql("ALTER TABLE lake.`town.undone` DROP COLUMN born")
    assert ["name", "born"] == [field.name for field in pyiceberg.load_table("town.undone").schema().fields]


def test_the_folder_of_a_dropped_table_is_not_used_again(clickhouse: EngineShell, s3: S3, pyiceberg: Catalog) -> None:
    """ClickHouse finds the files there. With IF NOT EXISTS it reports success, and sends nothing."""
    create(clickhouse, s3, "again", "name String")
    clickhouse.sql("DROP TABLE lake.`town.again`")
    with pytest.raises(SqlRefusedError):
        create(clickhouse, s3, "again", "name String")
    keys = f"'{s3.environment['AWS_ACCESS_KEY_ID']}', '{s3.environment['AWS_SECRET_ACCESS_KEY']}'"
    folder = f"{s3.endpoint}/{s3.bucket}/{s3.storage_profile['key-prefix']}/clickhouse/again/"
    clickhouse.sql(f"CREATE TABLE IF NOT EXISTS lake.`town.again` (name String) ENGINE = IcebergS3('{folder}', {keys})")
    assert not pyiceberg.table_exists("town.again")


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("RENAME TABLE lake.`town.lacking` TO lake.`town.other`", r"renameTable\(\) is not supported"),
        ("CREATE OR REPLACE TABLE lake.`town.lacking` (x Int32) ENGINE = IcebergS3('http://s3/b/c/')", "only for Atomic databases"),
        ("TRUNCATE TABLE lake.`town.lacking`", "Truncate is not supported"),
        ("MERGE INTO lake.`town.lacking` l USING (SELECT 1 AS x) s ON l.x = s.x WHEN MATCHED THEN DELETE", "Syntax error"),
        ("BEGIN TRANSACTION", "Transactions are not supported"),
    ],
    ids=["rename", "replace", "truncate", "merge", "transaction"],
)
def test_what_clickhouse_lacks(clickhouse: EngineShell, s3: S3, pyiceberg: Catalog, statement: str, refusal: str) -> None:
    """ClickHouse itself refuses these, as the page says."""
    if not pyiceberg.table_exists("town.lacking"):
        create(clickhouse, s3, "lacking", "x Int32")
    with pytest.raises(SqlRefusedError, match=refusal):
        clickhouse.sql(statement)


def test_create_view_has_no_effect(clickhouse: EngineShell, pyiceberg: Catalog) -> None:
    """ClickHouse reports success, and sends nothing."""
    clickhouse.sql("CREATE VIEW lake.`town.unseen` AS SELECT 1 AS one")
    with pytest.raises(SqlRefusedError, match="Unknown table"):
        clickhouse.sql("SELECT * FROM lake.`town.unseen`")
    assert [] == pyiceberg.list_views("town")


def test_local_files_are_not_read(clickhouse: EngineShell, server: Icecore) -> None:
    """ClickHouse demands keys, and takes keys for a format of local files."""
    local = load_catalog("demo", type="rest", uri=server.catalog_uri, warehouse="demo")
    local.create_namespace("town")
    local.create_table("town.local", ONE_COLUMN)
    address, settings = f"{server.catalog_uri}/w/demo/v1", "catalog_type = 'rest', warehouse = 'demo'"
    for name, keys, refusal in (("keyless", "", "credentials"), ("keyed", ", 'admin', 'password'", "Unknown format admin")):
        clickhouse.sql(f"CREATE DATABASE {name} ENGINE = DataLakeCatalog('{address}'{keys}) SETTINGS {settings}")
        with pytest.raises(SqlRefusedError, match=refusal):
            clickhouse.sql(f"SELECT * FROM {name}.`town.local`")
        clickhouse.sql(f"DROP DATABASE {name}")


@pytest.mark.parametrize("by", ["position", "time"])
def test_a_past_state_is_a_database(clickhouse: EngineShell, pyiceberg: Catalog, s3: S3, server: Icecore, by: str) -> None:
    """The base path names the warehouse at a position of the log, or at a time. Writes are refused."""
    table = f"past_{by}"
    create(clickhouse, s3, table, "name String")
    clickhouse.sql(f"INSERT INTO lake.`town.{table}` VALUES ('Ada')")
    past = f"lake@{now() if by == 'time' else server.position()}"
    clickhouse.sql(f"INSERT INTO lake.`town.{table}` VALUES ('Grace')")
    (connect,) = (each for each in statements(pieces()["clickhouse"]) if each.startswith("CREATE DATABASE"))
    connect = connect.replace("DATABASE lake", f"DATABASE {table}").replace("/w/lake/", f"/w/{past}/").replace("'lake'", f"'{past}'")
    clickhouse.sql(connect.replace(CATALOG_URI, server.catalog_uri).replace("http://127.0.0.1:9000", s3.endpoint))
    assert [["Ada"]] == clickhouse.sql(f"SELECT name FROM {table}.`town.{table}`")
    if by == "time":  # Once, because ClickHouse repeats a refused commit for half a minute.
        with pytest.raises(SqlRefusedError, match="past"):
            clickhouse.sql(f"INSERT INTO {table}.`town.{table}` VALUES ('Edsger')")


def test_the_log_rebuilds_what_clickhouse_reads(clickhouse: EngineShell, server: Icecore) -> None:
    """`icecore verify` finds no difference after all this, nor after a rebuild."""
    assert clickhouse.sql("SHOW TABLES FROM lake")
    server.check_against_log()
