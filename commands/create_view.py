"""CreateView: a first version, its metadata file, and the event."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.create_table import refuse_places_taken_by_others
from commands.deciding import decided, is_large_request
from commands.decision import Decision
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import free_name, location_key, location_of, metadata_file, path_keys
from commands.write_side import WriteSide
from domain.documents import Json
from domain.events import ViewCreated
from domain.identifiers import NamespaceIdentifier, TabularIdentifier
from domain.view import ViewState
from domain.view_metadata.builder import new_view_metadata
from projections import results
from projections.views import LoadedView
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties
from storage.location_door import check_document_locations


@dataclass(frozen=True, slots=True)
class CreateView:
    """Fields as in the spec's CreateViewRequest."""

    namespace: NamespaceIdentifier
    name: str
    location: str | None
    schema: Json
    view_version: Json
    properties: Mapping[str, str]


async def create_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CreateView) -> Answer:
    """200 with a LoadViewResult; the name must be free of tables and views."""
    identifier = TabularIdentifier(command.namespace, command.name)

    async def decide() -> Decision:
        await decided(is_large_request(context), refuse_credential_properties, command.properties, "properties")
        async with write.connection() as connection:
            namespace_id = await free_name(connection, warehouse, identifier, "view")
        large, view_id = is_large_request(context), uuid7()
        metadata = await decided(large, _new_metadata, warehouse, command, view_id, write.now_ms())
        if command.location is not None or path_keys(warehouse, metadata):
            await refuse_places_taken_by_others(write, warehouse, metadata)
        return await decided(large, _decided, context, warehouse, command, namespace_id, view_id, metadata)

    return await write.execute(context, warehouse, decide)


def _new_metadata(warehouse: Warehouse, command: CreateView, view_id: UUID, now_ms: int) -> Json:
    metadata = new_view_metadata(
        view_uuid=str(view_id),
        location=location_of(warehouse, command.location, view_id),
        schema=command.schema,
        view_version=command.view_version,
        properties=dict(command.properties),
        now_ms=now_ms,
    )
    check_document_locations(warehouse.profile, None, metadata)
    return metadata


def _decided(
    context: CommandContext, warehouse: Warehouse, command: CreateView, namespace_id: UUID, view_id: UUID, metadata: Json
) -> Decision:
    written = orjson.dumps(metadata)
    file = metadata_file(warehouse, metadata, written, 0)
    key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata)
    created = ViewCreated(namespace_id, command.name, warehouse.scope.key(command.name), key, file.location.spelled, metadata, paths)
    submission = Submission(context, alive=[namespace_id])
    state = submission.add(view_id, warehouse.id, None, [created])
    assert isinstance(state, ViewState)
    body = view_body(warehouse, state, written)
    record = IdempotencyRecord(200, state.id, state.version)
    return Decision(submission, record, lambda position: Answer(200, body, position), [file])


def view_body(warehouse: Warehouse, state: ViewState, metadata: bytes) -> bytes:
    """The LoadViewResult of a view as it will be found."""
    loaded = LoadedView(state.id, state.version, state.metadata_location, metadata)
    return results.load_view_result(loaded, warehouse.profile.client_config())
