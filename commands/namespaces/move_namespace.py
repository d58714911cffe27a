"""MoveNamespace: gives a namespace another parent, another name, or both, with all that it contains. Locations stay."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import orjson

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import MoveNamespace
from ...domain.identifiers import NAMESPACE_LEVELS_MAX
from ...domain.namespace import MoveDestination, NamespaceState, decide_move
from ...domain.warehouse import decide_namespace_moved
from ...log.head import log_head
from ...projections import names
from ...projections.names import NamedObject
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import OutdatedRead, ResolvedStream


async def move_namespace(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: MoveNamespace
) -> CommandResponse:
    """200 with the new path. Raises as `decide_move`, and NoSuchNamespace if the warehouse has no such namespace."""
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_MoveHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _MoveHandler(CommandHandler):
    """It appends an event to the namespace and one to the warehouse. So everything that was decided before is decided again (0022):
    commands on the former path, and another move, which could form a cycle with this one.
    """

    command: MoveNamespace
    executor: CommandExecutor
    reservation: DocumentReservation
    stream: ResolvedStream[NamespaceState] | None = None
    parent_id: UUID | None = None

    async def resolve(self) -> CommandTargets:
        resolver, parent = self.executor.resolver, self.command.destination.parent
        self.stream = await resolver.live_namespace(self.warehouse, self.command.namespace_id)
        self.parent_id = self.warehouse.id
        if parent is not None:
            async with self.executor.connection() as connection:
                found = await names.find(connection, self.warehouse.name_lookup, parent, None)
            self.parent_id = None if found is None else found.namespace_id
        # If the parent does not exist, `decide` refuses.
        resource = Resource("warehouse" if parent is None or self.parent_id is None else "namespace", self.parent_id or self.warehouse.id)
        return CommandTargets([self.stream], [resource], [resolver.warehouse(self.warehouse)])

    async def prepare(self) -> None:
        assert self.stream is not None
        await self.executor.resolver.reserve_document_memory(self.reservation, [self.stream])

    async def decide(self) -> Decision:
        assert self.stream is not None
        # The warehouse first: if it is unchanged when the command is appended, no path has changed since.
        warehouse, warehouse_generation = await self.executor.resolver.warehouse(self.warehouse).read_named()
        state, generation = await self.stream.read_named(self.reservation)
        if warehouse.event_id != self.warehouse.event_id or state.status != "live":
            raise OutdatedRead
        append_request = AppendRequest(self.context)
        destination, known = await self._destination(state, append_request)
        source = ".".join(_path(known, state.id)[1:])
        wanted = self.command.destination
        key, reserved = self.warehouse.name_lookup.key(wanted.levels[-1]), self.executor.reserved_namespaces
        event = decide_move(state, source, destination, key, reserved, force=self.command.force)
        assert destination.parent_id is not None, "else it was refused"
        if event is None:
            append_request.depend_on(state)
        else:
            generation = min(generation, warehouse_generation)
            append_request.must_exist.append(destination.parent_id)
            append_request.add(state.id, self.warehouse.id, state, [event], generation)
            append_request.add(warehouse.id, warehouse.id, warehouse, [decide_namespace_moved(state.id)], generation, shown_to_hooks=False)
        body = orjson.dumps(
            {
                "namespace": [*_path(known, destination.parent_id)[1:], wanted.levels[-1]],
                "namespace-id": state.id,
                "parent-namespace-id": None if destination.parent_id == self.warehouse.id else destination.parent_id,
            }
        )
        return Decision(append_request, IdempotencyRecord(200, body=body), CommandResponse(200, body))

    async def _destination(
        self, state: NamespaceState, append_request: AppendRequest
    ) -> tuple[MoveDestination, Mapping[UUID, NamedObject]]:
        """The destination, and the names of both paths. If the namespace gets deeper, no namespace may be created meanwhile."""
        wanted, ids = self.command.destination, [state.id, *([] if self.parent_id is None else [self.parent_id])]
        async with self.executor.connection() as connection:
            found = await names.find(connection, self.warehouse.name_lookup, wanted, None)
            known = await names.names_above(connection, ids)
            too_deep = False
            if len(wanted.levels) > len(_path(known, state.id)) - 1:
                append_request.no_warehouse_events_since = (self.warehouse.id, await log_head(connection), "namespace.%")
                too_deep = await names.is_deeper(connection, state.id, NAMESPACE_LEVELS_MAX - len(wanted.levels))
        above = [] if self.parent_id is None else _ids(known, self.parent_id)
        taken_by = None if found is None else found.namespace_id
        return MoveDestination(wanted, self.parent_id, above, taken_by, too_deep), known


def _ids(known: Mapping[UUID, NamedObject], object_id: UUID) -> list[UUID]:
    """The ids from an object up to its warehouse."""
    ids: list[UUID] = []
    above: UUID | None = object_id
    while above is not None:
        ids.append(above)
        above = known[above].parent_id
    return ids


def _path(known: Mapping[UUID, NamedObject], object_id: UUID) -> list[str]:
    """The names from the warehouse to an object."""
    return [known[each].name for each in reversed(_ids(known, object_id))]
