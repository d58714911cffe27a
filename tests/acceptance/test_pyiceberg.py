"""PyIceberg as users run it, on local files and on S3: tables and views are created, written, read, changed, renamed and dropped."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    OAuthError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table, TableIdentifier
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tests.acceptance.table_files import existing, files_of, now, wait_until_purged
from tests.acceptance.views import SQL, create_view
from tests.servers.icecore import Icecore
from tests.servers.moto import S3, moto_s3

PEOPLE = pyarrow.table({"name": ["Ada", "Grace"], "born": pyarrow.array([1815, 1906], pyarrow.int32())})
MORE_PEOPLE = pyarrow.table({"name": ["Edsger"], "born": pyarrow.array([1930], pyarrow.int32())})


LAKES = ("demo", "lake")
"""The warehouses: local files and S3."""


@pytest.fixture(scope="module")
def s3(scratch: Path) -> Iterator[S3]:
    with moto_s3(scratch) as running:
        yield running


@pytest.fixture(scope="module", params=LAKES)
def catalog(request: pytest.FixtureRequest, server: Icecore, s3: S3) -> RestCatalog:
    """A warehouse, as the README connects to it. The catalog says where the S3 store is, the client has only its keys."""
    if request.param == "lake":
        server.create_warehouse("lake", s3.storage_profile, s3.storage_credential)
    return connect(server, s3, request.param)


def connect(server: Icecore, s3: S3, warehouse: str) -> RestCatalog:
    keys = {"s3.access-key-id": s3.environment["AWS_ACCESS_KEY_ID"], "s3.secret-access-key": s3.environment["AWS_SECRET_ACCESS_KEY"]}
    return RestCatalog(warehouse, uri=server.catalog_uri, warehouse=warehouse, **keys)


@pytest.fixture
def town(catalog: RestCatalog, request: pytest.FixtureRequest) -> str:
    """A new namespace for this test."""
    name = re.sub(r"\W+", "_", f"town_{request.node.name}")
    catalog.create_namespace(name)
    return name


def names(catalog: RestCatalog, table: str) -> list[str]:
    """The column `name` of a table, in order."""
    column: list[str] = catalog.load_table(table).scan().to_arrow()["name"].to_pylist()
    return sorted(column)


def test_namespaces_live_and_end(catalog: RestCatalog) -> None:
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


def test_rows_are_written_read_and_deleted(catalog: RestCatalog, town: str) -> None:
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


def test_rows_are_appended_to_partitions_by_transforms(catalog: RestCatalog, town: str) -> None:
    """PyIceberg computes them with pyiceberg-core, which the environment of `make run` has."""
    parts = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "letter"), PartitionField(2, 1001, TruncateTransform(100), "century"))
    schema = Schema(NestedField(1, "name", StringType()), NestedField(2, "born", IntegerType()))
    catalog.create_table(f"{town}.people", schema, partition_spec=parts).append(PEOPLE)
    assert ["Ada", "Grace"] == names(catalog, f"{town}.people")


def test_tables_of_format_version_3_are_not_written(catalog: RestCatalog, town: str) -> None:
    """PyIceberg itself refuses, as the page says. It creates and reads them."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema, properties={"format-version": "3"})
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        table.append(PEOPLE)
    assert [] == names(catalog, f"{town}.people")


def test_schema_and_partitions_evolve(catalog: RestCatalog, town: str) -> None:
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


def test_branches_and_tags_point_into_history(catalog: RestCatalog, town: str) -> None:
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


def test_a_writer_with_an_old_view_is_refused(catalog: RestCatalog, town: str) -> None:
    """Two clients change the schema of the same loaded state. The second is refused."""
    catalog.create_table(f"{town}.people", PEOPLE.schema)
    one, other = (catalog.load_table(f"{town}.people") for _ in range(2))
    with one.update_schema() as schema:
        schema.add_column("field", StringType())
    with pytest.raises(CommitFailedException, match="Requirement failed"), other.update_schema() as schema:
        schema.add_column("place", StringType())


def test_tables_are_renamed_and_dropped(catalog: RestCatalog, town: str) -> None:
    """A table is moved to another namespace with its rows, and its old name is free. A dropped table is gone."""
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


def test_a_staged_table_appears_with_its_rows(catalog: RestCatalog, town: str) -> None:
    """Create-as-select: the table is not visible before its first rows."""
    with catalog.create_table_transaction(f"{town}.people", PEOPLE.schema) as transaction:
        assert not catalog.table_exists(f"{town}.people")
        transaction.append(PEOPLE)
    assert ["Ada", "Grace"] == names(catalog, f"{town}.people")


