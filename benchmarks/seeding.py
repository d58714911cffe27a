"""Creates many tables: through `append` without HTTP, or through HTTP for a foreign server."""

import asyncio
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import uvloop
from uuid_utils.compat import uuid7

from benchmarks import work
from benchmarks.rest import RestCatalog
from benchmarks.servers import WAREHOUSE, settings_of
from icecore.access.request_context import ANONYMOUS, RequestContext
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.append_request import AppendRequest
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tabulars.metadata_files import serialize_table
from icecore.commands.tabulars.names_and_locations import location_key
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.compose import Application, open_catalog
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import CreateNamespace
from icecore.domain.documents import TABLE_KINDS, apply_delta, difference, split
from icecore.domain.events import TableCommitted, TableDropped, TableRegistered
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.domain.metadata.parse import parse_table_metadata
from icecore.domain.metadata.updates import apply_updates, parse_updates
from icecore.domain.names import ResolvedName
from icecore.log.head import log_head
from icecore.projections import names

Json = dict[str, Any]

PROJECT_ID = UUID(int=0)
# Registrations in flight: enough for full batches, and limited in memory.
_IN_FLIGHT = 256
_YEAR_MS = 365 * 86_400_000
# Reads do not use the store if the profile does not check for missing files, so no files are needed.
NOWHERE = {
    "type": "s3",
    "bucket": "nowhere",
    "region": "local",
    "endpoint": "http://127.0.0.1:9",
    "flavor": "s3-compat",
    "path-style-access": True,
}


@dataclass(frozen=True, slots=True)
class Seeded:
    """The result of a seeding."""

    tables: int
    seconds: float
    position: int


def _context(operation: str) -> RequestContext:
    return RequestContext(str(uuid7()), PROJECT_ID, ANONYMOUS, operation)


def table_document(location: str, table_uuid: str, snapshots: int = 2) -> Json:
    """The document of a metadata file after `snapshots` appends by an engine."""
    entries = []
    parent = None
    for n in range(1, snapshots + 1):
        entries.append(work.snapshot(location, n, work.new_snapshot_id(), parent))
        parent = entries[-1]["snapshot-id"]
    now = entries[-1]["timestamp-ms"] if entries else time.time_ns() // 1_000_000
    files = [{"timestamp-ms": now, "metadata-file": f"{location}/metadata/{n:05d}-{secrets.token_hex(16)}.metadata.json"} for n in range(2)]
    return {
        "format-version": 2,
        "table-uuid": table_uuid,
        "location": location,
        "last-sequence-number": snapshots,
        "last-updated-ms": now,
        "last-column-id": work.COLUMNS,
        "current-schema-id": 0,
        "schemas": [work.schema()],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "data-eng", "write.parquet.compression-codec": "zstd"},
        "current-snapshot-id": parent,
        "refs": {"main": {"snapshot-id": parent, "type": "branch"}} if parent is not None else {},
        "snapshots": entries,
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [{"snapshot-id": e["snapshot-id"], "timestamp-ms": e["timestamp-ms"]} for e in entries],
        "metadata-log": files if snapshots else [],
    }


def make_warehouse(dsn: str, profile: Json, credential: Json | None = None, *, name: str = WAREHOUSE) -> None:
    """Creates a warehouse in a database that has none of that name."""

    async def run() -> None:
        async with open_catalog(settings_of(dsn)) as catalog:
            catalog.commands.skip_storage_validation = True
            await create_warehouse(catalog.commands, _context("createWarehouse"), CreateWarehouse(name, profile, credential))

    uvloop.run(run())


def local_profile(directory: Path) -> Json:
    directory.mkdir(exist_ok=True)
    return {"type": "local", "directory": str(directory)}


def append_tables(
    dsn: str, namespace: str, count: int, *, with_files: bool, warehouse: str = WAREHOUSE, soft_deleted: bool = False, commits: int = 0
) -> Seeded:
    """Creates a namespace with tables `t0` … of about 4 KB through the committer.

    with_files -- writes their metadata files too. soft_deleted -- drops them, to expire in a year. commits -- appends to each table, one
    event each, without their files.
    """
    return uvloop.run(_append_tables(dsn, namespace, count, with_files, warehouse, soft_deleted, commits))


