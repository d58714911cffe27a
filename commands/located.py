"""Objects found by their names: the stream a command's lane is joined for, and whether the name still stands for it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from commands.decision import Relocate
from commands.names_known import Called
from commands.write_side import WriteSide
from domain.claims import NameClaim
from domain.errors import BadRequest, NoSuchTable, NoSuchView
from domain.identifiers import NamespaceIdentifier, TabularIdentifier
from domain.namespace import NamespaceState
from domain.table import TableState
from domain.view import ViewState
from projections import names, namespaces, tables, views
from projections.connections import Connection
from projections.log_changes import read_last_event_id
from projections.streams import State, claims_of
from projections.tables import BYTES_UNBOUNDED, LargeTable
from queries.warehouse import Warehouse
from storage.large_documents import LARGE_BYTES_MIN, DocumentShare

S_co = TypeVar("S_co", bound=State, covariant=True)


@dataclass(frozen=True, slots=True)
class Located(Generic[S_co]):
    """A stream; `claim` is the name it was found by (None: by a path of namespaces, which are never renamed)."""

    id: UUID
    claim: NameClaim | None
    _write: WriteSide
    _read: Callable[[Connection, UUID, int], Awaitable[tuple[S_co, int] | LargeTable | None]]

    async def read(self, share: DocumentShare | None = None) -> tuple[S_co, int] | None:
        """The newest state, and the generation of the read models it was read from.

        share -- held until the state is done with; without one, there is room for a large state only while it is read.
        """
        async with self._write.connection() as connection:
            found = await self._read(connection, self.id, LARGE_BYTES_MIN)
        if found is None and self.claim is not None:
            # The database was restored to a point before it: the name may stand for another one by now.
            self._write.names_known.forget(self.claim)
        if not isinstance(found, LargeTable):
            return found
        # Without a connection in hand: who has the room may wait for one.
        async with self._write.large_documents.share() as own:
            await (share or own).take(found.size)
            async with self._write.reads.connection_once() as connection:
                found = await self._read(connection, self.id, BYTES_UNBOUNDED)
        assert not isinstance(found, LargeTable)
        return found

    async def last_event_id(self) -> UUID | None:
        """None where there is no such stream."""
        async with self._write.connection() as connection:
            return await read_last_event_id(connection, self.id)

    async def read_now(self, share: DocumentShare | None = None) -> tuple[S_co, int]:
        """The same, while it still is what the name stands for; else Relocate."""
        found = await self.read(share)
        if found is None:
            raise Relocate
        self.check(found[0])
        return found

    def check(self, state: State) -> None:
        """Relocate where the state no longer is what the name stood for."""
        held = claims_of(state)
        if not held or (self.claim is not None and self.claim not in held):
            if self.claim is not None:
                self._write.names_known.forget(self.claim)
            raise Relocate


async def locate_table(write: WriteSide, warehouse: Warehouse, table: TabularIdentifier, *, anew: bool = False) -> Located[TableState]:
    """NoSuchTable where the name stands for none.

    anew -- looked up even where it is known: for who refuses by the id before the state is read, which else shows an old id.
    """
    claim = await _locate(write, warehouse, table, "table", anew=anew)
    if claim is None:
        raise NoSuchTable(f"Table does not exist: {table}")
    return Located(claim.owner, claim, write, tables.read_state_within)


async def locate_view(write: WriteSide, warehouse: Warehouse, view: TabularIdentifier) -> Located[ViewState]:
    """NoSuchView where the name stands for none."""
    claim = await _locate(write, warehouse, view, "view")
    if claim is None:
        raise NoSuchView(f"View does not exist: {view}")
    return Located(claim.owner, claim, write, _read_view)


async def locate_namespace(write: WriteSide, warehouse: Warehouse, namespace: NamespaceIdentifier) -> Located[NamespaceState]:
    """NoSuchNamespace where there is none."""
    async with write.connection() as connection:
        namespace_id = await names.find_namespace(connection, warehouse.scope, namespace)
    return Located(namespace_id, None, write, _read_namespace)


async def take_room(write: WriteSide, share: DocumentShare, located: Sequence[Located[State]]) -> None:
    """For all tables at once: with room for some in hand, two transactions could wait for each other. Nothing where there is a share."""
    async with write.connection() as connection:
        size = await tables.open_bytes(connection, [stream.id for stream in located])
    if len(located) > 1 and size > share.bytes_max:
        raise BadRequest(f"Invalid table-changes: the tables' metadata is larger than {share.bytes_max} bytes together")
    if size >= LARGE_BYTES_MIN:
        await share.take(size)


def remember_begun(
    write: WriteSide, warehouse: Warehouse, table: TabularIdentifier, state: TableState, document_bytes: int, proved_at: float
) -> None:
    """A table this process created: its first commit, which is often the next request, need neither look it up nor read it."""
    claim = NameClaim("tabular", state.namespace_id, state.name_key, state.id)
    write.names_known.put(("table", *warehouse.scope.path(table)), claim)
    write.lanes.begin(Located(state.id, claim, write, tables.read_state_within), state, document_bytes, proved_at)


async def _read_view(connection: Connection, view_id: UUID, _: int) -> tuple[ViewState, int] | None:
    return await views.read_state(connection, view_id)


async def _read_namespace(connection: Connection, namespace_id: UUID, _: int) -> tuple[NamespaceState, int] | None:
    return await namespaces.read_state(connection, namespace_id)


async def _locate(
    write: WriteSide, warehouse: Warehouse, identifier: TabularIdentifier, kind: str, *, anew: bool = False
) -> NameClaim | None:
    called: Called = (kind, *warehouse.scope.path(identifier))
    known = None if anew else write.names_known.get(called)
    if known is not None:
        # It may have come to stand for something else: then the state it leads to says so, and it is looked up again.
        return known
    async with write.connection() as connection:
        found = await names.find(connection, warehouse.scope, identifier.namespace, identifier.name)
    if found is None or found.object_id is None or found.kind != kind:
        return None
    claim = NameClaim("tabular", found.namespace_id, warehouse.scope.key(identifier.name), found.object_id)
    write.names_known.put(called, claim)
    return claim
