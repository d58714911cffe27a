"""The storage credentials of a table: none for local files, none while vending is not built."""

import orjson

from domain.identifiers import TabularIdentifier
from queries.load_table import table_exists
from queries.read_side import ReadSide
from queries.warehouse import Warehouse


async def load_credentials(reads: ReadSide, warehouse: Warehouse, table: TabularIdentifier) -> bytes:
    """A LoadCredentialsResponse; NoSuchTable."""
    await table_exists(reads, warehouse, table)
    return orjson.dumps({"storage-credentials": []})
