"""Rows of projects: one for each version."""

from ..project import ProjectState
from .definitions import ProjectRow
from .rows import Rows


def add_rows(rows: Rows, position: int, after: ProjectState) -> None:
    """The row that the event at `position` adds."""
    assert after.event_id is not None, "after an event"
    rows.projects.append(
        ProjectRow(
            project_id=after.id,
            version=after.version,
            position=position,
            event_id=after.event_id,
            name=after.name,
            name_key=after.name_key,
            status=after.status,
        )
    )
