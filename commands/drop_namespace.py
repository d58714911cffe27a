"""DropNamespace: only an empty one."""

from collections.abc import Sequence
from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_namespace
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
from domain.errors import NamespaceNotEmpty
from domain.events import NamespaceDropped
from domain.identifiers import NamespaceIdentifier
from projections import names
from projections.streams import State
from queries.warehouse import Warehouse

_CHILDREN = ("table", "view", "namespace")


@dataclass(frozen=True, slots=True)
class DropNamespace:
    namespace: NamespaceIdentifier


async def drop_namespace(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: DropNamespace) -> Answer:
    """204; NamespaceNotEmpty while it holds tables, views or namespaces."""

    located: list[Located[State]] = []

    async def locate() -> Sequence[Located[State]]:
        located[:] = [await locate_namespace(write, warehouse, command.namespace)]
        return located

    async def decide() -> Decision:
        (namespace,) = located
        state, generation = await namespace.read_now()
        async with write.connection() as connection:
            for kind in _CHILDREN:
                if await names.list_names(connection, warehouse.scope, state.id, kind, None, 1):
                    raise NamespaceNotEmpty(f"Namespace {command.namespace} is not empty. It holds at least one {kind}")
        # What is created in it meanwhile, append sees.
        submission = Submission(context, empty=[state.id])
        submission.add(state.id, warehouse.id, state, [NamespaceDropped()], generation)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute_together(context, warehouse, locate, decide)
