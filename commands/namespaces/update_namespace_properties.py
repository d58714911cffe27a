"""UpdateNamespaceProperties: updates and removes properties of a namespace in one step."""

from dataclasses import dataclass

import orjson

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import UpdateNamespaceProperties
from ...domain.namespace import NamespaceState, decide_update
from ...domain.properties import PropertyUpdate
from ...security.property_rules import refuse_credential_properties
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream, Resolver


async def update_namespace_properties(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: UpdateNamespaceProperties
) -> CommandResponse:
    """200 with the updated, removed and missing properties. 422 for a key in both `updates` and `removals`."""
    return await executor.execute(_UpdateHandler(context, warehouse, command, executor.resolver))


@dataclass(slots=True, eq=False)
class _UpdateHandler(StreamCommandHandler[NamespaceState]):
    command: UpdateNamespaceProperties
    resolver: Resolver

    async def resolve(self) -> ResolvedStream[NamespaceState]:
        return await self.resolver.namespace(self.warehouse, self.command.namespace)

    def decide(self, state: NamespaceState, generation: int) -> Decision:
        refuse_credential_properties(self.command.updates, "updates")
        changes = decide_update(state, PropertyUpdate(self.command.removals, self.command.updates))
        append_request, after = AppendRequest(self.context), None
        if changes.event is None:
            append_request.depend_on(state)
        else:
            after = append_request.add(state.id, self.warehouse.id, state, [changes.event], generation)
        body = orjson.dumps({"updated": changes.updated, "removed": changes.removed, "missing": changes.missing})
        return Decision(append_request, IdempotencyRecord(200, body=body), CommandResponse(200, body), after=after)
