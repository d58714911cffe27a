"""RenameTable: renames or moves a table within its warehouse. Its files are not moved."""

from dataclasses import dataclass

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import RenameTable
from ...domain.table import TableState
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.resolver import ResolvedStream
from ..tabulars.rename_tabular import TabularRename


async def rename_table(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: RenameTable) -> CommandResponse:
    """204; see `TabularRename`."""
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_RenameHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _RenameHandler(TabularRename):
    async def find(self) -> ResolvedStream[TableState]:
        return await self.executor.resolver.table(self.warehouse, self.command.source)
