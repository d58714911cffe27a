"""Resolves names to streams, and checks whether they still refer to them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

from ...access.authorization import Resource
from ...access.backends import Backends
from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.claims import NameClaim
from ...domain.errors import BadRequest, NoSuchTable, NoSuchView
from ...domain.identifiers import ContentKind, NamespaceIdentifier, TabularIdentifier
from ...domain.namespace import NamespaceState
from ...domain.streams import State, claims_of
from ...domain.table import TableState
from ...domain.view import ViewState
from ...domain.warehouse import WarehouseState
from ...log.changes import read_last_event_id
from ...projections import names, namespaces, protection, tables, views, warehouses
from ...projections.bounded_reads import LargeDocument
from ...storage.large_documents import DocumentReservation
from .name_cache import NameCache, TabularKey

S_co = TypeVar("S_co", bound=State, covariant=True)


class OutdatedRead(Exception):
    """The command cannot be decided on what was read, for example because the object was renamed: resolve its names and decide again."""


@dataclass(frozen=True, slots=True)
class ResolvedStream(Generic[S_co]):
    """A stream. `claim` is the name by which it was found; None if it was found by its id, and for namespaces, whose moves are
    events of the warehouse."""

    resource: Resource
    claim: NameClaim | None
    _backends: Backends
    _forget: Callable[[], None]
    _read: Callable[[Connection, UUID, int], Awaitable[tuple[S_co, int] | LargeDocument | None]]
    _read_size: Callable[[Connection, Sequence[UUID]], Awaitable[int]]

    @property
    def id(self) -> UUID:
        return self.resource.id

    async def read(self, reservation: DocumentReservation | None = None) -> tuple[S_co, int] | None:
        """The newest state, and the generation of the read models it was read from.

        reservation -- held for as long as the state is used; without one, memory for a large state is reserved only while it is read.
        """
        found = await self._backends.read_with_reservation(
            lambda connection, bytes_max: self._read(connection, self.id, bytes_max), reservation
        )
        if found is None:
            # The database was restored to an earlier point, so the name may refer to another object.
            self._forget()
        return found

    async def last_event_id(self) -> UUID | None:
        """None if the stream does not exist."""
        async with self._backends.connection() as connection:
            return await read_last_event_id(connection, self.id)

    async def read_named(self, reservation: DocumentReservation | None = None) -> tuple[S_co, int]:
        """As `read`. Raises OutdatedRead if the name now refers to another object."""
        found = await self.read(reservation)
        if found is None:
            raise OutdatedRead
        self.check(found[0])
        return found

    def check(self, state: State) -> None:
        """Raises OutdatedRead if the name no longer refers to this state's object."""
        claims = claims_of(state)
        deleted = isinstance(state, NamespaceState) and state.status != "live"
        if not claims or deleted or (self.claim is not None and self.claim not in claims):
            self._forget()
            raise OutdatedRead


def _nothing_to_forget() -> None:
    """Does nothing: a stream that was not found by a table's or view's name has no entry in the name cache."""


