"""Whether a table has reached a snapshot."""

from dataclasses import dataclass
from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..domain.errors import BadRequest, NoSuchTable
from ..domain.identifiers import TabularIdentifier
from ..log.head import log_head
from ..projections import names, snapshot_ancestry
from .executor import QueryExecutor


@dataclass(frozen=True, slots=True)
class SnapshotAncestry:
    """Where a table stands, at a position of the log; `reached`: the snapshot is or was the current one, or leads to such a one."""

    table_id: UUID
    version: int
    position: int
    current_snapshot_id: int | None
    reached: bool


async def load_snapshot_ancestry(
    queries: QueryExecutor,
    context: RequestContext,
    warehouse: Warehouse,
    table: TabularIdentifier,
    snapshot_id: int,
    before: SnapshotAncestry | None = None,
) -> SnapshotAncestry:
    """Whether the table has come to the snapshot; NoSuchTable, also where it was dropped since `before`.

    before -- an earlier answer to the same question: the table is the one it was about, whatever it is called by now, and is looked at
    again only if it changed. A past does not go on: BadRequest.
    """
    if warehouse.as_of is not None:
        raise BadRequest("Invalid parameter 'warehouse': a past state does not change; name the warehouse without a position or time")
    async with queries.backends.connection() as connection:
        # Read first: the answer holds at this position, or at a later one.
        position = await log_head(connection)
        table_id = await names.find_table(connection, warehouse.scope, table) if before is None else before.table_id
        standing = await snapshot_ancestry.read_snapshot_state(connection, table_id)
        if not standing.is_live:
            raise NoSuchTable(f"Table does not exist: {table}")
        current = standing.current_snapshot_id
        if before is not None and before.version == standing.version:
            reached = before.reached
        else:
            reached = await snapshot_ancestry.is_ancestor(connection, table_id, current, snapshot_id)
    await queries.authorize(context, Resource("table", table_id))
    return SnapshotAncestry(table_id, standing.version, position, current, reached)
