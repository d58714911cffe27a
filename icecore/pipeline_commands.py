"""`icecore pipeline`: jobs on Spark, with the database of the settings and the catalog at an address."""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID

import structlog
import uvloop
from rich.console import Console

from .data_folder import DataFolder
from .database.connection import connect
from .domain.errors import NoSuchWarehouse
from .exit_codes import CommandFailed, ExitCode, exit_by_signal
from .log_database import opened_database, require_schema
from .open_warehouse import named_warehouse
from .operator_commands import print_report
from .output import printable
from .pipeline.cloud_event_source import CloudEventSource
from .pipeline.event_source import EventSource, SourceError
from .pipeline.file_copies import FileCopies
from .pipeline.ingest import BATCH_EVENTS_MAX, IngestError, IngestResult, check_same_database
from .pipeline.ingest import ingest as run_ingest
from .pipeline.landed_tables import EVENTS
from .pipeline.log_source import LogSource
from .pipeline.metrics_source import MetricsSource
from .pipeline.report import report_page
from .pipeline.session import (
    SparkSession,
    catalog_prefix,
    close_session,
    first_line,
    open_session,
    session_settings,
    spark_errors,
    submitted_settings,
)
from .pipeline.verify import verify as run_verify
from .publishers.sink_settings import KafkaSink
from .settings import Settings

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.pipeline")

_STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Those that `ingest --follow` ends by, in its own time."""


@dataclass(frozen=True, slots=True)
class PipelineTarget:
    """Where the landed tables are. uri -- None: the server of the data folder. settings -- of Spark, as KEY=VALUE."""

    uri: str | None
    warehouse: str
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IngestSource:
    """Where `ingest` reads the log: the topic of a sink, files, or the database if both are None."""

    kafka_sink: str | None = None
    files: str | None = None


def ingest(
    settings: Settings,
    console: Console,
    target: PipelineTarget,
    ingest_source: IngestSource,
    *,
    follow: bool,
    batch_events: int | None,
    as_json: bool,
) -> ExitCode:
    """Brings the landed tables up to the end of the log. Prints how far each is."""
    if batch_events is not None and batch_events < 1:
        raise CommandFailed(ExitCode.USAGE, "--batch-events must be at least 1")
    ending: list[int] = []
    if follow:
        for number in _STOPPING_SIGNALS:
            signal.signal(number, lambda received, _: ending.append(received))
    with _opened_source(settings, target, ingest_source) as (spark, source, metrics):
        result = run_ingest(spark, source, metrics, batch_events=batch_events or BATCH_EVENTS_MAX, follow=follow, stop=lambda: bool(ending))
    print_report(console, asdict(result) if as_json else _ingest_text(result))
    return ExitCode.OK


def verify(settings: Settings, console: Console, target: PipelineTarget, *, as_json: bool) -> ExitCode:
    """Compares the read models with the landed log, and checks the hash chain."""
    with opened_database(settings) as opened:
        source = LogSource(opened.dsn, uvloop.run(_warehouse_id(opened, target.warehouse)))
        with open_pipeline(opened, target) as spark:
            require_landed_log(spark, target.warehouse)
            report = run_verify(spark, source)
    print_report(console, report.to_json() if as_json else str(report))
    return ExitCode.OK if report.ok else ExitCode.NO


def report(settings: Settings, console: Console, target: PipelineTarget, output: Path) -> ExitCode:
    """Writes the report to a file, which is replaced. Neither the database nor the object store is read: only the landed tables are."""
    if not output.parent.is_dir() or output.is_dir():
        raise CommandFailed(ExitCode.USAGE, f"Cannot write {output}: its folder does not exist, or it is a folder")
    with open_pipeline(settings, target) as spark:
        require_landed_log(spark, target.warehouse)
        try:
            page = report_page(spark, datetime.now(UTC))
        except ImportError:
            raise CommandFailed(ExitCode.USAGE, "The report needs Jinja2 and Matplotlib: pip install '.[spark]' in a checkout") from None
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(ExitCode.NO, f"Cannot write {output}: {error.strerror}") from None
    print_report(console, f"Wrote {output}")
    return ExitCode.OK


def require_landed_log(spark: SparkSession, warehouse: str) -> None:
    """Raises CommandFailed if `icecore pipeline ingest` has not run."""
    if not spark.catalog.tableExists(EVENTS.full_name):
        raise CommandFailed(
            ExitCode.USAGE, f"The log has not been landed in the warehouse {printable(warehouse)}: run icecore pipeline ingest first"
        )


def _ingest_text(result: IngestResult) -> str:
    landed = f"{result.events} events and {result.metrics_reports} metrics reports landed"
    return "\n".join([landed, *(f"{name}: position {position}" for name, position in result.positions.items())])


@contextmanager
def _opened_source(
    settings: Settings, target: PipelineTarget, ingest_source: IngestSource
) -> Iterator[tuple[SparkSession, EventSource, MetricsSource | None]]:
    """A session and the sources. The database is opened only if it is the source; metrics reports are only there."""
    if ingest_source.kafka_sink is not None and ingest_source.files is not None:
        raise CommandFailed(ExitCode.USAGE, "--from-kafka and --from-files exclude each other")
    if ingest_source.kafka_sink is not None:
        sink = _kafka_sink(settings, ingest_source.kafka_sink)
        try:
            from .pipeline.kafka_copies import KafkaCopies, Topic
        except ImportError:
            raise CommandFailed(ExitCode.USAGE, "--from-kafka needs Kafka's client: pip install '.[kafka]' in a checkout") from None
        with open_pipeline(settings, target) as spark:
            copies = KafkaCopies(spark, Topic.of(ingest_source.kafka_sink, sink), UUID(catalog_prefix(spark)))
            with closing(copies):
                yield spark, CloudEventSource(copies), None
    elif ingest_source.files is not None:
        with open_pipeline(settings, target) as spark:
            yield spark, CloudEventSource(FileCopies(spark, ingest_source.files, UUID(catalog_prefix(spark)))), None
    else:
        with opened_database(settings) as opened:
            pipeline_warehouse_id = uvloop.run(_warehouse_id(opened, target.warehouse))
            with open_pipeline(opened, target) as spark:
                log, metrics = LogSource(opened.dsn, pipeline_warehouse_id), MetricsSource(opened.dsn, pipeline_warehouse_id)
                check_same_database(spark, log, metrics)
                yield spark, log, metrics


def _kafka_sink(settings: Settings, name: str) -> KafkaSink:
    sink = settings.sinks.get(name)
    if not isinstance(sink, KafkaSink):
        raise CommandFailed(ExitCode.USAGE, f"--from-kafka must name a sink of type kafka in the settings: {printable(name)} is not one")
    if sink.types or sink.warehouses or sink.namespaces:
        raise CommandFailed(ExitCode.USAGE, f"The sink {name} has filters, so its topic does not have the whole log")
    return sink


async def _warehouse_id(opened: Settings, reference: str) -> UUID:
    await require_schema(opened)
    # Not through a catalog, which would need the key of the warehouses' credentials.
    async with await connect(opened.dsn, prepare_threshold=0, application_name="icecore-command") as connection:
        try:
            return (await named_warehouse(connection, reference)).id
        except NoSuchWarehouse as error:
            advice = "create one for the landed tables with icecore warehouse create"
            raise CommandFailed(ExitCode.USAGE, f"{error.message}: {advice}, or give --warehouse") from None


@contextmanager
def open_pipeline(opened: Settings, target: PipelineTarget) -> Iterator[SparkSession]:
    """A session whose catalog is the warehouse of the landed tables; under `spark-submit` with its settings.

    What Spark raises becomes a CommandFailed.
    """
    uri = target.uri or _served(opened)
    if not uri.startswith(("http://", "https://")):
        raise CommandFailed(ExitCode.USAGE, "--uri must begin with http:// or https://")
    if not all(each.startswith("spark.") and "=" in each for each in target.settings):
        raise CommandFailed(ExitCode.USAGE, "--conf must be KEY=VALUE, with a key that begins with spark.")
    given = dict(each.partition("=")[::2] for each in target.settings)
    if find_spec("pyspark") is None:
        raise CommandFailed(ExitCode.USAGE, "The pipeline needs PySpark: pip install '.[spark]' in a checkout")
    handlers = {number: signal.getsignal(number) for number in _STOPPING_SIGNALS}
    _log.info("starting_spark")
    try:
        spark = open_session(session_settings(uri, target.warehouse, {**submitted_settings(), **given}))
    except spark_errors() as error:
        raise CommandFailed(ExitCode.USAGE, _start_failure(error)) from None
    # PySpark's own handler of SIGINT would call Java in the middle of another call, and it logs the trace of a KeyboardInterrupt.
    for number, handler in handlers.items():
        signal.signal(number, exit_by_signal if handler is signal.default_int_handler else handler)
    interrupted = False
    try:
        yield spark
    except (KeyboardInterrupt, SystemExit):
        interrupted = True
        raise
    except (IngestError, SourceError) as error:
        raise CommandFailed(ExitCode.NO, str(error)) from None
    except spark_errors() as error:
        raise CommandFailed(ExitCode.CRASHED, f"Spark failed: {first_line(error)}") from None
    finally:
        close_session(spark, interrupted=interrupted)


def _start_failure(error: Exception) -> str:
    if "JAVA_GATEWAY_EXITED" in str(error):
        return "Spark does not start: it needs Java 17 to 23, as the command java or in JAVA_HOME"
    return f"Spark does not start: {first_line(error)}"


def _served(opened: Settings) -> str:
    server = DataFolder(opened.data_dir.resolve()).running_server()
    if server is None:
        raise CommandFailed(ExitCode.USAGE, "No server of this data folder is running: start one with icecore serve, or give --uri")
    return f"{server.url}/catalog"
