"""Parses metadata files of format versions 1, 2 and 3 to the canonical inner form (Java `TableMetadataParser` and its checks)."""

from collections.abc import Iterable
from typing import Any

from ..errors import BadRequest, IllegalArgument
from ..format_versions import FORMAT_VERSION_MAX
from ..json_rules import holds_large_number
from .builder import strip_trailing_slash
from .draft import empty_metadata
from .fields import (
    Json,
    check_uuid,
    get,
    get_int,
    get_int_or_none,
    get_long,
    get_long_or_none,
    get_objects,
    get_string,
    get_string_map,
    get_string_or_none,
    show,
)
from .history import ROW_LINEAGE_MIN_FORMAT_VERSION
from .logs import check_metadata_log, check_snapshot_log
from .partitioning import (
    INITIAL_SPEC_ID,
    UNPARTITIONED_LAST_ASSIGNED_ID,
    bind_spec,
    bind_spec_unchecked,
    last_assigned_field_id,
    parse_spec,
    parse_spec_fields,
)
from .schemas import SchemaIndex, parse_schema
from .snapshots import MAIN_BRANCH, NO_SNAPSHOT_ID, check_sequence_numbers, describe_ref, make_ref, parse_ref, parse_snapshot
from .sorting import UNSORTED, UNSORTED_ORDER_ID, bind_sort_order, parse_sort_order
from .statistics_and_keys import parse_encryption_key, parse_partition_statistics_file, parse_statistics_file

_LEGACY_KEYS = frozenset(("schema", "partition-spec"))
"""Members for readers of version 1, written besides the lists. The writer adds them again."""


def parse_table_metadata(document: object) -> Json:
    """The canonical inner form of a metadata file. Raises BadRequest, IllegalArgument or ValidationFailed with Java's messages.

    Unknown top-level members are kept; within parts they are dropped, as in Java. A file without its current schema, default spec or
    default order is refused, because no commit on it could succeed.
    """
    if not isinstance(document, dict):
        raise BadRequest(f"Cannot parse metadata from a non-object: {show(document)}")
    version = get_int(document, "format-version")
    if not 1 <= version <= FORMAT_VERSION_MAX:
        raise IllegalArgument(f"Cannot read unsupported version {version}")
    parsed = empty_metadata(version)
    parsed["table-uuid"] = get_string_or_none(document, "table-uuid")
    if parsed["table-uuid"] is not None:
        check_uuid(parsed["table-uuid"])
    parsed["location"] = get_string(document, "location")
    parsed["last-sequence-number"] = get_long(document, "last-sequence-number") if version > 1 else 0
    parsed["last-column-id"] = get_int(document, "last-column-id")
    index = _read_schemas(document, version, parsed)
    _read_specs(document, version, parsed, index)
    _read_sort_orders(document, version, parsed, index)
    if "properties" in document:
        parsed["properties"] = get_string_map(document, "properties")
    current = get_long_or_none(document, "current-snapshot-id")
    parsed["current-snapshot-id"] = None if current == NO_SNAPSHOT_ID else current
    parsed["next-row-id"] = get_long(document, "next-row-id") if version >= 3 else 0
    parsed["last-updated-ms"] = get_long(document, "last-updated-ms")
    _read_parts(document, parsed)
    for key in document.keys() - parsed.keys() - _LEGACY_KEYS:
        if holds_large_number(document[key]):
            raise BadRequest(f"Invalid field '{key}': contains a number outside 64 bits")
    parsed.update((key, value) for key, value in document.items() if key not in parsed and key not in _LEGACY_KEYS)
    _check(parsed)
    return parsed


def _read_schemas(document: Json, version: int, parsed: Json) -> SchemaIndex:
    if "schemas" in document:
        schemas = document["schemas"]
        if not isinstance(schemas, list):
            raise BadRequest(f"Cannot parse schemas from non-array: {show(schemas)}")
        current_id = get_int(document, "current-schema-id")
        parsed["schemas"] = [parse_schema(schema) for schema in schemas]
    else:
        _refuse_missing(version, "schemas")
        parsed["schemas"] = [parse_schema(get(document, "schema"))]
        current_id = parsed["schemas"][0]["schema-id"]
    parsed["current-schema-id"] = current_id
    current = [schema for schema in parsed["schemas"] if schema["schema-id"] == current_id]
    if not current:
        raise IllegalArgument(f"Cannot find schema with current-schema-id={current_id} from schemas")
    return SchemaIndex(current[-1])


