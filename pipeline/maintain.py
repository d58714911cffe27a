"""Runs a plan of maintenance with Iceberg's Spark procedures. Each run is recorded: its plan before it begins, its outcome at its end.

A procedure is one commit of Iceberg, or several that are each complete, so that a job which is killed leaves nothing half done. Writers of
the table win: a procedure whose commit is refused starts again on what they wrote.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import structlog

from ..domain.maintenance import Outcome
from .maintenance_plan import Candidate
from .maintenance_policy import InvalidPolicyError, MaintenancePolicy, parse_policy
from .session import CATALOG, SparkSession, first_line, is_conflict, spark_errors

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.pipeline")

ATTEMPTS_MAX = 3
LISTED_FILES_MAX = 100
"""Orphan files that the log record names."""
FAILURES_MAX = 3
"""Failed runs in a row after which the rest of the plan is skipped, because the catalog or the object store is probably unreachable."""


class CannotMaintain(Exception):
    """Nothing may be done to the table now; the message says why. The run has not begun, so nothing is recorded."""


class FileOutsideTableError(Exception):
    """A procedure would remove a file outside the table's location; the message names it. Nothing was removed."""


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """The table of a run that was recorded: its warehouse, as Spark's catalog gets it, and its name and policy now.

    run -- what the recorder needs for the outcome.
    """

    warehouse: str
    warehouse_id: UUID
    namespace: tuple[str, ...]
    name: str
    location: str
    policy: MaintenancePolicy
    run: Any


@dataclass(frozen=True, slots=True)
class RunResult:
    outcome: Outcome
    measured: Mapping[str, int]
    attempts: int
    duration_ms: int
    error: str | None = None


class Recorder(Protocol):
    """Records runs in the log."""

    def begin(self, planned: Candidate, *, shadow: bool) -> CurrentTable:
        """Raises CannotMaintain, for example for a table that was dropped since it was planned."""

    def finish(self, table: CurrentTable, outcome: RunResult) -> None: ...


@dataclass(slots=True)
class MaintenanceResult:
    """runs -- what was done, with the outcome of each. skipped -- with the reason. stopped -- why the rest of the plan was skipped."""

    runs: list[tuple[Candidate, RunResult]] = field(default_factory=list)
    skipped: list[tuple[Candidate, str]] = field(default_factory=list)
    stopped: str | None = None


def current_policy(planned: Candidate, properties: Mapping[str, str]) -> MaintenancePolicy:
    """The policy of a table with its properties now. Raises CannotMaintain if they do not permit the procedure any more."""
    try:
        policy = parse_policy({**planned.inherited, **properties})
    except InvalidPolicyError as error:
        raise CannotMaintain(str(error)) from None
    if planned.procedure not in policy.procedures:
        raise CannotMaintain(f"The properties of the table do not permit {planned.procedure} any more")
    return policy


def maintain(
    spark: SparkSession,
    planned: Sequence[Candidate],
    recorder: Recorder,
    now: datetime,
    *,
    shadow: bool = False,
    after_run: Callable[[Candidate, RunResult | None, str | None], None] = lambda planned, outcome, skipped: None,
) -> MaintenanceResult:
    """Runs what is planned, in order; with `shadow` it is only recorded. It stops after FAILURES_MAX failures in a row, and at once if
    the catalog does not respond.

    after_run -- called after each run with its outcome, or with the reason why it was skipped.
    """
    result = MaintenanceResult()
    failures = 0
    for each in planned:
        try:
            table = recorder.begin(each, shadow=shadow)
        except CannotMaintain as error:
            result.skipped.append((each, str(error)))
            after_run(each, None, str(error))
            continue
        if shadow:
            continue
        _log.info("maintaining", table=each.name, procedure=each.procedure)
        outcome = _run(spark, each, table, now)
        if outcome.outcome == "failed" and not _catalog_responds(spark):
            outcome = replace(outcome, outcome="unavailable")
        recorder.finish(table, outcome)
        result.runs.append((each, outcome))
        after_run(each, outcome, None)
        if outcome.outcome == "unavailable":
            result.stopped = f"the catalog does not respond: {outcome.error}"
            break
        failures = failures + 1 if outcome.outcome == "failed" else 0
        if failures >= FAILURES_MAX:
            result.stopped = f"{failures} runs in a row failed, the last one with: {outcome.error}"
            break
    return result


def _catalog_responds(spark: SparkSession) -> bool:
    """Otherwise a failure says nothing about the table."""
    try:
        spark.sql(f"SHOW NAMESPACES IN {CATALOG}").collect()
    except spark_errors():
        return False
    return True


def _run(spark: SparkSession, planned: Candidate, table: CurrentTable, now: datetime) -> RunResult:
    began = time.monotonic()
    procedure = partial(_PROCEDURES[planned.procedure], spark, table, now)
    attempts = 0
    while True:
        attempts += 1
        measured: Mapping[str, int] = {}
        outcome: Outcome = "success"
        error: str | None = None
        try:
            measured = procedure()
        except FileOutsideTableError as refused:
            outcome, error = "failed", str(refused)
        except spark_errors() as raised:
            outcome, error = "conflict" if is_conflict(raised) else "failed", first_line(raised)
        if outcome != "conflict" or attempts == ATTEMPTS_MAX:
            break
    fields = {"table": planned.name, "procedure": planned.procedure, "outcome": outcome, "attempts": attempts}
    if outcome == "success":
        _log.info("maintained", **fields, **_plain(measured))
    else:
        _log.warning("maintenance_failed", **fields, error=error)
    return RunResult(outcome, measured, attempts, int((time.monotonic() - began) * 1_000), error)


