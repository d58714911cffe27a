"""CommitView: checks requirements, applies updates, writes the metadata file and appends the delta."""

from dataclasses import dataclass

import orjson

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import CommitView
from ...domain.documents import VIEW_KINDS, apply_delta, split
from ...domain.view import ViewState, decide_commit
from ...security.property_rules import refuse_credential_properties
from ...storage.location_policy import check_document_locations
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream, Resolver
from ..tabulars.metadata_files import metadata_file, next_file_number
from ..tabulars.names_and_locations import location_key, path_keys
from .create_view import view_body


async def commit_view(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CommitView) -> CommandResponse:
    """200 with a LoadViewResult. Raises CommitFailed if a requirement fails."""
    return await executor.execute(_CommitHandler(context, warehouse, command, executor.resolver))


@dataclass(slots=True, eq=False)
class _CommitHandler(StreamCommandHandler[ViewState]):
    command: CommitView
    resolver: Resolver

    async def resolve(self) -> ResolvedStream[ViewState]:
        return await self.resolver.view(self.warehouse, self.command.view)

    def decide(self, state: ViewState, generation: int) -> Decision:
        command, warehouse, before = self.command, self.warehouse, state.metadata
        change = decide_commit(state, command.requirements, command.updates, now_ms())
        append_request = AppendRequest(self.context)
        if change is None:
            append_request.depend_on(state)
            return _decision(warehouse, append_request, state, orjson.dumps(before))
        metadata = change.metadata
        refuse_credential_properties(change.delta.properties_set, "properties")
        check_document_locations(warehouse.profile, before, metadata)
        written = orjson.dumps(apply_delta(split(before, VIEW_KINDS), change.delta).value)
        file = metadata_file(warehouse, metadata, written, next_file_number(state.metadata_location))
        key, paths = location_key(warehouse, metadata) if change.location_changed else None, path_keys(warehouse, metadata, before)
        after = append_request.add(state.id, warehouse.id, state, [change.event(file.location.text, key, paths)], generation)
        assert isinstance(after, ViewState)
        decision = _decision(warehouse, append_request, after, written)
        decision.files, decision.after = [file], after
        return decision


def _decision(warehouse: Warehouse, append_request: AppendRequest, state: ViewState, written: bytes) -> Decision:
    body = view_body(state, written)
    return Decision(append_request, IdempotencyRecord(200, state.id, state.version), CommandResponse(200, body))
