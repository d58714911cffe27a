"""Projects: one row for each version, and its queries. The default project has none before its first event."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.identifiers import name_key, uuid_or_none
from ..domain.project import DEFAULT_PROJECT, PROJECT_ID_DEFAULT, PROJECT_NAMES_SCOPE, ProjectState, no_such_project

_SQL = named_sql("icecore.projections", "projects.sql")


async def read_state(connection: Connection, project_id: UUID) -> ProjectState | None:
    """Its newest state, also if it is deleted; None if it never existed."""
    row = await (await connection.execute(_SQL["by_id"], {"project_id": project_id}, binary=True)).fetchone()
    if row is not None:
        return _state(row)
    return DEFAULT_PROJECT if project_id == PROJECT_ID_DEFAULT else None


async def find(connection: Connection, project_id: UUID) -> ProjectState:
    """A project that exists. Raises NoSuchProject."""
    state = await read_state(connection, project_id)
    if state is None or state.status == "deleted":
        raise no_such_project(project_id)
    return state


async def find_named(connection: Connection, reference: str) -> ProjectState:
    """A project that exists, by its id or its name. Raises NoSuchProject."""
    project_id = uuid_or_none(reference)
    if project_id is not None:
        # No name is a UUID.
        return await find(connection, project_id)
    state = await read_by_name(connection, reference)
    if state is None:
        raise no_such_project(reference)
    return state


async def read_by_name(connection: Connection, name: str) -> ProjectState | None:
    key = name_key(name)
    parameters = {"scope": PROJECT_NAMES_SCOPE, "name_key": key}
    row = await (await connection.execute(_SQL["by_name"], parameters, binary=True)).fetchone()
    if row is not None:
        return _state(row)
    # The default project claims its first name only by the look of each command at it.
    if key == DEFAULT_PROJECT.name_key and await read_state(connection, PROJECT_ID_DEFAULT) == DEFAULT_PROJECT:
        return DEFAULT_PROJECT
    return None


async def read_all(connection: Connection) -> list[ProjectState]:
    """The projects that exist, the default one first, then oldest first."""
    rows = await (await connection.execute(_SQL["all"], {"scope": PROJECT_NAMES_SCOPE}, binary=True)).fetchall()
    states = [_state(row) for row in rows]
    default = await read_state(connection, PROJECT_ID_DEFAULT)
    return [DEFAULT_PROJECT, *states] if default == DEFAULT_PROJECT else states


async def read_names(connection: Connection, wanted: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], str]:
    """The names of projects by id and version."""
    parameters = {"ids": [project_id for project_id, _ in wanted], "versions": [version for _, version in wanted]}
    cursor = await connection.execute(_SQL["versions"], parameters, binary=True)
    names = {(project_id, version): name for project_id, version, name in await cursor.fetchall()}
    return {(PROJECT_ID_DEFAULT, 0): DEFAULT_PROJECT.name, **names}


async def contains_warehouse(connection: Connection, project_id: UUID) -> bool:
    """Whether the project contains a warehouse that is not deleted."""
    row = await (await connection.execute(_SQL["contains_warehouse"], {"project_id": project_id})).fetchone()
    assert row is not None, "one row"
    return bool(row[0])


def _state(row: tuple[Any, ...]) -> ProjectState:
    project_id, version, event_id, name, key, status, _ = row
    return ProjectState(project_id, version, event_id, name, key, status)