class Resolver:
    """Resolves the names of one process's requests."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._names = NameCache()

    async def table(self, warehouse: Warehouse, table: TabularIdentifier, *, uncached: bool = False) -> ResolvedStream[TableState]:
        """Raises NoSuchTable if the name refers to no table.

        uncached -- bypasses the cache, for a command that may be refused on the id alone, before reading the state could show that the
            cached id is outdated.
        """
        key: TabularKey = ("table", warehouse.event_id, *warehouse.name_lookup.path(table))
        claim = await self._find(warehouse, table, key, uncached=uncached)
        if claim is None:
            raise NoSuchTable(f"Table does not exist: {table}")
        return self._table(key, claim)

    async def view(self, warehouse: Warehouse, view: TabularIdentifier) -> ResolvedStream[ViewState]:
        """Raises NoSuchView if the name refers to no view."""
        key: TabularKey = ("view", warehouse.event_id, *warehouse.name_lookup.path(view))
        claim = await self._find(warehouse, view, key)
        if claim is None:
            raise NoSuchView(f"View does not exist: {view}")
        resource, forget = Resource("view", claim.owner), partial(self._names.forget, key, claim)
        return ResolvedStream(resource, claim, self._backends, forget, views.read_state_within, views.document_size)

    async def namespace(self, warehouse: Warehouse, namespace: NamespaceIdentifier) -> ResolvedStream[NamespaceState]:
        """Raises NoSuchNamespace if it does not exist."""
        async with self._backends.connection() as connection:
            namespace_id = await names.find_namespace(connection, warehouse.name_lookup, namespace)
        return self.namespace_by_id(namespace_id)

    def warehouse(self, warehouse: Warehouse) -> ResolvedStream[WarehouseState]:
        resource = Resource("warehouse", warehouse.id)
        return ResolvedStream(resource, None, self._backends, _nothing_to_forget, warehouses.read_state_within, warehouses.document_size)

    async def live_namespace(self, warehouse: Warehouse, namespace_id: UUID) -> ResolvedStream[NamespaceState]:
        """A namespace by its id, whatever its path. Raises NoSuchNamespace if the warehouse has no such namespace."""
        async with self._backends.connection() as connection:
            await protection.find(connection, warehouse.id, "namespace", namespace_id)
        return self.namespace_by_id(namespace_id)

    async def object_by_id(
        self, warehouse: Warehouse, kind: ContentKind, object_id: UUID
    ) -> ResolvedStream[NamespaceState | TableState | ViewState]:
        """Raises NoSuchNamespace, NoSuchTable or NoSuchView if the warehouse has no such object."""
        async with self._backends.connection() as connection:
            await protection.find(connection, warehouse.id, kind, object_id)
        return self.by_id(kind, object_id)

    def by_id(self, kind: ContentKind, object_id: UUID, *, head: bool = False) -> ResolvedStream[NamespaceState | TableState | ViewState]:
        """An object by its id, whatever its name. The id is not looked up. head -- as in `table_by_id`."""
        match kind:
            case "namespace":
                return self.namespace_by_id(object_id)
            case "table":
                return self.table_by_id(object_id, head=head)
            case "view":
                return self.view_by_id(object_id)

    def namespace_by_id(self, namespace_id: UUID) -> ResolvedStream[NamespaceState]:
        """A namespace by its id, whatever its path. The id is not looked up."""
        resource = Resource("namespace", namespace_id)
        return ResolvedStream(resource, None, self._backends, _nothing_to_forget, namespaces.read_state_within, namespaces.document_size)

    def table_by_id(self, table_id: UUID, *, head: bool = False) -> ResolvedStream[TableState]:
        """A table by its id, whatever its name.

        head -- its state is read without the parts of its document, for a change that leaves the document as it is.
        """
        read, size = (tables.read_head_within, tables.head_size) if head else (tables.read_state_within, tables.document_size)
        return ResolvedStream(Resource("table", table_id), None, self._backends, _nothing_to_forget, read, size)

    def view_by_id(self, view_id: UUID) -> ResolvedStream[ViewState]:
        """A view by its id, whatever its name."""
        return ResolvedStream(
            Resource("view", view_id), None, self._backends, _nothing_to_forget, views.read_state_within, views.document_size
        )

    def remember(self, warehouse: Warehouse, table: TabularIdentifier, claim: NameClaim) -> None:
        """Caches the name of a table that was created just now."""
        key: TabularKey = ("table", warehouse.event_id, *warehouse.name_lookup.path(table))
        self._names.put(key, claim)

    def _table(self, key: TabularKey, claim: NameClaim) -> ResolvedStream[TableState]:
        resource, forget = Resource("table", claim.owner), partial(self._names.forget, key, claim)
        return ResolvedStream(resource, claim, self._backends, forget, tables.read_state_within, tables.document_size)

    async def reserve_document_memory(self, reservation: DocumentReservation, streams: Sequence[ResolvedStream[State]]) -> None:
        """Reserves memory for the states of streams of one kind if they are large together. Does nothing if memory is reserved already.

        Call it before joining the streams' queues, because a wait for memory inside would block them. It reserves for all streams at
        once: two transactions that each hold a part could deadlock.
        """
        if not streams:
            return
        async with self._backends.connection() as connection:
            size = await streams[0]._read_size(connection, [stream.id for stream in streams])
        if len(streams) > 1 and size > reservation.bytes_max:
            raise BadRequest(f"Invalid table-changes: the metadata of all tables together is larger than {reservation.bytes_max} bytes")
        await reservation.reserve_if_large(size)

    async def _find(
        self, warehouse: Warehouse, identifier: TabularIdentifier, key: TabularKey, *, uncached: bool = False
    ) -> NameClaim | None:
        known = None if uncached else self._names.get(key)
        if known is not None:
            # The entry may be outdated: `ResolvedStream.check` detects that, and the name is looked up again.
            return known
        async with self._backends.connection() as connection:
            found = await names.find(connection, warehouse.name_lookup, identifier.namespace, identifier.name)
        if found is None or found.object_id is None or found.kind != key[0]:
            return None
        claim = NameClaim("tabular", found.namespace_id, warehouse.name_lookup.key(identifier.name), found.object_id)
        self._names.put(key, claim)
        return claim
