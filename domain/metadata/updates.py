"""Table updates of a commit request: read from JSON, then applied to a document (REST spec, `TableUpdate`)."""

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from ..errors import BadRequest
from ..format_versions import FORMAT_VERSION_DEFAULT
from .builder import TableMetadataBuilder
from .fields import (
    Json,
    get,
    get_int,
    get_int_set,
    get_long,
    get_long_or_none,
    get_long_set,
    get_string,
    get_string_map,
    get_string_set,
    show,
)
from .partitioning import parse_spec
from .schemas import parse_schema
from .snapshots import make_ref, parse_ref_type, parse_retention, parse_snapshot
from .sorting import parse_sort_order
from .statistics_and_keys import parse_encryption_key, parse_partition_statistics_file, parse_statistics_file

PARTS_ADDED_MAX = 1_000
"""Limit on the schemas, partition specs, sort orders and encryption keys that one commit adds, for each kind."""

_COUNTED = frozenset(("add-schema", "add-spec", "add-sort-order", "add-encryption-key"))

Apply = Callable[[TableMetadataBuilder], None]


@dataclass(frozen=True, slots=True)
class TableUpdate:
    """One parsed update.

    format_version -- of an `upgrade-format-version`, else None.
    """

    action: str
    apply_to: Apply
    format_version: int | None = None


def parse_updates(updates: object) -> tuple[TableUpdate, ...]:
    """Parses all updates of a request. Raises BadRequest or IllegalArgument for the first invalid one.

    The result can be applied to any states of the table, repeatedly.
    """
    if not isinstance(updates, list | tuple):
        raise BadRequest(f"Cannot parse metadata updates from non-array: {show(updates)}")
    refuse_too_many(updates, _COUNTED)
    return tuple(update if isinstance(update, TableUpdate) else _parse_update(update) for update in updates)


def refuse_too_many(updates: Sequence[object], counted: Container[str]) -> None:
    """Raises BadRequest for more than PARTS_ADDED_MAX updates of one of the kinds `counted`."""
    if len(updates) > PARTS_ADDED_MAX:
        actions = Counter(str(update.get("action")).lower() for update in updates if isinstance(update, dict))
        for action, times in actions.items():
            if times > PARTS_ADDED_MAX and action in counted:
                raise BadRequest(f"Invalid field 'updates': has more than {PARTS_ADDED_MAX} of the action {action}")


def apply_updates(
    base: Json | None,
    updates: Sequence[Json] | Sequence[TableUpdate],
    *,
    now_ms: int,
    previous_metadata_location: str | None,
    table_uuid: str | None = None,
    format_version: int = FORMAT_VERSION_DEFAULT,
) -> Json:
    """The document after `updates`, or `base` itself if they change nothing.

    base -- the canonical inner form; None builds a new table, in the format version that the updates request.
    updates -- as sent, or the result of `parse_updates`.
    now_ms -- the time of the commit; `last-updated-ms` becomes the later of it and the base's.
    previous_metadata_location -- the metadata file of `base`, which is added to the metadata log; None: no entry.
    table_uuid -- the UUID of a new table whose updates assign none. format_version -- that of a new table whose updates request none.
    """
    parsed = parse_updates(updates)
    asked = [update.format_version for update in parsed if update.format_version is not None]
    builder = TableMetadataBuilder(base, now_ms=now_ms, format_version=asked[0] if asked else format_version)
    if base is None and table_uuid is not None:
        builder.assign_uuid(table_uuid)
    for update in parsed:
        update.apply_to(builder)
    return builder.build(previous_metadata_location)


def _parse_update(node: object) -> TableUpdate:
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse metadata update from non-object value: {show(node)}")
    if node.get("action") is None:
        raise BadRequest("Cannot parse metadata update. Missing field: action")
    action = get_string(node, "action").lower()
    if action not in _PARSERS:
        raise BadRequest(f"Cannot convert metadata update action to json: {action}")
    apply_to = _PARSERS[action](node)
    return TableUpdate(action, apply_to, node["format-version"] if action == "upgrade-format-version" else None)


def _assign_uuid(node: Json) -> Apply:
    uuid = get_string(node, "uuid")
    return lambda builder: builder.assign_uuid(uuid)


def _upgrade_format_version(node: Json) -> Apply:
    version = get_int(node, "format-version")
    return lambda builder: builder.upgrade_format_version(version)


def _add_schema(node: Json) -> Apply:
    schema = parse_schema(get(node, "schema"))
    return lambda builder: builder.columns.add_schema(schema)


def _set_current_schema(node: Json) -> Apply:
    schema_id = get_int(node, "schema-id")
    return lambda builder: builder.columns.set_current_schema(schema_id)


def _remove_schemas(node: Json) -> Apply:
    schema_ids = get_int_set(node, "schema-ids")
    return lambda builder: builder.columns.remove_schemas(schema_ids)


def _add_spec(node: Json) -> Apply:
    unbound = parse_spec(get(node, "spec"))
    return lambda builder: builder.columns.add_spec(unbound)


