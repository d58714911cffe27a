"""Rows of warehouses: one for each version."""

import orjson

from ..events import Event, WarehouseCreated, WarehouseDeleted, WarehouseRenamed
from ..warehouse import FormatVersionPolicy, WarehouseState
from .definitions import WarehouseRow
from .rows import Rows


def add_rows(rows: Rows, position: int, event: Event, after: WarehouseState) -> None:
    """The rows that the event at `position` adds."""
    rows.warehouses.append(
        WarehouseRow(
            warehouse_id=after.id,
            version=after.version,
            position=position,
            event_id=after.event_id,
            project_id=after.project_id,
            name=after.name,
            name_key=after.name_key,
            storage_profile=orjson.dumps(after.storage_profile),
            secret_ref=after.secret_ref,
            exact_names=after.exact_names,
            config=_config(after),
            status=after.status,
            protected=after.protected,
            format_versions=_format_versions(after.format_versions),
            read_only=after.read_only,
            expiration_seconds=after.delete_profile.expiration_seconds,
            purge_default=after.purge_default,
            purge_heartbeat_seconds_max=after.purge_heartbeat_seconds_max,
        )
    )
    if isinstance(event, WarehouseRenamed | WarehouseDeleted):
        rows.close_name(position, after.id)
    if isinstance(event, WarehouseCreated | WarehouseRenamed):
        rows.open_name(position, after.id, after.project_id, "warehouse", after.name, after.name_key)


def _config(state: WarehouseState) -> bytes | None:
    """None without properties, as in rows that were written before the column existed."""
    config = state.config
    return orjson.dumps(config.to_json()) if config.defaults or config.overrides else None


def _format_versions(policy: FormatVersionPolicy) -> bytes | None:
    """None for the policy of a new warehouse."""
    return None if policy == FormatVersionPolicy() else orjson.dumps({"allowed": [*policy.allowed], "default": policy.default})
