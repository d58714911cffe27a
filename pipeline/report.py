"""The report on the landed log: one HTML page with plots, which needs no other file and no network."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from rich import filesize

from ..database.named_sql import named_sql
from .landed_tables import EVENTS, NAMESPACE, landed_position
from .plots import bars, lines, visible
from .session import CATALOG, SparkSession

_SQL = named_sql("icecore.pipeline", "report.sql")

ROWS_MAX = 20
"""Rows of each table of the page, and bars of each plot."""
GROWTH_TABLES_MAX = 6
"""Lines of the plot of growth."""
GROWTH_DAYS = 90


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. plots -- SVG. rows -- text, in the order of `columns`. empty -- what the page says if there are no rows."""

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str
    plots: Sequence[str]


def report_page(spark: SparkSession, generated_at: datetime) -> str:
    """The page as HTML, from the landed tables and the views on them. Their namespace becomes that of the session.

    Raises ImportError without Jinja2 or Matplotlib.
    """
    from jinja2 import Environment, StrictUndefined

    template = files("icecore.pipeline").joinpath("report.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    spark.sql(f"USE {CATALOG}.{NAMESPACE}")
    [summary] = _rows(spark, "summary")
    figures = {
        "Events": _number(summary.events),
        "Tables": _number(summary.tables),
        "Table commits": _number(summary.commits),
        "Bytes in tables": _bytes(summary.bytes),
        "Reported scans": _number(summary.scans),
    }
    return environment.from_string(template).render(
        generated_at=_time(generated_at),
        position=_number(landed_position(spark, EVENTS)),
        last_event_at=_time(summary.last_event_at),
        figures=figures,
        sections=[*_sections(spark)],
    )


def _sections(spark: SparkSession) -> Iterator[Section]:
    yield _growth(spark)
    yield _hot_tables(spark)
    yield _conflicts(spark)
    yield _small_files(spark)
    yield _readers(spark)
    yield _unused(spark)


def _growth(spark: SparkSession) -> Section:
    days, largest = _rows(spark, "commits_by_day"), _rows(spark, "growth")
    sizes: dict[str, tuple[str, list[tuple[Any, float]]]] = {}
    for row in _rows(spark, "bytes_by_day"):
        sizes.setdefault(row.table_id, (_name(row), []))[1].append((row.day, float(row.total_bytes)))
    plots = []
    if days:
        plots.append(lines("Table commits per day", [("all tables", [(row.day, float(row.commits)) for row in days])]))
    if sizes:
        plots.append(lines("Bytes of the tables that grew most", [*sizes.values()], unit="bytes"))
    columns = {
        "Table": _name,
        "Commits": _column(_number, "commits"),
        "Rows added": _column(_number, "added_rows"),
        "Rows removed": _column(_number, "removed_rows"),
        "Bytes added": _column(_bytes, "added_bytes"),
        "Bytes removed": _column(_bytes, "removed_bytes"),
    }
    text = f"The last {GROWTH_DAYS} days: what commits added to and removed from each table. Those of maintenance do not count."
    return _section("Growth", text, columns, largest, f"No table had a commit in the last {GROWTH_DAYS} days.", plots)


def _hot_tables(spark: SparkSession) -> Section:
    rows = _rows(spark, "hot_tables")
    counts = {"commits": [float(row.commits) for row in rows], "reported scans": [float(row.scans) for row in rows]}
    columns = {
        "Table": _name,
        "Commits": _column(_number, "commits"),
        "Writers": _column(_number, "writers"),
        "Bytes added": _column(_bytes, "added_bytes"),
        "Scans": _column(_number, "scans"),
        "Bytes scanned": _column(_bytes, "scanned_bytes"),
    }
    text = "The last 7 days: the tables with the most commits and scans. Commits of maintenance do not count."
    plots = [bars("Commits and scans", [_name(row) for row in rows], counts)] if rows else []
    return _section("Hot tables", text, columns, rows, "No table had a commit or a reported scan in the last 7 days.", plots)


def _conflicts(spark: SparkSession) -> Section:
    rows = _rows(spark, "writer_conflicts")
    names = [f"{row.engine}, {_principal(row)}" for row in rows]
    rates = {"conflicts per attempt": [float(row.conflict_rate) for row in rows]}
    columns = {
        "Engine": _column(str, "engine"),
        "Principal": _principal,
        "Commits": _column(_number, "commits"),
        "Retried commits": _column(_number, "retried_commits"),
        "Conflicts": _column(_number, "conflicts"),
        "Conflict rate": _column(_percent, "conflict_rate"),
        "Seconds per commit": _column(_seconds, "average_seconds"),
    }
    text = "Attempts to commit that conflicted with other writers and were retried, by engine and principal, as engines reported them."
    plots = [bars("Conflict rate", names, rates, unit="percent")] if rows else []
    return _section("Conflicts", text, columns, rows, "No engine reported a commit.", plots)


def _small_files(spark: SparkSession) -> Section:
    rows = _rows(spark, "small_files")
    columns = {
        "Table": _name,
        "Data files": _column(_number, "data_files"),
        "Excess files": _column(_number, "excess_files"),
        "Average file": _column(_bytes, "average_file_bytes"),
        "Target file size": _column(_bytes, "target_file_bytes"),
        "Delete files": _column(_number, "delete_files"),
    }
    text = "Tables with more data files than their bytes need at their target file size."
    excess = {"excess files": [float(row.excess_files) for row in rows]}
    plots = [bars("Excess data files", [_name(row) for row in rows], excess)] if rows else []
    return _section("Small files", text, columns, rows, "No table has more data files than it needs.", plots)


def _readers(spark: SparkSession) -> Section:
    rows = _rows(spark, "table_readers")
    names = [f"{_name(row)}: {row.engine}, {_principal(row)}" for row in rows]
    columns = {
        "Table": _name,
        "Engine": _column(str, "engine"),
        "Principal": _principal,
        "Scans": _column(_number, "scans"),
        "Bytes scanned": _column(_bytes, "bytes"),
        "Planning seconds": _column(_seconds, "average_planning_seconds"),
        "Last scan": _column(_time, "last_scan_at"),
    }
    text = "Who scanned which table, as engines reported it. Not every engine reports its scans."
    plots = [bars("Scans", names, {"scans": [float(row.scans) for row in rows]})] if rows else []
    return _section("Readers", text, columns, rows, "No engine reported a scan.", plots)


def _unused(spark: SparkSession) -> Section:
    columns = {
        "Table": _name,
        "Bytes": _column(_bytes, "bytes"),
        "Last commit": _column(_time, "last_commit_at"),
        "Last reported scan": _column(_time, "last_scan_at"),
    }
    text = "Tables without a commit and without a reported scan for 30 days. An engine that reports no scans may still read them."
    rows = _rows(spark, "unused_tables")
    return _section("Unused tables", text, columns, rows, "Every table was used in the last 30 days.", [])


_Columns = Mapping[str, Callable[[Any], str]]
"""The text of each column of a row."""


def _section(title: str, text: str, columns: _Columns, rows: Sequence[Any], empty: str, plots: Sequence[str]) -> Section:
    return Section(title, text, [*columns], [[visible(column(row)) for column in columns.values()] for row in rows], empty, plots)


def _column(formatted: Callable[[Any], str], name: str) -> Callable[[Any], str]:
    return lambda row: formatted(row[name])


def _rows(spark: SparkSession, query: str) -> list[Any]:
    limits = {"rows_max": ROWS_MAX, "growth_days": GROWTH_DAYS, "growth_tables_max": GROWTH_TABLES_MAX}
    rows: list[Any] = spark.sql(_SQL[query].format(**limits)).collect()
    return rows


def _name(row: Any) -> str:
    return ".".join(each for each in (row.warehouse, row.namespace, row.name) if each)


def _principal(row: Any) -> str:
    return row.actor or "unknown"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _number(value: Any) -> str:
    return "–" if value is None else f"{int(value):,}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _bytes(value: Any) -> str:
    return "–" if value is None else filesize.decimal(int(value))


def _time(moment: datetime | None) -> str:
    """Spark's Python timestamps have no time zone and are in that of the process."""
    return "–" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
