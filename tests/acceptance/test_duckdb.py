"""DuckDB with the settings of the documentation: tables are created, written, read, changed and dropped, on local files and on S3."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.acceptance.table_files import existing, files_of, now, wait_until_purged
from tests.acceptance.views import create_view
from tests.fixtures.readme import CATALOG_URI, pieces, statements
from tests.servers.engines import EngineShell, SqlRefusedError, engine_shell
from tests.servers.icecore import Icecore
from tests.servers.moto import ACCESS_KEY_ID, S3, SECRET_ACCESS_KEY, moto_s3

LAKES = ("demo", "lake")
"""The warehouses, which are attached under their own names: local files and S3."""


@pytest.fixture(scope="module")
def s3(scratch: Path) -> Iterator[S3]:
    with moto_s3(scratch) as running:
        yield running


@pytest.fixture(scope="module")
def duckdb(server: Icecore, s3: S3) -> Iterator[EngineShell]:
    """Both warehouses attached as the page describes; DuckDB's extensions come from packages instead of `INSTALL`."""
    server.create_warehouse("lake", s3.storage_profile, s3.storage_credential)
    with engine_shell("duckdb") as shell:
        (attach,) = (each for each in statements(pieces()["duckdb"]) if each.startswith("ATTACH"))
        (secret,) = statements(pieces()["duckdb secret"])
        shell.sql(secret.replace("127.0.0.1:9000", s3.endpoint.removeprefix("http://")))
        for lake in LAKES:
            shell.sql(attach.replace(CATALOG_URI, server.catalog_uri).replace("'demo'", f"'{lake}'").replace("icecore", lake))
        yield shell


@pytest.fixture(params=LAKES)
def town(request: pytest.FixtureRequest, duckdb: EngineShell) -> str:
    """A new schema of each warehouse."""
    name = f"{request.param}.{re.sub(r'[^a-z_]+', '_', request.node.name.removeprefix('test_'))}"
    duckdb.sql(f"CREATE SCHEMA {name}")
    return name


@pytest.fixture
def pyiceberg(server: Icecore, town: str) -> RestCatalog:
    """The same warehouse in PyIceberg."""
    keys = {"s3.access-key-id": ACCESS_KEY_ID, "s3.secret-access-key": SECRET_ACCESS_KEY}
    return RestCatalog("pyiceberg", uri=server.catalog_uri, warehouse=town.partition(".")[0], **keys)


def test_rows_are_written_changed_and_deleted(duckdb: EngineShell, town: str) -> None:
    """INSERT, UPDATE, DELETE, MERGE, TRUNCATE, and reads of the first snapshot."""
    duckdb.sql(f"CREATE TABLE {town}.people (name VARCHAR, born INTEGER)")
    duckdb.sql(f"INSERT INTO {town}.people VALUES ('Ada', 1815), ('Grace', 1906)")
    duckdb.sql(f"UPDATE {town}.people SET born = 1816 WHERE name = 'Ada'")
    duckdb.sql(f"DELETE FROM {town}.people WHERE name = 'Grace'")
    assert [["Ada", 1816]] == duckdb.sql(f"SELECT * FROM {town}.people")
    duckdb.sql(
        f"MERGE INTO {town}.people p USING (VALUES ('Ada', 1815), ('Edsger', 1930)) n (name, born) ON p.name = n.name "
        "WHEN MATCHED THEN UPDATE SET born = n.born WHEN NOT MATCHED THEN INSERT VALUES (n.name, n.born)"
    )
    assert [["Ada", 1815], ["Edsger", 1930]] == duckdb.sql(f"SELECT * FROM {town}.people ORDER BY born")
    ((first, time), *_) = duckdb.sql(f"SELECT snapshot_id, timestamp_ms FROM iceberg_snapshots({town}.people) ORDER BY sequence_number")
    for then in (f"VERSION => {first}", f"TIMESTAMP => TIMESTAMP '{time}'"):
        assert [["Ada"], ["Grace"]] == duckdb.sql(f"SELECT name FROM {town}.people AT ({then}) ORDER BY born")
    duckdb.sql(f"TRUNCATE {town}.people")
    assert [] == duckdb.sql(f"SELECT name FROM {town}.people")


