"""RenameView: another name, in the same or another namespace of the warehouse; the files stay where they are."""

from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.located import Located, locate_view
from commands.rename_tabular import rename_tabular
from commands.write_side import WriteSide
from domain.events import ViewRenamed
from domain.identifiers import TabularIdentifier
from projections.streams import State
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class RenameView:
    source: TabularIdentifier
    destination: TabularIdentifier


async def rename_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RenameView) -> Answer:
    """204; see `rename_tabular`."""

    async def find() -> Located[State]:
        return await locate_view(write, warehouse, command.source)

    return await rename_tabular(write, context, warehouse, find, ViewRenamed, command.source, command.destination)
