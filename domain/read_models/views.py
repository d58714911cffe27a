"""Rows of views: one for each version, with the whole document."""

import orjson

from ..events import Event, ViewCreated, ViewDropped, ViewRegistered, ViewRenamed, ViewUndropped
from ..view import ViewState
from .definitions import ViewRow
from .rows import Rows


def add_rows(rows: Rows, position: int, before: ViewState | None, event: Event, after: ViewState) -> None:
    """The rows that the event at `position` adds."""
    rows.views.append(
        ViewRow(
            view_id=after.id,
            version=after.version,
            position=position,
            event_id=after.event_id,
            warehouse_id=after.warehouse_id,
            namespace_id=after.namespace_id,
            name=after.name,
            name_key=after.name_key,
            status=after.status,
            metadata_location=after.metadata_location,
            locations=list(after.location_keys),
            document=orjson.dumps(after.metadata),
            protected=after.protected,
            expires_at_ms=after.expires_at_ms,
        )
    )
    match event:
        case ViewCreated() | ViewRegistered() | ViewUndropped():
            rows.open_name(position, after.id, after.namespace_id, "view", after.name, after.name_key)
        case ViewRenamed():
            rows.close_name(position, after.id)
            rows.open_name(position, after.id, after.namespace_id, "view", after.name, after.name_key)
        case ViewDropped():
            rows.close_name(position, after.id)
    rows.open_or_close_soft_deleted(position, "view", after.namespace_id, before, after)
    rows.open_or_close_task(position, "view", before, event, after)