def test_a_metadata_file_is_registered_as_a_table(catalog: RestCatalog, town: str) -> None:
    """A dropped table is registered under another name from its metadata file."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    catalog.drop_table(f"{town}.people")
    catalog.register_table(f"{town}.again", table.metadata_location)
    assert ["Ada", "Grace"] == names(catalog, f"{town}.again")


def test_a_dropped_table_keeps_its_files_and_a_purged_one_does_not(catalog: RestCatalog, town: str) -> None:
    kept, purged = (catalog.create_table(f"{town}.{name}", PEOPLE.schema) for name in ("kept", "purged"))
    for table in (kept, purged):
        table.append(PEOPLE)
        table.append(MORE_PEOPLE)
    files_kept, files_purged = files_of(kept), files_of(purged)
    catalog.drop_table(f"{town}.kept")
    catalog.purge_table(f"{town}.purged")
    wait_until_purged(purged, files_purged)
    assert files_kept == existing(kept, files_kept)


def test_rows_are_merged(catalog: RestCatalog, town: str) -> None:
    """An upsert updates the rows whose key is known, and inserts the others."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    change = pyarrow.table({"name": ["Ada", "Edsger"], "born": pyarrow.array([1816, 1930], pyarrow.int32())})
    done = table.upsert(change, join_cols=["name"])
    assert (1, 1) == (done.rows_updated, done.rows_inserted)
    rows = catalog.load_table(f"{town}.people").scan().to_arrow().sort_by("name").to_pydict()
    assert {"name": ["Ada", "Edsger", "Grace"], "born": [1816, 1930, 1906]} == rows


def test_a_table_is_replaced_by_the_metadata_of_another(catalog: RestCatalog, town: str) -> None:
    """Registered over: the name has the other rows at once."""
    catalog.create_table(f"{town}.people", PEOPLE.schema).append(PEOPLE)
    other = catalog.create_table(f"{town}.other", MORE_PEOPLE.schema)
    other.append(MORE_PEOPLE)
    catalog.drop_table(f"{town}.other")
    catalog.register_table(f"{town}.people", other.metadata_location, overwrite=True)
    assert ["Edsger"] == names(catalog, f"{town}.people")


def test_views_live_and_end(catalog: RestCatalog, town: str) -> None:
    """A view is created, listed, loaded and dropped. Its name is not free for a table, nor a table's for it."""
    catalog.create_table(f"{town}.people", PEOPLE.schema)
    create_view(catalog, town, "recent")
    assert [(town, "recent")] == catalog.list_views(town)
    assert [(town, "people")] == catalog.list_tables(town)
    assert catalog.view_exists(f"{town}.recent")
    assert SQL == catalog.load_view(f"{town}.recent").current_version().representations[0].root
    with pytest.raises(ViewAlreadyExistsError):
        create_view(catalog, town, "people")
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{town}.recent", PEOPLE.schema)
    catalog.drop_view(f"{town}.recent")
    with pytest.raises(NoSuchViewError):
        catalog.load_view(f"{town}.recent")


def test_two_tables_change_in_one_commit(catalog: RestCatalog, town: str) -> None:
    """PyIceberg has no call for it, so its own changes are sent as one transaction. If one is refused, neither is made."""
    tables = [catalog.create_table(f"{town}.{name}", PEOPLE.schema) for name in ("here", "there")]
    assert commit_transaction(catalog, tables) == 204
    assert [2, 2] == [catalog.load_table(table.name()).scan().to_arrow().num_rows for table in tables]
    here, there = (catalog.load_table(table.name()) for table in tables)
    catalog.load_table(there.name()).append(MORE_PEOPLE)
    assert commit_transaction(catalog, [here, there]) == 409
    assert [2, 3] == [catalog.load_table(table.name()).scan().to_arrow().num_rows for table in tables]


def commit_transaction(catalog: RestCatalog, tables: list[Table]) -> int:
    """Appends the same rows to each table in one request. Returns the status."""
    changes = []
    for table in tables:
        transaction = table.transaction()
        transaction.append(PEOPLE)
        *namespace, name = table.name()
        change = CommitTableRequest(
            identifier=TableIdentifier(namespace=namespace, name=name),
            requirements=transaction._requirements,
            updates=transaction._updates,
        )
        changes.append(change.model_dump(mode="json", by_alias=True, exclude_none=True))
    status: int = catalog._session.post(catalog.url("transactions/commit"), json={"table-changes": changes}).status_code
    return status


@pytest.mark.parametrize("by", ["position", "time"])
def test_the_past_is_read(catalog: RestCatalog, server: Icecore, s3: S3, town: str, by: str) -> None:
    """A client of `demo@<position>` or `demo@<time>` sees the tables as they were and cannot write."""
    table = catalog.create_table(f"{town}.people", PEOPLE.schema)
    table.append(PEOPLE)
    point = now() if by == "time" else server.position()
    table.append(MORE_PEOPLE)
    catalog.rename_table(f"{town}.people", f"{town}.folk")
    then = connect(server, s3, f"{catalog.name}@{point}")
    assert [(town, "people")] == then.list_tables(town)
    assert ["Ada", "Grace"] == names(then, f"{town}.people")
    with pytest.raises(Exception, match="past"):
        then.create_namespace("never")
    assert ["Ada", "Edsger", "Grace"] == names(catalog, f"{town}.folk")


def test_a_credential_is_refused_with_the_reason(server: Icecore) -> None:
    """PyIceberg requests a token for it first."""
    with (
        pytest.warns(DeprecationWarning, match="oauth2-server-uri"),
        pytest.raises(OAuthError, match="unsupported_grant_type: This catalog has no authentication: configure no credential"),
    ):
        RestCatalog("with a credential", uri=server.catalog_uri, warehouse="demo", credential="user:secret")


def test_log_rebuilds_what_pyiceberg_reads(catalog: RestCatalog, server: Icecore) -> None:
    """`icecore verify` finds no difference after all this, nor after a rebuild."""
    assert catalog.list_namespaces()
    server.check_against_log()
