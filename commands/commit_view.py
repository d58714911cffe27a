"""CommitView: requirements checked, updates applied, the new document written, and the delta appended."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from commands.clock import now_ms
from commands.context import Answer, CommandContext
from commands.create_view import view_body
from commands.executor import CommandExecutor
from commands.handler import Decision, StreamCommandHandler
from commands.resolver import ResolvedStream, Resolver
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import location_key, metadata_file, next_file_number, path_keys
from domain.documents import VIEW_KINDS, Json, difference, fold, split
from domain.events import ViewCommitted
from domain.identifiers import TabularIdentifier
from domain.view import ViewState
from domain.view_metadata.requirements import check_view_requirements
from domain.view_metadata.updates import apply_view_updates
from queries.warehouse import Warehouse
from security.property_rules import refuse_credential_properties
from storage.location_door import check_document_locations


@dataclass(frozen=True, slots=True)
class CommitView:
    """Requirements and updates as the spec's JSON objects, in the order they came."""

    view: TabularIdentifier
    requirements: Sequence[Json]
    updates: Sequence[Json]


async def commit_view(executor: CommandExecutor, context: CommandContext, warehouse: Warehouse, command: CommitView) -> Answer:
    """200 with a LoadViewResult; CommitFailed where a requirement does not hold."""
    return await executor.execute(_Commit(context, warehouse, executor.resolver, command))


@dataclass(slots=True, eq=False)
class _Commit(StreamCommandHandler[ViewState]):
    resolver: Resolver
    command: CommitView

    async def resolve(self) -> ResolvedStream[ViewState]:
        return await self.resolver.view(self.warehouse, self.command.view)

    def decide(self, state: ViewState, generation: int) -> Decision:
        command, warehouse, before = self.command, self.warehouse, state.metadata
        check_view_requirements(before, command.requirements)
        metadata = apply_view_updates(before, command.updates, now_ms=now_ms())
        submission, document = Submission(self.context), split(before, VIEW_KINDS)
        if metadata is before:
            submission.rest_on(state)
            return _decision(warehouse, submission, state, orjson.dumps(before))
        delta = difference(document, metadata)
        refuse_credential_properties(delta.properties_set, "properties")
        check_document_locations(warehouse.profile, before, metadata)
        written = orjson.dumps(fold(document, delta).value)
        file = metadata_file(warehouse, metadata, written, next_file_number(state.metadata_location))
        key = location_key(warehouse, metadata) if metadata["location"] != before["location"] else None
        paths = path_keys(warehouse, metadata, before)
        event = ViewCommitted(file.location.spelled, key, delta.to_json(), [update["action"] for update in command.updates], paths)
        after = submission.add(state.id, warehouse.id, state, [event], generation)
        assert isinstance(after, ViewState)
        decision = _decision(warehouse, submission, after, written)
        decision.files, decision.after = [file], after
        return decision


def _decision(warehouse: Warehouse, submission: Submission, state: ViewState, written: bytes) -> Decision:
    body = view_body(warehouse, state, written)
    return Decision(submission, IdempotencyRecord(200, state.id, state.version), Answer(200, body))
