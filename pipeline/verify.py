"""Folds the log on executors and compares the result with the catalog: the code of `icecore verify`, a part of the streams per task.

The events come from the landed table, and those after its position from the log. What is compared is read in one snapshot of the database,
so writes continue meanwhile.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from ..domain.recorded import RecordedEvent
from ..projections.stream_ranges import StreamRange, parts_between
from ..projections.verify import exported_snapshot, verify_part
from ..projections.verify_chain import check_chain, check_link
from ..projections.verify_report import VerifyReport
from .ingest import RANGE_EVENTS, IngestError
from .landed_tables import EVENTS, landed_events, landed_position
from .log_source import LogSource
from .replay import FOLDED, StoredRowsMissingError, folded_row, require_stored_rows
from .session import DataFrame, SparkSession

PART_EVENTS = 20_000
"""Events of one task, roughly: streams are not divided."""
_SAMPLE_STREAMS = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_RECORDED = (
    *("stream_id", "version", "topic", "state", "position", "event_id", "command_id", "unix_micros(recorded_at) as recorded_at", "actor"),
    *("project_id", "warehouse_id", "request_id", "correlation_id", "causation_id", "traceparent", "context", "hash"),
)
"""The columns of `events` in the order of RecordedEvent."""


def verify(spark: SparkSession, source: LogSource) -> VerifyReport:
    """Checks the hash chain, and compares every row of the read models and every claim with the log. Raises IngestError.

    Not compared are the schema, the rows of commands, statistics and secrets: `icecore verify` does.
    """
    started = time.monotonic()
    landed = landed_position(spark, EVENTS)
    with asyncio.Runner() as runner:
        opened = exported_snapshot(source.dsn)
        snapshot, head = runner.run(opened.__aenter__())
        try:
            if landed > head:
                raise IngestError(
                    f"The landed tables are at position {landed}, and the log ends at {head}: they were landed from another database"
                )
            events = landed_events(spark, 0, landed)
            try:
                require_stored_rows(events, "verify")
            except StoredRowsMissingError as error:
                raise IngestError(str(error)) from None
            if head > landed:
                events = events.unionByName(source.events(spark, landed, head, range_events=RANGE_EVENTS))
            report = VerifyReport()
            _check_chain(events, report)
            _check_streams(spark, events, source.dsn, snapshot, head, report)
        finally:
            runner.run(opened.__aexit__(None, None, None))
    report.seconds = time.monotonic() - started
    return report


def _check_chain(events: DataFrame, report: VerifyReport) -> None:
    """Checks the chain in pieces on executors, and the links between them here."""
    pieces = (
        events.selectExpr(*_RECORDED, f"(position - 1) div {PART_EVENTS} as piece")
        .repartition("piece")
        .sortWithinPartitions("position")
        .rdd.mapPartitions(_checked_pieces)
        .collect()
    )
    previous: RecordedEvent | None = None
    for first, last, checked in sorted(pieces, key=lambda piece: piece[0].position):
        check_link(previous, first, report)
        report.include(checked)
        previous = last
    if previous is not None:
        report.head, report.head_hash = previous.position, previous.hash


def _checked_pieces(rows: Iterable[Any]) -> Iterator[tuple[RecordedEvent, RecordedEvent, VerifyReport]]:
    for _, piece in groupby(rows, itemgetter(-1)):
        report = VerifyReport()
        ends = check_chain(map(_recorded, piece), report)
        if ends is not None:
            yield *ends, report


def _recorded(row: Sequence[Any]) -> RecordedEvent:
    stream, version, topic, state, position, event, command, microseconds, actor, project, warehouse, *texts, _ = row
    request, correlation, causation, traceparent, context, hashed = texts
    return RecordedEvent(
        stream_id=UUID(stream),
        version=version,
        topic=topic,
        data=bytes(state),
        position=position,
        event_id=UUID(event),
        command_id=UUID(command),
        recorded_at=_EPOCH + timedelta(microseconds=microseconds),
        actor=actor,
        project_id=UUID(project),
        warehouse_id=UUID(warehouse),
        request_id=request,
        correlation_id=correlation,
        causation_id=None if causation is None else UUID(causation),
        traceparent=traceparent,
        context=context,
        hash=bytes(hashed),
    )


def _check_streams(spark: SparkSession, events: DataFrame, dsn: str, snapshot: str, head: int, report: VerifyReport) -> None:
    parts = _parts(events, head)
    firsts = ", ".join(f"'{part.first}'" for part in parts)

    def compared(rows: Iterable[Any]) -> Iterator[tuple[int, VerifyReport]]:
        for number, of_part in groupby(rows, itemgetter(-1)):
            yield number, asyncio.run(verify_part(dsn, snapshot, parts[number], map(folded_row, of_part)))

    reports = dict(
        events.selectExpr(*FOLDED, f"size(filter(array({firsts}), first -> first <= stream_id)) - 1 as part")
        .repartitionByRange(len(parts), "part")
        .sortWithinPartitions("part", "stream_id", "version")
        .rdd.mapPartitions(compared)
        .collect()
    )
    for number, part in enumerate(parts):
        # A part without events may have rows that belong to no stream.
        report.include(reports[number] if number in reports else asyncio.run(verify_part(dsn, snapshot, part, ())))


def _parts(events: DataFrame, head: int) -> list[StreamRange]:
    """Parts of about PART_EVENTS events, from a sample of the events."""
    count = -(-head // PART_EVENTS)
    if count <= 1:
        return parts_between([])
    sample = sorted(row[0] for row in events.select("stream_id").sample(min(1.0, _SAMPLE_STREAMS / head), seed=0).collect())
    return parts_between([UUID(sample[len(sample) * n // count]) for n in range(1, count)] if sample else [])
