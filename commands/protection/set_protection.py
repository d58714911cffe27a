"""SetNamespaceProtection, SetTableProtection, SetViewProtection: a protected object is dropped only with `force`."""

from dataclasses import dataclass
from uuid import UUID

import orjson

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain import namespace, table, view
from ...domain.commands import SetNamespaceProtection, SetTableProtection, SetViewProtection
from ...domain.events import Event
from ...domain.identifiers import ContentKind
from ...domain.namespace import NamespaceState
from ...domain.table import TableState
from ...domain.view import ViewState
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import OutdatedRead, ResolvedStream, Resolver

_SetProtection = SetNamespaceProtection | SetTableProtection | SetViewProtection


async def set_namespace_protection(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: SetNamespaceProtection
) -> CommandResponse:
    """200 with `protected`. Raises NoSuchNamespace if the warehouse has no such namespace."""
    return await executor.execute(_ChangeHandler(context, warehouse, command, executor.resolver))


async def set_table_protection(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: SetTableProtection
) -> CommandResponse:
    """200 with `protected`. Raises NoSuchTable if the warehouse has no such table."""
    return await executor.execute(_ChangeHandler(context, warehouse, command, executor.resolver))


async def set_view_protection(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: SetViewProtection
) -> CommandResponse:
    """200 with `protected`. Raises NoSuchView if the warehouse has no such view."""
    return await executor.execute(_ChangeHandler(context, warehouse, command, executor.resolver))


@dataclass(slots=True, eq=False)
class _ChangeHandler(StreamCommandHandler[NamespaceState | TableState | ViewState]):
    command: _SetProtection
    resolver: Resolver

    async def resolve(self) -> ResolvedStream[NamespaceState | TableState | ViewState]:
        return await self.resolver.object_by_id(self.warehouse, *_object(self.command))

    def decide(self, state: NamespaceState | TableState | ViewState, generation: int) -> Decision:
        if state.status != "live":
            # It was dropped after it was found; a purge keeps some of its claims.
            raise OutdatedRead
        append_request, after = AppendRequest(self.context), None
        event = _decide(state, protected=self.command.protected)
        if event is None:
            append_request.depend_on(state)
        else:
            after = append_request.add(state.id, self.warehouse.id, state, [event], generation)
        body = orjson.dumps({"protected": self.command.protected})
        return Decision(append_request, IdempotencyRecord(200, body=body), CommandResponse(200, body), after=after)


def _object(command: _SetProtection) -> tuple[ContentKind, UUID]:
    match command:
        case SetNamespaceProtection():
            return "namespace", command.namespace_id
        case SetTableProtection():
            return "table", command.table_id
        case SetViewProtection():
            return "view", command.view_id


def _decide(state: NamespaceState | TableState | ViewState, *, protected: bool) -> Event | None:
    match state:
        case NamespaceState():
            return namespace.decide_protection(state, protected=protected)
        case TableState():
            return table.decide_protection(state, protected=protected)
        case ViewState():
            return view.decide_protection(state, protected=protected)
