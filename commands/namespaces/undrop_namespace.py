"""UndropNamespace: gives a soft-deleted namespace its name again, with all that was dropped with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain import namespace, table, view
from ...domain.commands import UndropNamespace
from ...domain.events import Event
from ...domain.namespace import NamespaceState, no_namespace_with_id
from ...domain.streams import State
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import names, namespace_trees, namespaces
from ...projections.namespace_trees import Dropped, kinds_of
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import OutdatedRead, ResolvedStream
from ..tabulars.needed_files import check_needed_files, check_versions
from . import tree_states
from .tree_states import AnyState, TreeStates

_LOST_NAMED_MAX = 10


async def undrop_namespace(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: UndropNamespace
) -> CommandResponse:
    """204, also for a live namespace, so that a client can repeat the request. All or none, and nothing that was soft-deleted on its own
    before. An undrop and an expiry are decided by the log.

    Raises NoSuchNamespace for what the warehouse does not have, NamespaceDropExpired if the drop of a part of the tree is final,
    NamespaceSoftDeleted if another namespace must be undropped instead or first, AlreadyExists if the name is taken, and FilesMissing
    and FilesUnreadable as for tables and views.
    """
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_UndropHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True)
class _Tree:
    """The namespace, what was dropped with it in the order of the drop, and the decision on it; None if it is live."""

    root: NamespaceState
    dropped: list[Dropped]
    states: TreeStates
    undropped: Event | None

    @property
    def members(self) -> list[AnyState]:
        return [self.states.by_id[each.object_id] for each in self.dropped]


@dataclass(slots=True, eq=False)
class _UndropHandler(CommandHandler):
    # What expires in an inactive warehouse can also be undropped there.
    allows_inactive_warehouse: ClassVar[bool] = True

    command: UndropNamespace
    executor: CommandExecutor
    reservation: DocumentReservation
    content: list[ResolvedStream[State]] = field(default_factory=list)
    whole: bool = False
    checked: dict[UUID, int] = field(default_factory=dict)
    """The versions of tables and views whose files were checked."""

    async def resolve(self) -> CommandTargets:
        return CommandTargets([self.executor.resolver.namespace_by_id(self.command.namespace_id)])

    async def prepare(self) -> None:
        """Refuses, and checks the files, before the queues are joined: a store that does not respond delays no other command."""
        ids = await self._check_refusals()
        if not self.command.force:
            self.checked = await check_needed_files(self.executor, self.warehouse, self.reservation, ids["table"], ids["view"])
        async with self.executor.connection() as connection:
            size = await self._choose_whole(connection, ids)
        await self.reservation.reserve_anew(size)
        self.content = [stream for stream in tree_states.tree_streams(self.executor, ids) if stream.id != self.command.namespace_id]

    async def _check_refusals(self) -> tree_states.Ids:
        """Returns what would be undropped. Raises the refusals."""
        async with self.executor.connection() as connection:
            _, dropped = await self._dropped(connection)
            size = await tree_states.states_size(connection, kinds_of(dropped), whole=False)
        await self.reservation.reserve_anew(size)
        self.whole = False
        return kinds_of((await self._read()).dropped)

    def descendant_streams(self) -> Sequence[ResolvedStream[State]]:
        return self.content

    async def decide(self) -> Decision:
        tree = await self._read()
        if tree.undropped is None:
            live = AppendRequest(self.context)
            live.depend_on(tree.root)
            return Decision(live, IdempotencyRecord(204), CommandResponse(204, None))
        if not self.command.force:
            check_versions(self.checked, [state for state in tree.members if isinstance(state, TableState | ViewState)])
        append_request = AppendRequest(self.context, must_exist=[tree.root.parent_id], table_bytes_max=self.reservation.bytes_max)
        # Outer namespaces first, as they are created.
        for state in reversed(tree.members):
            event = tree.undropped if state.id == tree.root.id else _decide(state)
            append_request.add(state.id, self.warehouse.id, state, [event], tree.states.generation)
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None))

    async def _choose_whole(self, connection: Connection, ids: tree_states.Ids) -> int:
        """Sets whether all metadata of the tables is read, for approval hooks, and returns the size of what is read.

        Without hooks a tree is dropped whatever the tables' lists, and cannot be undropped in parts. Above the limit hooks see only heads.
        """
        self.whole = False
        if self.executor.decision_writer.reviews_decisions_of(self.context):
            size = await tree_states.states_size(connection, ids, whole=True)
            if size <= self.reservation.bytes_max:
                self.whole = True
                return size
        return await tree_states.states_size(connection, ids, whole=False)

    async def _dropped(self, connection: Connection) -> tuple[NamespaceState, list[Dropped]]:
        """The namespace, and what was dropped by the same command. Raises NoSuchNamespace if the warehouse does not have it."""
        found = await namespaces.read_states(connection, [self.command.namespace_id])
        if not found or found[0][0].warehouse_id != self.warehouse.id:
            raise no_namespace_with_id(self.command.namespace_id)
        root = found[0][0]
        # The drop is the last event of what is soft-deleted.
        soft = root.status == "soft-deleted"
        return root, await namespace_trees.dropped_together(connection, root.id, root.version) if soft else []

    async def _read(self) -> _Tree:
        """The tree as of one moment; whole tables are read after it. Raises the refusals."""
        async with self.executor.connection() as connection, connection.transaction():
            await namespace_trees.begin_one_moment(connection)
            root, dropped = await self._dropped(connection)
            states = await tree_states.read_states(connection, kinds_of(dropped), whole=self.whole)
            taken = await namespace_trees.is_taken(connection, root.parent_id, root.name_key)
            described = await names.described(connection, root.root_id or root.id)
            parent_root = await self._root_of(connection, root)
        if self.whole:
            await tree_states.add_whole_tables(self.executor, self.reservation, states, kinds_of(dropped))
        by_id = states.by_id
        lost = [each for each in dropped if by_id[each.object_id].event_id != each.event_id]
        if any(by_id[each.object_id].status == "live" for each in lost):
            # Whole tables are read after the tree: it was undropped in between.
            raise OutdatedRead
        undropped = namespace.decide_undrop(
            root,
            taken=taken,
            parent_root=parent_root,
            root=described,
            lost=[f"{each.kind} {by_id[each.object_id].name} ({each.object_id})" for each in lost[:_LOST_NAMED_MAX]],
        )
        return _Tree(root, dropped, states, undropped)

    async def _root_of(self, connection: Connection, root: NamespaceState) -> str | None:
        """Describes the root that the parent of a namespace was dropped with; None if the parent is live."""
        found = (await namespaces.roots_of_deleted(connection, [root.parent_id])).get(root.parent_id)
        return None if found is None else await names.described(connection, found)


def _decide(state: AnyState) -> Event:
    """The undrop of a part of the tree. Its name is free, because nothing can be created in a soft-deleted namespace."""
    match state:
        case NamespaceState():
            return namespace.decide_undrop_in_tree(state)
        case TableState():
            return table.decide_undrop(state, None)
        case ViewState():
            return view.decide_undrop(state, None)
