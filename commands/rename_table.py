"""RenameTable: another name, in the same or another namespace of the warehouse; the files stay where they are."""

from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.located import Located, locate_table
from commands.rename_tabular import rename_tabular
from commands.write_side import WriteSide
from domain.events import TableRenamed
from domain.identifiers import TabularIdentifier
from projections.streams import State
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class RenameTable:
    source: TabularIdentifier
    destination: TabularIdentifier


async def rename_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RenameTable) -> Answer:
    """204; see `rename_tabular`."""

    async def find() -> Located[State]:
        return await locate_table(write, warehouse, command.source)

    return await rename_tabular(write, context, warehouse, find, TableRenamed, command.source, command.destination)
