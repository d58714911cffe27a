"""PyIceberg as users run it: creates, writes, reads, evolves, renames and drops tables; and shares a table with Spark."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from tests.servers.icecore import Icecore
from tests.servers.moto import REGION, moto_s3
from tests.servers.spark import SparkShell, catalog_settings, spark_4_1, spark_shell

PEOPLE = pyarrow.table({"name": ["Ada", "Grace"], "born": pyarrow.array([1815, 1906], pyarrow.int32())})
MORE_PEOPLE = pyarrow.table({"name": ["Edsger"], "born": pyarrow.array([1930], pyarrow.int32())})


@pytest.fixture(scope="module")
def catalog(server: Icecore) -> Catalog:
    """The demo warehouse, as the README connects to it."""
    return load_catalog("icecore", type="rest", uri=server.catalog_uri, warehouse="demo")


@pytest.fixture
def town(catalog: Catalog, request: pytest.FixtureRequest) -> str:
    """A new namespace for this test."""
    name = f"town_{request.node.name}"
    catalog.create_namespace(name)
    return name


def names(catalog: Catalog, table: str) -> list[str]:
    """The column `name` of a table, in order."""
    column: list[str] = catalog.load_table(table).scan().to_arrow()["name"].to_pylist()
    return sorted(column)


def test_namespaces_live_and_end(catalog: Catalog) -> None:
    """A namespace is created, listed, nested and changed. Two operations are refused, and it is dropped once it is empty."""
    catalog.create_namespace("country", {"owner": "crown"})
    catalog.create_namespace(("country", "county"))
    assert ("country",) in catalog.list_namespaces()
    assert [("country", "county")] == catalog.list_namespaces("country")
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("country")
    summary = catalog.update_namespace_properties("country", removals={"owner", "absent"}, updates={"size": "large"})
    assert (["owner"], ["size"], ["absent"]) == (summary.removed, summary.updated, summary.missing)
    assert catalog.load_namespace_properties("country")["size"] == "large"
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("country")
    catalog.drop_namespace(("country", "county"))
    catalog.drop_namespace("country")
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_properties("country")


def test_rows_are_written_read_and_deleted(catalog: Catalog, town: str) -> None:
    """Append, filter, overwrite, delete and time travel by snapshot."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    first = table.current_snapshot()
    table.append(MORE_PEOPLE)
    assert ["Ada", "Edsger", "Grace"] == names(catalog, f"{town}.people")
    assert ["Edsger"] == table.scan(row_filter="born > 1910").to_arrow()["name"].to_pylist()
    table.delete("name = 'Ada'")
    assert ["Edsger", "Grace"] == names(catalog, f"{town}.people")
    table.overwrite(MORE_PEOPLE)
    assert ["Edsger"] == names(catalog, f"{town}.people")
    assert first is not None
    assert table.scan(snapshot_id=first.snapshot_id).to_arrow().num_rows == 2


def test_schema_and_partitions_evolve(catalog: Catalog, town: str) -> None:
    """Columns, partition fields and properties are changed, and every change is visible after a reload."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    with table.update_schema() as schema:
        schema.add_column("field", StringType())
        schema.rename_column("born", "year")
        schema.update_column("born", LongType())
    with table.update_spec() as spec:
        spec.add_field("name", IdentityTransform())
    with table.transaction() as transaction:
        transaction.set_properties(colour="blue")
    with table.update_schema() as schema:
        schema.delete_column("field")
    loaded = catalog.load_table(f"{town}.people")
    assert ["name", "year"] == [field.name for field in loaded.schema().fields]
    assert LongType() == loaded.schema().find_type("year")
    assert ["name"] == [field.name for field in loaded.spec().fields]
    assert loaded.properties["colour"] == "blue"
    assert [1815, 1906] == sorted(loaded.scan().to_arrow()["year"].to_pylist())


def test_branches_and_tags_point_into_history(catalog: Catalog, town: str) -> None:
    """A tag keeps its snapshot, and a branch has its own writes."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_tag(snapshot.snapshot_id, "first").create_branch(snapshot.snapshot_id, "trial").commit()
    table.append(MORE_PEOPLE, branch="trial")
    loaded = catalog.load_table(f"{town}.people")
    assert {"main", "first", "trial"} == set(loaded.refs())
    assert loaded.scan().to_arrow().num_rows == 2
    assert loaded.scan().use_ref("trial").to_arrow().num_rows == 3
    loaded.manage_snapshots().remove_branch("trial").remove_tag("first").commit()
    assert {"main"} == set(catalog.load_table(f"{town}.people").refs())


def test_a_writer_with_an_old_view_is_refused(catalog: Catalog, town: str) -> None:
    """Two clients change the schema of the same loaded state. The second is refused."""
    catalog.create_table(f"{town}.people", PEOPLE.schema)
    one, other = (catalog.load_table(f"{town}.people") for _ in range(2))
    with one.update_schema() as schema:
        schema.add_column("field", StringType())
    with pytest.raises(CommitFailedException, match="Requirement failed"), other.update_schema() as schema:
        schema.add_column("place", StringType())


