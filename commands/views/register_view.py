"""RegisterView: creates a view from an existing metadata file."""

import asyncio
from dataclasses import dataclass

import orjson
from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import RegisterView
from ...domain.documents import Json
from ...domain.identifiers import TabularIdentifier
from ...domain.names import FreeName, ResolvedName
from ...domain.view import ViewState, decide_register
from ...domain.view_metadata.parse import parse_view_metadata
from ...security.property_rules import check_registered_properties
from ...storage.large_documents import DocumentReservation
from ...storage.location_policy import check_document_locations
from ...storage.locations import StorageLocation
from ...storage.metadata_files import read_metadata
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision, parent_of
from ..tabulars.names_and_locations import NewName, keys_of_referenced_files, location_key, path_keys, refuse_taken_file
from .create_view import view_body


async def register_view(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: RegisterView) -> CommandResponse:
    """200 with a LoadViewResult. Every location that the file names must be in the warehouse."""
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_RegistrationHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _RegistrationHandler(CommandHandler):
    command: RegisterView
    executor: CommandExecutor
    reservation: DocumentReservation
    found: ResolvedName | None = None

    async def resolve(self) -> CommandTargets:
        async with self.executor.connection() as connection:
            self.found = await self._new_name.find(connection)
        return CommandTargets(other_resources=[parent_of(self.found, self.warehouse)])

    async def decide(self) -> Decision:
        warehouse, command = self.warehouse, self.command
        location = warehouse.profile.parse_permitted(command.metadata_location, percent_allowed=True, field="metadata-location")
        name = self._new_name.check(self.found)
        async with self.executor.connection() as connection:
            position = await refuse_taken_file(connection, warehouse, location, self._new_name)
        document = await read_metadata(await self.executor.store(warehouse), location, self.reservation)
        # In a thread, because checking a large file takes about a second.
        return await asyncio.to_thread(self._decide_registration, name, location, position, document)

    @property
    def _new_name(self) -> NewName:
        return NewName(self.warehouse, TabularIdentifier(self.command.namespace, self.command.name), "view")

    def _decide_registration(self, name: FreeName, location: StorageLocation, position: int, document: Json) -> Decision:
        warehouse = self.warehouse
        metadata = parse_view_metadata(document)
        check_registered_properties(metadata["properties"])
        check_document_locations(warehouse.profile, None, metadata, percent_allowed=True)
        key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata) or []
        file_key = location.claim_key(warehouse.profile.storage_identity)
        claimed_keys = [*paths, *keys_of_referenced_files(warehouse, metadata, file_key, [key, *paths])]
        registered = decide_register(name, metadata, location.text, key, claimed_keys)
        append_request = AppendRequest(self.context, must_exist=[registered.namespace_id], file_read=(position, file_key))
        state = append_request.add(uuid7(), warehouse.id, None, [registered])
        assert isinstance(state, ViewState)
        body = view_body(state, orjson.dumps(metadata))
        return Decision(append_request, IdempotencyRecord(200, state.id, state.version), CommandResponse(200, body))
