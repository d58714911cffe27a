"""The Iceberg tables that hold the log: their columns, and how they are created and get new columns."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..domain.metadata.increasing_summary import KEY_PROPERTY, VALUE_PROPERTY
from .session import CATALOG, DataFrame, SparkSession

NAMESPACE = "log"
LOG_POSITION = "icecore.log-position"
"""The key in the summaries of the tables that are made from the log: the position up to which a table has it."""
REPORT_POSITION = "icecore.metrics-report-position"
"""The same for the tables of metrics reports, which have positions of their own."""
_PROPERTIES = {
    # A repeated commit would be a second one. A job that is refused reads where the table is, and goes on from there.
    "commit.retry.num-retries": "0",
    "format-version": "2",
}


@dataclass(frozen=True, slots=True)
class LandedTable:
    """A table that the pipeline writes.

    columns -- names to Spark SQL types; only add columns, at the end. partitioning -- as in PARTITIONED BY; empty: none.
    position_key -- LOG_POSITION or REPORT_POSITION.
    """

    name: str
    columns: Mapping[str, str]
    partitioning: str = ""
    position_key: str = LOG_POSITION

    @property
    def full_name(self) -> str:
        return f"{CATALOG}.{NAMESPACE}.{self.name}"

    @property
    def schema(self) -> str:
        """The columns as Spark reads a schema."""
        return ", ".join(f"{name} {kind}" for name, kind in self.columns.items())


EVENTS = LandedTable(
    "events",
    {
        "position": "bigint",
        "event_id": "string",
        "stream_id": "string",
        "version": "bigint",
        "kind": "string",
        "type": "string",
        "topic": "string",
        "recorded_at": "timestamp",
        "actor": "string",
        "command_id": "string",
        "project_id": "string",
        "warehouse_id": "string",
        "request_id": "string",
        "correlation_id": "string",
        "causation_id": "string",
        "traceparent": "string",
        "context": "string",
        "of_pipeline": "boolean",
        "path": "array<string>",
        "data": "string",
        "state": "binary",
        "hash": "binary",
    },
    "days(recorded_at), kind",
)
"""One row per event. kind, type -- `table` and `table.committed` of the topic `table.committed.v1`. path -- names as of the event: the
warehouse, the levels of the namespace, the object. data -- as consumers get it (docs/reference/events.md). state, hash -- the stored row,
for verification. of_pipeline -- an event of the warehouse that holds these tables; the other tables leave these out.
"""

_TABLE = {
    "position": "bigint",
    "version": "bigint",
    "recorded_at": "timestamp",
    "table_id": "string",
    "warehouse_id": "string",
    "warehouse": "string",
    "namespace": "string",
    "name": "string",
    "type": "string",
    "actor": "string",
    "command_id": "string",
}

TABLE_COMMITS = LandedTable(
    "table_commits",
    {
        **_TABLE,
        "operation": "string",
        "current_snapshot_id": "bigint",
        "snapshots_added": "int",
        "snapshots_removed": "int",
        "added_data_files": "bigint",
        "removed_data_files": "bigint",
        "added_delete_files": "bigint",
        "removed_delete_files": "bigint",
        "added_rows": "bigint",
        "removed_rows": "bigint",
        "added_bytes": "bigint",
        "removed_bytes": "bigint",
        "total_data_files": "bigint",
        "total_delete_files": "bigint",
        "total_rows": "bigint",
        "total_bytes": "bigint",
        "seconds_since_previous": "double",
        "writer": "string",
        "added_position_delete_files": "bigint",
        "removed_position_delete_files": "bigint",
    },
    "days(recorded_at)",
)
"""One row per event that gave a table a metadata file. added_…, removed_… -- sums over the snapshots that the event added, or the totals of
the snapshot with which a created or registered table begins. Position delete files are among the delete files, without deletion vectors.
total_… -- of the current snapshot, if the event made it current. seconds_since_previous -- since the table's row before; NULL for its
first. writer -- the engine and its version as in the summary.
"""

TABLE_CHANGES = LandedTable(
    "table_changes",
    {
        **_TABLE,
        "location": "string",
        "format_version": "int",
        "schema_id": "int",
        "default_spec_id": "int",
        "default_sort_order_id": "int",
        "properties_set": "map<string,string>",
        "properties_removed": "array<string>",
        "refs_set": "array<struct<name:string,type:string,snapshot_id:bigint>>",
        "actions": "array<string>",
    },
    "days(recorded_at)",
)
"""One row per event that changed a table's schema, layout, properties or refs. Other columns are NULL or empty."""

