"""CommitTable: checks requirements, applies updates, decides the event and its metadata file."""

from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import CommitTable
from ...domain.documents import Json
from ...domain.metadata.increasing_summary import apply_increasing_summary
from ...domain.metadata.requirements import check_requirements, is_creation
from ...domain.metadata.updates import apply_updates
from ...domain.names import ResolvedName
from ...domain.table import ParsedCommit, TableState, decide_commit
from ...projections import response_bodies
from ...security.property_rules import refuse_credential_properties
from ...storage.location_policy import check_document_locations
from ...storage.locations import StorageLocation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision, MetadataFile, StreamCommandHandler, parent_of
from ..execution.offload import in_thread_if, is_large_request
from ..execution.resolver import ResolvedStream
from ..tabulars.create_tabular import refuse_locations_taken_by_others
from ..tabulars.metadata_files import build_loaded_table, next_file_number, next_metadata_location, serialize_table, serialize_table_pieces
from ..tabulars.names_and_locations import NewName, location_key, path_keys
from .create_table import NewTable, add_table, creation_decision
from .old_metadata_files import old_metadata_files


@dataclass(frozen=True, slots=True)
class DecidedCommit:
    """The state of a table after a commit that is not appended yet, and the location of its new metadata file."""

    after: TableState
    metadata_location: StorageLocation


async def commit_table(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CommitTable) -> CommandResponse:
    """200 with a CommitTableResponse. Raises CommitFailed if a requirement fails."""
    if completes_staged_create(command):
        return await executor.execute(_CreationHandler(context, warehouse, command, executor))
    return await executor.execute(_CommitHandler(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _CommitHandler(StreamCommandHandler[TableState]):
    command: CommitTable
    executor: CommandExecutor
    commit: ParsedCommit | None = None

    async def resolve(self) -> ResolvedStream[TableState]:
        if self.commit is None:  # else it is decided again
            self.commit = await parse_commit(self.context, self.command)
        return await self.executor.resolver.table(self.warehouse, self.command.table)

    def decide(self, state: TableState, generation: int) -> Decision:
        assert self.commit is not None
        append_request = AppendRequest(self.context, table_bytes_max=self.executor.large_documents.bytes_max)
        decided = add_commit(self.warehouse, append_request, state, generation, self.commit, now_ms())
        if decided is None:
            return _unchanged(append_request, state)
        after = decided.after
        body, document = response_bodies.build_commit_response(after.metadata_location, serialize_table_pieces(after.document))
        response = CommandResponse(200, body, etag=response_bodies.table_etag(after.event_id))
        record = IdempotencyRecord(200, after.id, after.version)
        return Decision(append_request, record, response, [MetadataFile(decided.metadata_location, document)], after)


@dataclass(slots=True, eq=False)
class _CreationHandler(CommandHandler):
    """The commit that completes a staged create. The first such commit gets the name."""

    command: CommitTable
    executor: CommandExecutor
    found: ResolvedName | None = None

    async def resolve(self) -> CommandTargets:
        async with self.executor.connection() as connection:
            self.found = await staged_name(self.warehouse, self.command).find(connection)
        return CommandTargets(other_resources=[parent_of(self.found, self.warehouse)])

    async def decide(self) -> Decision:
        append_request = AppendRequest(self.context, table_bytes_max=self.executor.large_documents.bytes_max)
        created = await add_created(self.executor, self.warehouse, append_request, self.command, self.found)
        return creation_decision(append_request, created, self.command.table, response_bodies.commit_table_response(created.loaded))


async def parse_commit(context: RequestContext, command: CommitTable) -> ParsedCommit:
    """Parses requirements and updates."""
    return await in_thread_if(is_large_request(context), ParsedCommit.parse, command.requirements, command.updates)


def completes_staged_create(command: CommitTable) -> bool:
    """Whether this commit completes a staged create."""
    return is_creation(command.requirements)


def add_commit(
    warehouse: Warehouse, append_request: AppendRequest, state: TableState, generation: int | None, commit: ParsedCommit, decided_at_ms: int
) -> DecidedCommit | None:
    """Decides, checks properties and locations, and adds the event. Returns None if nothing changes.

    The metadata file contains the document that the encoded event folds to, so that file and rows are equal.
    """
    change = decide_commit(state, commit, decided_at_ms)
    if change is None:
        return None
    before, metadata = state.document.value, change.metadata
    refuse_credential_properties(change.delta.properties_set, "properties")
    check_document_locations(warehouse.profile, before, metadata)
    if metadata["format-version"] != before["format-version"]:
        warehouse.format_versions.check(metadata["format-version"])
    metadata_location = next_metadata_location(warehouse, metadata, next_file_number(state.metadata_location))
    new_location_key = location_key(warehouse, metadata) if change.location_changed else None
    new_path_keys = path_keys(warehouse, metadata, before)
    after = append_request.add(
        state.id, warehouse.id, state, [change.event(metadata_location.text, new_location_key, new_path_keys)], generation
    )
    assert isinstance(after, TableState)
    append_request.old_metadata_files += old_metadata_files(state, after, warehouse.profile.storage_identity)
    return DecidedCommit(after, metadata_location)


def _unchanged(append_request: AppendRequest, state: TableState) -> Decision:
    append_request.depend_on(state)
    body = response_bodies.commit_table_response(build_loaded_table(state, serialize_table(state.document)))
    response = CommandResponse(200, body, etag=response_bodies.table_etag(state.event_id))
    return Decision(append_request, IdempotencyRecord(200, state.id, state.version), response)


def staged_name(warehouse: Warehouse, command: CommitTable) -> NewName:
    """The name of the table that a commit creates."""
    return NewName(warehouse, command.table, "table", staged=True)


async def add_created(
    executor: CommandExecutor, warehouse: Warehouse, append_request: AppendRequest, command: CommitTable, found: ResolvedName | None
) -> NewTable:
    """Adds the table that the updates create; `found` is what its name referred to."""
    large = is_large_request(append_request.context)
    commit = await parse_commit(append_request.context, command)
    check_requirements(None, commit.requirements)
    new_name = staged_name(warehouse, command)
    name = new_name.check(found)
    table_id = uuid7()
    metadata = await in_thread_if(large, _new_metadata, warehouse, commit, table_id)
    async with executor.connection() as connection:
        await refuse_locations_taken_by_others(connection, warehouse, metadata, new_name)
    return await in_thread_if(large, add_table, warehouse, append_request, name, table_id, metadata, staged=True)


def _new_metadata(warehouse: Warehouse, commit: ParsedCommit, table_id: UUID) -> Json:
    metadata = apply_updates(
        None,
        commit.updates,
        now_ms=now_ms(),
        previous_metadata_location=None,
        table_uuid=str(table_id),
        format_version=warehouse.format_versions.of_new_tables,
    )
    metadata = apply_increasing_summary(None, metadata)
    refuse_credential_properties(metadata["properties"], "properties")
    check_document_locations(warehouse.profile, None, metadata)
    warehouse.format_versions.check(metadata["format-version"])
    return metadata
