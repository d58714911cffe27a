"""Lands the log and the metrics reports in Iceberg tables. Each table stores its own checkpoint, so everything is landed exactly once.

The position that a table has reached is in the summary of the commit that brings the rows, with the position that this commit is based on.
The catalog refuses a commit that is based on another one (domain/metadata/increasing_summary.py). A job that was killed, or was slower than
another, therefore goes on where the table is.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import psycopg
import structlog

from ..domain.client_errors import client_error_text
from ..domain.metadata.increasing_summary import PREVIOUS_SUFFIX
from .event_source import EventSource
from .landed_tables import (
    EVENTS,
    LANDED,
    LOG_TABLES,
    OBJECTS,
    REPORT_TABLES,
    TABLE_CHANGES,
    TABLE_COMMITS,
    LandedTable,
    create_tables,
    landed_events,
    landed_position,
)
from .log_source import LogSource
from .metrics_source import MetricsSource, ReportBatch
from .session import DataFrame, SparkSession, first_line, is_conflict, spark_errors
from .transforms import object_changes, object_merge, table_changes, table_commits
from .views import create_views

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.pipeline")

BATCH_EVENTS_MAX = 20_000
"""Events or metrics reports in one commit of a table. Spark before 4.2 cannot limit what a source gives, so the job does."""
RANGE_EVENTS = 2_500
"""Events that one task reads."""
REFUSALS_MAX = 20
"""Refused commits without progress of the table after which the job gives up."""
FOLLOW_SECONDS = 2.0
"""Pause between two looks at the log's end."""
FOLLOW_FAILURES_MAX = 60
"""Looks in a row that fail, for example because the catalog or the database restarts, after which a job with `follow` ends."""


class IngestError(Exception):
    """The tables cannot be brought up to date; the message says why."""


@dataclass(slots=True)
class IngestResult:
    """What one run landed.

    positions -- how far each table is, in the log or in the metrics reports. commits -- of all tables. refused -- commits refused because
    another job was first.
    """

    positions: dict[str, int] = field(default_factory=dict)
    events: int = 0
    metrics_reports: int = 0
    commits: int = 0
    refused: int = 0


