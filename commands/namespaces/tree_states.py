"""The states of the objects of a namespace's tree, and the limits on a tree that one command drops or undrops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from ...database.connections import Connection
from ...domain.identifiers import ContentKind
from ...domain.namespace import NamespaceState
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import namespaces, tables, views
from ...storage.large_documents import DocumentReservation
from ..execution.executor import CommandExecutor
from ..execution.resolver import OutdatedRead, ResolvedStream

TREE_OBJECTS_MAX = 500
"""Limit on the objects in a namespace that one command drops, those in its child namespaces included. The append of so many events holds
the lock of the log for a quarter of a second (docs/decisions/0026-namespace-trees.md)."""

AnyState = NamespaceState | TableState | ViewState
Ids = Mapping[ContentKind, Sequence[UUID]]


@dataclass(slots=True)
class TreeStates:
    """States by id, and the oldest generation that one was read from."""

    by_id: dict[UUID, AnyState]
    generation: int | None


async def states_size(connection: Connection, ids: Ids, *, whole: bool) -> int:
    """What must be read for the states of a tree.

    whole -- with all metadata of the tables, because approval hooks review it; otherwise tables are read without their parts.
    """
    size = await (tables.document_size if whole else tables.head_size)(connection, ids["table"])
    size += await views.document_size(connection, ids["view"])
    return size + await namespaces.document_size(connection, ids["namespace"])


async def read_states(connection: Connection, ids: Ids, *, whole: bool) -> TreeStates:
    """The newest states; if `whole`, without the tables, which `add_whole_tables` reads."""
    found: list[tuple[AnyState, int]] = [*await namespaces.read_states(connection, ids["namespace"])]
    found += await views.read_states(connection, ids["view"])
    if not whole:
        found += await tables.read_heads(connection, ids["table"])
    return TreeStates({state.id: state for state, _ in found}, min((generation for _, generation in found), default=None))


async def add_whole_tables(executor: CommandExecutor, reservation: DocumentReservation, states: TreeStates, ids: Ids) -> None:
    """Adds the newest states of the tables with all their metadata. Call it without holding a connection."""
    for each in ids["table"]:
        found = await executor.resolver.table_by_id(each).read(reservation)
        if found is None:
            raise OutdatedRead
        states.by_id[each], generation = found
        # If a rebuild switched generations between two reads, append refuses the older one and all states are read again.
        states.generation = generation if states.generation is None else min(states.generation, generation)


def tree_streams(executor: CommandExecutor, ids: Ids) -> list[ResolvedStream[AnyState]]:
    """The streams of a tree's objects."""
    return [executor.resolver.by_id(kind, each) for kind, of_kind in ids.items() for each in of_kind]
