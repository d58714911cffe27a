"""Rows of views: one per version, with the whole document."""

import orjson

from domain.events import Event, ViewCreated, ViewDropped, ViewRegistered, ViewRenamed
from domain.read_models.rows import Rows, close_name, open_name
from domain.view import ViewState


def project(rows: Rows, number: int, event: Event, after: ViewState) -> None:
    """The rows that event `number` adds."""
    rows.views.append(
        (
            number,
            after.id,
            after.version,
            after.event_id,
            after.warehouse_id,
            after.namespace_id,
            after.name,
            after.name_key,
            after.status,
            after.metadata_location,
            list(after.location_keys),
            orjson.dumps(after.metadata),
        )
    )
    match event:
        case ViewCreated() | ViewRegistered():
            open_name(rows, number, after.id, after.namespace_id, "view", after.name, after.name_key)
        case ViewRenamed():
            close_name(rows, number, after.id)
            open_name(rows, number, after.id, after.namespace_id, "view", after.name, after.name_key)
        case ViewDropped():
            close_name(rows, number, after.id)
