"""RegisterTable: a metadata file that is there already becomes a table, or takes over one."""

from dataclasses import dataclass

from uuid_utils.compat import uuid7

from commands.commit_table import read_table
from commands.context import Answer, CommandContext
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import free_name, loaded_table, location_key, written_table
from commands.write_side import Decision, WriteSide
from domain.errors import NoSuchTable
from domain.events import TableOverwritten, TableRegistered
from domain.identifiers import NamespaceIdentifier, TabularIdentifier
from domain.metadata.parse import parse_table_metadata
from domain.table import TableState
from projections import results
from queries.warehouse import Warehouse
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
    place = warehouse.profile.permit(command.metadata_location, imported=True, field="metadata-location")

    async def decide() -> Decision:
        submission, before, generation, namespace_id = Submission(context), None, None, None
        async with write.connection() as connection:
            if command.overwrite:
                try:
                    before, generation = await read_table(connection, warehouse, identifier)
                except NoSuchTable:
                    before = None
            if before is None:
                namespace_id = await free_name(connection, warehouse, identifier, "table")
        metadata = parse_table_metadata(await read_metadata(await write.store(warehouse), place))
        check_document_locations(warehouse.profile, None, metadata, imported=True)
        key = location_key(warehouse, metadata)
        if before is not None:
            overwritten = TableOverwritten(key, place.spelled, metadata)
            state = submission.add(before.id, warehouse.id, before, [overwritten], generation)
        else:
            assert namespace_id is not None
            submission.alive.append(namespace_id)
            registered = TableRegistered(namespace_id, command.name, warehouse.scope.key(command.name), key, place.spelled, metadata)
            state = submission.add(uuid7(), warehouse.id, None, [registered])
        assert isinstance(state, TableState)
        loaded = loaded_table(state, written_table(state.document))
        body = results.load_table_result(loaded, warehouse.profile.client_config())
        etag = results.table_etag(state.id, state.version)
        return Decision(submission, IdempotencyRecord(200, state.id, state.version), lambda position: Answer(200, body, position, etag))

    return await write.execute(context, warehouse, decide)
