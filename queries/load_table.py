"""Loads a table: its metadata, its metadata location, and the configuration of file access."""

from dataclasses import dataclass
from uuid import UUID

from ..access.authorization import Resource
from ..access.backends import Backends
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from ..domain.byte_pieces import Content
from ..domain.errors import NoSuchTable, NotFound
from ..domain.identifiers import TabularIdentifier
from ..projections import names, response_bodies, tables
from ..projections.bounded_reads import LargeDocument
from ..projections.tables import LoadedTable, TableLookup
from ..storage.locations import StorageLocation
from .cache_invalidator import name_tag, paths_tag, stream_tag
from .executor import QueryExecutor, ReadResult
from .results import TableResult


@dataclass(frozen=True, slots=True)
class _CachedTable:
    """An encoded LoadTableResult, its ETag, and the metadata file to check; None if the warehouse does not check files."""

    etag: str
    body: Content
    metadata_location: StorageLocation | None


async def load_table(
    queries: QueryExecutor,
    context: RequestContext,
    warehouse: Warehouse,
    table: TabularIdentifier,
    snapshots: str = "all",
    if_none_match: str | None = None,
) -> TableResult:
    """A LoadTableResult; without a body if `if_none_match` is the current ETag.

    snapshots -- `all`, or `refs`: only those that a branch or tag refers to.
    Raises NoSuchTable; NotFound if the warehouse checks metadata files and the file is missing (not for past states).
    """
    referenced_only, as_of = snapshots == "refs", warehouse.as_of
    warehouse_id, keys, name_key = warehouse.name_lookup.path(table)
    lookup = TableLookup(warehouse_id, (*keys, name_key), referenced_only)

    async def find() -> ReadResult[_CachedTable]:
        if as_of is None:
            loaded = await queries.table_loads.load(lookup)
        else:
            loaded = await _load_as_of(queries.backends, warehouse, table, as_of, referenced_only)
        if loaded is None:
            raise NoSuchTable(f"Table does not exist: {table}")
        etag = response_bodies.table_etag(loaded.event_id, referenced_only=referenced_only)
        body = response_bodies.load_table_result(loaded)
        metadata_location = None
        if warehouse.profile.missing_file_check:
            metadata_location = StorageLocation.parse_structure(loaded.metadata_location, field="metadata-location")
        return ReadResult(
            _CachedTable(etag, body, metadata_location),
            Resource("table", loaded.table_id),
            len(body),
            (stream_tag(loaded.table_id), paths_tag(warehouse.id)),
        )

    cached = await queries.execute_with_own_connections(context, ("table", lookup), as_of, find)
    if cached.metadata_location is not None and as_of is None:
        await _check_file(queries.backends, warehouse, cached.metadata_location)
    if if_none_match is not None and _matches(if_none_match, cached.etag):
        return TableResult(cached.etag, None)
    return TableResult(cached.etag, cached.body)


async def _load_as_of(
    backends: Backends, warehouse: Warehouse, table: TabularIdentifier, as_of: int, referenced_only: bool
) -> LoadedTable | None:
    async def read(connection: Connection, bytes_max: int) -> LoadedTable | LargeDocument | None:
        table_id = await names.find_table(connection, warehouse.name_lookup, table)
        return await tables.load_as_of(connection, table_id, as_of, referenced_only=referenced_only, bytes_max=bytes_max)

    return await backends.read_with_reservation(read)


async def table_exists(queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, table: TabularIdentifier) -> None:
    """Raises NoSuchTable if the table does not exist."""

    async def read(connection: Connection) -> ReadResult[UUID]:
        table_id = await names.find_table(connection, warehouse.name_lookup, table)
        return ReadResult(table_id, Resource("table", table_id), 0, (name_tag(table_id), paths_tag(warehouse.id)))

    await queries.execute(context, ("table name", *warehouse.name_lookup.path(table)), warehouse.as_of, read)


async def _check_file(backends: Backends, warehouse: Warehouse, metadata_location: StorageLocation) -> None:
    store = await backends.store(warehouse)
    if not await store.exists(metadata_location, on_loop=True):
        raise NotFound(f"Failed to open input stream for file: {metadata_location.text}")


def _matches(if_none_match: str, etag: str) -> bool:
    """Weak comparison (RFC 9110, 13.1.2): some clients and proxies drop the `W/` of a tag."""
    opaque = etag.removeprefix("W/")
    return if_none_match.strip() == "*" or opaque in (candidate.strip().removeprefix("W/") for candidate in if_none_match.split(","))
