"""CreateNamespace: creates a namespace in a warehouse or namespace."""

from dataclasses import dataclass
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.commands import CreateNamespace
from ...domain.namespace import LOCATION, check_reserved, decide_create, decide_parent
from ...projections import names
from ...security.property_rules import refuse_credential_properties
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.offload import in_thread_if, is_large_request


async def create_namespace(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CreateNamespace
) -> CommandResponse:
    """200 with the namespace and its properties, which include its location. The parent must exist and the name must be free."""
    return await executor.execute(_CreationHandler(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _CreationHandler(CommandHandler):
    command: CreateNamespace
    executor: CommandExecutor
    taken: bool = False
    parent_id: UUID | None = None

    async def resolve(self) -> CommandTargets:
        async with self.executor.connection() as connection:
            self.taken = await names.find(connection, self.warehouse.name_lookup, self.command.namespace, None) is not None
            self.parent_id = await self._parent_id(connection)
        parent_id = self.parent_id or self.warehouse.id
        return CommandTargets(other_resources=[Resource("warehouse" if parent_id == self.warehouse.id else "namespace", parent_id)])

    async def decide(self) -> Decision:
        large = is_large_request(self.context)
        await in_thread_if(large, refuse_credential_properties, self.command.properties, "properties")
        return await in_thread_if(large, self._decide_creation)

    async def _parent_id(self, connection: Connection) -> UUID | None:
        """The id of the parent; None if it does not exist."""
        parent = self.command.namespace.parent
        if parent is None:
            return self.warehouse.id
        found = await names.find(connection, self.warehouse.name_lookup, parent, None)
        return None if found is None else found.namespace_id

    def _decide_creation(self) -> Decision:
        namespace, properties, profile = self.command.namespace, self.command.properties, self.warehouse.profile
        check_reserved(namespace, self.executor.reserved_namespaces)
        parent_id = decide_parent(namespace, taken=self.taken, parent_id=self.parent_id)
        namespace_id, requested = uuid7(), properties.get(LOCATION)
        location = profile.default_namespace_location(namespace_id) if requested is None else profile.permit_namespace(requested)
        name, key = namespace.levels[-1], location.claim_key(profile.storage_identity)
        created = decide_create(parent_id, name, self.warehouse.name_lookup.key(name), location.text, key, properties)
        append_request = AppendRequest(self.context, must_exist=[parent_id])
        append_request.add(namespace_id, self.warehouse.id, None, [created])
        body = orjson.dumps({"namespace": namespace.levels, "properties": created.properties})
        return Decision(append_request, IdempotencyRecord(200, body=body), CommandResponse(200, body))
