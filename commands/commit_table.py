"""CommitTable: requirements checked, updates applied, and the delta appended once the new document is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from commands.context import Answer, CommandContext
from commands.create_table import Created, add_table, created_alone, refuse_places_taken_by_others
from commands.deciding import decided, is_large_request
from commands.decision import Decision, MetadataFile
from commands.located import Located, locate_table
from commands.old_metadata_files import old_metadata_files
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import (
    free_name,
    loaded_table,
    location_key,
    next_file_number,
    next_metadata_file,
    path_keys,
    written_pieces,
    written_table,
)
from commands.write_side import WriteSide
from domain.documents import Json, difference
from domain.errors import AlreadyExists, CommitFailed
from domain.events import TableCommitted
from domain.identifiers import TabularIdentifier
from domain.metadata.requirements import ASSERT_CREATE, check_requirements
from domain.metadata.updates import apply_updates
from domain.table import TableCommit, TableState, decide_commit
from projections import results
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties
from storage.location_door import check_document_locations
from storage.locations import StorageLocation


@dataclass(frozen=True, slots=True)
class CommitTable:
    """Requirements and updates as the spec's JSON objects, in the order they came."""

    table: TabularIdentifier
    requirements: Sequence[Json]
    updates: Sequence[Json]


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit makes of a table: the state it leaves, and where its document goes."""

    after: TableState
    place: StorageLocation


async def commit_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CommitTable) -> Answer:
    """200 with a CommitTableResponse; CommitFailed where a requirement does not hold."""
    if creates(command):
        return await _create(write, context, warehouse, command)
    parsed: list[TableCommit] = []

    async def locate() -> Located[TableState]:
        parsed[:] = [await decided(is_large_request(context), TableCommit.parse, command.requirements, command.updates)]
        return await locate_table(write, warehouse, command.table)

    def decide(state: TableState, generation: int) -> Decision:
        submission = Submission(context, table_bytes_max=write.large_documents.bytes_max)
        change = add_commit(warehouse, submission, state, generation, parsed[0], write.now_ms())
        if change is None:
            return _unchanged(submission, state)
        after = change.after
        body, document = results.commit_table_response_of(after.metadata_location, written_pieces(after.document))
        etag = results.table_etag(after.event_id)
        record = IdempotencyRecord(200, after.id, after.version)
        files = [MetadataFile(change.place, document)]
        return Decision(submission, record, lambda position: Answer(200, body, position, etag), files, after)

    return await write.execute_in_lane(context, warehouse, locate, decide)


def creates(command: CommitTable) -> bool:
    """Whether this commit ends a staged create."""
    return is_creation(command.requirements)


def is_creation(requirements: Sequence[Json]) -> bool:
    """Whether a commit with these requirements ends a staged create."""
    # Kinds of requirements are read in any case, as Java does.
    return any(str(requirement.get("type")).lower() == ASSERT_CREATE for requirement in requirements)


def add_commit(
    warehouse: Warehouse, submission: Submission, state: TableState, generation: int | None, commit: TableCommit, now_ms: int
) -> Change | None:
    """Decides, checks all that must be checked before anything is written, and adds the event; None where nothing changes.

    What is to be written is the document that the encoded event folds to, so the file and the rows are one fold.
    """
    before = state.document
    metadata = decide_commit(state, commit, now_ms)
    if metadata is before.value:
        return None
    delta = difference(before, metadata)
    refuse_credential_properties(delta.properties_set, "properties")
    check_document_locations(warehouse.profile, before.value, metadata)
    place = next_metadata_file(warehouse, metadata, next_file_number(state.metadata_location))
    moved = metadata["location"] != before.value["location"]
    actions = [update.action for update in commit.updates]
    key, paths = location_key(warehouse, metadata) if moved else None, path_keys(warehouse, metadata, before.value)
    event = TableCommitted(place.spelled, key, delta.to_json(), actions, paths)
    after = submission.add(state.id, warehouse.id, state, [event], generation)
    assert isinstance(after, TableState)
    submission.old_files += old_metadata_files(state, after, warehouse.profile.storage_identity)
    return Change(after, place)


def _unchanged(submission: Submission, state: TableState) -> Decision:
    submission.rest_on(state)
    body = results.commit_table_response(loaded_table(state, written_table(state.document)))
    etag = results.table_etag(state.event_id)
    return Decision(submission, IdempotencyRecord(200, state.id, state.version), lambda position: Answer(200, body, position, etag))


async def _create(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CommitTable) -> Answer:
    """The commit that ends a staged create: the first to come gets the name."""

    async def decide() -> Decision:
        submission = Submission(context, table_bytes_max=write.large_documents.bytes_max)
        created = await add_created(write, warehouse, submission, command)
        return created_alone(write, warehouse, submission, created, command.table, results.commit_table_response(created.loaded))

    return await write.execute(context, warehouse, decide)


async def add_created(write: WriteSide, warehouse: Warehouse, submission: Submission, command: CommitTable) -> Created:
    """Adds the table that the updates build from nothing."""
    large = is_large_request(submission.context)
    commit = await decided(large, TableCommit.parse, command.requirements, command.updates)
    check_requirements(None, commit.requirements)
    async with write.connection() as connection:
        try:
            namespace_id = await free_name(connection, warehouse, command.table, "table")
        except AlreadyExists as taken:
            if taken.message.startswith("Table"):
                raise CommitFailed(f"Requirement failed: table already exists: {command.table}") from None
            raise
    table_id = uuid7()
    metadata = await decided(large, _new_metadata, warehouse, commit, table_id, write.now_ms())
    await refuse_places_taken_by_others(write, warehouse, metadata)
    return await decided(large, add_table, warehouse, submission, namespace_id, table_id, command.table.name, metadata, staged=True)


def _new_metadata(warehouse: Warehouse, commit: TableCommit, table_id: UUID, now_ms: int) -> Json:
    metadata = apply_updates(None, commit.updates, now_ms=now_ms, previous_metadata_location=None, table_uuid=str(table_id))
    refuse_credential_properties(metadata["properties"], "properties")
    check_document_locations(warehouse.profile, None, metadata)
    return metadata
