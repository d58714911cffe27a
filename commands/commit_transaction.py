"""CommitTransaction: commits to several tables, all or none."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from commands.commit_table import CommitTable, add_commit, add_created, creates
from commands.context import Answer, CommandContext
from commands.deciding import decided, is_large_request, is_large_state
from commands.decision import Decision, MetadataFile
from commands.located import Located, locate_table, take_room
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import written_table
from commands.write_side import WriteSide
from domain.errors import BadRequest
from domain.table import TableCommit, TableState
from projections.streams import State
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """At least one change; each names another table. A change that ends a staged create creates its table."""

    changes: Sequence[CommitTable]


async def commit_transaction(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CommitTransaction) -> Answer:
    """204 once every table's commit is in the log under one command; no reader sees half."""
    commits = [change for change in command.changes if not creates(change)]
    creations = [change for change in command.changes if creates(change)]
    is_large = is_large_request(context)
    located: list[Located[TableState]] = []
    parsed: list[TableCommit] = []

    async def locate() -> Sequence[Located[State]]:
        if len({warehouse.scope.path(change.table) for change in command.changes}) < len(command.changes):
            raise BadRequest("Invalid table-changes: a table is named more than once")
        parsed[:] = await decided(is_large, lambda: [TableCommit.parse(commit.requirements, commit.updates) for commit in commits])
        located[:] = await asyncio.gather(*(locate_table(write, warehouse, commit.table) for commit in commits))
        # Before the tables' queues are joined: who waits for room there keeps others waiting.
        await take_room(write, share, located)
        return located

    async def decide() -> Decision:
        found = [await stream.read_now(share) for stream in located]
        submission = Submission(context, table_bytes_max=write.large_documents.bytes_max)
        files: list[MetadataFile] = []
        # Where a rebuild switched between two reads, append refuses the older generation and all is read again.
        generation = min((generation for _, generation in found), default=None)
        for (state, _), commit in zip(found, parsed, strict=True):
            large = is_large or is_large_state(state)
            change = await decided(large, add_commit, warehouse, submission, state, generation, commit, write.now_ms())
            if change is None:
                submission.rest_on(state)
                continue
            files.append(MetadataFile(change.place, await decided(large, written_table, change.after.document)))
        for creation in creations:
            files.append((await add_created(write, warehouse, submission, creation)).file)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position), files)

    async with write.large_documents.share() as share:
        return await write.execute_together(context, warehouse, locate, decide)
