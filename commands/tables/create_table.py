"""CreateTable: writes the first metadata file and appends the event; a staged create only returns the metadata."""

from dataclasses import dataclass, replace
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.byte_pieces import Content
from ...domain.claims import NameClaim
from ...domain.commands import CreateTable
from ...domain.documents import TABLE_KINDS, Json, split
from ...domain.identifiers import TabularIdentifier
from ...domain.metadata.create import new_table_metadata
from ...domain.names import FreeName, ResolvedName
from ...domain.table import TableState, decide_create
from ...projections import results
from ...projections.tables import LoadedTable
from ...security.flink_options import without_connector_options
from ...security.property_rules import refuse_credential_properties
from ...storage.location_policy import check_document_locations
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, Decision, MetadataFile, Resolved, TableToCache, parent_of
from ..execution.offload import in_thread_if, is_large_request
from ..execution.submission import IdempotencyRecord, Submission
from ..tabulars.metadata_files import (
    NewName,
    build_loaded_table,
    location_key,
    location_of,
    metadata_file,
    path_keys,
    refuse_taken_locations,
    serialize_table,
)


async def create_table(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CreateTable) -> CommandResponse:
    """200 with a LoadTableResult. A staged create writes no file, claims nothing and has no metadata location."""
    command = replace(command, properties=without_connector_options(command.properties))
    return await executor.execute(_Creation(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _Creation(CommandHandler):
    command: CreateTable
    executor: CommandExecutor
    found: ResolvedName | None = None

    async def resolve(self) -> Resolved:
        async with self.executor.connection() as connection:
            self.found = await self._new_name.find(connection)
        return Resolved(parents=[parent_of(self.found, self.warehouse)])

    async def decide(self) -> Decision:
        command, warehouse, large = self.command, self.warehouse, is_large_request(self.context)
        await in_thread_if(large, refuse_credential_properties, command.properties, "properties")
        name = self._new_name.check(self.found)
        assert self.found is not None, "the namespace of a free name exists"
        table_id = uuid7()
        metadata = await in_thread_if(large, self._new_metadata, self.found.namespace_location, table_id)
        if command.location is not None or path_keys(warehouse, metadata):
            async with self.executor.connection() as connection:
                await refuse_locations_taken_by_others(connection, warehouse, metadata, self._new_name)
        if command.stage_create:
            # DuckDB writes to the table before it exists, and creates no folder.
            store = await self.executor.store(warehouse)
            await store.make_table_folders(warehouse.profile.permit(metadata["location"]))
            return await in_thread_if(large, self._decide_staged, metadata)
        return await in_thread_if(large, self._decide_creation, name, table_id, metadata)

    @property
    def _new_name(self) -> NewName:
        return NewName(self.warehouse, TabularIdentifier(self.command.namespace, self.command.name), "table")

    def _new_metadata(self, namespace_location: str, table_id: UUID) -> Json:
        metadata = new_table_metadata(
            table_uuid=str(table_id),
            location=location_of(self.warehouse, self.command.location, namespace_location, table_id),
            schema=self.command.schema,
            partition_spec=self.command.partition_spec,
            write_order=self.command.write_order,
            properties=dict(self.command.properties),
            now_ms=now_ms(),
        )
        check_document_locations(self.warehouse.profile, None, metadata)
        return metadata

    def _decide_staged(self, metadata: Json) -> Decision:
        body = results.staged_table_result(serialize_table(split(metadata, TABLE_KINDS)))
        return Decision(Submission(self.context), IdempotencyRecord(200, body=body), CommandResponse(200, body))

    def _decide_creation(self, name: FreeName, table_id: UUID, metadata: Json) -> Decision:
        command, warehouse = self.command, self.warehouse
        submission = Submission(self.context, table_bytes_max=self.executor.large_documents.bytes_max)
        created = add_table(warehouse, submission, name, table_id, metadata, staged=False)
        body = results.load_table_result(created.loaded)
        return creation_decision(submission, created, TabularIdentifier(command.namespace, command.name), body)


async def refuse_locations_taken_by_others(connection: Connection, warehouse: Warehouse, metadata: Json, name: NewName) -> None:
    """Raises BadRequest if another object claims a location of the new table, before a file is written there."""
    await refuse_taken_locations(connection, [location_key(warehouse, metadata), *(path_keys(warehouse, metadata) or ())], name)


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be created: its state, the result of a load, and its first metadata file."""

    state: TableState
    loaded: LoadedTable
    file: MetadataFile


def creation_decision(submission: Submission, table: NewTable, identifier: TabularIdentifier, body: Content) -> Decision:
    """The decision that creates one table, with the response `body`."""
    state = table.state
    claim = NameClaim("tabular", state.namespace_id, state.name_key, state.id)
    return Decision(
        submission,
        IdempotencyRecord(200, state.id, state.version),
        CommandResponse(200, body, etag=results.table_etag(state.event_id)),
        [table.file],
        table_to_cache=TableToCache(identifier, claim, state, len(table.file.document)),
    )


def add_table(
    warehouse: Warehouse,
    submission: Submission,
    name: FreeName,
    table_id: UUID,
    metadata: Json,
    *,
    staged: bool,
) -> NewTable:
    """Adds a table with the first document `metadata` to the submission. Its metadata file is still to be written."""
    written = serialize_table(split(metadata, TABLE_KINDS))
    file = metadata_file(warehouse, metadata, written, 0)
    key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata)
    event = decide_create(name, metadata, file.location.text, key, paths, staged=staged)
    submission.parents.append(event.namespace_id)
    state = submission.add(table_id, warehouse.id, None, [event])
    assert isinstance(state, TableState)
    return NewTable(state, build_loaded_table(state, written), file)
