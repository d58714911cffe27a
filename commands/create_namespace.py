"""CreateNamespace: a new level below a warehouse or a namespace."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.deciding import decided, is_large_request
from commands.decision import Decision
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
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


async def create_namespace(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CreateNamespace) -> Answer:
    """200 with the namespace and its properties; the parent must exist, the name must be free."""
    above = command.namespace.levels[:-1]

    async def decide() -> Decision:
        await decided(is_large_request(context), refuse_credential_properties, command.properties, "properties")
        parent_id = warehouse.id
        async with write.connection() as connection:
            if await names.find(connection, warehouse.scope, command.namespace, None) is not None:
                raise AlreadyExists(f"Namespace already exists: {command.namespace}")
            if above:
                parent = NamespaceIdentifier(tuple(above))
                found = await names.find(connection, warehouse.scope, parent, None)
                if found is None:
                    raise NoSuchNamespace(f"Namespace does not exist: {parent}")
                parent_id = found.namespace_id
        return await decided(is_large_request(context), _decided, context, warehouse, command, parent_id)

    return await write.execute(context, warehouse, decide)


def _decided(context: CommandContext, warehouse: Warehouse, command: CreateNamespace, parent_id: UUID) -> Decision:
    name, properties = command.namespace.levels[-1], dict(command.properties)
    submission = Submission(context, alive=[parent_id])
    created = NamespaceCreated(parent_id, name, warehouse.scope.key(name), properties)
    submission.add(uuid7(), warehouse.id, None, [created])
    body = orjson.dumps({"namespace": command.namespace.levels, "properties": properties})
    return Decision(submission, IdempotencyRecord(200, body=body), lambda position: Answer(200, body, position))
