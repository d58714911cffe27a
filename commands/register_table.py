"""RegisterTable: a metadata file that is there already becomes a table, or takes over one."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_table, take_room
from commands.staged_parts import stage_parts
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import (
    free_name,
    loaded_table,
    location_key,
    path_keys,
    refuse_taken_file,
    refuse_taken_places,
    registered_keys,
    written_table,
)
from commands.write_side import WriteSide
from domain.byte_pieces import Content
from domain.documents import Json
from domain.errors import NoSuchTable
from domain.events import TableOverwritten, TableRegistered
from domain.identifiers import NamespaceIdentifier, TabularIdentifier
from domain.metadata.parse import parse_table_metadata
from domain.table import TableState
from projections import results
from projections.streams import State
from queries.warehouse import Warehouse
from security.property_rules import check_registered_properties
from storage.location_door import check_document_locations
from storage.locations import StorageLocation
from storage.metadata_files import read_metadata


@dataclass(frozen=True, slots=True)
class RegisterTable:
    namespace: NamespaceIdentifier
    name: str
    metadata_location: str
    overwrite: bool


@dataclass(frozen=True, slots=True)
class _File:
    """A metadata file that was read, while at `position` its place was nobody else's; `namespace_id` where there is no table yet."""

    place: StorageLocation
    key: str
    position: int
    namespace_id: UUID | None
    metadata: Json


async def register_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RegisterTable) -> Answer:
    """200 with a LoadTableResult; every location the file names must be the warehouse's own."""
    identifier = TabularIdentifier(command.namespace, command.name)

    located: list[Located[State]] = []
    read: list[_File] = []

    async def locate() -> Sequence[Located[State]]:
        located.clear()
        if command.overwrite:
            # Where there is none, it is a registration like any other.
            with suppress(NoSuchTable):
                located.append(await locate_table(write, warehouse, identifier, anew=True))
        # Before the table's queue is joined: it takes long, and who waits for room there keeps others waiting.
        read[:] = [await read_file(located[0].id if located else None)]
        if located:
            await take_room(write, share, located)
        return located

    async def read_file(owner: UUID | None) -> _File:
        place = warehouse.profile.permit(command.metadata_location, imported=True, field="metadata-location")
        async with write.connection() as connection:
            namespace_id = None if owner is not None else await free_name(connection, warehouse, identifier, "table")
            position = await refuse_taken_file(connection, warehouse, place, owner)
        document = await read_metadata(await write.store(warehouse), place, share)
        # A large file takes a second of work: in a thread, so that others get their turns meanwhile.
        file_key = place.claim_key(warehouse.profile.storage_identity)
        return _File(place, file_key, position, namespace_id, await asyncio.to_thread(_checked, warehouse, document))

    async def decide() -> Decision:
        file = read.pop()
        metadata = file.metadata
        found = await located[0].read_now(share) if located else None
        existing = None if found is None else found[0]
        assert existing is None or isinstance(existing, TableState)
        key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata) or []
        held = [key, *paths, *(() if existing is None else existing.location_keys)]
        places = [*paths, *await asyncio.to_thread(registered_keys, warehouse, metadata, file.key, held)]
        async with write.connection() as connection:
            await refuse_taken_places(connection, [key, *places], None if existing is None else existing.id)
        submission = Submission(context, read_from=(file.position, file.key), table_bytes_max=share.bytes_max)
        if found is not None:
            before, generation = found
            overwritten = TableOverwritten(key, file.place.spelled, metadata, places or None)
            state = await asyncio.to_thread(submission.add, before.id, warehouse.id, before, [overwritten], generation)
        else:
            assert file.namespace_id is not None
            submission.alive.append(file.namespace_id)
            name_key = warehouse.scope.key(command.name)
            registered = TableRegistered(file.namespace_id, command.name, name_key, key, file.place.spelled, metadata, places or None)
            table_id = uuid7()
            state = await asyncio.to_thread(submission.add, table_id, warehouse.id, None, [registered])
        assert isinstance(state, TableState)
        body = await asyncio.to_thread(_answered, warehouse, state)
        if context.make_room is not None:
            context.make_room(len(body))
        if found is None:
            # A new table's parts can be there before it; those of an overwritten one would be seen.
            await stage_parts(write.connection, submission, table_id)
        etag = results.table_etag(state.event_id)
        return Decision(submission, IdempotencyRecord(200, state.id, state.version), lambda position: Answer(200, body, position, etag))

    async with write.large_documents.share() as share:
        return await write.execute_together(context, warehouse, locate, decide)


def _checked(warehouse: Warehouse, document: Json) -> Json:
    metadata = parse_table_metadata(document)
    check_registered_properties(metadata.get("properties", {}))
    check_document_locations(warehouse.profile, None, metadata, imported=True)
    return metadata


def _answered(warehouse: Warehouse, state: TableState) -> Content:
    loaded = loaded_table(state, written_table(state.document))
    return results.load_table_result(loaded, warehouse.profile.client_config())
