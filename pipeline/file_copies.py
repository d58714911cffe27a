"""The copies of events in files: CloudEvents as JSON, one in a line, as `icecore log --cloudevents` and a `stdout` sink print them."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from ..publishers.cloud_events import decode_json
from .cloud_event_rows import READ_SCHEMA, read_row
from .event_source import SourceError
from .session import DataFrame, SparkSession


class FileCopies:
    """EventCopies of files: all of a folder and the folders in it, or those that match a pattern. Spark decompresses them by their names.

    All files are read if there is another one than before.
    """

    gap_seconds_max: ClassVar[float] = 0.0
    gap_advice: ClassVar[str] = "Add the file with it, or land the log up to there from Postgres"

    def __init__(self, spark: SparkSession, path: str, pipeline_warehouse_id: UUID) -> None:
        self._spark = spark
        self._path = path
        self._pipeline_warehouse = str(pipeline_warehouse_id)
        self._files: frozenset[str] | None = None
        self.name = f"The files {path}"

    def read(self, after: int, pending: DataFrame | None) -> DataFrame | None:
        from pyspark.errors import AnalysisException

        try:
            lines = self._spark.read.option("recursiveFileLookup", "true").text(self._path)
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise SourceError(f"{self.name} do not exist") from None
        files = frozenset(lines.inputFiles())
        if files == self._files:
            return None
        self._files = files
        rows = lines.select("value", "_metadata.file_path").rdd.mapPartitions(
            partial(_read, after=after, pipeline_warehouse=self._pipeline_warehouse)
        )
        return self._spark.createDataFrame(rows, READ_SCHEMA, verifySchema=False)

    def read_from_the_beginning(self) -> bool:
        return False

    def place(self, origin: str, offset: int | None) -> str:
        return origin


def _read(lines: Iterable[Any], *, after: int, pipeline_warehouse: str) -> Iterator[tuple[Any, ...]]:
    for line, file in lines:
        if line.strip():
            row = read_row(partial(decode_json, line), after, pipeline_warehouse, file, None)
            if row is not None:
                yield row
