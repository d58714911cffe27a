"""What renaming a table and renaming a view have in common: one thing takes a name that must be free where it goes."""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
from domain.errors import AlreadyExists, NoSuchNamespace
from domain.events import TableRenamed, ViewRenamed
from domain.identifiers import TabularIdentifier
from domain.table import TableState
from domain.view import ViewState
from projections import names
from projections.connections import Connection
from projections.streams import State
from queries.warehouse import Warehouse


async def rename_tabular(
    write: WriteSide,
    context: CommandContext,
    warehouse: Warehouse,
    find: Callable[[], Awaitable[Located[State]]],
    renamed: type[TableRenamed] | type[ViewRenamed],
    source: TabularIdentifier,
    destination: TabularIdentifier,
) -> Answer:
    """204; the destination's namespace must exist and the name be free there (another spelling of its own is)."""
    located: list[Located[State]] = []

    async def locate() -> Sequence[Located[State]]:
        located[:] = [await find()]
        return located

    async def decide() -> Decision:
        state, generation = await located[0].read_now()
        assert isinstance(state, TableState | ViewState)
        async with write.connection() as connection:
            namespace_id = await _free_destination(connection, warehouse, state.id, source, destination)
        submission = Submission(context)
        if (namespace_id, destination.name) != (state.namespace_id, state.name):
            submission.alive.append(namespace_id)
            event = renamed(namespace_id, destination.name, warehouse.scope.key(destination.name))
            submission.add(state.id, warehouse.id, state, [event], generation)
        else:
            submission.rest_on(state)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute_together(context, warehouse, locate, decide)


async def _free_destination(
    connection: Connection, warehouse: Warehouse, object_id: UUID, source: TabularIdentifier, destination: TabularIdentifier
) -> UUID:
    """The id of the namespace the destination is in, its name free or already this object's."""
    found = await names.find(connection, warehouse.scope, destination.namespace, destination.name)
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {destination.namespace}")
    if found.object_id not in (None, object_id):
        raise AlreadyExists(f"Cannot rename {source} to {destination}. {str(found.kind).capitalize()} already exists")
    return found.namespace_id