async def _append_tables(
    dsn: str, namespace: str, count: int, with_files: bool, warehouse_name: str, soft_deleted: bool, commits: int
) -> Seeded:
    started = time.monotonic()
    async with open_catalog(settings_of(dsn)) as catalog:
        warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, warehouse_name)
        identifier = NamespaceIdentifier((namespace,))
        await create_namespace(catalog.commands, _context("createNamespace"), warehouse, CreateNamespace(identifier, {}))
        async with catalog.backends.connection() as connection:
            found = await names.find(connection, warehouse.name_lookup, identifier, None)
        assert found is not None
        numbers = iter(range(count))

        async def append_some() -> None:
            for number in numbers:
                await _append_table(catalog, warehouse, found, f"t{number}", with_files, soft_deleted, commits)

        # Not many large commands at a time: one call of Postgres that took seconds would be taken for a stuck one.
        in_flight = max(_IN_FLIGHT // (1 + commits), 4)
        await asyncio.gather(*(append_some() for _ in range(in_flight)))
        async with catalog.backends.connection() as connection:
            # Statistics for the planner, which an existing database of this size would have.
            await connection.execute("analyze")
            position = await log_head(connection)
    return Seeded(count, time.monotonic() - started, position)


async def _append_table(
    catalog: Application, warehouse: Warehouse, into: ResolvedName, name: str, with_files: bool, soft_deleted: bool, commits: int
) -> None:
    table_id = uuid7()
    location = f"{into.namespace_location}/{table_id}"
    metadata = parse_table_metadata(table_document(location, str(table_id)))
    file = f"{location}/metadata/00002-{uuid7()}.metadata.json"
    if with_files:
        _write_file(file, joined(serialize_table(split(metadata, TABLE_KINDS))))
    append_request = AppendRequest(_context("registerTable"))
    append_request.must_exist.append(into.namespace_id)
    event = TableRegistered(into.namespace_id, name, warehouse.name_lookup.key(name), location_key(warehouse, metadata), file, metadata)
    dropped = [TableDropped(False, expires_at_ms=time.time_ns() // 1_000_000 + _YEAR_MS)] if soft_deleted else []
    append_request.add(table_id, warehouse.id, None, [event, *_committed(metadata, file, commits), *dropped])
    result = await catalog.commands.committer.submit(append_request)
    assert result.outcome == "appended", result


def _committed(metadata: Json, file: str, commits: int) -> list[TableCommitted]:
    """Appends to a table with this document, whose file is `file`."""
    document, events = split(metadata, TABLE_KINDS), list[TableCommitted]()
    for _ in range(commits):
        value = document.value
        body = work.append_body(value["location"], value["last-sequence-number"] + 1, work.new_snapshot_id(), value["current-snapshot-id"])
        updates = parse_updates(orjson.loads(body)["updates"])
        after = apply_updates(value, updates, now_ms=time.time_ns() // 1_000_000, previous_metadata_location=file)
        delta = difference(document, after)
        file = f"{value['location']}/metadata/{value['last-sequence-number'] + 1:05d}-{uuid7()}.metadata.json"
        events.append(TableCommitted(file, None, delta.to_json(), [update.action for update in updates]))
        document = apply_delta(document, delta)
    return events


def _write_file(location: str, document: bytes) -> None:
    path = Path(location.removeprefix("file://"))
    path.parent.mkdir(parents=True)
    path.write_bytes(document)


def create_tables(catalog: RestCatalog, namespace: str, count: int) -> None:
    """Creates the same tables over HTTP, one after the other, on a foreign server."""
    catalog.create_namespace(namespace)
    for number in range(count):
        catalog.create_table(namespace, f"t{number}")
        catalog.add_snapshots(namespace, f"t{number}", 2)


def write_metadata_file(folder: Path, snapshots: int) -> str:
    """Writes a metadata file with that many snapshots to a folder of a local warehouse, to be registered. Returns its location."""
    document = table_document(f"file://{folder}", str(uuid7()), snapshots)
    (folder / "metadata").mkdir(parents=True)
    file = folder / "metadata" / f"00002-{uuid7()}.metadata.json"
    with file.open("wb") as opened:
        opened.write(orjson.dumps(document))
        opened.flush()
        # Otherwise the kernel would write it half a minute later, during a measurement.
        os.fsync(opened.fileno())
    return f"file://{file}"
