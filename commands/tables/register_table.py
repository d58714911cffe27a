"""RegisterTable: creates a table from an existing metadata file, or replaces one."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.byte_pieces import Content
from ...domain.commands import RegisterTable
from ...domain.documents import Json
from ...domain.errors import NoSuchTable
from ...domain.identifiers import TabularIdentifier
from ...domain.metadata.parse import parse_table_metadata
from ...domain.names import FreeName, ResolvedName
from ...domain.table import TableState, decide_register, may_have_lost_file
from ...projections import response_bodies
from ...security.property_rules import check_registered_properties
from ...storage.large_documents import DocumentReservation
from ...storage.location_policy import check_document_locations
from ...storage.locations import StorageLocation
from ...storage.metadata_files import read_metadata
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision, parent_of
from ..execution.preloaded_parts import preload_parts
from ..execution.resolver import OutdatedRead, ResolvedStream
from ..tabulars.metadata_files import build_loaded_table, serialize_table
from ..tabulars.names_and_locations import (
    NewName,
    keys_of_referenced_files,
    location_key,
    path_keys,
    refuse_taken_file,
    refuse_taken_locations,
)


@dataclass(frozen=True, slots=True)
class _File:
    """A metadata file that was read. At `position` no other object claimed its location.

    name -- of the new table; None if one is overwritten.
    owner_event_id -- the last event of the overwritten table, from before the file was read.
    """

    location: StorageLocation
    key: str
    position: int
    name: FreeName | None
    owner_event_id: UUID | None
    metadata: Json


async def register_table(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: RegisterTable
) -> CommandResponse:
    """200 with a LoadTableResult. Every location that the file names must be in the warehouse."""
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_RegistrationHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _RegistrationHandler(CommandHandler):
    """`table` -- the table that is overwritten."""

    command: RegisterTable
    executor: CommandExecutor
    reservation: DocumentReservation
    table: ResolvedStream[TableState] | None = None
    found: ResolvedName | None = None
    file: _File | None = None

    async def resolve(self) -> CommandTargets:
        self.table = await self._overwritten() if self.command.overwrite else None
        if self.table is not None:
            return CommandTargets([self.table])
        async with self.executor.connection() as connection:
            self.found = await self._new_name.find(connection)
        return CommandTargets(other_resources=[parent_of(self.found, self.warehouse)])

    async def prepare(self) -> None:
        self.file = await self._read_file(self.table)
        if self.table is not None:
            await self.executor.resolver.reserve_document_memory(self.reservation, [self.table])

    async def _overwritten(self) -> ResolvedStream[TableState] | None:
        """If the table does not exist, this is an ordinary registration."""
        identifier = TabularIdentifier(self.command.namespace, self.command.name)
        try:
            return await self.executor.resolver.table(self.warehouse, identifier, uncached=True)
        except NoSuchTable:
            return None

    async def _read_file(self, table: ResolvedStream[TableState] | None) -> _File:
        warehouse, command = self.warehouse, self.command
        location = warehouse.profile.parse_permitted(command.metadata_location, percent_allowed=True, field="metadata-location")
        event_id = None if table is None else await table.last_event_id()
        new_name, owner = (self._new_name, None) if table is None else (None, table.id)
        name = None if new_name is None else new_name.check(self.found)
        async with self.executor.connection() as connection:
            position = await refuse_taken_file(connection, warehouse, location, new_name, owner)
        document = await read_metadata(await self.executor.store(warehouse), location, self.reservation)
        # In a thread, because checking a large file takes about a second.
        file_key = location.claim_key(warehouse.profile.storage_identity)
        return _File(location, file_key, position, name, event_id, await asyncio.to_thread(_checked, warehouse, document))

    @property
    def _new_name(self) -> NewName:
        return NewName(self.warehouse, TabularIdentifier(self.command.namespace, self.command.name), "table")

    async def decide(self) -> Decision:
        warehouse, file = self.warehouse, self.file
        assert file is not None
        self.file, metadata = None, file.metadata
        before, generation = (None, None) if self.table is None else await self.table.read_named(self.reservation)
        if before is not None and may_have_lost_file(before, file.key, file.owner_event_id):
            raise OutdatedRead
        key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata) or []
        held = [key, *paths, *(() if before is None else before.location_keys)]
        claimed_keys = [*paths, *await asyncio.to_thread(keys_of_referenced_files, warehouse, metadata, file.key, held)]
        async with self.executor.connection() as connection:
            new_name, owner = (self._new_name, None) if before is None else (None, before.id)
            await refuse_taken_locations(connection, [key, *claimed_keys], new_name, owner)
        append_request = AppendRequest(self.context, file_read=(file.position, file.key), table_bytes_max=self.reservation.bytes_max)
        event = decide_register(file.name, metadata, file.location.text, key, claimed_keys)
        if file.name is not None:
            append_request.must_exist.append(file.name.namespace_id)
        table_id = uuid7() if before is None else before.id
        state = await asyncio.to_thread(append_request.add, table_id, warehouse.id, before, [event], generation)
        assert isinstance(state, TableState)
        body = await asyncio.to_thread(_response, state)
        if self.context.reserve_memory is not None:
            self.context.reserve_memory(len(body))
        if before is None:
            # The parts of a new table can be written before the append. Those of an overwritten table would be visible.
            await preload_parts(self.executor.connection, append_request, table_id)
        response = CommandResponse(200, body, etag=response_bodies.table_etag(state.event_id))
        return Decision(append_request, IdempotencyRecord(200, state.id, state.version), response)


def _checked(warehouse: Warehouse, document: Json) -> Json:
    metadata = parse_table_metadata(document)
    check_registered_properties(metadata.get("properties", {}))
    check_document_locations(warehouse.profile, None, metadata, percent_allowed=True)
    warehouse.format_versions.check(metadata["format-version"])
    return metadata


def _response(state: TableState) -> Content:
    loaded = build_loaded_table(state, serialize_table(state.document))
    return response_bodies.load_table_result(loaded)