def test_tables_are_renamed_and_dropped(catalog: Catalog, town: str) -> None:
    """A table is moved to another namespace with its rows, and its old name is free. A dropped table is gone, a purged one with its
    files.
    """
    catalog.create_namespace(f"{town}_next")
    catalog.create_table(f"{town}.people", PEOPLE.schema).append(PEOPLE)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{town}.people", PEOPLE.schema)
    catalog.rename_table(f"{town}.people", f"{town}_next.folk")
    assert [] == catalog.list_tables(town)
    assert [(f"{town}_next", "folk")] == catalog.list_tables(f"{town}_next")
    assert ["Ada", "Grace"] == names(catalog, f"{town}_next.folk")
    catalog.drop_table(f"{town}_next.folk")
    with pytest.raises(NoSuchTableError):
        catalog.load_table(f"{town}_next.folk")
    assert not catalog.table_exists(f"{town}_next.folk")


def test_a_staged_table_appears_with_its_rows(catalog: Catalog, town: str) -> None:
    """Create-as-select: the table is not visible before its first rows."""
    with catalog.create_table_transaction(f"{town}.people", PEOPLE.schema) as transaction:
        assert not catalog.table_exists(f"{town}.people")
        transaction.append(PEOPLE)
    assert ["Ada", "Grace"] == names(catalog, f"{town}.people")


def test_a_metadata_file_is_registered_as_a_table(catalog: Catalog, town: str) -> None:
    """A dropped table is registered under another name from its metadata file."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    catalog.drop_table(f"{town}.people")
    catalog.register_table(f"{town}.again", table.metadata_location)
    assert ["Ada", "Grace"] == names(catalog, f"{town}.again")


def test_the_past_is_read_by_position(catalog: Catalog, server: Icecore, town: str) -> None:
    """A client of `demo@<position>` sees the tables at that position and cannot write."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    position = server.position()
    table.append(MORE_PEOPLE)
    catalog.rename_table(f"{town}.people", f"{town}.folk")
    then = load_catalog("then", type="rest", uri=server.catalog_uri, warehouse=f"demo@{position}")
    assert [(town, "people")] == then.list_tables(town)
    assert ["Ada", "Grace"] == names(then, f"{town}.people")
    with pytest.raises(Exception, match="past"):
        then.create_namespace("never")
    assert ["Ada", "Edsger", "Grace"] == names(catalog, f"{town}.folk")


@pytest.fixture(scope="module")
def spark(server: Icecore, scratch: Path) -> Iterator[SparkShell]:
    """Spark 4.1 on the demo warehouse."""
    with spark_shell(spark_4_1(), catalog_settings(server.catalog_uri, "demo"), scratch / "spark") as shell:
        yield shell


@pytest.mark.timeout(900)
def test_spark_and_pyiceberg_share_a_table(catalog: Catalog, town: str, spark: SparkShell) -> None:
    """Each reads the rows and the schema that the other has written."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    assert [["Ada", 1815], ["Grace", 1906]] == spark.sql(f"SELECT name, born FROM ice.{town}.people ORDER BY name")
    spark.sql(f"ALTER TABLE ice.{town}.people ADD COLUMN field STRING")
    spark.sql(f"INSERT INTO ice.{town}.people VALUES ('Edsger', 1930, 'paths')")
    spark.sql(f"UPDATE ice.{town}.people SET field = 'engines' WHERE name = 'Ada'")
    rows = catalog.load_table(f"{town}.people").scan().to_arrow().sort_by("name").to_pydict()
    assert {"name": ["Ada", "Edsger", "Grace"], "born": [1815, 1930, 1906], "field": ["engines", "paths", None]} == rows
    table = catalog.load_table(f"{town}.people")
    with table.update_schema() as schema:
        schema.rename_column("born", "year")
    table.delete("name = 'Grace'")
    spark.sql(f"REFRESH TABLE ice.{town}.people")
    assert [["Ada", 1815], ["Edsger", 1930]] == spark.sql(f"SELECT name, year FROM ice.{town}.people ORDER BY name")


@pytest.mark.timeout(900)
def test_a_view_of_spark_is_seen_renamed_and_dropped_by_pyiceberg(catalog: Catalog, town: str, spark: SparkShell) -> None:
    """Views are listed with tables: both clients list, find and drop them."""
    spark.sql(f"CREATE VIEW ice.{town}.recent AS SELECT 1 AS one")
    assert [(town, "recent")] == catalog.list_views(town)
    assert catalog.view_exists(f"{town}.recent")
    catalog.drop_view(f"{town}.recent")
    assert [] == spark.sql(f"SHOW VIEWS IN ice.{town}")


def test_tables_lie_on_an_s3_server(server: Icecore, scratch: Path) -> None:
    """The same on S3. The clients have their own credentials."""
    with moto_s3(scratch) as s3:
        server.create_warehouse("bucket", s3.storage_profile, s3.storage_credential)
        keys = {"s3.access-key-id": s3.environment["AWS_ACCESS_KEY_ID"], "s3.secret-access-key": s3.environment["AWS_SECRET_ACCESS_KEY"]}
        own = {"s3.endpoint": s3.endpoint, "s3.region": REGION, **keys}
        catalog = load_catalog("bucket", type="rest", uri=server.catalog_uri, warehouse="bucket", **own)
        catalog.create_namespace("town")
        table = catalog.create_table("town.people", PEOPLE.schema)
        assert table.location().startswith(f"s3://{s3.bucket}/")
        table.append(PEOPLE)
        with table.update_schema() as schema:
            schema.add_column("field", StringType())
        catalog.rename_table("town.people", "town.folk")
        assert ["Ada", "Grace"] == names(catalog, "town.folk")
        catalog.drop_table("town.folk")


def test_log_rebuilds_what_pyiceberg_reads(catalog: Catalog, server: Icecore) -> None:
    """`icecore verify` finds no difference after all this, nor after a rebuild."""
    assert catalog.list_namespaces()
    server.check_against_log()
