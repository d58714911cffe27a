"""Rows of warehouses: one per version."""

import orjson

from domain.events import Event, WarehouseCreated
from domain.read_models.rows import Rows, open_name
from domain.warehouse import WarehouseState


def project(rows: Rows, number: int, event: Event, after: WarehouseState) -> None:
    """The rows that event `number` adds."""
    rows.warehouses.append(
        (
            number,
            after.id,
            after.version,
            after.event_id,
            after.project_id,
            after.name,
            after.name_key,
            orjson.dumps(after.storage_profile),
            after.secret_ref,
            after.exact_names,
        )
    )
    if isinstance(event, WarehouseCreated):
        open_name(rows, number, after.id, after.project_id, "warehouse", after.name, after.name_key)
