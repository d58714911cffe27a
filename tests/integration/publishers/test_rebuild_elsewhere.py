"""A consumer in another process knows every table and its current metadata from the stream alone, as PyIceberg wrote them."""

import asyncio
from pathlib import Path

import pyarrow
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import IntegerType

from tests.fixtures.catalog import CatalogServer
from tests.integration.publishers.publishing import SINK, KafkaUnderTest, NatsUnderTest, Nursery, until_published
from tests.integration.publishers.stream_reader import rebuilt
from tests.servers.kafka import KafkaBroker
from tests.servers.nats import NatsServer

ROWS = pyarrow.table({"name": ["Ada", "Grace"], "born": pyarrow.array([1815, 1906], pyarrow.int32())})


def write_with_pyiceberg(catalog: Catalog) -> dict[str, str]:
    """Tables are created, written, evolved, renamed, dropped and registered. Returns the catalog's tables."""
    for namespace in ("town", "town.quarter", "land"):
        catalog.create_namespace(namespace)
    people = catalog.create_table("town.people", ROWS.schema)
    people.append(ROWS)
    with people.update_schema() as change:
        change.add_column("died", IntegerType())
    people.append(ROWS.append_column("died", pyarrow.array([1852, 1992], pyarrow.int32())))
    people.delete("name = 'Ada'")
    catalog.create_table("town.gone", ROWS.schema).append(ROWS)
    catalog.drop_table("town.gone")
    catalog.create_table("town.quarter.moved", ROWS.schema).append(ROWS)
    catalog.rename_table("town.quarter.moved", "land.settled")
    catalog.load_table("land.settled").append(ROWS)
    with catalog.create_table_transaction("land.staged", ROWS.schema) as transaction:
        transaction.append(ROWS)
    empty = catalog.create_table("land.empty", ROWS.schema)
    with empty.transaction() as transaction:
        transaction.set_properties(owner="crown")
    held: dict[str, str] = {}
    for levels in (*catalog.list_namespaces(), *catalog.list_namespaces("town")):
        for identifier in catalog.list_tables(levels):
            held[".".join(identifier)] = catalog.load_table(identifier).metadata_location
    return held


@pytest.fixture
def pyiceberg(catalog_server: CatalogServer) -> Catalog:
    """PyIceberg on a served catalog."""
    return load_catalog("icecore", type="rest", uri=f"{catalog_server.url}/catalog", warehouse="demo")


def test_from_jetstream(pyiceberg: Catalog, catalog_server: CatalogServer, nats: NatsServer, nursery: Nursery, tmp_path: Path) -> None:
    """With a durable pull consumer."""
    process = nursery.start(catalog_server.dsn, {SINK: NatsUnderTest(nats).sink}, tmp_path)
    held = write_with_pyiceberg(pyiceberg)
    asyncio.run(until_published(catalog_server.dsn))
    process.stop()
    assert {"town.people", "land.settled", "land.staged", "land.empty"} == set(held)
    assert held == rebuilt("demo", "nats", nats.url)


def test_from_kafka(pyiceberg: Catalog, catalog_server: CatalogServer, kafka: KafkaBroker, nursery: Nursery, tmp_path: Path) -> None:
    """With a consumer of committed messages."""
    under_test = KafkaUnderTest(kafka)
    process = nursery.start(catalog_server.dsn, {SINK: under_test.sink}, tmp_path)
    held = write_with_pyiceberg(pyiceberg)
    asyncio.run(until_published(catalog_server.dsn))
    process.stop()
    assert held == rebuilt("demo", "kafka", kafka.url, under_test.topic)
