"""Rows of namespaces: one for each version."""

import orjson

from ..events import Event, NamespaceCreated, NamespaceDropped, NamespaceMoved, NamespaceUndropped
from ..namespace import NamespaceState
from .definitions import NamespaceRow
from .rows import Rows


def add_rows(rows: Rows, position: int, before: NamespaceState | None, event: Event, after: NamespaceState) -> None:
    """The rows that the event at `position` adds."""
    rows.namespaces.append(
        NamespaceRow(
            namespace_id=after.id,
            version=after.version,
            position=position,
            event_id=after.event_id,
            warehouse_id=after.warehouse_id,
            parent_id=after.parent_id,
            name=after.name,
            name_key=after.name_key,
            status=after.status,
            location=after.location,
            location_key=after.location_key,
            properties=orjson.dumps(after.properties),
            protected=after.protected,
            expires_at_ms=after.expires_at_ms,
            root_id=after.root_id,
        )
    )
    if isinstance(event, NamespaceMoved | NamespaceDropped):
        rows.close_name(position, after.id)
    if isinstance(event, NamespaceCreated | NamespaceMoved | NamespaceUndropped):
        rows.open_name(position, after.id, after.parent_id, "namespace", after.name, after.name_key)
    rows.open_or_close_soft_deleted(position, "namespace", after.parent_id, before, after)
