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
from ...domain.identifiers import NamespaceIdentifier, TabularIdentifier
from ...domain.namespace import NamespaceState
from ...domain.streams import State, claims_of
from ...domain.table import TableState
from ...domain.view import ViewState
from ...log.changes import read_last_event_id
from ...projections import names, namespaces, tables, views
from ...projections.bounded_reads import LargeDocument
from ...storage.large_documents import LARGE_BYTES_MIN, DocumentShare
from .name_cache import Called, NameCache

S_co = TypeVar("S_co", bound=State, covariant=True)


class StaleName(Exception):
    """The resolved object was renamed or dropped meanwhile, or other data that was read has changed: resolve again."""


@dataclass(frozen=True, slots=True)
class ResolvedStream(Generic[S_co]):
    """A stream; `claim` is the name it was found by (None: by a path of namespaces, which are never renamed)."""

    resource: Resource
    claim: NameClaim | None
    _backends: Backends
    _forget: Callable[[], None]
    _read: Callable[[Connection, UUID, int], Awaitable[tuple[S_co, int] | LargeDocument | None]]
    _read_bytes: Callable[[Connection, Sequence[UUID]], Awaitable[int]]

    @property
    def id(self) -> UUID:
        return self.resource.id

    async def read(self, share: DocumentShare | None = None) -> tuple[S_co, int] | None:
        """The newest state, and the generation of the read models it was read from.

        share -- held until the state is done with; without one, there is room for a large state only while it is read.
        """
        found = await self._backends.read_within(lambda connection, bytes_max: self._read(connection, self.id, bytes_max), share)
        if found is None:
            # The database was restored to a point before it: the name may stand for another one by now.
            self._forget()
        return found

    async def last_event_id(self) -> UUID | None:
        """None if the stream does not exist."""
        async with self._backends.connection() as connection:
            return await read_last_event_id(connection, self.id)

    async def read_named(self, share: DocumentShare | None = None) -> tuple[S_co, int]:
        """As `read`. Raises StaleName if the name refers to another object by now."""
        found = await self.read(share)
        if found is None:
            raise StaleName
        self.check(found[0])
        return found

    def check(self, state: State) -> None:
        """Raises StaleName if the name no longer refers to this state's object."""
        held = claims_of(state)
        if not held or (self.claim is not None and self.claim not in held):
            self._forget()
            raise StaleName


def _keep() -> None:
    """Of a stream that was found by no name nothing is forgotten."""


class Resolver:
    """Resolves the names of one process's requests."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._names = NameCache()

    async def table(self, warehouse: Warehouse, table: TabularIdentifier, *, anew: bool = False) -> ResolvedStream[TableState]:
        """NoSuchTable where the name stands for none.

        anew -- looked up even where it is known: for a command that may be refused by the id alone, which the
            state would show to be old.
        """
        called: Called = ("table", *warehouse.scope.path(table))
        claim = await self._find(warehouse, table, called, anew=anew)
        if claim is None:
            raise NoSuchTable(f"Table does not exist: {table}")
        return self._table(called, claim)

    async def view(self, warehouse: Warehouse, view: TabularIdentifier) -> ResolvedStream[ViewState]:
        """NoSuchView where the name stands for none."""
        called: Called = ("view", *warehouse.scope.path(view))
        claim = await self._find(warehouse, view, called)
        if claim is None:
            raise NoSuchView(f"View does not exist: {view}")
        resource, forget = Resource("view", claim.owner), partial(self._names.forget, called, claim)
        return ResolvedStream(resource, claim, self._backends, forget, views.read_state_within, views.document_bytes)

    async def namespace(self, warehouse: Warehouse, namespace: NamespaceIdentifier) -> ResolvedStream[NamespaceState]:
        """NoSuchNamespace where there is none."""
        async with self._backends.connection() as connection:
            namespace_id = await names.find_namespace(connection, warehouse.scope, namespace)
        resource = Resource("namespace", namespace_id)
        return ResolvedStream(resource, None, self._backends, _keep, namespaces.read_state_within, namespaces.document_bytes)

    def table_by_id(self, table_id: UUID) -> ResolvedStream[TableState]:
        """Whatever its name."""
        return ResolvedStream(Resource("table", table_id), None, self._backends, _keep, tables.read_state_within, tables.document_bytes)

    def remember(self, warehouse: Warehouse, table: TabularIdentifier, claim: NameClaim) -> ResolvedStream[TableState]:
        """A table that was created under this name."""
        called: Called = ("table", *warehouse.scope.path(table))
        self._names.put(called, claim)
        return self._table(called, claim)

    def _table(self, called: Called, claim: NameClaim) -> ResolvedStream[TableState]:
        resource, forget = Resource("table", claim.owner), partial(self._names.forget, called, claim)
        return ResolvedStream(resource, claim, self._backends, forget, tables.read_state_within, tables.document_bytes)

    async def take_room(self, share: DocumentShare, streams: Sequence[ResolvedStream[State]]) -> None:
        """For the states of streams of one kind, if they are large together; nothing where the share has room already.

        Before their queues are joined, since who waits for room there keeps others waiting; and for all at once: with room for some in
        hand, two transactions could wait for each other.
        """
        if not streams:
            return
        async with self._backends.connection() as connection:
            size = await streams[0]._read_bytes(connection, [stream.id for stream in streams])
        if len(streams) > 1 and size > share.bytes_max:
            raise BadRequest(f"Invalid table-changes: the metadata of all tables together is larger than {share.bytes_max} bytes")
        if size >= LARGE_BYTES_MIN:
            await share.take(size)

    async def _find(self, warehouse: Warehouse, identifier: TabularIdentifier, called: Called, *, anew: bool = False) -> NameClaim | None:
        known = None if anew else self._names.get(called)
        if known is not None:
            # It may have come to stand for something else: then the state it leads to says so, and it is looked up again.
            return known
        async with self._backends.connection() as connection:
            found = await names.find(connection, warehouse.scope, identifier.namespace, identifier.name)
        if found is None or found.object_id is None or found.kind != called[0]:
            return None
        claim = NameClaim("tabular", found.namespace_id, warehouse.scope.key(identifier.name), found.object_id)
        self._names.put(called, claim)
        return claim
