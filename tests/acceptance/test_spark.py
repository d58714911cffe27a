"""Spark as users run it: all statements on Spark 4.1 and on Spark 3.5 from PyPI, on local files and on an S3 server.

Each version and each store is in the quick form; the long form (ICECORE_TEST_LONG=1) runs each version on each store.

Events are published to NATS and Kafka meanwhile. At the end, a consumer of either knows as much as the catalog.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.acceptance.spark_story import PAST, STORY
from tests.acceptance.story import Result, Step, check, tell
from tests.acceptance.table_files import existing
from tests.integration.publishers.stream_reader import rebuilt
from tests.long_form import LONG
from tests.servers.engines import EngineShell, SqlRefusedError
from tests.servers.icecore import Icecore, icecore, operate
from tests.servers.kafka import KafkaBroker, kafka_broker
from tests.servers.moto import ACCESS_KEY_ID, S3, SECRET_ACCESS_KEY, moto_s3
from tests.servers.nats import NatsServer, nats_server
from tests.servers.spark import Spark, catalog_settings, spark_3_5, spark_4_1, spark_shell

STATEMENTS_MIN = 50
TOPIC = "icecore.events"
TOLD_SECONDS_MAX = 60.0

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Setting:
    """A Spark, and where its tables are."""

    name: str
    spark: Callable[[], Spark]
    on_s3: bool = False

    @property
    def warehouse(self) -> str:
        return self.name.replace(" ", "-")


SETTINGS = (
    Setting("spark 3.5 from PyPI alone", spark_3_5),
    Setting("spark 4.1 on S3", lambda: spark_4_1(s3=True), on_s3=True),
    *((Setting("spark 4.1", spark_4_1), Setting("spark 3.5 on S3", lambda: spark_3_5(s3=True), on_s3=True)) if LONG else ()),
)


@pytest.fixture(scope="module")
def brokers(scratch: Path) -> Iterator[tuple[NatsServer, KafkaBroker]]:
    """One of each."""
    with nats_server(scratch / "nats") as nats, kafka_broker(scratch / "kafka") as kafka:
        yield nats, kafka


@pytest.fixture(scope="module")
def server(scratch: Path, brokers: tuple[NatsServer, KafkaBroker]) -> Iterator[Icecore]:
    """A server that publishes to both."""
    nats, kafka = brokers
    sinks = {"NATS__TYPE": "nats", "NATS__URL": nats.url, "KAFKA__TYPE": "kafka", "KAFKA__URL": kafka.url, "KAFKA__TOPIC": TOPIC}
    with icecore(scratch / "data", environment={f"ICECORE_SINKS__{name}": value for name, value in sinks.items()}) as running:
        yield running


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest, server: Icecore, scratch: Path) -> Iterator[dict[str, Result]]:
    """The outcome of each statement, on a catalog with the objects of earlier settings in other warehouses."""
    setting: Setting = request.param
    spark = setting.spark()
    directory = scratch / setting.warehouse
    if setting.on_s3:
        with moto_s3(directory) as s3:
            server.create_warehouse(setting.warehouse, s3.storage_profile, s3.storage_credential)
            with spark_shell(spark, catalog_settings(server.catalog_uri, setting.warehouse, s3), directory, s3) as shell:
                yield told(shell, server, setting, s3)
        return
    files = directory / "warehouse"
    files.mkdir(parents=True)
    server.create_warehouse(setting.warehouse, {"type": "local", "directory": str(files)})
    with spark_shell(spark, catalog_settings(server.catalog_uri, setting.warehouse), directory) as shell:
        yield told(shell, server, setting)


def told(shell: EngineShell, server: Icecore, setting: Setting, s3: S3 | None = None) -> dict[str, Result]:
    """The outcomes of the story, then of the statements on the warehouse as it was in between."""
    results = tell(STORY, shell.sql, SqlRefusedError)
    ((moment,),) = results["moment"].rows
    for name, value in catalog_settings(server.catalog_uri, f"{setting.warehouse}@{moment}", s3).items():
        if name.startswith("spark.sql.catalog.ice"):
            shell.sql(f"SET `{name.replace('.ice', '.past')}` = `{value}`")
    return results | tell(PAST, shell.sql, SqlRefusedError)


def settings() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("story", SETTINGS, indirect=True, ids=lambda setting: setting.name, scope="module")


@settings()
@pytest.mark.parametrize("step", [*STORY, *PAST], ids=lambda step: step.name)
def test_statement(story: dict[str, Result], step: Step) -> None:
    """Each statement has its expected result or error."""
    check(step, story[step.name])


@settings()
def test_a_purged_table_has_no_files(story: dict[str, Result], server: Icecore, request: pytest.FixtureRequest) -> None:
    """Spark deletes the files itself, and drops the table."""
    warehouse = request.node.callspec.params["story"].warehouse
    keys = {"s3.access-key-id": ACCESS_KEY_ID, "s3.secret-access-key": SECRET_ACCESS_KEY}
    catalog = RestCatalog("files", uri=server.catalog_uri, warehouse=warehouse, **keys)
    files = [path for (path,) in story["files before the purge"].rows]
    assert files
    assert [] == existing(catalog.load_table("story.trips"), files)


@settings()
def test_log_rebuilds_what_spark_reads(story: dict[str, Result], server: Icecore) -> None:
    """`icecore verify` finds no difference after the story, nor after a rebuild."""
    assert STATEMENTS_MIN <= len(story)
    server.check_against_log()


@settings()
def test_consumers_know_what_spark_has_made(
    story: dict[str, Result], server: Icecore, brokers: tuple[NatsServer, KafkaBroker], request: pytest.FixtureRequest
) -> None:
    """Consumers that read only one of the brokers know every table and its current metadata."""
    assert story
    warehouse = request.node.callspec.params["story"].warehouse
    nats, kafka = brokers
    until_published(server)
    held = tables_held(RestCatalog("spark", uri=server.catalog_uri, warehouse=warehouse), ())
    assert held
    assert held == rebuilt(warehouse, "nats", nats.url)
    assert held == rebuilt(warehouse, "kafka", kafka.url, TOPIC)


def until_published(server: Icecore) -> None:
    """Waits until both sinks are at the end of the log."""
    deadline = time.monotonic() + TOLD_SECONDS_MAX
    while {0} != {sink["lag-events"] for sink in json.loads(operate("sinks", "--json", "--data", str(server.data)))}:
        assert time.monotonic() < deadline, "the events are not published"


def tables_held(catalog: RestCatalog, namespace: tuple[str, ...]) -> dict[str, str]:
    """Dotted name to metadata location, of all tables below a namespace."""
    held: dict[str, str] = {}
    for below in catalog.list_namespaces(namespace):
        held |= {".".join(table): catalog.load_table(table).metadata_location for table in catalog.list_tables(below)}
        held |= tables_held(catalog, below)
    return held
