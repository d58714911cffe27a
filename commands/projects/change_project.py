"""Changes of the project of the request's context: its name, and its deletion."""

from abc import abstractmethod
from dataclasses import dataclass

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...domain.events import Event
from ...domain.project import NO_WAREHOUSE, DeleteProject, ProjectState, RenameProject, decide_delete, decide_rename, no_such_project
from ...projections import projects
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandTargets, Decision, ProjectCommandHandler


async def rename_project(executor: CommandExecutor, context: RequestContext, command: RenameProject) -> CommandResponse:
    """200. Raises NoSuchProject, and AlreadyExists if another project has the name."""
    return await executor.execute(_RenameHandler(context, command, executor))


async def delete_project(executor: CommandExecutor, context: RequestContext, command: DeleteProject) -> CommandResponse:
    """204. Raises NoSuchProject, and ProjectNotEmpty if it contains a warehouse that is not deleted."""
    return await executor.execute(_DeletionHandler(context, command, executor))


@dataclass(slots=True, eq=False)
class _ProjectHandler(ProjectCommandHandler):
    executor: CommandExecutor

    async def resolve(self) -> CommandTargets:
        return CommandTargets(other_resources=[Resource("project", self.context.project_id)])

    async def decide(self) -> Decision:
        async with self.executor.connection() as connection:
            state = await projects.read_state(connection, self.context.project_id)
        if state is None:
            raise no_such_project(self.context.project_id)
        append_request = AppendRequest(self.context)
        event = await self.event(state, append_request)
        if event is None:
            append_request.depend_on(state)
        else:
            append_request.add(state.id, NO_WAREHOUSE, state, [event])
        return Decision(append_request, IdempotencyRecord(self.status), CommandResponse(self.status, None))

    @property
    @abstractmethod
    def status(self) -> int:
        """Of the response."""

    @abstractmethod
    async def event(self, state: ProjectState, append_request: AppendRequest) -> Event | None:
        """The event that the command leads to; None if nothing changes."""


@dataclass(slots=True, eq=False)
class _RenameHandler(_ProjectHandler):
    command: RenameProject

    @property
    def status(self) -> int:
        return 200

    async def event(self, state: ProjectState, append_request: AppendRequest) -> Event | None:
        async with self.executor.connection() as connection:
            other = await projects.read_by_name(connection, self.command.name)
        return decide_rename(state, self.command, taken=other is not None and other.id != state.id)


@dataclass(slots=True, eq=False)
class _DeletionHandler(_ProjectHandler):
    command: DeleteProject

    @property
    def status(self) -> int:
        return 204

    async def event(self, state: ProjectState, append_request: AppendRequest) -> Event | None:
        # A warehouse that is created meanwhile claims its name in the project before, or finds a newer event of the project.
        append_request.must_be_empty.append(state.id)
        async with self.executor.connection() as connection:
            empty = not await projects.contains_warehouse(connection, state.id)
        return decide_delete(state, empty=empty)
