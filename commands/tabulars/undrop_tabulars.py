"""UndropTabulars: gives soft-deleted tables and views their names again, all or none."""

import asyncio
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain import table, view
from ...domain.commands import UndropTabulars, UndropTarget
from ...domain.errors import BadRequest, FilesMissing, ServiceUnavailable
from ...domain.events import TableUndropped, ViewUndropped
from ...domain.names import ResolvedName, not_soft_deleted
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import names, soft_deleted, tables, views
from ...storage.large_documents import LARGE_BYTES_MIN, DocumentShare
from ...storage.locations import StorageLocation
from ...storage.object_store import ObjectStore
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.gather import gather_errors
from ..execution.handler import CommandHandler, Decision, Resolved
from ..execution.resolver import ResolvedStream
from ..execution.submission import IdempotencyRecord, Submission

STORE_SECONDS_MAX = 60.0
_FILES_AT_ONCE_MAX = 10
_FILES_NAMED_MAX = 10


async def undrop_tabulars(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: UndropTabulars
) -> CommandResponse:
    """204. A requested purge is taken back. An undrop and an expiry are decided by the log: the first one wins.

    Raises NoSuchTable or NoSuchView for what is not soft-deleted, TabularExpired if the drop is final, AlreadyExists if the name is taken,
    and FilesMissing if the metadata file or the manifest list of the current snapshot is not in the store.
    """
    async with executor.large_documents.share() as share:
        return await executor.execute(_Undrop(context, warehouse, command, executor, share))


@dataclass(slots=True, eq=False)
class _Undrop(CommandHandler):
    # What expires in an inactive warehouse can also be undropped there.
    allows_inactive_warehouse: ClassVar[bool] = True

    command: UndropTabulars
    executor: CommandExecutor
    share: DocumentShare
    streams: list[tuple[UndropTarget, ResolvedStream[TableState | ViewState]]] = field(default_factory=list)

    async def resolve(self) -> Resolved:
        self.streams = [(target, self._stream(target)) for target in self.command.targets]
        return Resolved([stream for _, stream in self.streams])

    def _stream(self, target: UndropTarget) -> ResolvedStream[TableState | ViewState]:
        resolver = self.executor.resolver
        return resolver.table_by_id(target.id) if target.kind == "table" else resolver.view_by_id(target.id)

    async def prepare(self) -> None:
        """Checks the files before the queues are joined: a store that does not respond delays no other command."""
        if self.warehouse.read_only:
            raise self.warehouse.read_only_error()
        objects = [(target.kind, target.id) for target in self.command.targets]
        async with self.executor.connection() as connection:
            statuses = await soft_deleted.statuses(connection, self.warehouse.id, objects)
            # A queue reads its stream as of one kind, and an id can be that of anything in any project.
            for kind, object_id in objects:
                if statuses.get((kind, object_id)) in (None, "live"):
                    raise not_soft_deleted(kind, object_id)
            size = await tables.document_bytes(connection, [object_id for kind, object_id in objects if kind == "table"])
            size += await views.document_bytes(connection, [object_id for kind, object_id in objects if kind == "view"])
        # A single document may be larger, as everywhere.
        if len(objects) > 1 and size > self.share.bytes_max:
            raise BadRequest(f"Invalid targets: the metadata of all of them together is larger than {self.share.bytes_max} bytes")
        if size >= LARGE_BYTES_MIN:
            await self.share.reserve(size)
        if self.command.force:
            return
        files: list[str] = []
        for _, stream in self.streams:
            found = await stream.read(self.share)
            # Others are refused by `decide`.
            if found is not None and found[0].status == "soft-deleted" and found[0].warehouse_id == self.warehouse.id:
                files += _needed_files(found[0])
        if files:
            await _check_files(await self.executor.store(self.warehouse), files)

    async def decide(self) -> Decision:
        submission = Submission(self.context, table_bytes_max=self.share.bytes_max)
        found = [(target, await stream.read(self.share)) for target, stream in self.streams]
        # If a rebuild switched generations between two reads, append refuses the older one and all states are read again.
        generation = min((each[1] for _, each in found if each is not None), default=None)
        taken: dict[tuple[UUID, str], ResolvedName] = {}
        for target, read in found:
            if read is None or read[0].warehouse_id != self.warehouse.id:
                raise not_soft_deleted(target.kind, target.id)
            state, _ = read
            name = (state.namespace_id, state.name_key)
            async with self.executor.connection() as connection:
                held = taken.get(name) or await names.find_taken(connection, *name)
            submission.add(state.id, self.warehouse.id, state, [_decide(state, held)], generation)
            # Two that were dropped one after the other may have had the same name.
            taken[name] = ResolvedName(state.namespace_id, state.id, target.kind, "")
        return Decision(submission, IdempotencyRecord(204), CommandResponse(204, None))


def _decide(state: TableState | ViewState, held: ResolvedName | None) -> TableUndropped | ViewUndropped:
    match state:
        case TableState():
            return table.decide_undrop(state, held)
        case ViewState():
            return view.decide_undrop(state, held)


def _needed_files(state: TableState | ViewState) -> list[str]:
    """The files without which engines cannot begin to read it: the metadata file, and the current snapshot's manifest list."""
    if isinstance(state, ViewState):
        return [state.metadata_location]
    document = state.document.value
    current = document.get("current-snapshot-id")
    lists = [each.get("manifest-list") for each in document["snapshots"] if each["snapshot-id"] == current]
    return [state.metadata_location, *(each for each in lists if each is not None)]


async def _check_files(store: ObjectStore, files: list[str]) -> None:
    """Raises FilesMissing, and ServiceUnavailable if the store does not respond in STORE_SECONDS_MAX."""
    missing: list[str] = []
    try:
        async with asyncio.timeout(STORE_SECONDS_MAX):
            for start in range(0, len(files), _FILES_AT_ONCE_MAX):
                together = files[start : start + _FILES_AT_ONCE_MAX]
                found: list[bool] = [False] * len(together)

                async def check(index: int, file: str, found: list[bool] = found) -> None:
                    found[index] = await _may_exist(store, file)

                for error in await gather_errors([check(*each) for each in enumerate(together)]):
                    if error is not None:
                        raise error
                missing += [file for file, exists in zip(together, found, strict=True) if not exists]
    except TimeoutError:
        raise ServiceUnavailable(f"The object store does not respond: {files[0]}") from None
    if missing:
        more = f" and {len(missing) - _FILES_NAMED_MAX} more" if len(missing) > _FILES_NAMED_MAX else ""
        named = ", ".join(sorted(missing)[:_FILES_NAMED_MAX])
        raise FilesMissing(f"Nothing was undropped, because files are missing in the store: {named}{more}")


async def _may_exist(store: ObjectStore, file: str) -> bool:
    """Also for a file that the warehouse does not reach, as a registered table may have."""
    try:
        return await store.exists(StorageLocation.parse_structure(file, what="file"))
    except BadRequest:
        return True
