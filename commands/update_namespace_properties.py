"""UpdateNamespaceProperties: some keys set, others removed, in one step on the namespace as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_namespace
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
from domain.identifiers import NamespaceIdentifier
from domain.namespace import NamespaceState, change_properties
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

    async def locate() -> Located[NamespaceState]:
        return await locate_namespace(write, warehouse, command.namespace)

    def decide(state: NamespaceState, generation: int) -> Decision:
        refuse_credential_properties(command.updates, "updates")
        changes = change_properties(state, command.removals, command.updates)
        submission, after = Submission(context), None
        if changes.event is None:
            submission.rest_on(state)
        else:
            after = submission.add(state.id, warehouse.id, state, [changes.event], generation)
        body = orjson.dumps({"updated": changes.updated, "removed": changes.removed, "missing": changes.missing})
        return Decision(submission, IdempotencyRecord(200, body=body), lambda position: Answer(200, body, position), after=after)

    return await write.execute_in_lane(context, warehouse, locate, decide)
