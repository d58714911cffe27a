"""UpdateNamespaceProperties: some keys set, others removed, in one step on the namespace as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from commands.context import Answer, CommandContext
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import Decision, WriteSide
from domain.errors import NoSuchNamespace
from domain.identifiers import NamespaceIdentifier
from domain.namespace import NamespaceState, change_properties
from projections import names, namespaces
from projections.connections import Connection
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties


@dataclass(frozen=True, slots=True)
class UpdateNamespaceProperties:
    namespace: NamespaceIdentifier
    removals: Sequence[str]
    updates: Mapping[str, str]


async def update_namespace_properties(
    write: WriteSide, context: CommandContext, warehouse: Warehouse, command: UpdateNamespaceProperties
) -> Answer:
    """200 with what was updated, removed and missing; 422 for a key in both."""
    refuse_credential_properties(command.updates, "updates")

    async def decide() -> Decision:
        async with write.connection() as connection:
            state, generation = await read_namespace(connection, warehouse, command.namespace)
        changes = change_properties(state, command.removals, command.updates)
        submission = Submission(context)
        if changes.event is not None:
            submission.add(state.id, warehouse.id, state, [changes.event], generation)
        body = orjson.dumps({"updated": changes.updated, "removed": changes.removed, "missing": changes.missing})
        return Decision(submission, IdempotencyRecord(200, body=body), lambda position: Answer(200, body, position))

    return await write.execute(context, warehouse, decide)


async def read_namespace(connection: Connection, warehouse: Warehouse, namespace: NamespaceIdentifier) -> tuple[NamespaceState, int]:
    """The namespace as it is now, and the generation it was read from; NoSuchNamespace."""
    namespace_id = await names.find_namespace(connection, warehouse.scope, namespace)
    found = await namespaces.read_state(connection, namespace_id)
    if found is None or found[0].status != "live":
        raise NoSuchNamespace(f"Namespace does not exist: {namespace}")
    return found
