"""Appends decisions to the log: approval hooks review them, their metadata files are written, then one append commits them."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import structlog

from ...access.backends import Backends
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...approval.hooks import ApprovalHooks
from ...domain.errors import CatalogError
from ...security.secrets import SecretStore
from ...storage.metadata_files import write_metadata
from ..proposals.proposals import Proposals
from . import fault_points
from .append_request import NOT_APPENDED_ERRORS, AppendRequest, AppendResult
from .committer import Committer
from .gather import gather_errors
from .handler import CommandResult, Decision
from .preloaded_parts import remove_preloaded_parts

_log = structlog.get_logger("icecore.commands")


class DecisionWriter:
    """Appends the decisions of one process."""

    def __init__(self, backends: Backends, committer: Committer, proposals: Proposals, secrets: SecretStore) -> None:
        self._backends = backends
        self._secrets = secrets
        self._committer = committer
        self._proposals = proposals
        self.approval_hooks: ApprovalHooks | None = None
        """None if there are none."""

    def reviews_decisions_of(self, context: RequestContext) -> bool:
        """Whether there are hooks, or a proposal that this request approves."""
        return self.approval_hooks is not None or context.approves is not None

    async def review(self, warehouse: Warehouse, decision: Decision) -> None:
        """Asks the hooks, and adds the approval to the change of an approved proposal. Raises a CatalogError if it is refused."""
        append_request = decision.append_request
        if append_request.changes:
            for stream_id, event_id in (await self.ask_hooks(warehouse, append_request)).items():
                append_request.depend_on_event(stream_id, event_id)
        if append_request.context.approves is not None:
            decision.idempotency_record = await self._proposals.add_approval(warehouse, append_request)

    async def ask_hooks(self, warehouse: Warehouse, append_request: AppendRequest) -> Mapping[UUID, UUID]:
        """As ApprovalHooks.review; returns an empty mapping if there are no hooks."""
        if self.approval_hooks is None:
            return {}
        return await self.approval_hooks.review(append_request.context, warehouse, append_request.changes)

    async def write_files(self, warehouse: Warehouse | None, decision: Decision) -> None:
        if decision.files:
            assert warehouse is not None, "of a table or view"
            store = await self._backends.store(warehouse)
            for failure in await gather_errors([write_metadata(store, file.location, file.content) for file in decision.files]):
                if failure is not None:
                    raise failure
            if fault_points.SWITCHED_ON:
                await fault_points.reach("commit.after_metadata_put")

    async def append_batch(self, decisions: Sequence[tuple[Warehouse | None, Decision]]) -> list[AppendResult]:
        """Appends decisions, whose files are written, in one call."""
        for warehouse, decision in decisions:
            decision.append_request.idempotency_record = decision.idempotency_record
            decision.append_request.decided_on_warehouse = warehouse
        return await self._committer.submit_batch([decision.append_request for _, decision in decisions])

    async def append(self, warehouse: Warehouse | None, decision: Decision) -> CommandResult:
        """Reviews a decision (only if it is on a warehouse), writes its files and appends it."""
        if not decision.append_request.must_be_appended:
            return CommandResult(decision, None)
        if warehouse is not None and decision.needs_review and self.reviews_decisions_of(decision.append_request.context):
            try:
                await self.review(warehouse, decision)
            except CatalogError:
                # No file was written yet.
                await self._discard_secret_and_parts(decision)
                raise
        try:
            await self.write_files(warehouse, decision)
        except Exception:
            await self.discard(warehouse, decision)
            raise
        try:
            (result,) = await self.append_batch([(warehouse, decision)])
        except NOT_APPENDED_ERRORS:
            # After any other error, which also stands for a doubt, the files stay.
            await self.discard(warehouse, decision)
            raise
        return CommandResult(decision, result)

    async def discard(self, warehouse: Warehouse | None, decision: Decision) -> None:
        """Deletes files, a credential and preloaded parts that no event refers to. What cannot be deleted remains, unused."""
        files = [file.location for file in decision.files]
        if files:
            assert warehouse is not None, "of a table or view"
            try:
                await (await self._backends.store(warehouse)).delete(files)
            except CatalogError as error:
                _log.warning("metadata_file_not_deleted", files=[str(file) for file in files], error=error.message)
        await self._discard_secret_and_parts(decision)

    async def discard_all(self, decisions: Sequence[tuple[Warehouse | None, Decision]]) -> None:
        """As `discard`, for several at once. Raises nothing."""
        for error in await gather_errors([self.discard(warehouse, decision) for warehouse, decision in decisions]):
            if error is not None:
                _log.error("discard_failed", exc_info=error)

    async def _discard_secret_and_parts(self, decision: Decision) -> None:
        project_id = decision.append_request.context.project_id
        if decision.secret_ref is not None:
            try:
                async with self._backends.connection() as connection:
                    await self._secrets.destroy(connection, project_id, decision.secret_ref)
            except CatalogError as error:
                _log.warning("credential_not_deleted", secret_ref=str(decision.secret_ref), error=error.message)
        for table_id, _ in decision.append_request.preloaded:
            try:
                await remove_preloaded_parts(self._backends.connection, table_id)
            except CatalogError as error:
                _log.warning("preloaded_parts_not_deleted", table_id=str(table_id), error=error.message)
