"""Loads the storage credentials of a table: none, until credential vending exists."""

import orjson

from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..domain.identifiers import TabularIdentifier
from .executor import QueryExecutor
from .load_table import table_exists


async def load_credentials(queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, table: TabularIdentifier) -> bytes:
    """A LoadCredentialsResponse. Raises NoSuchTable."""
    await table_exists(queries, context, warehouse, table)
    return orjson.dumps({"storage-credentials": []})