def test_a_table_is_created_from_a_query(duckdb: EngineShell, town: str) -> None:
    """DuckDB stages the table and writes its files before it exists."""
    duckdb.sql(f"CREATE TABLE {town}.copy AS SELECT 1 AS one")
    assert [[1]] == duckdb.sql(f"SELECT * FROM {town}.copy")


def test_a_transaction_creates_and_fills_tables(duckdb: EngineShell, town: str) -> None:
    """Two tables are created and written in one commit; a rolled back transaction leaves nothing."""
    duckdb.sql("BEGIN")
    for table in ("a", "b"):
        duckdb.sql(f"CREATE TABLE {town}.{table} (x INTEGER)")
        duckdb.sql(f"INSERT INTO {town}.{table} VALUES (1)")
    duckdb.sql("COMMIT")
    duckdb.sql("BEGIN")
    for table in ("a", "b"):
        duckdb.sql(f"INSERT INTO {town}.{table} VALUES (2)")
    duckdb.sql("COMMIT")
    duckdb.sql("BEGIN")
    duckdb.sql(f"CREATE TABLE {town}.c (x INTEGER)")
    duckdb.sql(f"INSERT INTO {town}.a VALUES (3)")
    duckdb.sql("ROLLBACK")
    for table in ("a", "b"):
        assert [[1], [2]] == duckdb.sql(f"SELECT x FROM {town}.{table} ORDER BY x")
    with pytest.raises(SqlRefusedError, match="does not exist"):
        duckdb.sql(f"SELECT * FROM {town}.c")


def test_schema_and_partitions_change(duckdb: EngineShell, town: str) -> None:
    """Columns are added, renamed, widened and dropped; a partition spec is set at the creation and later."""
    duckdb.sql(f"CREATE TABLE {town}.visits (day DATE, number INTEGER) PARTITIONED BY (month(day))")
    duckdb.sql(f"INSERT INTO {town}.visits VALUES (DATE '2026-01-02', 1), (DATE '2026-02-02', 2)")
    duckdb.sql(f"ALTER TABLE {town}.visits ADD COLUMN note VARCHAR")
    duckdb.sql(f"ALTER TABLE {town}.visits RENAME COLUMN note TO remark")
    duckdb.sql(f"ALTER TABLE {town}.visits ALTER COLUMN number TYPE BIGINT")
    duckdb.sql(f"INSERT INTO {town}.visits VALUES (DATE '2026-02-03', 5000000000, 'many')")
    assert [[2, None], [5_000_000_000, "many"]] == duckdb.sql(
        f"SELECT number, remark FROM {town}.visits WHERE day >= DATE '2026-02-01' ORDER BY number"
    )
    duckdb.sql(f"ALTER TABLE {town}.visits DROP COLUMN remark")
    duckdb.sql(f"ALTER TABLE {town}.visits SET PARTITIONED BY (year(day))")
    duckdb.sql(f"INSERT INTO {town}.visits VALUES (DATE '2027-01-02', 7)")
    assert [[4]] == duckdb.sql(f"SELECT count(*) FROM {town}.visits")


def test_tables_are_renamed_and_dropped(duckdb: EngineShell, town: str) -> None:
    duckdb.sql(f"CREATE TABLE {town}.old AS SELECT 1 AS one")
    duckdb.sql(f"ALTER TABLE {town}.old RENAME TO new")
    assert [[1]] == duckdb.sql(f"SELECT * FROM {town}.new")
    duckdb.sql(f"CREATE TABLE IF NOT EXISTS {town}.new (another INTEGER)")
    duckdb.sql(f"DROP TABLE {town}.new")
    duckdb.sql(f"DROP SCHEMA {town}")
    with pytest.raises(SqlRefusedError, match="does not exist"):
        duckdb.sql(f"SELECT * FROM {town}.new")


