"""RegisterTable: a metadata file that is there already becomes a table, or takes over one."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_table
from commands.staged_parts import stage_parts
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import free_name, loaded_table, location_key, written_table
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
from security.property_rules import refuse_credential_properties
from storage.location_door import check_document_locations
from storage.metadata_files import read_metadata


@dataclass(frozen=True, slots=True)
class RegisterTable:
    namespace: NamespaceIdentifier
    name: str
    metadata_location: str
    overwrite: bool


async def register_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RegisterTable) -> Answer:
    """200 with a LoadTableResult; every location the file names must be the warehouse's own."""
    identifier = TabularIdentifier(command.namespace, command.name)

    located: list[Located[State]] = []

    async def locate() -> Sequence[Located[State]]:
        located.clear()
        if command.overwrite:
            # Where there is none, it is a registration like any other.
            with suppress(NoSuchTable):
                located.append(await locate_table(write, warehouse, identifier))
        return located

    async def decide() -> Decision:
        place = warehouse.profile.permit(command.metadata_location, imported=True, field="metadata-location")
        namespace_id: UUID | None = None
        if not located:
            # Before the file is read: a name that is taken is refused whether there is such a file or not.
            async with write.connection() as connection:
                namespace_id = await free_name(connection, warehouse, identifier, "table")
        document = await read_metadata(await write.store(warehouse), place)
        # A large file takes a second of work: in a thread, so that others get their turns meanwhile.
        metadata = await asyncio.to_thread(_checked, warehouse, document)
        key, submission = location_key(warehouse, metadata), Submission(context)
        if namespace_id is None:
            before, generation = await located[0].read_now()
            overwritten = TableOverwritten(key, place.spelled, metadata)
            state = await asyncio.to_thread(submission.add, before.id, warehouse.id, before, [overwritten], generation)
        else:
            submission.alive.append(namespace_id)
            registered = TableRegistered(namespace_id, command.name, warehouse.scope.key(command.name), key, place.spelled, metadata)
            table_id = uuid7()
            state = await asyncio.to_thread(submission.add, table_id, warehouse.id, None, [registered])
            # A new table's parts can be there before it; those of an overwritten one would be seen.
            await stage_parts(write.connection, submission, table_id)
        assert isinstance(state, TableState)
        body = await asyncio.to_thread(_answered, warehouse, state)
        etag = results.table_etag(state.id, state.version)
        return Decision(submission, IdempotencyRecord(200, state.id, state.version), lambda position: Answer(200, body, position, etag))

    return await write.execute_together(context, warehouse, locate, decide)


def _checked(warehouse: Warehouse, document: Json) -> Json:
    metadata = parse_table_metadata(document)
    refuse_credential_properties(metadata.get("properties", {}), "properties")
    check_document_locations(warehouse.profile, None, metadata, imported=True)
    return metadata


def _answered(warehouse: Warehouse, state: TableState) -> Content:
    loaded = loaded_table(state, written_table(state.document))
    return results.load_table_result(loaded, warehouse.profile.client_config())
