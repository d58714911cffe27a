"""Runs commands: replays the responses of Idempotency-Keys, decides again after conflicts, and returns the response."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from ...access.authorization import Authorizer, Resource
from ...access.backends import Backends
from ...access.request_context import RequestContext
from ...access.resolve_warehouse import find_warehouse
from ...access.warehouse import Warehouse
from ...approval.hooks import PendingApproval
from ...database.connections import Connection
from ...domain.errors import (
    CatalogError,
    CommitFailed,
    InternalError,
    NoSuchWarehouse,
    UnsupportedOperation,
    WarehouseInactive,
    WarehouseReadOnly,
)
from ...domain.identifiers import name_key
from ...log.changes import read_last_event_id
from ...log.head import log_head_and_standbys
from ...projections import soft_deleted
from ...security.secrets import SecretStore, SecretUnreadable
from ...storage.object_store import ObjectStore
from ...storage.store_checks import StoreCheckLimit
from ...storage.store_errors import StoreUnavailable
from ..proposals.proposals import Proposals
from ..tables.metrics_reports import MetricsReports
from ..tabulars.names_and_locations import location_taken_error
from ..tabulars.undrop_check_limit import UndropCheckLimit
from . import clock, idempotency
from .append_request import APPEND_ERROR_MESSAGE, AppendRequest, AppendResult
from .command_response import CommandResponse
from .committer import Committer
from .decision_writer import DecisionWriter
from .handler import CommandHandler, CommandResult, ProjectCommandHandler, StreamCommandHandler, TableToCache
from .idempotency import StoredResponse
from .preloaded_parts import PreloadedPartsLost
from .refusals import refusal_record, stored_refusal
from .resolver import OutdatedRead, Resolver
from .response_replayer import ResponseReplayer
from .stream_queues import StreamQueues

AnyHandler = CommandHandler | StreamCommandHandler[Any] | ProjectCommandHandler


class CommandExecutor:
    """Executes the commands of one process.

    retry_seconds_max -- how long a command may be decided again after conflicts.
    skip_storage_validation -- stores of new and changed warehouses are not checked.
    reserved_namespaces -- names that no new top-level namespace may have, regardless of case.
    storage_change_lock -- one warehouse is created, or its storage profile changed, at a time.
    store_check_limit -- for checks of stores. undrop_check_limit -- for undrops that read manifests.
    """

    def __init__(
        self,
        backends: Backends,
        authorizer: Authorizer,
        committer: Committer,
        secrets: SecretStore,
        metrics_reports: MetricsReports,
        *,
        retry_seconds_max: float,
        skip_storage_validation: bool = False,
        reserved_namespaces: Sequence[str] = (),
    ) -> None:
        self.backends = backends
        self._authorizer = authorizer
        self.secrets = secrets
        self.metrics_reports = metrics_reports
        self.committer = committer
        self.resolver = Resolver(backends)
        self.proposals = Proposals(backends.connection, committer)
        self.decision_writer = DecisionWriter(backends, committer, self.proposals, secrets)
        self.queues = StreamQueues(self.decision_writer, backends.large_documents)
        self.large_documents = backends.large_documents
        self._response_replayer = ResponseReplayer(backends)
        committer.on_unavailable = self.queues.refuse_waiting
        self.reserved_namespaces = frozenset(map(name_key, reserved_namespaces))
        self.skip_storage_validation = skip_storage_validation
        self.storage_change_lock = asyncio.Lock()
        self.store_check_limit = StoreCheckLimit()
        self.undrop_check_limit = UndropCheckLimit()
        self._retry_seconds_max = retry_seconds_max
        self.now_ms: Callable[[], int] = clock.now_ms
        """The clock of drops and expiries."""
        self.database_now_ms: Callable[[Connection], Awaitable[int]] = soft_deleted.database_now_ms
        """Postgres's clock, of drops. Expiries always compare with Postgres's own."""
        self.on_warehouse_changed: Callable[[], None] = lambda: None
        """Called if a command was decided on an outdated warehouse."""

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        return self.backends.connection()

    async def store(self, warehouse: Warehouse) -> ObjectStore:
        return await self.backends.store(warehouse)

    async def authorize(self, context: RequestContext, resources: Sequence[Resource]) -> None:
        """Raises Forbidden unless the principal may do this to all resources."""
        await self._authorizer.authorize(context, resources)

    async def execute(self, handler: AnyHandler) -> CommandResponse:
        """Returns the response once what the command changes is in the log. Raises its refusal, which is stored under its
        Idempotency-Key if it is deterministic.
        """
        try:
            return await self._execute(handler)
        except CatalogError as refusal:
            # The traceback's frames refer to the refusal and to documents: a cycle that would last until a garbage collection.
            refusal.__traceback__ = None
            raise

    async def _execute(self, handler: AnyHandler) -> CommandResponse:
        context = handler.context
        if handler.warehouse is not None and handler.warehouse.as_of is not None:
            raise UnsupportedOperation(
                f"Warehouse {handler.warehouse.name} is read as of position {handler.warehouse.as_of}: a past state cannot be changed"
            )
        if context.idempotency_key is not None and (stored := await self._stored_response(context)) is not None:
            return await self._replay(context, stored)
        deadline = time.monotonic() + self._retry_seconds_max
        # The work before the first decision, such as an undrop's check of files, may take all of the time.
        for attempt in itertools.count(1):
            response = await self._attempt(handler, deadline)
            if response is not None:
                return response
            if time.monotonic() > deadline and attempt > 1:
                break
            if isinstance(handler, ProjectCommandHandler):
                continue
            try:
                handler.warehouse = await self.current_warehouse(handler.warehouse)
            except NoSuchWarehouse as refusal:
                return await self._raise_refusal(context, handler.warehouse, refusal)
        raise CommitFailed("Other requests kept changing the same object; try again")

    async def _stored_response(self, context: RequestContext) -> StoredResponse | None:
        """The first response to the request with this Idempotency-Key; None if there was none. It is not authorized again: the same
        principal received it before.
        """
        async with self.connection() as connection:
            stored = await idempotency.find(connection, context)
        # Without holding a connection: reading the response may wait for requests that need one.
        if stored is not None and stored.commits_wait_for_standbys:
            # Append finds the key, and returns once the standbys have it.
            await self.committer.submit(AppendRequest(context, idempotency_record=stored.idempotency_record))
        return stored

    async def _attempt(self, handler: AnyHandler, deadline: float) -> CommandResponse | None:
        """The response, or None if the command must be decided again. Raises its refusal."""
        context = handler.context
        try:
            command_result = await self._decide_and_append(handler, deadline)
            if command_result.append_result is None and await self._is_outdated(handler.warehouse):
                # Append did not compare the warehouse, and a namespace on the path may have been moved.
                return None
        except (OutdatedRead, PreloadedPartsLost):
            return None
        except PendingApproval as pending:
            try:
                return await self._raise_pending(handler, pending)
            except OutdatedRead:
                return None
        except CatalogError as refusal:
            if await self._refused_on_outdated_warehouse(handler.warehouse, refusal):
                return None
            return await self._raise_refusal(context, handler.warehouse, refusal)
        return await self._response(context, handler.warehouse, command_result)

    async def current_warehouse(self, warehouse: Warehouse) -> Warehouse:
        """The warehouse that the request refers to now. Raises NoSuchWarehouse, and BadRequest if it names none of several."""
        if warehouse.event_id is None:
            return warehouse
        async with self.connection() as connection:
            current = await find_warehouse(connection, warehouse.project_id, warehouse.reference)
        if current.event_id != warehouse.event_id:
            self.on_warehouse_changed()
        return current

    async def _refused_on_outdated_warehouse(self, warehouse: Warehouse | None, refusal: CatalogError) -> bool:
        """Whether the warehouse has changed since it was cached, so that the command may be permitted now."""
        # The store may refuse a credential that has been replaced, and the maintenance may have ended.
        of_warehouse = isinstance(refusal, StoreUnavailable | SecretUnreadable | WarehouseInactive | WarehouseReadOnly)
        # Deterministic ones include a failed requirement: the name may be that of another table by now, because a namespace was moved.
        if not (refusal.deterministic or of_warehouse):
            return False
        return await self._is_outdated(warehouse)

    async def _is_outdated(self, warehouse: Warehouse | None) -> bool:
        """Whether the warehouse has an event after the one that it was read with."""
        if warehouse is None or warehouse.event_id is None:
            return False
        async with self.connection() as connection:
            return await read_last_event_id(connection, warehouse.id) != warehouse.event_id

    async def _decide_and_append(self, handler: AnyHandler, deadline: float) -> CommandResult:
        """Decides once and appends the decision. Raises what the handler and the queues raise."""
        warehouse = handler.warehouse
        if warehouse is not None and not warehouse.active and not handler.allows_inactive_warehouse:
            raise warehouse.inactive_error()
        if warehouse is not None and warehouse.read_only and not handler.allows_read_only_warehouse:
            raise warehouse.read_only_error()
        if isinstance(handler, StreamCommandHandler):
            stream = await handler.resolve()
            await self.authorize(handler.context, [stream.resource])
            return await self.queues.run(stream, handler, deadline)
        resolved = await handler.resolve()
        await self.authorize(handler.context, resolved.resources)
        streams = [*resolved.streams, *resolved.implied_streams]
        if isinstance(handler, CommandHandler):
            await handler.prepare()
            streams += handler.descendant_streams()
        async with self.queues.locked([stream.id for stream in streams]):
            decision = await handler.decide()
            began = time.monotonic()
            command_result = await self.decision_writer.append(warehouse, decision)
        append_result = command_result.append_result
        if decision.table_to_cache is not None and append_result is not None and append_result.outcome == "appended":
            assert warehouse is not None, "of a table"
            self._cache_table(warehouse, decision.table_to_cache, began)
        return command_result

    def _cache_table(self, warehouse: Warehouse, table: TableToCache, began: float) -> None:
        """`began` -- when the append began, in monotonic seconds."""
        self.resolver.remember(warehouse, table.identifier, table.claim)
        self.queues.seed(table.state, table.document_size, began)

    async def _response(
        self, context: RequestContext, warehouse: Warehouse | None, command_result: CommandResult
    ) -> CommandResponse | None:
        """The response, or None if another command came first."""
        decision, append_result = command_result.decision, command_result.append_result
        if append_result is None:
            return decision.response.at(await self._log_position(context))
        match append_result.outcome:
            case "appended" | "recorded" if context.approves is not None:
                return CommandResponse(decision.idempotency_record.status, decision.idempotency_record.body, append_result.position)
            case "appended" | "recorded":
                return decision.response.at(append_result.position)
            case "replayed" | "key_reused":
                await self.decision_writer.discard(warehouse, decision)
                return await self._replay_found_by_append(context, append_result)
        await self.decision_writer.discard(warehouse, decision)
        match append_result.outcome:
            case "location":
                return await self._raise_refusal(context, warehouse, location_taken_error(append_result.detail or ""))
            case "error":
                raise InternalError(APPEND_ERROR_MESSAGE)
        return None

    async def _raise_refusal(self, context: RequestContext, warehouse: Warehouse | None, refusal: CatalogError) -> CommandResponse:
        """Raises the refusal, after storing it under the Idempotency-Key if there is one. Returns the first response if it was used."""
        if context.approves is not None and warehouse is not None and refusal.deterministic:
            refusal = await self.proposals.closed_or_refusal(context, warehouse, refusal)
        if context.idempotency_key is None or not refusal.deterministic:
            raise refusal
        append_result = await self.committer.submit(AppendRequest(context, idempotency_record=refusal_record(refusal)))
        if append_result.outcome in ("replayed", "key_reused"):
            return await self._replay_found_by_append(context, append_result)
        raise refusal

    async def _raise_pending(self, handler: AnyHandler, pending: PendingApproval) -> CommandResponse:
        """Raises the refusal that names the proposal, after the proposal is in the log and the refusal is stored under the key.

        Returns the first response if the key was used.
        """
        context, warehouse = handler.context, handler.warehouse
        assert warehouse is not None, "only changes in a warehouse are reviewed"
        refusal, append_result = await self.proposals.hold(context, warehouse, handler.command, pending)
        if append_result is None:
            return await self._raise_refusal(context, warehouse, refusal)
        if append_result.outcome in ("replayed", "key_reused"):
            return await self._replay_found_by_append(context, append_result)
        raise refusal

    async def _replay_found_by_append(self, context: RequestContext, append_result: AppendResult) -> CommandResponse:
        if append_result.outcome == "key_reused":
            raise idempotency.key_reused_error()
        assert append_result.idempotency_record is not None
        assert append_result.operation is not None
        return await self._replay(
            context,
            StoredResponse(
                append_result.idempotency_record, append_result.position, append_result.operation, commits_wait_for_standbys=False
            ),
        )

    async def _replay(self, context: RequestContext, stored: StoredResponse) -> CommandResponse:
        record = stored.idempotency_record
        if record.status >= 400:
            raise stored_refusal(record)
        return await self._response_replayer.response(context, stored)

    async def _log_position(self, context: RequestContext) -> int:
        """The position in the response to a command that changes nothing. Everything up to it is on the synchronous standbys."""
        async with self.connection() as connection:
            position, commits_wait_for_standbys = await log_head_and_standbys(connection)
        if not commits_wait_for_standbys:
            return position
        return (await self.committer.submit(AppendRequest(context))).position
