"""RegisterView: a metadata file that is there already becomes a view."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.create_view import view_body
from commands.decision import Decision
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import free_name, location_key, path_keys, refuse_taken_file, registered_keys
from commands.write_side import WriteSide
from domain.documents import Json
from domain.events import ViewRegistered
from domain.identifiers import NamespaceIdentifier, TabularIdentifier
from domain.view import ViewState
from domain.view_metadata.parse import parse_view_metadata
from queries.warehouse import Warehouse
from security.property_rules import check_registered_properties
from storage.large_documents import DocumentShare
from storage.location_door import check_document_locations
from storage.locations import StorageLocation
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
            position = await refuse_taken_file(connection, warehouse, place)
        document = await read_metadata(await write.store(warehouse), place, share)
        # A large file takes a second of work: in a thread, so that others get their turns meanwhile.
        return await asyncio.to_thread(_decided, context, warehouse, command, namespace_id, place, position, document)

    async with write.large_documents.share() as share:
        return await write.execute(context, warehouse, lambda: decide(share))


def _decided(
    context: CommandContext,
    warehouse: Warehouse,
    command: RegisterView,
    namespace_id: UUID,
    place: StorageLocation,
    position: int,
    document: Json,
) -> Decision:
    metadata = parse_view_metadata(document)
    check_registered_properties(metadata["properties"])
    check_document_locations(warehouse.profile, None, metadata, imported=True)
    key, name_key = location_key(warehouse, metadata), warehouse.scope.key(command.name)
    file_key, paths = place.claim_key(warehouse.profile.storage_identity), path_keys(warehouse, metadata) or []
    places = [*paths, *registered_keys(warehouse, metadata, file_key, [key, *paths])]
    submission = Submission(context, alive=[namespace_id], read_from=(position, file_key))
    registered = ViewRegistered(namespace_id, command.name, name_key, key, place.spelled, metadata, places or None)
    state = submission.add(uuid7(), warehouse.id, None, [registered])
    assert isinstance(state, ViewState)
    body = view_body(warehouse, state, orjson.dumps(metadata))
    return Decision(submission, IdempotencyRecord(200, state.id, state.version), lambda position: Answer(200, body, position))