def ingest(
    spark: SparkSession,
    source: EventSource,
    metrics: MetricsSource | None,
    *,
    batch_events: int = BATCH_EVENTS_MAX,
    follow: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> IngestResult:
    """Brings all tables up to the end of the log and of the metrics reports; with `follow` again and again until `stop`.

    metrics -- None: the source has no metrics reports. Raises IngestError and SourceError.
    """
    create_tables(spark)
    create_views(spark)
    result = IngestResult()
    failures = 0
    while True:
        try:
            _land(spark, source, metrics, batch_events, result, stop)
            failures = 0
        except Exception as error:
            failures += 1
            passes = isinstance(error, (*spark_errors(), psycopg.OperationalError))
            if not follow or not passes or failures >= FOLLOW_FAILURES_MAX:
                raise
            _log.warning("landing_failed", error=_message(error), failures=failures)
        if not follow or stop():
            result.positions = {table.name: landed_position(spark, table) for table in LANDED}
            return result
        time.sleep(FOLLOW_SECONDS)


def check_same_database(spark: SparkSession, log: LogSource, metrics: MetricsSource) -> None:
    """Raises IngestError if the tables have events or metrics reports that are not in the database.

    Its catalog is then not that of the tables: what is new in it may have positions that the tables already have.
    """
    advice = "the catalog of the tables has another database"
    if spark.catalog.tableExists(EVENTS.full_name) and (position := landed_position(spark, EVENTS)):
        last = landed_events(spark, position - 1, position).select("event_id").head()
        if last is not None and last.event_id != log.event_id(position):
            raise IngestError(f"The event at position {position} of the table {EVENTS.name} is not that of the log: {advice}")
    for table in REPORT_TABLES:
        if spark.catalog.tableExists(table.full_name) and (position := landed_position(spark, table)):
            last_position = metrics.last_position()
            if 0 < last_position < position:
                raise IngestError(f"The table {table.name} is at position {position}, the metrics reports end at {last_position}: {advice}")


_WriteBatch = Callable[[SparkSession, LandedTable, int, int], None]
"""Writes to a table what moves it from one position to another."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """One commit, which moves a table from position `after` to `to`. events, metrics_reports -- number that it lands."""

    table: LandedTable
    after: int
    to: int
    write: _WriteBatch
    events: int = 0
    metrics_reports: int = 0


def _land(
    spark: SparkSession,
    source: EventSource,
    metrics: MetricsSource | None,
    batch_events: int,
    result: IngestResult,
    stop: Callable[[], bool],
) -> None:
    refusals = 0
    while not stop():
        before = {table.name: landed_position(spark, table) for table in LANDED}
        batches = [*_log_batches(source, before, batch_events), *(_report_batches(metrics, before, batch_events) if metrics else ())]
        if not batches:
            return
        try:
            for batch in batches:
                batch.write(spark, batch.table, batch.after, batch.to)
                result.commits += 1
                result.events += batch.events
                result.metrics_reports += batch.metrics_reports
            refusals = 0
        except Exception as error:
            if not is_conflict(error):
                raise
            result.refused += 1
            progress = any(landed_position(spark, table) > before[table.name] for table in LANDED)
            refusals = 0 if progress else refusals + 1
            if refusals >= REFUSALS_MAX:
                raise IngestError(f"The catalog refused {refusals} commits in a row: {first_line(error)}") from None
            _log.info("batch_refused", reason=first_line(error))


def _message(error: Exception) -> str:
    return client_error_text(error) if isinstance(error, psycopg.Error) else first_line(error)


def _log_batches(source: EventSource, before: Mapping[str, int], batch_events: int) -> Iterator[_Batch]:
    """The next batch of each table that has less of the log than `events`, and of `events`."""
    landed = before[EVENTS.name]
    for table in LOG_TABLES[1:]:
        after = before[table.name]
        if after < landed:
            yield _Batch(table, after, min(after + batch_events, landed), _WRITES[table.name])
    last = source.last_position_to_land(landed)
    if last is not None:
        to = min(landed + batch_events, last)
        yield _Batch(EVENTS, landed, to, partial(_write_events, source), events=to - landed)


def _report_batches(metrics: MetricsSource, before: Mapping[str, int], batch_reports: int) -> Iterator[_Batch]:
    for table in REPORT_TABLES:
        after = before[table.name]
        reports = metrics.batch(table, after, batch_reports)
        if reports is not None:
            yield _Batch(table, after, reports.to, partial(_write_reports, metrics, reports), metrics_reports=reports.count)


def _write_events(source: EventSource, spark: SparkSession, table: LandedTable, after: int, to: int) -> None:
    rows = source.events(spark, after, to, range_events=RANGE_EVENTS)
    _commit(spark, table, after, to, lambda: _append(rows, table))


def _write_reports(metrics: MetricsSource, reports: ReportBatch, spark: SparkSession, table: LandedTable, after: int, to: int) -> None:
    rows = metrics.reports(spark, table, reports)
    _commit(spark, table, after, to, lambda: _append(rows, table))


def _write_commits(spark: SparkSession, table: LandedTable, after: int, to: int) -> None:
    events = landed_events(spark, after, to)
    previous = spark.table(table.full_name).groupBy("table_id").agg({"recorded_at": "max"}).toDF("table_id", "recorded_at")
    _commit(spark, table, after, to, lambda: _append(table_commits(events, previous), table))


def _write_changes(spark: SparkSession, table: LandedTable, after: int, to: int) -> None:
    events = landed_events(spark, after, to)
    _commit(spark, table, after, to, lambda: _append(table_changes(events), table))


def _merge_objects(spark: SparkSession, table: LandedTable, after: int, to: int) -> None:
    # Spark 4.1 cannot plan a MERGE from a view on a table of the catalog. The rows of a batch are few.
    object_merge(object_changes(landed_events(spark, after, to))).localCheckpoint().createOrReplaceTempView("object_changes")
    columns = ", ".join(table.columns)
    values = ", ".join(f"s.{name}" for name in table.columns)
    _commit(
        spark,
        table,
        after,
        to,
        lambda: spark.sql(
            f"MERGE INTO {table.full_name} t USING object_changes s"  # noqa: S608 -- names of our own
            " ON t.object_id = s.object_id AND t.to_position IS NULL AND s.ends"
            " WHEN MATCHED THEN UPDATE SET t.to_position = s.to_position, t.to_time = s.to_time"
            f" WHEN NOT MATCHED AND NOT s.ends THEN INSERT ({columns}) VALUES ({values})"
        ),
    )


_WRITES: dict[str, _WriteBatch] = {TABLE_COMMITS.name: _write_commits, TABLE_CHANGES.name: _write_changes, OBJECTS.name: _merge_objects}


def _append(rows: DataFrame, table: LandedTable) -> None:
    rows.writeTo(table.full_name).append()


class _JavaCallable:
    """A write that Java calls."""

    def __init__(self, write: Callable[[], object]) -> None:
        self._write = write
        self.error: Exception | None = None

    def call(self) -> None:
        try:
            self._write()
        except Exception as error:
            # Java would lose its type and most of its message.
            self.error = error

    class Java:
        implements = ("java.util.concurrent.Callable",)


def _commit(spark: SparkSession, table: LandedTable, after: int, to: int, write: Callable[[], object]) -> None:
    """Runs one write whose commit moves the table from position `after` to `to`.

    Iceberg adds the properties to the summary of each commit of this thread; a MERGE has no options of its own.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    context = spark.sparkContext
    ensure_callback_server_started(context._gateway)
    called = _JavaCallable(write)
    properties = {table.position_key: str(to), f"{table.position_key}{PREVIOUS_SUFFIX}": str(after)}
    failure = context._jvm.java.lang.Class.forName("java.lang.RuntimeException")
    context._jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(properties, called, failure)
    if called.error is not None:
        raise called.error
    _log.info("landed", table=table.name, position=to)
