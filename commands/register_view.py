"""RegisterView: a metadata file that is there already becomes a view."""

from dataclasses import dataclass

import orjson
from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.create_view import view_body
from commands.decision import Decision
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import free_name, location_key
from commands.write_side import WriteSide
from domain.events import ViewRegistered
from domain.identifiers import NamespaceIdentifier, TabularIdentifier
from domain.view import ViewState
from domain.view_metadata.parse import parse_view_metadata
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties
from storage.large_documents import DocumentShare
from storage.location_door import check_document_locations
from storage.metadata_files import read_metadata


@dataclass(frozen=True, slots=True)
class RegisterView:
    namespace: NamespaceIdentifier
    name: str
    metadata_location: str


async def register_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RegisterView) -> Answer:
    """200 with a LoadViewResult; every location the file names must be the warehouse's own."""
    identifier = TabularIdentifier(command.namespace, command.name)

    async def decide(share: DocumentShare) -> Decision:
        place = warehouse.profile.permit(command.metadata_location, imported=True, field="metadata-location")
        async with write.connection() as connection:
            namespace_id = await free_name(connection, warehouse, identifier, "view")
        metadata = parse_view_metadata(await read_metadata(await write.store(warehouse), place, share))
        refuse_credential_properties(metadata.get("properties", {}), "properties")
        check_document_locations(warehouse.profile, None, metadata, imported=True)
        key, name_key = location_key(warehouse, metadata), warehouse.scope.key(command.name)
        submission = Submission(context, alive=[namespace_id])
        registered = ViewRegistered(namespace_id, command.name, name_key, key, place.spelled, metadata)
        state = submission.add(uuid7(), warehouse.id, None, [registered])
        assert isinstance(state, ViewState)
        body = view_body(warehouse, state, orjson.dumps(metadata))
        return Decision(submission, IdempotencyRecord(200, state.id, state.version), lambda position: Answer(200, body, position))

    async with write.large_documents.share() as share:
        return await write.execute(context, warehouse, lambda: decide(share))
