"""CreateNamespace: a new level below a warehouse or a namespace."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from commands.execution.context import Answer, CommandContext
from commands.execution.deciding import decided, is_large_request
from commands.execution.executor import CommandExecutor
from commands.execution.handler import CommandHandler, Decision
from commands.execution.submission import IdempotencyRecord, Submission
from domain.errors import AlreadyExists, NoSuchNamespace
from domain.events import NamespaceCreated
from domain.identifiers import NamespaceIdentifier
from projections import names
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    namespace: NamespaceIdentifier
    properties: Mapping[str, str]


async def create_namespace(executor: CommandExecutor, context: CommandContext, warehouse: Warehouse, command: CreateNamespace) -> Answer:
    """200 with the namespace and its properties; the parent must exist, the name must be free."""
    return await executor.execute(_Creation(context, warehouse, executor, command))


@dataclass(slots=True, eq=False)
class _Creation(CommandHandler):
    executor: CommandExecutor
    command: CreateNamespace

    async def decide(self) -> Decision:
        large = is_large_request(self.context)
        await decided(large, refuse_credential_properties, self.command.properties, "properties")
        parent_id = await self._parent()
        return await decided(large, self._created, parent_id)

    async def _parent(self) -> UUID:
        """The id of what the namespace will lie in, where its name is free."""
        namespace, scope = self.command.namespace, self.warehouse.scope
        above = namespace.levels[:-1]
        async with self.executor.connection() as connection:
            if await names.find(connection, scope, namespace, None) is not None:
                raise AlreadyExists(f"Namespace already exists: {namespace}")
            if not above:
                return self.warehouse.id
            parent = NamespaceIdentifier(tuple(above))
            found = await names.find(connection, scope, parent, None)
        if found is None:
            raise NoSuchNamespace(f"Namespace does not exist: {parent}")
        return found.namespace_id

    def _created(self, parent_id: UUID) -> Decision:
        levels, properties = self.command.namespace.levels, dict(self.command.properties)
        submission = Submission(self.context, alive=[parent_id])
        created = NamespaceCreated(parent_id, levels[-1], self.warehouse.scope.key(levels[-1]), properties)
        submission.add(uuid7(), self.warehouse.id, None, [created])
        body = orjson.dumps({"namespace": levels, "properties": properties})
        return Decision(submission, IdempotencyRecord(200, body=body), Answer(200, body))