OBJECTS = LandedTable(
    "objects",
    {
        "object_id": "string",
        "kind": "string",
        "project_id": "string",
        "warehouse_id": "string",
        "path": "array<string>",
        "status": "string",
        "from_position": "bigint",
        "from_time": "timestamp",
        "to_position": "bigint",
        "to_time": "timestamp",
        "namespace_id": "string",
    },
)
"""The names and status of projects, warehouses, namespaces, tables and views, each from one event to another. to_position, to_time -- NULL:
until now. path -- as of from_position: a later move of a namespace above begins no row. namespace_id -- of a table or view.
"""

_METRICS_REPORT = {
    "position": "bigint",
    "report_id": "string",
    "received_at": "timestamp",
    "table_id": "string",
    "warehouse_id": "string",
    "actor": "string",
    "engine": "string",
    "table_name": "string",
    "snapshot_id": "bigint",
    "metadata": "map<string,string>",
}

SCAN_REPORTS = LandedTable(
    "scan_reports",
    {
        **_METRICS_REPORT,
        "schema_id": "int",
        "filter": "string",
        "projected_columns": "array<string>",
        "planning_seconds": "double",
        "data_files": "bigint",
        "delete_files": "bigint",
        "bytes": "bigint",
        "skipped_data_files": "bigint",
        "scanned_data_manifests": "bigint",
        "skipped_data_manifests": "bigint",
    },
    "days(received_at)",
    REPORT_POSITION,
)
"""One row per scan that an engine reported. engine -- name and version. table_name -- as the engine names the table, with its own name of
the catalog. filter -- an expression of Iceberg as JSON. data_files, delete_files, bytes -- that the scan has to read. skipped_… -- left out
because of their statistics.
"""

COMMIT_REPORTS = LandedTable(
    "commit_reports",
    {
        **_METRICS_REPORT,
        "sequence_number": "bigint",
        "operation": "string",
        "seconds": "double",
        "attempts": "bigint",
        "added_data_files": "bigint",
        "removed_data_files": "bigint",
        "added_rows": "bigint",
        "removed_rows": "bigint",
    },
    "days(received_at)",
    REPORT_POSITION,
)
"""One row per commit that an engine reported; engines report those that succeeded. attempts -- including those that conflicted with others.
seconds -- from the first attempt to the end of the last.
"""

LOG_TABLES = (EVENTS, TABLE_COMMITS, TABLE_CHANGES, OBJECTS)
REPORT_TABLES = (SCAN_REPORTS, COMMIT_REPORTS)
LANDED = (*LOG_TABLES, *REPORT_TABLES)


def create_tables(spark: SparkSession) -> None:
    """Creates the namespace and the tables if they are missing, and adds missing columns. Two jobs may do so at once."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{NAMESPACE}")
    for table in LANDED:
        if not spark.catalog.tableExists(table.full_name):
            _create(spark, table)
        present = frozenset(spark.table(table.full_name).columns)
        missing = ", ".join(f"{name} {kind}" for name, kind in table.columns.items() if name not in present)
        if missing:
            spark.sql(f"ALTER TABLE {table.full_name} ADD COLUMNS ({missing})")


def _create(spark: SparkSession, table: LandedTable) -> None:
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in {KEY_PROPERTY: table.position_key, **_PROPERTIES}.items())
    partitioned = f"PARTITIONED BY ({table.partitioning})" if table.partitioning else ""
    try:
        spark.sql(f"CREATE TABLE {table.full_name} ({table.schema}) USING iceberg {partitioned} TBLPROPERTIES ({properties})")
    except Exception:
        # Another job was first.
        if not spark.catalog.tableExists(table.full_name):
            raise


def landed_position(spark: SparkSession, table: LandedTable) -> int:
    """The position up to which the table has the log or the metrics reports; 0: it is empty. It outlives the snapshot that brought it."""
    found = spark.sql(f"SHOW TBLPROPERTIES {table.full_name}").where(f"key = '{VALUE_PROPERTY}'").collect()
    return int(found[0]["value"]) if found else 0


def landed_events(spark: SparkSession, after: int, to: int) -> DataFrame:
    """The landed events after a position, up to `to`."""
    return spark.table(EVENTS.full_name).where(f"position > {after} AND position <= {to}")
