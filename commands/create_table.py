"""CreateTable: a first document, its file, and the event; or, staged, the document alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.deciding import decided, is_large_request
from commands.decision import Decision, MetadataFile
from commands.located import remember_begun
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import (
    free_name,
    loaded_table,
    location_key,
    location_of,
    metadata_file,
    path_keys,
    refuse_taken_places,
    written_table,
)
from commands.write_side import WriteSide
from domain.byte_pieces import Content
from domain.documents import TABLE_KINDS, Json, split
from domain.events import TableCreated
from domain.identifiers import NamespaceIdentifier, TabularIdentifier
from domain.metadata.create import new_table_metadata
from domain.table import TableState
from projections import results
from projections.tables import LoadedTable
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties
from storage.location_door import check_document_locations


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Fields as in the spec's CreateTableRequest; None where the client sent none."""

    namespace: NamespaceIdentifier
    name: str
    location: str | None
    schema: Json
    partition_spec: Json | None
    write_order: Json | None
    properties: Mapping[str, str]
    stage_create: bool


async def create_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CreateTable) -> Answer:
    """200 with a LoadTableResult; a staged create writes nothing, claims nothing and has no metadata location."""
    identifier = TabularIdentifier(command.namespace, command.name)

    async def decide() -> Decision:
        await decided(is_large_request(context), refuse_credential_properties, command.properties, "properties")
        async with write.connection() as connection:
            namespace_id = await free_name(connection, warehouse, identifier, "table")
        large, table_id = is_large_request(context), uuid7()
        metadata = await decided(large, _new_metadata, warehouse, command, table_id, write.now_ms())
        if command.location is not None or path_keys(warehouse, metadata):
            await refuse_places_taken_by_others(write, warehouse, metadata)
        return await decided(large, _begun, write, context, warehouse, command, namespace_id, table_id, metadata)

    return await write.execute(context, warehouse, decide)


def _new_metadata(warehouse: Warehouse, command: CreateTable, table_id: UUID, now_ms: int) -> Json:
    metadata = new_table_metadata(
        table_uuid=str(table_id),
        location=location_of(warehouse, command.location, table_id),
        schema=command.schema,
        partition_spec=command.partition_spec,
        write_order=command.write_order,
        properties=dict(command.properties),
        now_ms=now_ms,
    )
    check_document_locations(warehouse.profile, None, metadata)
    return metadata


def _begun(
    write: WriteSide,
    context: CommandContext,
    warehouse: Warehouse,
    command: CreateTable,
    namespace_id: UUID,
    table_id: UUID,
    metadata: Json,
) -> Decision:
    config = warehouse.profile.client_config()
    if command.stage_create:
        body = results.staged_table_result(written_table(split(metadata, TABLE_KINDS)), config)
        return Decision(Submission(context), IdempotencyRecord(200, body=body), lambda position: Answer(200, body, position))
    submission = Submission(context, table_bytes_max=write.large_documents.bytes_max)
    created = add_table(warehouse, submission, namespace_id, table_id, command.name, metadata, staged=False)
    identifier = TabularIdentifier(command.namespace, command.name)
    return created_alone(write, warehouse, submission, created, identifier, results.load_table_result(created.loaded, config))


async def refuse_places_taken_by_others(write: WriteSide, warehouse: Warehouse, metadata: Json) -> None:
    """AlreadyExists where a place the new table's document names is somebody's, before a file is written there."""
    async with write.connection() as connection:
        await refuse_taken_places(connection, [location_key(warehouse, metadata), *(path_keys(warehouse, metadata) or ())])


@dataclass(frozen=True, slots=True)
class Created:
    """A table on its way into the log: its state, what a load will find, and its first metadata file."""

    state: TableState
    loaded: LoadedTable
    file: MetadataFile


def created_alone(
    write: WriteSide, warehouse: Warehouse, submission: Submission, created: Created, identifier: TabularIdentifier, body: Content
) -> Decision:
    """The decision that creates one table and nothing else, and answers with `body`."""
    state, document_bytes = created.state, len(created.file.document)
    etag = results.table_etag(state.event_id)
    record = IdempotencyRecord(200, state.id, state.version)

    def begun(proved_at: float) -> None:
        remember_begun(write, warehouse, identifier, state, document_bytes, proved_at)

    return Decision(submission, record, lambda position: Answer(200, body, position, etag), [created.file], begun=begun)


def add_table(
    warehouse: Warehouse,
    submission: Submission,
    namespace_id: UUID,
    table_id: UUID,
    name: str,
    metadata: Json,
    *,
    staged: bool,
) -> Created:
    """Adds a table that begins with `metadata` to the submission; its first metadata file is still to be written."""
    written = written_table(split(metadata, TABLE_KINDS))
    file = metadata_file(warehouse, metadata, written, 0)
    name_key, key = warehouse.scope.key(name), location_key(warehouse, metadata)
    event = TableCreated(namespace_id, name, name_key, key, file.location.spelled, metadata, staged, path_keys(warehouse, metadata))
    submission.alive.append(namespace_id)
    state = submission.add(table_id, warehouse.id, None, [event])
    assert isinstance(state, TableState)
    return Created(state, loaded_table(state, written), file)
