"""What of copies of events is landed. Runs in a process that has PySpark: `python -m tests.acceptance.pipeline_copies`."""

from typing import Any

from icecore.pipeline import cloud_event_source
from icecore.pipeline.cloud_event_rows import READ_SCHEMA
from icecore.pipeline.cloud_event_source import CloudEventSource
from icecore.pipeline.event_source import SourceError
from icecore.pipeline.landed_tables import EVENTS
from icecore.pipeline.session import DataFrame, SparkSession, open_session


class Given:
    """EventCopies of rows, which a test may extend: position, the event's id, and whether it is of the pipeline's warehouse. Problems are
    texts.

    late -- how many of the first rows are only read from the beginning.
    """

    name = "The copies"
    gap_advice = "Look elsewhere"
    gap_seconds_max = 0.0

    def __init__(self, spark: SparkSession, *rows: tuple[int, str, bool] | str, late: int = 0) -> None:
        self._spark = spark
        self.rows = [*rows]
        self._late = late
        self._read = 0

    def read(self, after: int, pending: DataFrame | None) -> DataFrame | None:
        if self._read == len(self.rows):
            return None
        self._read = len(self.rows)
        return self._spark.createDataFrame([_row(each) for each in self.rows[self._late :]], READ_SCHEMA)

    def read_from_the_beginning(self) -> bool:
        began_late, self._late = self._late > 0, 0
        self._read = -1 if began_late else self._read
        return began_late

    def place(self, origin: str, offset: int | None) -> str:
        return f"{origin}, offset {offset}"


def _row(given: tuple[int, str, bool] | str) -> tuple[Any, ...]:
    row: dict[str, Any] = dict.fromkeys((*EVENTS.columns, "problem")) | {"origin": "here", "origin_offset": 7}
    row |= {"problem": given} if isinstance(given, str) else dict(zip(("position", "event_id", "of_pipeline"), given, strict=True))
    return tuple(row[name] for name in (*EVENTS.columns, "origin", "origin_offset", "problem"))


def check_order(spark: SparkSession) -> None:
    """Repeated events are dropped, and what comes later continues after what is landed."""
    copies = Given(spark, *((number, f"e{number}", False) for number in (7, 2, 5, 1, 2, 6, 4, 3, 7, 1)))
    source = CloudEventSource(copies)
    assert 7 == source.last_position_to_land(0)
    assert [2, 3, 4, 5] == _landed(spark, source, 1, 5)
    assert 7 == source.last_position_to_land(5)
    assert source.last_position_to_land(7) is None
    copies.rows += [(number, f"e{number}", False) for number in (9, 8)]
    assert 9 == source.last_position_to_land(7)
    assert [8, 9] == _landed(spark, source, 7, 9)


def check_of_pipeline(spark: SparkSession) -> None:
    """Events of the pipeline's warehouse are landed with others, never alone."""
    copies = Given(spark, (1, "e1", True), (2, "e2", False), (3, "e3", True), (4, "e4", True))
    source = CloudEventSource(copies)
    assert 2 == source.last_position_to_land(0)
    assert source.last_position_to_land(2) is None
    copies.rows.append((5, "e5", False))
    assert 5 == source.last_position_to_land(2)
    assert [3, 4, 5] == _landed(spark, source, 2, 5)


def check_gaps(spark: SparkSession) -> None:
    """What is before a missing event is landed; then it is missed, unless it is there by then."""
    for missing in (1, 4, 6):
        copies = Given(spark, *((number, f"e{number}", False) for number in range(1, 9) if number != missing))
        source = CloudEventSource(copies)
        if missing > 1:
            assert missing - 1 == source.last_position_to_land(0)
        said = f"The copies: the event at position {missing} is missing, and that at {missing + 1} is there. Look elsewhere"
        assert said == _refusal(source, missing - 1)
        copies.rows.append((missing, f"e{missing}", False))
        assert 8 == source.last_position_to_land(missing - 1)
    late = CloudEventSource(Given(spark, *((number, f"e{number}", False) for number in range(1, 6)), late=2))
    assert 5 == late.last_position_to_land(0)
    assert [1, 2, 3, 4, 5] == _landed(spark, late, 0, 5)


def check_refused(spark: SparkSession) -> None:
    two = CloudEventSource(Given(spark, (1, "e1", False), (2, "e2", False), (2, "other", False)))
    assert "The copies: there are two different events at position 2, e2 and other: they are of two logs" == _refusal(two, 0)
    assert "The copies: here, offset 7: no event" == _refusal(CloudEventSource(Given(spark, (1, "e1", False), "no event")), 0)


def _landed(spark: SparkSession, source: CloudEventSource, after: int, to: int) -> list[int]:
    rows = source.events(spark, after, to, range_events=1)
    assert [*EVENTS.columns] == rows.columns
    return sorted(row.position for row in rows.collect())


def _refusal(source: CloudEventSource, after: int) -> str:
    try:
        source.last_position_to_land(after)
    except SourceError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def main() -> None:
    """In pieces of three positions."""
    cloud_event_source.PIECE_EVENTS = 3
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    spark = open_session(settings)
    for check in (check_order, check_of_pipeline, check_gaps, check_refused):
        check(spark)
        print(f"{check.__name__} passed", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
