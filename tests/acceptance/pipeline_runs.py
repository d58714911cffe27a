"""What happens to a plan when procedures fail, in a process that has PySpark (pipeline_transforms.py)."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from icecore.pipeline import maintain as module
from icecore.pipeline.maintain import CannotMaintain, CurrentTable, MaintenanceResult, RunResult, maintain
from icecore.pipeline.maintenance_plan import Candidate
from icecore.pipeline.maintenance_policy import MaintenancePolicy
from icecore.pipeline.session import CATALOG, SparkSession

WAREHOUSE = UUID(int=1)
SUCCESS = {"manifests-removed": 3}


class Recorded:
    """Keeps what is recorded. The table `gone` was dropped."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.finished: list[RunResult] = []

    def begin(self, planned: Candidate, *, shadow: bool) -> CurrentTable:
        if planned.name == "gone":
            raise CannotMaintain("Table does not exist: gone")
        self.begun.append(planned.name)
        return CurrentTable("w", WAREHOUSE, ("n",), planned.name, "file:///w/t", MaintenancePolicy(), None)

    def finish(self, table: CurrentTable, outcome: RunResult) -> None:
        self.finished.append(outcome)


def conflict(spark: SparkSession) -> None:
    """Raises what Spark raises for a refused commit."""
    jvm = spark._jvm
    none = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 0)
    refused = jvm.org.apache.iceberg.exceptions.CommitFailedException("Requirement failed", none)
    jvm.java.util.concurrent.CompletableFuture.failedFuture(refused).get()


def failure(spark: SparkSession) -> None:
    spark.sql("select nothing")


def planned(
    spark: SparkSession, recorder: Recorded, *tables: tuple[str, list[Callable[[SparkSession], None] | None]], **options: Any
) -> Any:
    """Runs a plan. Each table has what its procedure does in turn; None: it succeeds."""
    turns = {name: iter(each) for name, each in tables}

    def procedure(session: SparkSession, table: CurrentTable, now: datetime) -> Mapping[str, int]:
        raises = next(turns[table.name])
        if raises is not None:
            raises(session)
        return SUCCESS

    kept = module._PROCEDURES
    module._PROCEDURES = {"rewrite_manifests": procedure}
    candidates = [Candidate(UUID(int=2), WAREHOUSE, name, "rewrite_manifests", "", {}) for name, _ in tables]
    try:
        return maintain(spark, candidates, recorder, datetime.now(UTC), **options)
    finally:
        module._PROCEDURES = kept


def check_runs(spark: SparkSession) -> None:
    """A conflict is tried again, a failure is not. Three failures in a row end the plan, and so does a catalog that
    does not respond. A shadow runs nothing."""
    recorder = Recorded()
    tables = [("a", [conflict, conflict, None]), ("b", [conflict] * 3), ("gone", []), ("c", [failure])]
    result: MaintenanceResult = planned(spark, recorder, *tables)  # type: ignore[arg-type]
    assert [("success", 3), ("conflict", 3), ("failed", 1)] == [(each.outcome, each.attempts) for each in recorder.finished]
    assert [SUCCESS, {}, {}] == [each.measured for each in recorder.finished]
    first, second, third = (each.error for each in recorder.finished)
    assert first is None
    assert second == "org.apache.iceberg.exceptions.CommitFailedException: Requirement failed", second
    assert third is not None
    assert "nothing" in third, third
    assert recorder.finished == [outcome for _, outcome in result.runs]
    assert [("gone", "Table does not exist: gone")] == [(each.name, reason) for each, reason in result.skipped]

    recorder = Recorded()
    planned(spark, recorder, *((name, [failure if name != "c" else None]) for name in "abcde"))
    assert [*"abcde"] == recorder.begun
    recorder = Recorded()
    result = planned(spark, recorder, ("ok", [None]), *((name, [failure]) for name in "abcd"))
    assert result.stopped is not None
    assert "3 runs in a row failed" in result.stopped
    assert 4 == len(result.runs)
    assert ["ok", *"abc"] == recorder.begun
    assert 4 == len(recorder.finished)

    recorder = Recorded()
    module.CATALOG = "nowhere"
    result = planned(spark, recorder, ("a", [None]), ("b", [failure]), ("c", []))
    module.CATALOG = CATALOG
    assert ["success", "unavailable"] == [each.outcome for each in recorder.finished]
    assert result.stopped is not None
    assert "the catalog does not respond" in result.stopped

    recorder = Recorded()
    planned(spark, recorder, ("a", []), shadow=True)
    assert (["a"], []) == (recorder.begun, recorder.finished)
