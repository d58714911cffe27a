"""The data of events of warehouses."""

from ..domain import events as domain_events
from ..domain.events import Event
from ..domain.recorded import RecordedEvent
from . import event_data as data
from .references import References


def warehouse_data(event: RecordedEvent, decoded: Event, found: References) -> data.EventData:
    """What consumers read of an event, with the name that the warehouse had at its position."""
    name = data.WarehouseName(id=event.stream_id, name=found.paths[event.position].names[0])
    match decoded:
        case domain_events.WarehouseCreated():
            return data.WarehouseEvent(warehouse=name, storage_type=decoded.storage_profile.get("type"), exact_names=decoded.exact_names)
        case domain_events.WarehouseConfigChanged():
            return data.WarehouseConfigChanged(
                warehouse=name,
                defaults_set=decoded.defaults_updates,
                defaults_removed=decoded.defaults_removals,
                overrides_set=decoded.overrides_updates,
                overrides_removed=decoded.overrides_removals,
            )
        case domain_events.WarehouseRenamed():
            return data.WarehouseRenamed(warehouse=name, previous_name=found.paths_before[event.position].names[0])
        case domain_events.WarehouseTaskQueueConfigChanged():
            return data.WarehouseTaskQueueConfigChanged(
                warehouse=name, queue=decoded.queue, max_seconds_since_last_heartbeat=decoded.heartbeat_seconds_max
            )
        case domain_events.WarehouseProtectionChanged():
            return data.WarehouseProtectionChanged(warehouse=name, protected=decoded.protected)
        case domain_events.WarehouseFormatVersionPolicyChanged():
            return data.WarehouseFormatVersionPolicyChanged(
                warehouse=name, allowed_format_versions=decoded.allowed, default_format_version=decoded.default
            )
        case domain_events.WarehouseReadOnlyChanged():
            return data.WarehouseReadOnlyChanged(warehouse=name, read_only=decoded.read_only)
        case domain_events.WarehouseStorageProfileChanged():
            return data.WarehouseStorageChanged(
                warehouse=name, storage_type=decoded.storage_profile.get("type"), has_credential=decoded.secret_ref is not None
            )
        case domain_events.WarehouseStorageCredentialChanged():
            return data.WarehouseStorageChanged(warehouse=name, has_credential=decoded.secret_ref is not None)
        case domain_events.WarehouseDeleteProfileChanged():
            return data.WarehouseDeleteProfileChanged(warehouse=name, type=decoded.type, expiration_seconds=decoded.expiration_seconds)
        case domain_events.WarehouseNamespaceMoved():
            return data.WarehouseNamespaceMoved(warehouse=name, namespace_id=decoded.namespace_id)
        case domain_events.WarehousePurgeDefaultChanged():
            return data.WarehousePurgeDefaultChanged(warehouse=name, purge=decoded.purge)
    return data.WarehouseEvent(warehouse=name)
