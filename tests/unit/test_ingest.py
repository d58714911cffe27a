"""What `icecore pipeline ingest` does about refused commits, without Spark."""

from typing import Any, cast

import pytest

from icecore.pipeline import ingest
from icecore.pipeline.event_source import EventSource
from icecore.pipeline.ingest import REFUSALS_MAX, IngestError, IngestResult
from icecore.pipeline.landed_tables import EVENTS, LandedTable

REFUSED = "An error occurred.\n: org.apache.iceberg.exceptions.CommitFailedException: The value must be above 7\n"


def landed(monkeypatch: pytest.MonkeyPatch, refusals: int, *, progress: bool) -> IngestResult:
    """The result of a job whose commits are refused so often. progress -- another job moves the table at each refusal."""
    attempts: list[int] = []
    result = IngestResult()

    def refuse(spark: Any, table: LandedTable, after: int, to: int) -> None:
        attempts.append(to)
        if len(attempts) <= refusals:
            raise Exception(REFUSED)

    monkeypatch.setattr(ingest, "landed_position", lambda spark, table: len(attempts) if progress else 0)
    monkeypatch.setattr(ingest, "_log_batches", lambda *given: [ingest._Batch(EVENTS, 0, 1, refuse)] if len(attempts) <= refusals else [])
    ingest._land(None, cast(EventSource, None), None, 1, result, lambda: False)
    return result


def test_a_job_whose_commits_are_all_refused_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another job makes progress."""
    with pytest.raises(IngestError, match=f"^The catalog refused {REFUSALS_MAX} commits in a row: .*The value must be above 7$"):
        landed(monkeypatch, REFUSALS_MAX + 5, progress=False)
    assert (REFUSALS_MAX - 1, 1) == ((result := landed(monkeypatch, REFUSALS_MAX - 1, progress=False)).refused, result.commits)
    assert REFUSALS_MAX + 5 == landed(monkeypatch, REFUSALS_MAX + 5, progress=True).refused
