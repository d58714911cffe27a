"""Projects: decides their commands, which cannot wait for approval, and folds their events."""

from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .claims import Claim, NameClaim
from .errors import AlreadyExists, BadRequest, NoSuchProject, ProjectNotEmpty
from .events import Event, ProjectCreated, ProjectDeleted, ProjectRenamed
from .identifiers import name_key, parse_name, uuid_or_none

PROJECT_ID_DEFAULT = UUID(int=0)
"""The default project. It exists from the start, without an event, and can be renamed and deleted like any other."""
DEFAULT_PROJECT_NAME = "Default Project"
"""The name of the default project until it is renamed, as in Lakekeeper."""
PROJECT_NAMES_SCOPE = UUID(int=2**128 - 1)
"""The scope of the names of projects: the Max UUID, because the nil UUID is the scope of the names in the default project."""
NO_WAREHOUSE = UUID(int=0)
"""The warehouse id in the events of projects."""

Status = Literal["active", "deleted"]

_NAME_CHARACTERS_REFUSED = "@/"  # `<project>/<warehouse>@<position or time>`


@dataclass(frozen=True, slots=True)
class CreateProject:
    """id -- requested by the client; None: a new one."""

    name: str
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class RenameProject:
    name: str


@dataclass(frozen=True, slots=True)
class DeleteProject:
    """Deletes an empty project."""


@dataclass(frozen=True, slots=True)
class ProjectState:
    """event_id -- None: the default project before its first event, whose version is 0."""

    id: UUID
    version: int
    event_id: UUID | None
    name: str
    name_key: str
    status: Status = "active"


DEFAULT_PROJECT = ProjectState(PROJECT_ID_DEFAULT, 0, None, DEFAULT_PROJECT_NAME, name_key(DEFAULT_PROJECT_NAME))
"""The default project before its first event. It claims no name: commands look for its name too, and it never returns to this state."""


def decide_create(command: CreateProject, *, id_taken: bool, name_taken: bool) -> ProjectCreated:
    """Raises BadRequest for an invalid name, AlreadyExists if another project has the name, or has or had the id."""
    _check_name(command.name, taken=name_taken)
    if command.id == PROJECT_NAMES_SCOPE:
        raise BadRequest("Invalid project id: must not be the Max UUID")
    if id_taken:
        raise AlreadyExists(f"Project id is already in use, or was: {command.id}")
    return ProjectCreated(command.name, name_key(command.name))


def decide_rename(state: ProjectState, command: RenameProject, *, taken: bool) -> ProjectRenamed | None:
    """None if it has the name already. Raises NoSuchProject if it is deleted, and as decide_create."""
    _check_exists(state)
    _check_name(command.name, taken=taken)
    return None if command.name == state.name else ProjectRenamed(command.name, name_key(command.name))


def decide_delete(state: ProjectState, *, empty: bool) -> ProjectDeleted:
    """Raises NoSuchProject if it is deleted already, and ProjectNotEmpty."""
    _check_exists(state)
    if not empty:
        raise ProjectNotEmpty(f"Project is not empty: {state.name}; it contains a warehouse")
    return ProjectDeleted()


def no_such_project(project: UUID | str) -> NoSuchProject:
    return NoSuchProject(f"Project does not exist: {str(project)[:64]}")


def _check_exists(state: ProjectState) -> None:
    if state.status == "deleted":
        raise no_such_project(state.id)


def _check_name(name: str, *, taken: bool) -> None:
    parse_name(name, "project name")
    for character in _NAME_CHARACTERS_REFUSED:
        if character in name:
            raise BadRequest(f"Invalid project name: must not contain '{character}'")
    if uuid_or_none(name) is not None:
        raise BadRequest("Invalid project name: must not be a UUID, because a project is also named by its id")
    if taken:
        raise AlreadyExists(f"Project already exists: {name}")


def evolve(state: ProjectState | None, stream_id: UUID, version: int, event_id: UUID, event: Event) -> ProjectState:
    match event:
        case ProjectCreated():
            return ProjectState(stream_id, version, event_id, event.name, event.name_key)
    if state is None and stream_id == PROJECT_ID_DEFAULT:
        state = DEFAULT_PROJECT
    if state is None:
        raise AssertionError(f"{type(event).__name__} is not the first event of a project")
    state = replace(state, version=version, event_id=event_id)
    match event:
        case ProjectRenamed():
            return replace(state, name=event.name, name_key=event.name_key)
        case ProjectDeleted():
            return replace(state, status="deleted")
    raise AssertionError(f"{type(event).__name__} is not an event of a project")


def claims(state: ProjectState) -> frozenset[Claim]:
    """Its name, until it is deleted; none for the default project before its first event."""
    if state.status == "deleted" or state.version == 0:
        return frozenset()
    return frozenset({NameClaim("project", PROJECT_NAMES_SCOPE, state.name_key, state.id)})
