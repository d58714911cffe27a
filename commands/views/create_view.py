"""CreateView: writes the first metadata file and appends the event."""

from dataclasses import dataclass
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import CreateView
from ...domain.documents import Json
from ...domain.identifiers import TabularIdentifier
from ...domain.names import FreeName, ResolvedName
from ...domain.view import ViewState, decide_create
from ...domain.view_metadata.builder import new_view_metadata
from ...projections import results
from ...projections.views import LoadedView
from ...security.property_rules import refuse_credential_properties
from ...storage.location_policy import check_document_locations
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, Decision, Resolved, parent_of
from ..execution.offload import in_thread_if, is_large_request
from ..execution.submission import IdempotencyRecord, Submission
from ..tables.create_table import refuse_locations_taken_by_others
from ..tabulars.metadata_files import NewName, location_key, location_of, metadata_file, path_keys


async def create_view(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CreateView) -> CommandResponse:
    """200 with a LoadViewResult. The name must not be that of a table or view."""
    return await executor.execute(_Creation(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _Creation(CommandHandler):
    command: CreateView
    executor: CommandExecutor
    found: ResolvedName | None = None

    async def resolve(self) -> Resolved:
        async with self.executor.connection() as connection:
            self.found = await self._new_name.find(connection)
        return Resolved(parents=[parent_of(self.found, self.warehouse)])

    async def decide(self) -> Decision:
        command, warehouse, large = self.command, self.warehouse, is_large_request(self.context)
        await in_thread_if(large, refuse_credential_properties, command.properties, "properties")
        name = self._new_name.check(self.found)
        assert self.found is not None, "the namespace of a free name exists"
        view_id = uuid7()
        metadata = await in_thread_if(large, self._new_metadata, self.found.namespace_location, view_id)
        if command.location is not None or path_keys(warehouse, metadata):
            async with self.executor.connection() as connection:
                await refuse_locations_taken_by_others(connection, warehouse, metadata, self._new_name)
        return await in_thread_if(large, self._decide_creation, name, view_id, metadata)

    @property
    def _new_name(self) -> NewName:
        return NewName(self.warehouse, TabularIdentifier(self.command.namespace, self.command.name), "view")

    def _new_metadata(self, namespace_location: str, view_id: UUID) -> Json:
        metadata = new_view_metadata(
            view_uuid=str(view_id),
            location=location_of(self.warehouse, self.command.location, namespace_location, view_id),
            schema=self.command.schema,
            view_version=self.command.view_version,
            properties=dict(self.command.properties),
            now_ms=now_ms(),
        )
        check_document_locations(self.warehouse.profile, None, metadata)
        return metadata

    def _decide_creation(self, name: FreeName, view_id: UUID, metadata: Json) -> Decision:
        warehouse, written = self.warehouse, orjson.dumps(metadata)
        file = metadata_file(warehouse, metadata, written, 0)
        key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata)
        created = decide_create(name, metadata, file.location.text, key, paths)
        submission = Submission(self.context, parents=[created.namespace_id])
        state = submission.add(view_id, warehouse.id, None, [created])
        assert isinstance(state, ViewState)
        body = view_body(state, written)
        return Decision(submission, IdempotencyRecord(200, state.id, state.version), CommandResponse(200, body), [file])


def view_body(state: ViewState, metadata: bytes) -> bytes:
    """The LoadViewResult of a view to be created."""
    loaded = LoadedView(state.id, state.version, state.metadata_location, metadata)
    return results.load_view_result(loaded)
