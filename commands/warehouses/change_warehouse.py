"""Changes of a warehouse itself: its name, status, protection and policies, and its deletion."""

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

import orjson

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...access.warehouse_result import load_result
from ...domain.errors import CatalogError
from ...domain.events import Event
from ...domain.warehouse import (
    DeleteWarehouse,
    RenameWarehouse,
    WarehouseChange,
    WarehouseState,
    decide_change,
    decide_delete,
    decide_rename,
)
from ...log.head import log_head
from ...projections import soft_deleted, warehouse_content, warehouses
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import ResolvedStream
from ..namespaces.drop_namespace import SOFT_DELETED_NAMED_MAX


async def rename_warehouse(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: RenameWarehouse
) -> CommandResponse:
    """200 with the warehouse. Raises AlreadyExists if another warehouse of the project has the name. Clients keep their prefix."""
    return await executor.execute(_RenameHandler(context, warehouse, command, executor))


async def change_warehouse(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: WarehouseChange
) -> CommandResponse:
    """200 with the warehouse as it is loaded."""
    return await executor.execute(_ChangeHandler(context, warehouse, command, executor))


async def delete_warehouse(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DeleteWarehouse
) -> CommandResponse:
    """204. Raises WarehouseNotEmpty and WarehouseProtected. Its files stay, its credential is destroyed."""
    deletion = _DeletionHandler(context, warehouse, command, executor)
    response = await executor.execute(deletion)
    secret_ref = deletion.secret_ref or warehouse.secret_ref
    if secret_ref is not None:
        # If this fails, a creation of a warehouse destroys it after an hour.
        with suppress(CatalogError):
            async with executor.connection() as connection:
                await executor.secrets.destroy(connection, warehouse.project_id, secret_ref)
    return response


@dataclass(slots=True, eq=False)
class _WarehouseHandler(CommandHandler):
    allows_inactive_warehouse: ClassVar[bool] = True
    allows_read_only_warehouse: ClassVar[bool] = True

    executor: CommandExecutor
    stream: ResolvedStream[WarehouseState] | None = None

    async def resolve(self) -> CommandTargets:
        self.stream = self.executor.resolver.warehouse(self.warehouse)
        return CommandTargets([self.stream])

    async def decide(self) -> Decision:
        assert self.stream is not None
        state, generation = await self.stream.read_named()
        append_request = AppendRequest(self.context)
        event = await self.event(state, append_request)
        if event is None:
            append_request.depend_on(state)
            after = state
        else:
            changed = append_request.add(state.id, state.id, state, [event], generation)
            assert isinstance(changed, WarehouseState)
            after = changed
        status, body = await self.response(after)
        return Decision(append_request, IdempotencyRecord(status, body=body), CommandResponse(status, body))

    @abstractmethod
    async def event(self, state: WarehouseState, append_request: AppendRequest) -> Event | None:
        """The event that the command leads to; None if nothing changes."""

    async def response(self, after: WarehouseState) -> tuple[int, bytes | None]:
        return 200, orjson.dumps(await load_result(self.executor.backends, after))


@dataclass(slots=True, eq=False)
class _RenameHandler(_WarehouseHandler):
    command: RenameWarehouse

    async def event(self, state: WarehouseState, append_request: AppendRequest) -> Event | None:
        async with self.executor.connection() as connection:
            other = await warehouses.read_by_name(connection, state.project_id, self.command.name)
        return decide_rename(state, self.command, taken=other is not None and other.id != state.id)


@dataclass(slots=True, eq=False)
class _ChangeHandler(_WarehouseHandler):
    command: WarehouseChange

    async def event(self, state: WarehouseState, append_request: AppendRequest) -> Event | None:
        return decide_change(state, self.command)


@dataclass(slots=True, eq=False)
class _DeletionHandler(_WarehouseHandler):
    """secret_ref -- the credential of the state that was decided on, which may be newer than the request's warehouse."""

    command: DeleteWarehouse
    secret_ref: UUID | None = None

    async def event(self, state: WarehouseState, append_request: AppendRequest) -> Event | None:
        self.secret_ref = state.secret_ref
        async with self.executor.connection() as connection:
            append_request.no_warehouse_events_since = (state.id, await log_head(connection), "%")
            content = await warehouse_content.content_kind(connection, state.id)
            deleted = await soft_deleted.list_soft_deleted(
                connection, state.id, None, None, SOFT_DELETED_NAMED_MAX, soft_deleted.EVERY_KIND
            )
        return decide_delete(state, self.command, content, [each.described for each in deleted])

    async def response(self, after: WarehouseState) -> tuple[int, bytes | None]:
        return 204, None