def _read_specs(document: Json, version: int, parsed: Json, index: SchemaIndex) -> None:
    if "partition-specs" in document:
        specs = document["partition-specs"]
        if not isinstance(specs, list):
            raise BadRequest(f"Cannot parse partition specs from non-array: {show(specs)}")
        default_id = get_int(document, "default-spec-id")
        parsed["partition-specs"] = [_read_spec(spec, default_id, index) for spec in specs]
    else:
        _refuse_missing(version, "partition-specs")
        default_id = INITIAL_SPEC_ID
        spec = {"spec-id": default_id, "fields": parse_spec_fields(get(document, "partition-spec"))}
        parsed["partition-specs"] = [bind_spec(spec, index)]
    parsed["default-spec-id"] = default_id
    last_id = get_int_or_none(document, "last-partition-id")
    if last_id is None:
        _refuse_missing(version, "last-partition-id")
        last_id = max(map(last_assigned_field_id, parsed["partition-specs"]), default=UNPARTITIONED_LAST_ASSIGNED_ID)
    parsed["last-partition-id"] = last_id


def _read_spec(node: object, default_id: int, index: SchemaIndex) -> Json:
    if isinstance(node, dict):
        get_int(node, "spec-id")
    spec = parse_spec(node)
    return bind_spec(spec, index) if spec["spec-id"] == default_id else bind_spec_unchecked(spec, index)


def _read_sort_orders(document: Json, version: int, parsed: Json, index: SchemaIndex) -> None:
    if "sort-orders" not in document:
        _refuse_missing(version, "sort-orders")
        parsed["default-sort-order-id"], parsed["sort-orders"] = UNSORTED_ORDER_ID, [UNSORTED]
        return
    default_id = get_int(document, "default-sort-order-id")
    orders = document["sort-orders"]
    if not isinstance(orders, list):
        raise BadRequest(f"Cannot parse sort orders from non-array: {show(orders)}")
    parsed["sort-orders"] = [parse_sort_order(order) for order in orders]
    parsed["default-sort-order-id"] = default_id
    for order in parsed["sort-orders"]:
        if order["order-id"] == default_id:
            bind_sort_order(order, index)


def _refuse_missing(version: int, field: str) -> None:
    """Refuses a file without the fields that version 2 requires."""
    if version != 1:
        raise BadRequest(f"{field} must exist in format v{version}")


def _read_parts(document: Json, parsed: Json) -> None:
    if "encryption-keys" in document:
        parsed["encryption-keys"] = [parse_encryption_key(key) for key in get_objects(document, "encryption-keys")]
    if "refs" in document:
        parsed["refs"] = _read_refs(document["refs"])
    elif parsed["current-snapshot-id"] is not None:
        parsed["refs"] = {MAIN_BRANCH: make_ref(parsed["current-snapshot-id"], "branch", None, None, None)}
    if "snapshots" in document:
        snapshots = get(document, "snapshots")
        if not isinstance(snapshots, list):
            raise BadRequest(f"Cannot parse snapshots from non-array: {show(snapshots)}")
        parsed["snapshots"] = [parse_snapshot(snapshot) for snapshot in snapshots]
    files = _read_list(document, "statistics", "Cannot parse statistics files from non-array")
    parsed["statistics"] = [parse_statistics_file(file) for file in files]
    files = _read_list(document, "partition-statistics", "Cannot parse partition statistics files from non-array")
    parsed["partition-statistics"] = [parse_partition_statistics_file(file) for file in files]
    parsed["snapshot-log"] = [
        {"timestamp-ms": get_long(entry, "timestamp-ms"), "snapshot-id": get_long(entry, "snapshot-id")}
        for entry in _read_log(document, "snapshot-log")
    ]
    parsed["metadata-log"] = [
        {"timestamp-ms": get_long(entry, "timestamp-ms"), "metadata-file": get_string(entry, "metadata-file")}
        for entry in _read_log(document, "metadata-log")
    ]


def _read_refs(refs: object) -> dict[str, Json]:
    if not isinstance(refs, dict):
        raise BadRequest(f"Cannot parse refs from non-object: {show(refs)}")
    for name in refs:
        if not isinstance(get(refs, name), dict):
            raise BadRequest(f"Cannot parse ref {name} from non-object: {show(refs)}")
    return {name: parse_ref(ref) for name, ref in refs.items()}


