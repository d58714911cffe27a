"""CommitView: requirements checked, updates applied, the new document written, and the delta appended."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from commands.context import Answer, CommandContext
from commands.create_view import view_body
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import location_key, next_file_number, write_file
from commands.write_side import Decision, WriteSide
from domain.documents import VIEW_KINDS, Json, difference, fold, split
from domain.errors import NoSuchView
from domain.events import ViewCommitted
from domain.identifiers import TabularIdentifier
from domain.view import ViewState
from domain.view_metadata.requirements import check_view_requirements
from domain.view_metadata.updates import apply_view_updates
from projections import names, views
from projections.connections import Connection
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties
from storage.location_door import check_document_locations


@dataclass(frozen=True, slots=True)
class CommitView:
    """Requirements and updates as the spec's JSON objects, in the order they came."""

    view: TabularIdentifier
    requirements: Sequence[Json]
    updates: Sequence[Json]


async def commit_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CommitView) -> Answer:
    """200 with a LoadViewResult; CommitFailed where a requirement does not hold."""

    async def decide() -> Decision:
        async with write.connection() as connection:
            state, generation = await read_view(connection, warehouse, command.view)
        before = state.metadata
        check_view_requirements(before, command.requirements)
        metadata = apply_view_updates(before, command.updates, now_ms=write.now_ms())
        submission, record = Submission(context), IdempotencyRecord(200, state.id, state.version)
        document = split(before, VIEW_KINDS)
        delta = difference(document, metadata)
        if metadata is before:
            body = view_body(warehouse, state, orjson.dumps(before))
            return Decision(submission, record, lambda position: Answer(200, body, position))
        refuse_credential_properties(delta.properties_set, "properties")
        check_document_locations(warehouse.profile, before, metadata)
        written = orjson.dumps(fold(document, delta).value)
        number = next_file_number(state.metadata_location)
        file = await write_file(write, warehouse, written, metadata["location"], metadata["properties"], number)
        key = location_key(warehouse, metadata) if metadata["location"] != before["location"] else None
        event = ViewCommitted(file.spelled, key, delta.to_json(), [update["action"] for update in command.updates])
        after = submission.add(state.id, warehouse.id, state, [event], generation)
        assert isinstance(after, ViewState)
        body = view_body(warehouse, after, written)
        record = IdempotencyRecord(200, after.id, after.version)
        return Decision(submission, record, lambda position: Answer(200, body, position), [file])

    return await write.execute(context, warehouse, decide)


async def read_view(connection: Connection, warehouse: Warehouse, view: TabularIdentifier) -> tuple[ViewState, int]:
    """The view as it is now, and the generation it was read from; NoSuchView."""
    view_id = await names.find_view(connection, warehouse.scope, view)
    found = await views.read_state(connection, view_id)
    if found is None or found[0].status != "live":
        raise NoSuchView(f"View does not exist: {view}")
    return found
