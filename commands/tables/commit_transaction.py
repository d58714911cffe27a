"""CommitTransaction: commits to several tables, all or none."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import CommitTable, CommitTransaction
from ...domain.errors import BadRequest
from ...domain.names import ResolvedName
from ...domain.table import ParsedCommit, TableState
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision, MetadataFile, parent_of
from ..execution.offload import in_thread_if, is_large_request, is_large_state
from ..execution.resolver import ResolvedStream
from ..tabulars.metadata_files import serialize_table
from .commit_table import add_commit, add_created, completes_staged_create, staged_name


async def commit_transaction(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CommitTransaction
) -> CommandResponse:
    """204 once the commits of all tables are in the log under one command. Readers see all of them or none."""
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_TransactionHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _TransactionHandler(CommandHandler):
    command: CommitTransaction
    executor: CommandExecutor
    reservation: DocumentReservation
    tables: list[ResolvedStream[TableState]] = field(default_factory=list)
    commits: list[ParsedCommit] = field(default_factory=list)
    creations: list[tuple[CommitTable, ResolvedName | None]] = field(default_factory=list)

    async def resolve(self) -> CommandTargets:
        changes = self.command.changes
        if len({self.warehouse.name_lookup.path(change.table) for change in changes}) < len(changes):
            raise BadRequest("Invalid table-changes: a table is named more than once")
        commits = [change for change in changes if not completes_staged_create(change)]
        self.commits = await in_thread_if(is_large_request(self.context), _parsed, commits)
        resolver = self.executor.resolver
        self.tables = await asyncio.gather(*(resolver.table(self.warehouse, commit.table) for commit in commits))
        creations = [change for change in changes if completes_staged_create(change)]
        async with self.executor.connection() as connection:
            self.creations = [(each, await staged_name(self.warehouse, each).find(connection)) for each in creations]
        return CommandTargets(self.tables, [parent_of(found, self.warehouse) for _, found in self.creations])

    async def prepare(self) -> None:
        # A wait for memory inside the tables' queues would block them.
        await self.executor.resolver.reserve_document_memory(self.reservation, self.tables)

    async def decide(self) -> Decision:
        found = [await table.read_named(self.reservation) for table in self.tables]
        append_request = AppendRequest(self.context, table_bytes_max=self.reservation.bytes_max)
        files: list[MetadataFile] = []
        # If a rebuild switched generations between two reads, append refuses the older one and all states are read again.
        generation = min((generation for _, generation in found), default=None)
        for (state, _), commit in zip(found, self.commits, strict=True):
            large = is_large_request(self.context) or is_large_state(state)
            decided = await in_thread_if(large, add_commit, self.warehouse, append_request, state, generation, commit, now_ms())
            if decided is None:
                append_request.depend_on(state)
                continue
            files.append(MetadataFile(decided.metadata_location, await in_thread_if(large, serialize_table, decided.after.document)))
        for creation, name in self.creations:
            files.append((await add_created(self.executor, self.warehouse, append_request, creation, name)).file)
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None), files)


def _parsed(commits: Sequence[CommitTable]) -> list[ParsedCommit]:
    return [ParsedCommit.parse(commit.requirements, commit.updates) for commit in commits]