def _plain(measured: Mapping[str, int]) -> dict[str, int]:
    return {name.replace("-", "_"): count for name, count in measured.items()}


def _rewrite_data_files(spark: SparkSession, table: CurrentTable, now: datetime) -> Mapping[str, int]:
    # Smaller groups than the whole table would be committed one by one with partial progress, which fails later and does more twice.
    row = _call(spark, table, "rewrite_data_files", options=_options(table, "'remove-dangling-deletes', 'true'"))
    return {
        "data-files-removed": row.rewritten_data_files_count - row.added_data_files_count,
        "bytes-rewritten": row.rewritten_bytes_count,
    }


def _rewrite_delete_files(spark: SparkSession, table: CurrentTable, now: datetime) -> Mapping[str, int]:
    row = _call(spark, table, "rewrite_position_delete_files", options=_options(table))
    return {
        "delete-files-removed": row.rewritten_delete_files_count - row.added_delete_files_count,
        "bytes-rewritten": row.rewritten_bytes_count,
    }


def _options(table: CurrentTable, *more: str) -> str:
    minimum = f"'min-input-files', '{table.policy.min_input_files}'"
    return f"map({', '.join((minimum, *more))})"


def _rewrite_manifests(spark: SparkSession, table: CurrentTable, now: datetime) -> Mapping[str, int]:
    row = _call(spark, table, "rewrite_manifests")
    return {"manifests-removed": row.rewritten_manifests_count - row.added_manifests_count}


def _expire_snapshots(spark: SparkSession, table: CurrentTable, now: datetime) -> Mapping[str, int]:
    """Iceberg applies the retention properties of the table as they are now, and those of its branches and tags."""
    catalog = _catalog(spark, table)
    snapshots = ".".join((catalog, *map(_quoted, (*table.namespace, table.name)), "snapshots"))
    before = spark.table(snapshots).count()
    row = _call(spark, table, "expire_snapshots", stream_results="true")
    deleted = sum(count or 0 for name, count in row.asDict().items() if name.startswith("deleted_"))
    return {"snapshots-removed": before - spark.table(snapshots).count(), "files-deleted": deleted}


def _remove_orphan_files(spark: SparkSession, table: CurrentTable, now: datetime) -> Mapping[str, int]:
    """A dry run comes first: if it names a file outside the table's location, nothing is removed."""
    older_than = _timestamp(now - timedelta(days=table.policy.orphan_min_age_days))
    found = _rows(spark, table, "remove_orphan_files", older_than=older_than, dry_run="true")
    inside = table.location.rstrip("/") + "/"
    for row in found:
        if not _path(row.orphan_file_location).startswith(_path(inside)):
            raise FileOutsideTableError(f"A file outside the table's location would be removed: {row.orphan_file_location}")
    if found:
        names = [row.orphan_file_location for row in found[:LISTED_FILES_MAX]]
        _log.info("orphan_files_found", table=".".join((*table.namespace, table.name)), count=len(found), files=names)
    removed = _rows(spark, table, "remove_orphan_files", older_than=older_than) if found else []
    return {"files-deleted": len(removed)}


_PROCEDURES: Mapping[str, Callable[[SparkSession, CurrentTable, datetime], Mapping[str, int]]] = {
    "rewrite_data_files": _rewrite_data_files,
    "rewrite_position_delete_files": _rewrite_delete_files,
    "rewrite_manifests": _rewrite_manifests,
    "expire_snapshots": _expire_snapshots,
    "remove_orphan_files": _remove_orphan_files,
}


def _path(location: str) -> str:
    """A location without its scheme: Hadoop writes file:/a for file:///a, and s3a for s3."""
    return "/" + location.partition(":")[2].lstrip("/")


def _timestamp(moment: datetime) -> str:
    return f"timestamp '{moment:%Y-%m-%d %H:%M:%S.%f}Z'"


def _call(spark: SparkSession, table: CurrentTable, procedure: str, **arguments: str) -> Any:
    (row,) = _rows(spark, table, procedure, **arguments)
    return row


def _rows(spark: SparkSession, table: CurrentTable, procedure: str, **arguments: str) -> Sequence[Any]:
    name = ".".join(map(_quoted, (*table.namespace, table.name))).replace("\\", "\\\\").replace("'", "\\'")
    given = "".join(f", {argument} => {value}" for argument, value in arguments.items())
    return spark.sql(f"CALL {_catalog(spark, table)}.system.{procedure}(table => '{name}'{given})").collect()  # type: ignore[no-any-return]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _catalog(spark: SparkSession, table: CurrentTable) -> str:
    """Spark's catalog of the table's warehouse: the settings of the session's own, with another warehouse."""
    catalog = f"{CATALOG}_{table.warehouse_id.hex}"
    name, own = f"spark.sql.catalog.{catalog}", f"spark.sql.catalog.{CATALOG}"
    if spark.conf.get(name, None) is None:
        for key, value in spark.sparkContext.getConf().getAll():
            if key == own or key.startswith(f"{own}."):
                spark.conf.set(f"{name}{key.removeprefix(own)}", value)
        spark.conf.set(f"{name}.warehouse", table.warehouse)
    return catalog