def _set_default_spec(node: Json) -> Apply:
    spec_id = get_int(node, "spec-id")
    return lambda builder: builder.columns.set_default_spec(spec_id)


def _remove_specs(node: Json) -> Apply:
    spec_ids = get_int_set(node, "spec-ids")
    return lambda builder: builder.columns.remove_specs(spec_ids)


def _add_sort_order(node: Json) -> Apply:
    order = parse_sort_order(get(node, "sort-order"))
    return lambda builder: builder.columns.add_sort_order(order)


def _set_default_sort_order(node: Json) -> Apply:
    order_id = get_int(node, "sort-order-id")
    return lambda builder: builder.columns.set_default_sort_order(order_id)


def _add_snapshot(node: Json) -> Apply:
    sent = get(node, "snapshot")
    snapshot = parse_snapshot(sent)
    sequence = get_long_or_none(sent, "sequence-number") or 0
    return lambda builder: builder.history.add_snapshot(snapshot, sequence)


def _set_snapshot_ref(node: Json) -> Apply:
    name, snapshot_id = get_string(node, "ref-name"), get_long(node, "snapshot-id")
    kind, retention = parse_ref_type(get_string(node, "type")), parse_retention(node)
    # The ref checks the rules of its retention when the update is applied, not when it is parsed.
    return lambda builder: builder.history.set_ref(name, make_ref(snapshot_id, kind, *retention))


def _remove_snapshot_ref(node: Json) -> Apply:
    name = get_string(node, "ref-name")
    return lambda builder: builder.history.remove_ref(name)


def _remove_snapshots(node: Json) -> Apply:
    if node.get("snapshot-ids") is None:
        raise BadRequest("Invalid set of snapshot ids to remove: must be non-null [null]")
    snapshot_ids = get_long_set(node, "snapshot-ids")
    return lambda builder: builder.history.remove_snapshots(snapshot_ids)


def _set_properties(node: Json) -> Apply:
    # Clients before Iceberg 0.14 write `updated` and `removed`.
    field = "updated" if "updated" in node and "updates" not in node else "updates"
    updates = get_string_map(node, field)
    return lambda builder: builder.set_properties(updates)


def _remove_properties(node: Json) -> Apply:
    field = "removed" if "removed" in node and "removals" not in node else "removals"
    removals = get_string_set(node, field)
    return lambda builder: builder.remove_properties(removals)


def _set_location(node: Json) -> Apply:
    location = get_string(node, "location")
    return lambda builder: builder.set_location(location)


def _set_statistics(node: Json) -> Apply:
    file = parse_statistics_file(get(node, "statistics"))
    return lambda builder: builder.history.set_statistics(file)


def _remove_statistics(node: Json) -> Apply:
    snapshot_id = get_long(node, "snapshot-id")
    return lambda builder: builder.history.remove_statistics(snapshot_id)


def _set_partition_statistics(node: Json) -> Apply:
    file = parse_partition_statistics_file(get(node, "partition-statistics"))
    return lambda builder: builder.history.set_partition_statistics(file)


def _remove_partition_statistics(node: Json) -> Apply:
    snapshot_id = get_long(node, "snapshot-id")
    return lambda builder: builder.history.remove_partition_statistics(snapshot_id)


def _add_encryption_key(node: Json) -> Apply:
    key = node.get("encryption-key")
    if not isinstance(key, dict):
        raise BadRequest(f"Invalid encryption key, must be non-null object: {show(key)}")
    key = parse_encryption_key(key)
    return lambda builder: builder.add_encryption_key(key)


def _remove_encryption_key(node: Json) -> Apply:
    key_id = get_string(node, "key-id")
    return lambda builder: builder.remove_encryption_key(key_id)


def _add_view_version(node: Json) -> Apply:
    get(node, "view-version")
    return _of_views("AddViewVersion")


def _set_current_view_version(node: Json) -> Apply:
    get_int(node, "view-version-id")
    return _of_views("SetCurrentViewVersion")


def _of_views(update: str) -> Apply:
    def refuse(_: TableMetadataBuilder) -> None:
        raise BadRequest(f"Cannot apply update {update} to a table")

    return refuse


_PARSERS: dict[str, Callable[[Json], Apply]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "remove-schemas": _remove_schemas,
    "add-spec": _add_spec,
    "set-default-spec": _set_default_spec,
    "remove-partition-specs": _remove_specs,
    "add-sort-order": _add_sort_order,
    "set-default-sort-order": _set_default_sort_order,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_snapshot_ref,
    "remove-snapshot-ref": _remove_snapshot_ref,
    "remove-snapshots": _remove_snapshots,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "set-location": _set_location,
    "set-statistics": _set_statistics,
    "remove-statistics": _remove_statistics,
    "set-partition-statistics": _set_partition_statistics,
    "remove-partition-statistics": _remove_partition_statistics,
    "add-encryption-key": _add_encryption_key,
    "remove-encryption-key": _remove_encryption_key,
    "add-view-version": _add_view_version,
    "set-current-view-version": _set_current_view_version,
}
