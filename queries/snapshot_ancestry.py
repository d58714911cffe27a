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
    """The result at a position of the log; `reached`: the snapshot is or was current, or is an ancestor of such a snapshot."""

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
    """Whether the table has reached the snapshot. Raises NoSuchTable, also if it was dropped since `before`.

    before -- an earlier result: the table is the same object, even if it was renamed since, and is read again only if it has changed.
    Raises BadRequest for a past state, which does not change.
    """
    if warehouse.as_of is not None:
        raise BadRequest("Invalid parameter 'warehouse': a past state does not change; name the warehouse without a position or time")
    async with queries.backends.connection() as connection:
        # Read first: the result is valid at this position, or at a later one.
        position = await log_head(connection)
        table_id = await names.find_table(connection, warehouse.name_lookup, table) if before is None else before.table_id
        state = await snapshot_ancestry.read_snapshot_state(connection, table_id)
        if not state.is_live:
            raise NoSuchTable(f"Table does not exist: {table}")
        current = state.current_snapshot_id
        if before is not None and before.version == state.version:
            reached = before.reached
        else:
            reached = await snapshot_ancestry.is_ancestor(connection, table_id, current, snapshot_id)
        if reached:
            # The commit may be later than the first position; a read at this one has it.
            position = await log_head(connection)
    await queries.authorize(context, Resource("table", table_id))
    return SnapshotAncestry(table_id, state.version, position, current, reached)
