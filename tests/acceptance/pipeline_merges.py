"""The merge into the landed table `objects`, batch by batch, and its new columns, in a process with PySpark (pipeline_transforms.py)."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from icecore.pipeline.ingest import _merge_objects
from icecore.pipeline.landed_tables import EVENTS, OBJECTS, create_tables
from icecore.pipeline.session import SparkSession
from tests.acceptance.pipeline_facts import put

START = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = str(UUID(int=99))
FIRST = 1_000
"""After the positions of pipeline_facts.py."""


def check_merges(spark: SparkSession) -> None:
    """A row that has ended keeps its end, though the object changes again in a later batch."""
    create_tables(spark)
    types = ("table.created", "table.renamed", "table.renamed", "table.dropped")
    for number, each in enumerate(types):
        path = ["w", "n", "t"]
        event = {"kind": "table", "type": each, "version": number + 1, "stream_id": TABLE, "of_pipeline": False, "path": path, "data": "{}"}
        put(spark, EVENTS, {**event, "position": FIRST + number, "recorded_at": START + timedelta(seconds=number)})
        _merge_objects(spark, OBJECTS, FIRST + number - 1, FIRST + number)
    rows = spark.table(OBJECTS.full_name).where(f"object_id = '{TABLE}'").collect()
    found = sorted((row.from_position - FIRST, row.to_position and row.to_position - FIRST, row.status) for row in rows)
    assert [(0, 1, "live"), (1, 2, "live"), (2, 3, "live"), (3, None, "dropped")] == found, found


def check_columns(spark: SparkSession) -> None:
    """A table of an earlier version gets the columns that are new."""
    spark.sql(f"ALTER TABLE {OBJECTS.full_name} DROP COLUMN namespace_id")
    create_tables(spark)
    assert [*OBJECTS.columns] == spark.table(OBJECTS.full_name).columns