def _read_list(document: Json, key: str, refusal: str) -> list[Any]:
    if key not in document:
        return []
    values = document[key]
    if not isinstance(values, list):
        raise BadRequest(f"{refusal}: {show(values)}")
    return values


def _read_log(document: Json, key: str) -> Iterable[Json]:
    values = [] if document.get(key) is None else _read_list(document, key, f"Cannot parse {key} from non-array")
    return (value if isinstance(value, dict) else {} for value in values)


def _check(parsed: Json) -> None:
    """The checks of Java's constructor, in its order."""
    version = parsed["format-version"]
    if not parsed["partition-specs"]:
        raise IllegalArgument("Partition specs cannot be null or empty")
    if not parsed["sort-orders"]:
        raise IllegalArgument("Sort orders cannot be null or empty")
    if version > 1 and parsed["table-uuid"] is None:
        raise IllegalArgument(f"UUID is required in format v{version}")
    parsed["location"] = strip_trailing_slash(parsed["location"])
    check_sequence_numbers(parsed)
    for key, id_key in (
        ("snapshots", "snapshot-id"),
        ("schemas", "schema-id"),
        ("partition-specs", "spec-id"),
        ("sort-orders", "order-id"),
    ):
        _check_unique(parsed[key], id_key)
    _check_row_ids(parsed)
    _check_defaults(parsed)
    _check_refs(parsed)
    check_snapshot_log(parsed["snapshot-log"], parsed["last-updated-ms"])
    check_metadata_log(parsed["metadata-log"], parsed["last-updated-ms"])
    if parsed["current-snapshot-id"] is not None and not _has_current_snapshot(parsed):
        # A negative id that is no snapshot's always meant "none".
        if parsed["current-snapshot-id"] >= 0:
            raise IllegalArgument("Invalid table metadata: Cannot find current version")
        parsed["current-snapshot-id"] = None


def _check_unique(parts: list[Json], id_key: str) -> None:
    seen: set[int] = set()
    for part in parts:
        if part[id_key] in seen:
            raise IllegalArgument(f"Multiple entries with same key: {part[id_key]}")
        seen.add(part[id_key])


def _check_row_ids(parsed: Json) -> None:
    """Refuses a file whose next snapshot would reuse row ids. Java accepts it."""
    next_row_id = parsed["next-row-id"]
    for snapshot in parsed["snapshots"] if parsed["format-version"] >= ROW_LINEAGE_MIN_FORMAT_VERSION else ():
        if snapshot.get("first-row-id", 0) + snapshot.get("added-rows", 0) > next_row_id:
            raise IllegalArgument(f"Invalid next-row-id {next_row_id}: snapshot {snapshot['snapshot-id']} has higher row ids")


def _check_defaults(parsed: Json) -> None:
    if all(spec["spec-id"] != parsed["default-spec-id"] for spec in parsed["partition-specs"]):
        raise IllegalArgument(f"Cannot find partition spec with default-spec-id={parsed['default-spec-id']} from partition-specs")
    if all(order["order-id"] != parsed["default-sort-order-id"] for order in parsed["sort-orders"]):
        raise IllegalArgument(f"Cannot find sort order with default-sort-order-id={parsed['default-sort-order-id']} from sort-orders")


def _check_refs(parsed: Json) -> None:
    snapshot_ids = {snapshot["snapshot-id"] for snapshot in parsed["snapshots"]}
    for ref in parsed["refs"].values():
        if ref["snapshot-id"] not in snapshot_ids:
            raise IllegalArgument(f"Snapshot for reference {describe_ref(ref)} does not exist in the existing snapshots list")
    current, main = parsed["current-snapshot-id"], parsed["refs"].get(MAIN_BRANCH)
    if main is None:
        return
    if current is None:
        raise IllegalArgument(f"Current snapshot is not set, but main branch exists: {describe_ref(main)}")
    if main["snapshot-id"] != current:
        raise IllegalArgument(f"Current snapshot ID does not match main branch ({current} != {main['snapshot-id']})")


def _has_current_snapshot(parsed: Json) -> bool:
    return any(snapshot["snapshot-id"] == parsed["current-snapshot-id"] for snapshot in parsed["snapshots"])
