"""CreateProject: creates a project, under an id that the client may choose."""

from dataclasses import dataclass

import orjson
from uuid_utils.compat import uuid7

from ...access.authorization import SERVER
from ...access.request_context import RequestContext
from ...domain.project import NO_WAREHOUSE, CreateProject, decide_create
from ...log.changes import read_last_event_id
from ...projections import projects
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandTargets, Decision, ProjectCommandHandler


async def create_project(executor: CommandExecutor, context: RequestContext, command: CreateProject) -> CommandResponse:
    """201 with the project's id. Raises AlreadyExists if the name is taken, or the id is or was in use."""
    return await executor.execute(_CreationHandler(context, command, executor))


@dataclass(slots=True, eq=False)
class _CreationHandler(ProjectCommandHandler):
    command: CreateProject
    executor: CommandExecutor

    async def resolve(self) -> CommandTargets:
        return CommandTargets(other_resources=[SERVER])

    async def decide(self) -> Decision:
        project_id = self.command.id or uuid7()
        async with self.executor.connection() as connection:
            id_taken = await projects.read_state(connection, project_id) is not None
            # Streams of all kinds share their ids.
            id_taken = id_taken or await read_last_event_id(connection, project_id) is not None
            name_taken = await projects.read_by_name(connection, self.command.name) is not None
        created = decide_create(self.command, id_taken=id_taken, name_taken=name_taken)
        append_request = AppendRequest(self.context)
        append_request.add(project_id, NO_WAREHOUSE, None, [created], project_id=project_id)
        body = orjson.dumps({"project-id": str(project_id)})
        return Decision(append_request, IdempotencyRecord(201, body=body), CommandResponse(201, body))
