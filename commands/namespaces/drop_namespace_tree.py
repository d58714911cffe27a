"""DropNamespace, recursive: drops a namespace with all that is in it, by one command. Also tells what it would do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...database.connections import Connection
from ...domain.commands import DropNamespace
from ...domain.errors import CommitFailed, UnsupportedOperation
from ...domain.namespace import NamespaceState
from ...domain.namespace_tree import (
    Action,
    PlannedDrop,
    SoftDeletedObject,
    TreeObject,
    check_protection,
    common_expiry,
    plan_drop,
    too_large,
)
from ...domain.streams import State
from ...projections import namespace_trees
from ...projections.namespace_trees import DeletedInside, TreeNode, kinds_of
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.drop_expiry import DropExpiry
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import OutdatedRead, ResolvedStream
from . import tree_states
from .tree_states import TREE_OBJECTS_MAX, TreeStates

_NODES_MAX = TREE_OBJECTS_MAX + 1
"""The namespace itself and what is in it."""
PLAN_ATTEMPTS_MAX = 10
"""How often the tree is read for a dry run if other commands keep changing it."""


@dataclass(frozen=True, slots=True)
class DropPlan:
    """What a recursive drop would do, in the order of its events.

    expires_at_ms -- None: the drop is final.
    soft_deleted, soft_deleted_count -- at most TREE_OBJECTS_MAX of what is soft-deleted and not dropped by the command itself, and the
        number of all; of a soft deletion, without what is in soft-deleted namespaces. soft_deleted_action -- whether they keep their
        expiry, or expire with the namespace.
    """

    drops: Sequence[PlannedDrop]
    expires_at_ms: int | None
    soft_deleted: Sequence[SoftDeletedObject] = ()
    soft_deleted_count: int = 0
    soft_deleted_action: Action = "keep"


async def drop_namespace_tree(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropNamespace
) -> CommandResponse:
    """204. All or nothing: what is created in the tree, moved into it or changed in it meanwhile is found, and it is decided again.

    In a soft-deleting warehouse everything can be undropped until one moment, unless `force`; what was soft-deleted in the tree before is
    left as it is. A final drop also makes the drops of what is soft-deleted in the tree final. If that is too much for one command, the
    tree is soft-deleted instead and expires at once with all that is in it, by the job.
    Raises NamespaceProtected without `force`, and NamespaceTreeTooLarge.
    """
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_DropHandler(context, warehouse, command, executor, reservation))


async def plan_namespace_drop(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropNamespace) -> DropPlan:
    """What the command would do now. Protected objects and a read-only warehouse do not refuse it. Raises NoSuchNamespace,
    NamespaceTreeTooLarge, WarehouseInactive, and CommitFailed if other commands keep changing the tree or the warehouse.
    """
    if warehouse.as_of is not None:
        raise UnsupportedOperation(f"Warehouse {warehouse.name} is read as of position {warehouse.as_of}: a past state cannot be changed")
    for _ in range(PLAN_ATTEMPTS_MAX):
        try:
            plan = await _plan(executor, context, warehouse, command)
        except OutdatedRead:
            plan = None
        # Its delete profile and purge default may be older than the request, and moves of namespaces are events of it.
        current = await executor.current_warehouse(warehouse)
        if not current.active:
            raise current.inactive_error()
        if plan is not None and current.event_id == warehouse.event_id:
            return plan
        warehouse = current
    raise CommitFailed("Other requests kept changing the namespace; try again")


async def _plan(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropNamespace) -> DropPlan:
    """Raises OutdatedRead if another command dropped the namespace, or made the tree too large, meanwhile."""
    async with executor.large_documents.reservation() as reservation:
        drop = _DropHandler(context, warehouse, command, executor, reservation)
        resolved = await drop.resolve()
        await executor.authorize(context, resolved.resources)
        await drop.prepare()
        tree = await drop.read(with_soft_deleted=True)
        expires_at_ms = drop.expires_at_ms(tree)
        count = tree.deleted_inside[0].total if tree.deleted_inside else 0
        action: Action = "expire" if drop.final else "keep"
        return DropPlan(drop.plan(tree, expires_at_ms), expires_at_ms, _soft_deleted(tree), count, action)


def _soft_deleted(tree: "_Tree") -> list[SoftDeletedObject]:
    """What was read of what is soft-deleted in the tree and not dropped by the command itself, each after its parent."""
    paths = {each.state.id: each.path for each in tree.objects if each.kind == "namespace"}
    found: list[SoftDeletedObject] = []
    for each in tree.deleted_inside:
        path = paths[each.object_id] = (*paths[each.parent_id], each.name)
        found.append(SoftDeletedObject(each.object_id, each.kind, path, each.protected, each.purges))
    return found


@dataclass(slots=True)
class _Tree:
    """The objects of a tree that are dropped, each after its parent.

    contents -- how many of them are in each namespace. last_expiry_ms -- of what is soft-deleted in it and left as it is. deleted_inside --
        at most TREE_OBJECTS_MAX of that, for a dry run.
    """

    objects: list[TreeObject]
    states: TreeStates
    contents: dict[UUID, int]
    last_expiry_ms: int | None
    deleted_inside: list[DeletedInside]


@dataclass(slots=True, eq=False)
class _DropHandler(CommandHandler):
    """with_deleted -- whether this command itself makes the drops of what is soft-deleted in the tree final. due_ms -- else when the tree
    expires, if the drop is final.
    """

    command: DropNamespace
    executor: CommandExecutor
    reservation: DocumentReservation
    namespace: ResolvedStream[NamespaceState] | None = None
    expiry: DropExpiry | None = None
    content: list[ResolvedStream[State]] = field(default_factory=list)
    with_deleted: bool = False
    due_ms: int | None = None

    async def resolve(self) -> CommandTargets:
        self.expiry = await DropExpiry.read(self.executor, self.warehouse, force=self.command.force)
        self.namespace = await self.executor.resolver.namespace(self.warehouse, self.command.namespace)
        return CommandTargets([self.namespace])

    def expires_at_ms(self, tree: _Tree) -> int | None:
        """None: the drop is final."""
        assert self.expiry is not None
        if (at_ms := self.expiry.at_ms()) is not None:
            return common_expiry(at_ms, tree.last_expiry_ms)
        return None if self.with_deleted else self.due_ms

    @property
    def whole(self) -> bool:
        """Whether approval hooks review the metadata of the tables."""
        return self.executor.decision_writer.reviews_decisions_of(self.context)

    async def prepare(self) -> None:
        """Finds the objects whose queues wait during the decision. What is created later is found by append."""
        async with self.executor.connection() as connection:
            self.with_deleted = self.final
            nodes = await self._nodes(connection)
            size = await self._size(connection, nodes)
            if self.with_deleted and (len(nodes) > _NODES_MAX or size > self.reservation.bytes_max):
                self.with_deleted = False
                # By the earlier clock, because the job waits for both.
                self.due_ms = min(self.executor.now_ms(), await self.executor.database_now_ms(connection))
                nodes = await self._nodes(connection)
                size = await self._size(connection, nodes)
        if len(nodes) > _NODES_MAX:
            reason = f"it contains more than {TREE_OBJECTS_MAX} objects, not counting what is soft-deleted"
            raise too_large(str(self.command.namespace), reason)
        if size > self.reservation.bytes_max:
            reason = f"what must be read of its metadata is larger than {self.reservation.bytes_max} bytes"
            raise too_large(str(self.command.namespace), reason)
        await self.reservation.reserve_anew(size)
        self.content = [*tree_states.tree_streams(self.executor, kinds_of(nodes[1:]))]

    def descendant_streams(self) -> Sequence[ResolvedStream[State]]:
        return self.content

    async def decide(self) -> Decision:
        tree = await self.read()
        if not self.command.force:
            check_protection(tree.objects, str(self.command.namespace))
        append_request = AppendRequest(self.context, table_bytes_max=self.reservation.bytes_max)
        if self.with_deleted:
            append_request.expected_child_counts = [*tree.contents.items()]
        else:
            append_request.expected_live_child_counts = [*tree.contents.items()]
        for planned in self.plan(tree, self.expires_at_ms(tree)):
            state = planned.object.state
            append_request.add(state.id, self.warehouse.id, state, [planned.event], tree.states.generation)
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None))

    def plan(self, tree: _Tree, expires_at_ms: int | None) -> list[PlannedDrop]:
        requested = self.command.purge
        purge = self.warehouse.purge_default if requested is None else requested
        return plan_drop(tree.objects, purge_requested=purge, expires_at_ms=expires_at_ms)

    async def read(self, *, with_soft_deleted: bool = False) -> _Tree:
        """The tree as of one moment. Raises OutdatedRead if the namespace is not live any more, or the tree has become too large."""
        assert self.namespace is not None
        async with self.executor.connection() as connection, connection.transaction():
            await namespace_trees.begin_one_moment(connection)
            nodes = await self._nodes(connection)
            if len(nodes) > _NODES_MAX:
                raise OutdatedRead
            states = await tree_states.read_states(connection, kinds_of(nodes), whole=self.whole)
            left = [] if self.with_deleted else kinds_of(nodes)["namespace"]
            last_expiry_ms = await namespace_trees.last_expiry(connection, left)
            inside: list[DeletedInside] = []
            if with_soft_deleted and left:
                inside = await namespace_trees.deleted_inside(connection, left, TREE_OBJECTS_MAX, inside_deleted=self.final)
        if self.whole:
            await tree_states.add_whole_tables(self.executor, self.reservation, states, kinds_of(nodes))
        objects: list[TreeObject] = []
        paths: dict[UUID, tuple[str, ...]] = {}
        contents: dict[UUID, int] = {}
        for node in nodes:
            state = states.by_id[node.object_id]
            if state.status != ("soft-deleted" if node.deleted else "live"):
                # Whole tables are read after the tree.
                raise OutdatedRead
            root_path = (*self.command.namespace.levels[:-1], state.name)
            path = root_path if node.parent_id is None else (*paths[node.parent_id], state.name)
            objects.append(TreeObject(path, state))
            if node.parent_id is not None:
                contents[node.parent_id] += 1
            if node.kind == "namespace":
                paths[node.object_id] = path
                contents[node.object_id] = 0
        return _Tree(objects, states, contents, last_expiry_ms, inside)

    @property
    def final(self) -> bool:
        """Whether nothing of the tree can be undropped in the end."""
        return self.command.force or self.warehouse.delete_profile.expiration_seconds is None

    async def _nodes(self, connection: Connection) -> list[TreeNode]:
        """The objects of the tree that are dropped. If they are too many, more than _NODES_MAX are returned."""
        assert self.namespace is not None
        return await namespace_trees.read_tree(connection, self.namespace.id, _NODES_MAX, with_deleted=self.with_deleted)

    async def _size(self, connection: Connection, nodes: Sequence[TreeNode]) -> int:
        return await tree_states.states_size(connection, kinds_of(nodes), whole=self.whole)
