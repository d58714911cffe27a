"""Rows of namespaces: one per version."""

import orjson

from domain.events import Event, NamespaceCreated, NamespaceDropped
from domain.namespace import NamespaceState
from domain.read_models.rows import Rows, close_name, open_name


def project(rows: Rows, number: int, event: Event, after: NamespaceState) -> None:
    """The rows that event `number` adds."""
    rows.namespaces.append(
        (
            number,
            after.id,
            after.version,
            after.event_id,
            after.warehouse_id,
            after.parent_id,
            after.name,
            after.name_key,
            after.status,
            orjson.dumps(after.properties),
        )
    )
    match event:
        case NamespaceCreated():
            open_name(rows, number, after.id, after.parent_id, "namespace", after.name, after.name_key)
        case NamespaceDropped():
            close_name(rows, number, after.id)
