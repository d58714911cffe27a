"""The updates of a view commit, all parsed before the first is applied (Java `MetadataUpdateParser`)."""

from collections.abc import Callable, Sequence

from ..errors import BadRequest
from ..metadata.fields import Json, get, get_int, get_string, get_string_map, get_string_set, show
from ..metadata.schemas import parse_schema
from ..metadata.updates import refuse_too_many
from .builder import ViewMetadataBuilder
from .parse import parse_version

_COUNTED = frozenset(("add-schema", "add-view-version"))

_Apply = Callable[[ViewMetadataBuilder], object]


def apply_view_updates(base: Json | None, updates: Sequence[object], *, now_ms: int) -> Json:
    """Applies `updates` in order to `base` (None: a new view). Returns `base` itself if none of them changes anything.

    As in Java, setting or removing properties counts as a change even if they had that value. `now_ms` is the time of a return to an older
    version. Raises BadRequest, IllegalArgument and ValidationFailed.
    """
    refuse_too_many(updates, _COUNTED)
    builder = ViewMetadataBuilder(base, now_ms)
    for apply in [_parse_update(update) for update in updates]:
        apply(builder)
    return builder.build()


def _parse_update(node: object) -> _Apply:
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse metadata update from non-object value: {show(node)}")
    if node.get("action") is None:
        raise BadRequest("Cannot parse metadata update. Missing field: action")
    action = get_string(node, "action").lower()
    if action in _UPDATES:
        return _UPDATES[action](node)
    if action in _TABLE_UPDATES:
        return lambda _: _refuse_table_update(_TABLE_UPDATES[action])
    raise BadRequest(f"Cannot convert metadata update action to json: {action}")


def _assign_uuid(node: Json) -> _Apply:
    uuid = get_string(node, "uuid")
    return lambda view: view.assign_uuid(uuid)


def _upgrade_format_version(node: Json) -> _Apply:
    version = get_int(node, "format-version")
    return lambda view: view.upgrade_format_version(version)


def _add_schema(node: Json) -> _Apply:
    schema = parse_schema(get(node, "schema"))
    return lambda view: view.add_schema(schema)


def _set_location(node: Json) -> _Apply:
    location = get_string(node, "location")
    return lambda view: view.set_location(location)


def _set_properties(node: Json) -> _Apply:
    updates = get_string_map(node, "updated" if "updated" in node and "updates" not in node else "updates")
    return lambda view: view.set_properties(updates)


def _remove_properties(node: Json) -> _Apply:
    removals = get_string_set(node, "removed" if "removed" in node and "removals" not in node else "removals")
    return lambda view: view.remove_properties(removals)


def _add_view_version(node: Json) -> _Apply:
    version = parse_version(get(node, "view-version"))
    return lambda view: view.add_version(version)


def _set_current_view_version(node: Json) -> _Apply:
    version_id = get_int(node, "view-version-id")
    return lambda view: view.set_current_version(version_id)


_UPDATES: dict[str, Callable[[Json], _Apply]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_view_version,
    "set-current-view-version": _set_current_view_version,
}


def _refuse_table_update(name: str) -> None:
    raise BadRequest(f"Cannot apply update {name} to a view")


_TABLE_UPDATES = {
    "set-current-schema": "SetCurrentSchema",
    "add-spec": "AddPartitionSpec",
    "set-default-spec": "SetDefaultPartitionSpec",
    "add-sort-order": "AddSortOrder",
    "set-default-sort-order": "SetDefaultSortOrder",
    "add-snapshot": "AddSnapshot",
    "remove-snapshots": "RemoveSnapshots",
    "set-snapshot-ref": "SetSnapshotRef",
    "remove-snapshot-ref": "RemoveSnapshotRef",
    "set-statistics": "SetStatistics",
    "remove-statistics": "RemoveStatistics",
    "set-partition-statistics": "SetPartitionStatistics",
    "remove-partition-statistics": "RemovePartitionStatistics",
    "remove-partition-specs": "RemovePartitionSpecs",
    "remove-schemas": "RemoveSchemas",
    "add-encryption-key": "AddEncryptionKey",
    "remove-encryption-key": "RemoveEncryptionKey",
}
"""Actions that exist only for tables, with their names in Java's messages."""
