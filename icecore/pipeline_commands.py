"""`icecore pipeline`: jobs on Spark, with the database of the settings and the catalog at an address."""

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from uuid import UUID

import uvloop
from rich.console import Console

from .access.resolve_warehouse import find_warehouse
from .compose import open_catalog
from .data_folder import DataFolder
from .domain.project import PROJECT_ID_DEFAULT
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, require_schema
from .operator_commands import print_report
from .output import printable
from .pipeline.cloud_event_source import CloudEventSource
from .pipeline.event_source import EventSource, SourceError
from .pipeline.file_copies import FileCopies
from .pipeline.ingest import BATCH_EVENTS_MAX, IngestError
from .pipeline.ingest import ingest as run_ingest
from .pipeline.log_source import LogSource
from .pipeline.session import SparkSession, catalog_prefix, first_line, open_session, session_settings, spark_errors
from .pipeline.verify import verify as run_verify
from .publishers.sink_settings import KafkaSink
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """Where the landed tables are. uri -- None: the server of the data folder. settings -- of Spark, as KEY=VALUE."""

    uri: str | None
    warehouse: str
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where `ingest` reads the log: the topic of a sink, files, or the database if both are None."""

    kafka_sink: str | None = None
    files: str | None = None


def ingest(
    settings: Settings, console: Console, place: Place, origin: Origin, *, follow: bool, batch_events: int | None, as_json: bool
) -> ExitCode:
    """Brings the landed tables up to the end of the log. Prints how far each is."""
    if batch_events is not None and batch_events < 1:
        raise CommandFailed(ExitCode.USAGE, "--batch-events must be at least 1")
    ending: list[int] = []
    with _opened_source(settings, place, origin) as (spark, source):
        if follow:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda received, _: ending.append(received))
        report = run_ingest(spark, source, batch_events=batch_events or BATCH_EVENTS_MAX, follow=follow, stop=lambda: bool(ending))
    print_report(console, asdict(report) if as_json else _ingest_text(report.positions, report.events))
    return ExitCode.OK


def verify(settings: Settings, console: Console, place: Place, *, as_json: bool) -> ExitCode:
    """Compares the read models with the landed log, and checks the hash chain."""
    with opened_database(settings) as opened:
        source = LogSource(opened.dsn, uvloop.run(_warehouse_id(opened, place.warehouse)))
        with open_pipeline(opened, place) as spark:
            report = run_verify(spark, source)
    print_report(console, report.to_json() if as_json else str(report))
    return ExitCode.OK if report.ok else ExitCode.NO


@contextmanager
def _opened_source(settings: Settings, place: Place, origin: Origin) -> Iterator[tuple[SparkSession, EventSource]]:
    """A session and the source. The database is opened only if it is the source."""
    if origin.kafka_sink is not None and origin.files is not None:
        raise CommandFailed(ExitCode.USAGE, "--from-kafka and --from-files exclude each other")
    if origin.kafka_sink is not None:
        sink = _kafka_sink(settings, origin.kafka_sink)
        try:
            from .pipeline.kafka_copies import KafkaCopies, Topic
        except ImportError:
            raise CommandFailed(ExitCode.USAGE, "--from-kafka needs Kafka's client: pip install 'icecore[kafka]'") from None
        with open_pipeline(settings, place) as spark:
            copies = KafkaCopies(spark, Topic.of(origin.kafka_sink, sink), UUID(catalog_prefix(spark)))
            with closing(copies):
                yield spark, CloudEventSource(copies)
    elif origin.files is not None:
        with open_pipeline(settings, place) as spark:
            yield spark, CloudEventSource(FileCopies(spark, origin.files, UUID(catalog_prefix(spark))))
    else:
        with opened_database(settings) as opened:
            source = LogSource(opened.dsn, uvloop.run(_warehouse_id(opened, place.warehouse)))
            with open_pipeline(opened, place) as spark:
                yield spark, source


def _kafka_sink(settings: Settings, name: str) -> KafkaSink:
    sink = settings.sinks.get(name)
    if not isinstance(sink, KafkaSink):
        raise CommandFailed(ExitCode.USAGE, f"--from-kafka must name a sink of the settings with the type kafka: {printable(name)} is none")
    if sink.types or sink.warehouses or sink.namespaces:
        raise CommandFailed(ExitCode.USAGE, f"The sink {name} has filters, so its topic does not have the whole log")
    return sink


def _ingest_text(positions: dict[str, int], events: int) -> str:
    return "\n".join([f"{events} events landed", *(f"{name}: position {position}" for name, position in positions.items())])


async def _warehouse_id(opened: Settings, reference: str) -> UUID:
    await require_schema(opened)
    async with open_catalog(opened) as catalog, catalog.backends.connection() as connection:
        return (await find_warehouse(connection, PROJECT_ID_DEFAULT, reference, project_named=False)).id


@contextmanager
def open_pipeline(opened: Settings, place: Place) -> Iterator[SparkSession]:
    """A session whose catalog is the warehouse of the landed tables. What Spark raises becomes a CommandFailed."""
    uri = place.uri or _served(opened)
    if not all(each.startswith("spark.") and "=" in each for each in place.settings):
        raise CommandFailed(ExitCode.USAGE, "--conf must be KEY=VALUE, with a key that begins with spark.")
    given = dict(each.partition("=")[::2] for each in place.settings)
    try:
        spark = open_session(session_settings(uri, place.warehouse, given))
    except ImportError:
        raise CommandFailed(ExitCode.USAGE, "The pipeline needs PySpark: pip install 'icecore[spark]'") from None
    try:
        yield spark
    except (IngestError, SourceError) as error:
        raise CommandFailed(ExitCode.NO, str(error)) from None
    except spark_errors() as error:
        raise CommandFailed(ExitCode.CRASHED, f"Spark failed: {first_line(error)}") from None
    finally:
        spark.stop()


def _served(opened: Settings) -> str:
    server = DataFolder(opened.data_dir.resolve()).running_server()
    if server is None:
        raise CommandFailed(ExitCode.USAGE, "No server of this data folder is running: start one with icecore serve, or give --uri")
    return f"{server.url}/catalog"
