"""CommitTransaction: commits to several tables, all or none."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from commands.commit_table import Change, CommitTable, add_created, creates, prepare, read_table, trim
from commands.context import Answer, CommandContext
from commands.create_table import Created
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import Decision, WriteSide
from domain.errors import BadRequest, CatalogError
from domain.table import TableState
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """At least one change; each names another table. A change that ends a staged create creates its table."""

    changes: Sequence[CommitTable]


async def commit_transaction(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: CommitTransaction) -> Answer:
    """204 once every table's commit is in the log under one command; no reader sees half."""
    commits = [change for change in command.changes if not creates(change)]
    creations = [change for change in command.changes if creates(change)]
    trimmed: list[str] = []

    async def decide() -> Decision:
        async with write.connection() as connection:
            found = [await read_table(connection, warehouse, commit.table) for commit in commits]
        states = [state for state, _ in found]
        if len({state.id for state in states}) < len(states):
            raise BadRequest("Invalid table-changes: a table is named more than once")
        submission = Submission(context)
        changes, created = await _prepare_all(write, warehouse, submission, states, commits, creations)
        trimmed.clear()
        # Where a rebuild switched between two reads, append refuses the older generation and all is read again.
        generation = min((generation for _, generation in found), default=None)
        for change in changes:
            submission.add(change.state.id, warehouse.id, change.state, [change.event], generation)
            trimmed.extend(change.trimmed)
        files = [*(change.file for change in changes), *(table.file for table in created)]
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position), files)

    answer = await write.execute(context, warehouse, decide)
    trim(write, warehouse, trimmed)
    return answer


async def _prepare_all(
    write: WriteSide,
    warehouse: Warehouse,
    submission: Submission,
    states: Sequence[TableState],
    commits: Sequence[CommitTable],
    creations: Sequence[CommitTable],
) -> tuple[list[Change], list[Created]]:
    """Every table's change; where one is refused, the files of the others are taken away again."""
    prepared = await asyncio.gather(
        *(prepare(write, warehouse, state, commit) for state, commit in zip(states, commits, strict=True)),
        *(add_created(write, warehouse, submission, creation) for creation in creations),
        return_exceptions=True,
    )
    failures = [failure for failure in prepared if isinstance(failure, BaseException)]
    changes = [change for change in prepared if isinstance(change, Change)]
    created = [table for table in prepared if isinstance(table, Created)]
    if failures:
        await write.discard(warehouse, [*(change.file for change in changes), *(table.file for table in created)])
        raise next((failure for failure in failures if isinstance(failure, CatalogError)), failures[0])
    return changes, created
