"""A table as engines load it: its metadata, where the file is, and what their file access needs to know."""

from domain.errors import NoSuchTable, NotFound
from domain.identifiers import TabularIdentifier
from projections import names, results, tables
from queries.answers import TableAnswer
from queries.read_side import ReadSide
from queries.warehouse import Warehouse
from storage.locations import StorageLocation


async def load_table(
    reads: ReadSide, warehouse: Warehouse, table: TabularIdentifier, snapshots: str = "all", if_none_match: str | None = None
) -> TableAnswer:
    """A LoadTableResult; no body where `if_none_match` still holds.

    snapshots -- `all`, or `refs`: only those that a branch or tag names.
    NoSuchTable; NotFound where the warehouse looks for the metadata file and it is gone (only for now, never for a past).
    """
    referenced_only = snapshots == "refs"
    async with reads.connection() as connection:
        table_id = await names.find_table(connection, warehouse.scope, table)
        loaded = await tables.load(connection, table_id, warehouse.as_of, referenced_only=referenced_only)
    if loaded is None:
        raise NoSuchTable(f"Table does not exist: {table}")
    if warehouse.profile.missing_file_check and warehouse.as_of is None:
        await _check_file(reads, warehouse, loaded.metadata_location)
    etag = results.table_etag(table_id, loaded.version, referenced_only=referenced_only)
    if if_none_match is not None and _matches(if_none_match, etag):
        return TableAnswer(etag, None)
    return TableAnswer(etag, results.load_table_result(loaded, warehouse.profile.client_config()))


async def table_exists(reads: ReadSide, warehouse: Warehouse, table: TabularIdentifier) -> None:
    """NoSuchTable where it does not."""
    async with reads.connection() as connection:
        await names.find_table(connection, warehouse.scope, table)


async def _check_file(reads: ReadSide, warehouse: Warehouse, metadata_location: str) -> None:
    store = await reads.store(warehouse)
    if not await store.exists(StorageLocation.parse_structure(metadata_location, what="metadata-location")):
        raise NotFound(f"Failed to open input stream for file: {metadata_location}")


def _matches(if_none_match: str, etag: str) -> bool:
    return if_none_match.strip() == "*" or etag in (candidate.strip() for candidate in if_none_match.split(","))
