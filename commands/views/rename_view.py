"""RenameView: renames or moves a view within its warehouse. Its files are not moved."""

from dataclasses import dataclass

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import RenameView
from ...domain.view import ViewState
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.resolver import ResolvedStream
from ..tabulars.rename_tabular import TabularRename


async def rename_view(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: RenameView) -> CommandResponse:
    """204; see `TabularRename`."""
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_RenameHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _RenameHandler(TabularRename):
    async def find(self) -> ResolvedStream[ViewState]:
        return await self.executor.resolver.view(self.warehouse, self.command.source)