def test_a_drop_keeps_the_files_and_a_purge_does_not(duckdb: EngineShell, town: str, pyiceberg: RestCatalog, server: Icecore) -> None:
    """An attached warehouse with `PURGE_REQUESTED` purges, one without it only drops."""
    lake, _, schema = town.partition(".")
    duckdb.sql(
        f"ATTACH '{lake}' AS purging (TYPE iceberg, ENDPOINT '{server.catalog_uri}', AUTHORIZATION_TYPE 'none', PURGE_REQUESTED true)"
    )
    for name in ("kept", "purged"):
        duckdb.sql(f"CREATE TABLE {town}.{name} AS SELECT 1 AS one")
    kept, purged = (pyiceberg.load_table(f"{schema}.{name}") for name in ("kept", "purged"))
    files_kept, files_purged = files_of(kept), files_of(purged)
    duckdb.sql(f"DROP TABLE {town}.kept")
    duckdb.sql(f"DROP TABLE purging.{schema}.purged")
    duckdb.sql("DETACH purging")
    wait_until_purged(purged, files_purged)
    assert files_kept == existing(kept, files_kept)


def test_views_of_others_are_not_seen(duckdb: EngineShell, town: str, pyiceberg: RestCatalog) -> None:
    """DuckDB lists and reads the tables beside a view. The view's name is not free for a table."""
    schema = town.partition(".")[2]
    create_view(pyiceberg, schema, "seen")
    duckdb.sql(f"CREATE TABLE {town}.t AS SELECT 1 AS x")
    assert [["t"]] == duckdb.sql(f"SHOW TABLES FROM {town}")
    assert [[1]] == duckdb.sql(f"SELECT * FROM {town}.t")
    with pytest.raises(SqlRefusedError, match="already exists"):
        duckdb.sql(f"CREATE TABLE {town}.seen (x INTEGER)")


def test_what_duckdb_lacks(duckdb: EngineShell, town: str) -> None:
    """DuckDB itself refuses these, as the page says."""
    duckdb.sql(f"CREATE TABLE {town}.t AS SELECT 1 AS x")
    with pytest.raises(SqlRefusedError, match="CREATE OR REPLACE not supported in DuckDB-Iceberg"):
        duckdb.sql(f"CREATE OR REPLACE TABLE {town}.t AS SELECT 2 AS x")
    with pytest.raises(SqlRefusedError, match="Not implemented Error: Create View"):
        duckdb.sql(f"CREATE VIEW {town}.v AS SELECT 1 AS one")


@pytest.mark.parametrize("by", ["position", "time"])
def test_a_past_state_is_attached(duckdb: EngineShell, town: str, server: Icecore, by: str) -> None:
    """The warehouse at a position of the log, and at a time. Writes are refused."""
    lake, _, schema = town.partition(".")
    duckdb.sql(f"CREATE TABLE {town}.t AS SELECT 1 AS x")
    past = f"'{lake}@{now() if by == 'time' else server.position()}'"
    duckdb.sql(f"INSERT INTO {town}.t VALUES (2)")
    duckdb.sql(f"ALTER TABLE {town}.t RENAME TO later")
    duckdb.sql(f"ATTACH {past} AS past (TYPE iceberg, ENDPOINT '{server.catalog_uri}', AUTHORIZATION_TYPE 'none')")
    assert [[1]] == duckdb.sql(f"SELECT * FROM past.{schema}.t")
    with pytest.raises(SqlRefusedError, match="past"):
        duckdb.sql(f"INSERT INTO past.{schema}.t VALUES (3)")
    duckdb.sql("DETACH past")


def test_a_credential_is_refused_with_the_reason(duckdb: EngineShell, server: Icecore) -> None:
    """DuckDB requests a token for it first."""
    with pytest.raises(SqlRefusedError, match="This catalog has no authentication: configure no credential"):
        duckdb.sql(f"ATTACH 'demo' AS held (TYPE iceberg, ENDPOINT '{server.catalog_uri}', CLIENT_ID 'user', CLIENT_SECRET 'secret')")


def test_the_log_rebuilds_what_duckdb_reads(duckdb: EngineShell, server: Icecore) -> None:
    """`icecore verify` finds no difference after all this, nor after a rebuild."""
    assert duckdb.sql("SHOW ALL TABLES")
    server.check_against_log()
