"""CreateView: writes the first metadata file and appends the event."""

from dataclasses import dataclass
from uuid import UUID

import orjson

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import CreateView
from ...domain.documents import Json
from ...domain.names import FreeName
from ...domain.view import ViewState, decide_create
from ...domain.view_metadata.builder import new_view_metadata
from ...projections import response_bodies
from ...projections.views import LoadedView
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision
from ..execution.offload import in_thread_if, is_large_request
from ..tabulars.create_tabular import TabularCreation
from ..tabulars.metadata_files import metadata_file
from ..tabulars.names_and_locations import NewName, location_key, path_keys


async def create_view(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: CreateView) -> CommandResponse:
    """200 with a LoadViewResult. The name must not be that of a table or view."""
    return await executor.execute(_CreationHandler(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _CreationHandler(TabularCreation):
    command: CreateView

    @property
    def new_name(self) -> NewName:
        return NewName(self.warehouse, self.identifier, "view")

    def new_metadata(self, object_id: UUID, location: str) -> Json:
        return new_view_metadata(
            view_uuid=str(object_id),
            location=location,
            schema=self.command.schema,
            view_version=self.command.view_version,
            properties=dict(self.command.properties),
            now_ms=now_ms(),
        )

    async def decide_creation(self, name: FreeName, object_id: UUID, metadata: Json) -> Decision:
        return await in_thread_if(is_large_request(self.context), self._decide_new, name, object_id, metadata)

    def _decide_new(self, name: FreeName, view_id: UUID, metadata: Json) -> Decision:
        warehouse, written = self.warehouse, orjson.dumps(metadata)
        file = metadata_file(warehouse, metadata, written, 0)
        key, paths = location_key(warehouse, metadata), path_keys(warehouse, metadata)
        created = decide_create(name, metadata, file.location.text, key, paths)
        append_request = AppendRequest(self.context, must_exist=[created.namespace_id])
        state = append_request.add(view_id, warehouse.id, None, [created])
        assert isinstance(state, ViewState)
        body = view_body(state, written)
        return Decision(append_request, IdempotencyRecord(200, state.id, state.version), CommandResponse(200, body), [file])


def view_body(state: ViewState, metadata: bytes) -> bytes:
    """The LoadViewResult of a view to be created."""
    loaded = LoadedView(state.id, state.version, state.metadata_location, metadata)
    return response_bodies.load_view_result(loaded)
