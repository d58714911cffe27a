"""DropNamespace: drops an empty namespace, or a tree (drop_namespace_tree.py). A protected one needs `force`."""

from dataclasses import dataclass
from uuid import UUID

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.commands import DropNamespace
from ...domain.namespace import NamespaceState, decide_drop
from ...projections import names, soft_deleted
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import ResolvedStream
from .drop_namespace_tree import drop_namespace_tree

_CHILDREN = ("table", "view", "namespace")
SOFT_DELETED_NAMED_MAX = 10
"""Limit on the soft-deleted objects that a refusal names."""


async def drop_namespace(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropNamespace
) -> CommandResponse:
    """204. Raises NamespaceProtected without `force`, and NamespaceNotEmpty if it contains tables, views or namespaces, soft-deleted ones
    included. A recursive drop: see drop_namespace_tree.
    """
    if command.recursive:
        return await drop_namespace_tree(executor, context, warehouse, command)
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_DropHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _DropHandler(CommandHandler):
    command: DropNamespace
    executor: CommandExecutor
    reservation: DocumentReservation
    namespace: ResolvedStream[NamespaceState] | None = None

    async def resolve(self) -> CommandTargets:
        self.namespace = await self.executor.resolver.namespace(self.warehouse, self.command.namespace)
        return CommandTargets([self.namespace])

    async def prepare(self) -> None:
        assert self.namespace is not None
        await self.executor.resolver.reserve_document_memory(self.reservation, [self.namespace])

    async def decide(self) -> Decision:
        assert self.namespace is not None
        state, generation = await self.namespace.read_named(self.reservation)
        async with self.executor.connection() as connection:
            child_kind = await _find_child_kind(connection, self.warehouse, state.id)
            deleted = await soft_deleted.list_soft_deleted(
                connection, self.warehouse.id, state.id, None, SOFT_DELETED_NAMED_MAX, soft_deleted.EVERY_KIND
            )
        event = decide_drop(state, self.command.namespace, child_kind, [each.described for each in deleted], force=self.command.force)
        # Append detects objects that are created in it meanwhile.
        append_request = AppendRequest(self.context, must_be_empty=[state.id])
        append_request.add(state.id, self.warehouse.id, state, [event], generation)
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None))


async def _find_child_kind(connection: Connection, warehouse: Warehouse, namespace_id: UUID) -> str | None:
    """The kind of an object in the namespace; None if it is empty."""
    for kind in _CHILDREN:
        if await names.list_names(connection, warehouse.name_lookup, namespace_id, kind, None, 1):
            return kind
    return None
