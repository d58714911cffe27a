"""RenameTable: another name, in the same or another namespace of the warehouse; the files stay where they are."""

from dataclasses import dataclass

from access.request_context import RequestContext
from access.warehouse import Warehouse
from commands.execution.answer import Answer
from commands.execution.executor import CommandExecutor
from commands.execution.resolver import ResolvedStream
from commands.tabulars.rename_tabular import TabularRename
from domain.commands import RenameTable
from domain.table import TableState


async def rename_table(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: RenameTable) -> Answer:
    """204; see `TabularRename`."""
    async with executor.large_documents.share() as share:
        return await executor.execute(_Rename(context, warehouse, command, executor, share))


@dataclass(slots=True, eq=False)
class _Rename(TabularRename):
    async def find(self) -> ResolvedStream[TableState]:
        return await self.executor.resolver.table(self.warehouse, self.command.source)
