"""UpdateWarehouseConfig: updates and removes what the operator adds to the configuration of a warehouse's clients (/v1/config)."""

from dataclasses import dataclass
from typing import ClassVar

import orjson

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.warehouse import WarehouseState
from ...domain.warehouse_config import UpdateWarehouseConfig, decide_update_config
from ...security.client_properties import check_client_properties
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream, Resolver


async def update_warehouse_config(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: UpdateWarehouseConfig
) -> CommandResponse:
    """200 with the resulting defaults and overrides. 422 for a key in both `updates` and `removals`."""
    return await executor.execute(_UpdateHandler(context, warehouse, command, executor.resolver))


@dataclass(slots=True, eq=False)
class _UpdateHandler(StreamCommandHandler[WarehouseState]):
    allows_inactive_warehouse: ClassVar[bool] = True
    allows_read_only_warehouse: ClassVar[bool] = True

    command: UpdateWarehouseConfig
    resolver: Resolver

    async def resolve(self) -> ResolvedStream[WarehouseState]:
        return self.resolver.warehouse(self.warehouse)

    def decide(self, state: WarehouseState, generation: int) -> Decision:
        check_client_properties(self.command.defaults.updates, "defaults")
        check_client_properties(self.command.overrides.updates, "overrides")
        event = decide_update_config(state.config, self.command)
        append_request, after = AppendRequest(self.context), state
        if event is None:
            append_request.depend_on(state)
        else:
            changed = append_request.add(state.id, self.warehouse.id, state, [event], generation)
            assert isinstance(changed, WarehouseState)
            after = changed
        body = orjson.dumps(after.config.to_json())
        return Decision(
            append_request, IdempotencyRecord(200, body=body), CommandResponse(200, body), after=None if event is None else after
        )
