"""DropNamespace: only an empty one."""

from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.submission import IdempotencyRecord, Submission
from commands.update_namespace_properties import read_namespace
from commands.write_side import Decision, WriteSide
from domain.errors import NamespaceNotEmpty
from domain.events import NamespaceDropped
from domain.identifiers import NamespaceIdentifier
from projections import names
from queries.warehouse import Warehouse

_CHILDREN = ("table", "view", "namespace")


@dataclass(frozen=True, slots=True)
class DropNamespace:
    namespace: NamespaceIdentifier


async def drop_namespace(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: DropNamespace) -> Answer:
    """204; NamespaceNotEmpty while it holds tables, views or namespaces."""

    async def decide() -> Decision:
        async with write.connection() as connection:
            state, generation = await read_namespace(connection, warehouse, command.namespace)
            for kind in _CHILDREN:
                if await names.list_names(connection, warehouse.scope, state.id, kind, None, 1):
                    raise NamespaceNotEmpty(f"Namespace {command.namespace} is not empty. It holds at least one {kind}")
        # What is created in it meanwhile, append sees.
        submission = Submission(context, empty=[state.id])
        submission.add(state.id, warehouse.id, state, [NamespaceDropped()], generation)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute(context, warehouse, decide)
