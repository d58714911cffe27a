"""CreateTable: writes the first metadata file and appends the event; a staged create only returns the metadata."""

from dataclasses import dataclass, replace
from uuid import UUID

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.byte_pieces import Content
from ...domain.claims import NameClaim
from ...domain.commands import CreateTable
from ...domain.documents import TABLE_KINDS, Json, split
from ...domain.identifiers import TabularIdentifier
from ...domain.metadata.create import new_table_metadata
from ...domain.metadata.increasing_summary import apply_increasing_summary
from ...domain.metadata.properties import FORMAT_VERSION
from ...domain.names import FreeName
from ...domain.table import TableState, decide_create
from ...projections import response_bodies
from ...projections.tables import LoadedTable
from ...security.flink_options import without_connector_options
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, MetadataFile, TableToCache
from ..execution.offload import in_thread_if, is_large_request
from ..tabulars.create_tabular import TabularCreation
from ..tabulars.metadata_files import build_loaded_table, metadata_file, serialize_table
from ..tabulars.names_and_locations import NewName, location_key, path_keys


async def create_table(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CreateTable) -> CommandResponse:
    """200 with a LoadTableResult. A staged create writes no file, claims nothing and has no metadata location."""
    command = replace(command, properties=without_connector_options(command.properties))
    return await executor.execute(_CreationHandler(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _CreationHandler(TabularCreation):
    command: CreateTable

    @property
    def new_name(self) -> NewName:
        return NewName(self.warehouse, self.identifier, "table")

    def new_metadata(self, object_id: UUID, location: str) -> Json:
        metadata = new_table_metadata(
            table_uuid=str(object_id),
            location=location,
            schema=self.command.schema,
            partition_spec=self.command.partition_spec,
            write_order=self.command.write_order,
            properties={FORMAT_VERSION: str(self.warehouse.format_versions.of_new_tables), **self.command.properties},
            now_ms=now_ms(),
        )
        self.warehouse.format_versions.check(metadata["format-version"])
        return apply_increasing_summary(None, metadata)

    async def decide_creation(self, name: FreeName, object_id: UUID, metadata: Json) -> Decision:
        large = is_large_request(self.context)
        if self.command.stage_create:
            # DuckDB writes to the table before it exists, and creates no folder.
            store = await self.executor.store(self.warehouse)
            await store.make_table_folders(self.warehouse.profile.parse_permitted(metadata["location"]))
            return await in_thread_if(large, self._decide_staged, metadata)
        return await in_thread_if(large, self._decide_new, name, object_id, metadata)

    def _decide_staged(self, metadata: Json) -> Decision:
        body = response_bodies.staged_table_result(serialize_table(split(metadata, TABLE_KINDS)))
        return Decision(AppendRequest(self.context), IdempotencyRecord(200, body=body), CommandResponse(200, body))

    def _decide_new(self, name: FreeName, table_id: UUID, metadata: Json) -> Decision:
        append_request = AppendRequest(self.context, table_bytes_max=self.executor.large_documents.bytes_max)
        created = add_table(self.warehouse, append_request, name, table_id, metadata, staged=False)
        return creation_decision(append_request, created, self.identifier, response_bodies.load_table_result(created.loaded))


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be created: its state, the result of a load, and its first metadata file."""

    state: TableState
    loaded: LoadedTable
    file: MetadataFile


def creation_decision(append_request: AppendRequest, table: NewTable, identifier: TabularIdentifier, body: Content) -> Decision:
    """The decision that creates one table, with the response `body`."""
    state = table.state
    claim = NameClaim("tabular", state.namespace_id, state.name_key, state.id)
    return Decision(
        append_request,
        IdempotencyRecord(200, state.id, state.version),
        CommandResponse(200, body, etag=response_bodies.table_etag(state.event_id)),
        [table.file],
        table_to_cache=TableToCache(identifier, claim, state, len(table.file.content)),
    )


def add_table(
    warehouse: Warehouse,
    append_request: AppendRequest,
    name: FreeName,
    table_id: UUID,
    metadata: Json,
    *,
    staged: bool,
) -> NewTable:
    """Adds a table with the first document `metadata` to the append request. Its metadata file is still to be written."""
    written = serialize_table(split(metadata, TABLE_KINDS))
    file = metadata_file(warehouse, metadata, written, 0)
    key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata)
    event = decide_create(name, metadata, file.location.text, key, paths, staged=staged)
    append_request.must_exist.append(event.namespace_id)
    state = append_request.add(table_id, warehouse.id, None, [event])
    assert isinstance(state, TableState)
    return NewTable(state, build_loaded_table(state, written), file)
