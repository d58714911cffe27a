"""Reads the facts for plans of maintenance from the landed tables: neither the catalog nor the object store is asked."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ..database.named_sql import named_sql
from .landed_tables import EVENTS
from .maintenance_plan import PastRun, TableFacts
from .maintenance_policy import INHERITED, SNAPSHOT_MAX_AGE_MS_DEFAULT
from .replay import Namespace, namespaces_at, path_of
from .session import SparkSession

_PAST_DAYS = 90
_SQL = named_sql("icecore.pipeline", "maintenance_facts.sql")


def table_facts(spark: SparkSession, now: datetime) -> list[TableFacts]:
    """The facts about all existing tables that are not soft-deleted, except those of the pipeline itself."""
    # Formatted: the parser of Iceberg's extensions knows no parameters.
    now_ms = int(now.timestamp() * 1_000)
    past = _past_runs(spark, now_ms)
    namespaces = namespaces_at(spark.table(EVENTS.full_name))
    rows = spark.sql(_SQL["tables"].format(now_ms=now_ms, snapshot_max_age_ms=SNAPSHOT_MAX_AGE_MS_DEFAULT)).collect()
    return [_facts(row, namespaces, past.get(UUID(row.object_id), [])) for row in rows]


def _facts(row: Any, namespaces: dict[UUID, Namespace], past: list[PastRun]) -> TableFacts:
    namespace_id = None if row.namespace_id is None else UUID(row.namespace_id)
    hours: dict[int, int] = defaultdict(int)
    for hour in row.hours or ():
        hours[hour] += 1
    return TableFacts(
        table_id=UUID(row.object_id),
        warehouse_id=UUID(row.warehouse_id),
        name=".".join([row.path[0], *(path_of(namespaces, namespace_id) or row.path[1:-1]), row.path[-1]]),
        properties=row.properties or {},
        inherited=_inherited(namespaces, namespace_id),
        protected=bool(row.protected),
        data_files=_count(row.data_files),
        data_bytes=_count(row.data_bytes),
        position_delete_files=_count(row.position_delete_files),
        new_files=_count(row.new_files),
        new_bytes=_count(row.new_bytes),
        new_manifests=_count(row.new_manifests),
        snapshots=_count(row.snapshots),
        old_snapshots=_count(row.old_snapshots),
        first_commit_at=_utc(row.first_commit_at),
        last_commit_at=_utc(row.last_commit_at),
        commits_by_hour=hours,
        past=past,
    )


def _count(sum_of_summaries: int | None) -> int:
    """Clients write the summaries, so a sum may be negative, or NULL because it overflowed."""
    return max(0, sum_of_summaries or 0)


def _inherited(namespaces: dict[UUID, Namespace], namespace_id: UUID | None) -> dict[str, str]:
    """The policies of the namespaces on the path; those of a nearer one count."""
    found: dict[str, str] = {}
    while namespace_id is not None and (namespace := namespaces.get(namespace_id)) is not None:
        found = {**{name: value for name, value in namespace.properties.items() if name in INHERITED}, **found}
        namespace_id = namespace.parent_id
    return found


def _past_runs(spark: SparkSession, now_ms: int) -> dict[UUID, list[PastRun]]:
    past: dict[UUID, list[PastRun]] = defaultdict(list)
    for row in spark.sql(_SQL["past"].format(since_ms=now_ms - _PAST_DAYS * 24 * 3_600 * 1_000)).collect():
        finished_at = _utc(row.recorded_at)
        assert finished_at is not None
        run = PastRun(row.procedure, finished_at, row.outcome, json.loads(row.estimate or "{}"), json.loads(row.measured or "{}"))
        past[UUID(row.table_id)].append(run)
    return past


def _utc(moment: datetime | None) -> datetime | None:
    """Spark's Python timestamps have no time zone and are in that of the process."""
    return None if moment is None else moment.astimezone(UTC)
