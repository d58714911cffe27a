"""UndropTabulars: gives soft-deleted tables and views their names again, all or none."""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain import table, view
from ...domain.commands import UndropTabulars, UndropTarget
from ...domain.errors import BadRequest
from ...domain.events import TableUndropped, ViewUndropped
from ...domain.names import ResolvedName, no_tabular_with_id
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import names, namespaces, soft_deleted, tables, views
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import ResolvedStream
from .needed_files import check_needed_files, check_versions


async def undrop_tabulars(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: UndropTabulars
) -> CommandResponse:
    """204, also for what is live, so that a client can repeat the request. A requested purge is taken back. An undrop and an expiry are
    decided by the log: the first one wins.

    Raises NoSuchTable or NoSuchView for what the warehouse does not have, TabularExpired if the drop is final, NamespaceSoftDeleted if the
    namespace is soft-deleted too, AlreadyExists if the name is taken, and FilesMissing and FilesUnreadable as check_needed_files.
    """
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_UndropHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _UndropHandler(CommandHandler):
    # What expires in an inactive warehouse can also be undropped there.
    allows_inactive_warehouse: ClassVar[bool] = True

    command: UndropTabulars
    executor: CommandExecutor
    reservation: DocumentReservation
    streams: list[tuple[UndropTarget, ResolvedStream[TableState | ViewState]]] = field(default_factory=list)
    checked: dict[UUID, int] = field(default_factory=dict)
    """The versions whose files were checked."""

    async def resolve(self) -> CommandTargets:
        self.streams = [(target, self._stream(target)) for target in self.command.targets]
        return CommandTargets([stream for _, stream in self.streams])

    @property
    def reviewed(self) -> bool:
        """Whether approval hooks see all metadata of the tables; otherwise only heads are read."""
        return self.executor.decision_writer.reviews_decisions_of(self.context)

    def _stream(self, target: UndropTarget) -> ResolvedStream[TableState | ViewState]:
        resolver = self.executor.resolver
        return resolver.table_by_id(target.id, head=not self.reviewed) if target.kind == "table" else resolver.view_by_id(target.id)

    async def prepare(self) -> None:
        """Checks the files before the queues are joined: a store that does not respond delays no other command."""
        objects = [(target.kind, target.id) for target in self.command.targets]
        table_ids = [object_id for kind, object_id in objects if kind == "table"]
        view_ids = [object_id for kind, object_id in objects if kind == "view"]
        async with self.executor.connection() as connection:
            statuses = await soft_deleted.statuses(connection, self.warehouse.id, objects)
            # An id can be that of anything in any project.
            for kind, object_id in objects:
                if (kind, object_id) not in statuses:
                    raise no_tabular_with_id(kind, object_id)
            size = await (tables.document_size if self.reviewed else tables.head_size)(connection, table_ids)
            size += await views.document_size(connection, view_ids)
        # A single document may be larger, as everywhere.
        if len(objects) > 1 and size > self.reservation.bytes_max:
            raise BadRequest(
                f"Invalid targets: what must be read of their metadata is larger than {self.reservation.bytes_max} bytes together"
            )
        if not self.command.force:
            self.checked = await check_needed_files(self.executor, self.warehouse, self.reservation, table_ids, view_ids)
        await self.reservation.reserve_anew(size)

    async def decide(self) -> Decision:
        append_request = AppendRequest(self.context, table_bytes_max=self.reservation.bytes_max)
        found = [(target, await stream.read(self.reservation)) for target, stream in self.streams]
        # If a rebuild switched generations between two reads, append refuses the older one and all states are read again.
        generation = min((each[1] for _, each in found if each is not None), default=None)
        taken: dict[tuple[UUID, str], ResolvedName] = {}
        for target, read in found:
            if read is None or read[0].warehouse_id != self.warehouse.id:
                raise no_tabular_with_id(target.kind, target.id)
            state, _ = read
            if state.status == "live":
                append_request.depend_on(state)
                continue
            if not self.command.force and state.status == "soft-deleted":
                check_versions(self.checked, [state])
            name = (state.namespace_id, state.name_key)
            async with self.executor.connection() as connection:
                held = taken.get(name) or await names.find_holder_of_name(connection, *name)
                root_id = (await namespaces.roots_of_deleted(connection, [state.namespace_id])).get(state.namespace_id)
                deleted = None if root_id is None else await names.described(connection, root_id)
            append_request.add(state.id, self.warehouse.id, state, [_decide(state, held, deleted)], generation)
            append_request.must_exist.append(state.namespace_id)
            # Two that were dropped one after the other may have had the same name.
            taken[name] = ResolvedName(state.namespace_id, state.id, target.kind, "")
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None))


def _decide(state: TableState | ViewState, held: ResolvedName | None, deleted: str | None) -> TableUndropped | ViewUndropped:
    match state:
        case TableState():
            return table.decide_undrop(state, held, deleted)
        case ViewState():
            return view.decide_undrop(state, held, deleted)
