"""The table metadata builder: one method per update, and `build`, which checks the whole (Java `TableMetadata.Builder`)."""

from typing import Any

from domain.errors import CatalogError, CommitFailed, IllegalArgument, ValidationFailed
from domain.metadata.fields import LONG_MAX, Json
from domain.metadata.logs import append_metadata_log, check_metadata_log, check_snapshot_log, correct_snapshot_log
from domain.metadata.partitioning import bind_spec, check_names, check_sequential_ids, check_spec, compatible_specs, last_assigned_field_id
from domain.metadata.schemas import SchemaIndex, check_compatibility, same_schema, with_schema_id
from domain.metadata.snapshots import MAIN_BRANCH, describe_ref, sequence_number
from domain.metadata.sorting import INITIAL_SORT_ORDER_ID, UNSORTED, UNSORTED_ORDER_ID, bind_sort_order, check_sort_order

FORMAT_VERSION_MAX = 3
ROW_LINEAGE_MIN_FORMAT_VERSION = 3
DEFAULT_FORMAT_VERSION = 2
LAST_ADDED = -1
"""In place of a schema, spec or order id: the one added last in the same request."""


def empty_metadata(format_version: int) -> Json:
    """The canonical inner form of a table that has nothing yet."""
    return {
        "format-version": format_version,
        "table-uuid": None,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": 0,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
        "encryption-keys": [],
        "next-row-id": 0,
    }


def strip_trailing_slash(location: str) -> str:
    """The location without slashes at its end, but never `scheme://` without its slashes."""
    if not location:
        raise IllegalArgument("path must not be null or empty")
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location


class TableMetadataBuilder:
    """Collects changes to one document; `base` is never touched, and lists are copied at most once, when they first change.

    As in Java, what was removed in a request stays known to it: a spec id freed by a removal is not given out again within the
    same request. A result that would point at something removed is refused by `build`; the reference would write it unreadable.
    """

    def __init__(self, base: Json | None, format_version: int = DEFAULT_FORMAT_VERSION) -> None:
        self._base = base
        self._document: Json = dict(base) if base is not None else empty_metadata(format_version)
        self._owned: set[str] = set()
        self._changed = False
        document = self._document
        self._schemas: dict[int, Json] = {schema["schema-id"]: schema for schema in document["schemas"]}
        self._specs: dict[int, Json] = {spec["spec-id"]: spec for spec in document["partition-specs"]}
        self._orders: dict[int, Json] = {order["order-id"]: order for order in document["sort-orders"]}
        self._indexes: dict[int, SchemaIndex] = {}
        # Under which schema a spec or order was read; orders of the base other than the default are read without one.
        current_schema_id: int = document["current-schema-id"]
        self._spec_schemas = dict.fromkeys(self._specs, current_schema_id)
        self._order_schemas: dict[int, int] = {document["default-sort-order-id"]: current_schema_id}
        self._snapshots_by_id: dict[int, Json] | None = None
        self._files_by_snapshot: dict[str, dict[int, list[Json]]] = {}
        self._last_added_schema: int | None = None
        self._last_added_spec: int | None = None
        self._last_added_order: int | None = None
        self._added_schemas: set[int] = set()
        self._added_specs: set[int] = set()
        self._added_orders: set[int] = set()
        self._added_snapshots: set[int] = set()
        self._main_within_request: set[int] = set()
        self._snapshots_removed = False
        self._sequence_went_back = False
        self._now_ms = 0

    # Ids and format

    def assign_uuid(self, uuid: str) -> None:
        if uuid != self._document["table-uuid"]:
            self._set("table-uuid", uuid)

    def upgrade_format_version(self, version: int) -> None:
        current = self._document["format-version"]
        if version > FORMAT_VERSION_MAX:
            raise IllegalArgument(f"Cannot upgrade table to unsupported format version: v{version} (supported: v{FORMAT_VERSION_MAX})")
        if version < current:
            raise IllegalArgument(f"Cannot downgrade v{current} table to v{version}")
        if version != current:
            self._set("format-version", version)

    def set_location(self, location: str) -> None:
        if location != self._document["location"]:
            self._set("location", location)

    # Properties

    def set_properties(self, updates: dict[str, str]) -> None:
        if updates:
            self._set("properties", {**self._document["properties"], **updates})

    def remove_properties(self, removals: list[str]) -> None:
        if removals:
            removed = set(removals)
            self._set("properties", {key: value for key, value in self._document["properties"].items() if key not in removed})

    # Schemas

    def add_schema(self, schema: Json) -> None:
        index = SchemaIndex(schema)
        last_column_id = max(self._document["last-column-id"], index.highest_field_id())
        check_compatibility(index, self._document["format-version"])
        schema_id = self._reused_or_new_schema_id(schema)
        if schema_id in self._schemas and last_column_id == self._document["last-column-id"]:
            was_added = self._last_added_schema is not None and schema_id in self._added_schemas
            self._last_added_schema = schema_id if was_added else None
            return
        self._set("last-column-id", last_column_id)
        if schema_id not in self._schemas:
            self._schemas[schema_id] = with_schema_id(schema, schema_id)
            self._indexes[schema_id] = index
            self._own_list("schemas").append(self._schemas[schema_id])
        self._added_schemas.add(schema_id)
        self._last_added_schema = schema_id

    def _reused_or_new_schema_id(self, schema: Json) -> int:
        new_id: int = self._document["current-schema-id"]
        for known in self._document["schemas"]:
            known_id: int = known["schema-id"]
            if same_schema(known, schema):
                return known_id
            new_id = max(new_id, known_id + 1)
        return new_id

    def set_current_schema(self, schema_id: int) -> None:
        if schema_id == LAST_ADDED:
            if self._last_added_schema is None:
                raise ValidationFailed("Cannot set last added schema: no schema has been added")
            schema_id = self._last_added_schema
        if schema_id == self._document["current-schema-id"]:
            return
        if schema_id not in self._schemas:
            raise IllegalArgument(f"Cannot set current schema to unknown schema: {schema_id}")
        for spec in self._document["partition-specs"]:
            check_names(spec, self._index(schema_id))
        self._set("current-schema-id", schema_id)

    def remove_schemas(self, schema_ids: list[int]) -> None:
        if self._document["current-schema-id"] in schema_ids:
            raise IllegalArgument("Cannot remove the current schema")
        if schema_ids:
            removed = set(schema_ids)
            self._set("schemas", [schema for schema in self._document["schemas"] if schema["schema-id"] not in removed])
            self._owned.add("schemas")

    # Partition specs

    def add_spec(self, unbound: Json) -> None:
        schema_id = self._current_schema_id("a partition spec")
        spec = bind_spec(unbound, self._index(schema_id))
        spec_id = self._reused_or_new_spec_id(spec)
        if spec_id in self._specs:
            was_added = self._last_added_spec is not None and self._last_added_spec in self._added_specs
            self._last_added_spec = spec_id if was_added else None
            return
        if self._document["format-version"] == 1:
            check_sequential_ids(spec)
        spec = {**spec, "spec-id": spec_id}
        self._specs[spec_id] = spec
        self._spec_schemas[spec_id] = schema_id
        self._set("last-partition-id", max(self._document["last-partition-id"], last_assigned_field_id(spec)))
        self._own_list("partition-specs").append(spec)
        self._added_specs.add(spec_id)
        self._last_added_spec = spec_id

    def _reused_or_new_spec_id(self, spec: Json) -> int:
        new_id = 0
        for known in self._document["partition-specs"]:
            known_id: int = known["spec-id"]
            if compatible_specs(known, spec):
                return known_id
            new_id = max(new_id, known_id + 1)
        return new_id

    def set_default_spec(self, spec_id: int) -> None:
        if spec_id == LAST_ADDED:
            if self._last_added_spec is None:
                raise ValidationFailed("Cannot set last added spec: no spec has been added")
            spec_id = self._last_added_spec
        if spec_id != self._document["default-spec-id"]:
            self._set("default-spec-id", spec_id)

    def remove_specs(self, spec_ids: list[int]) -> None:
        if self._document["default-spec-id"] in spec_ids:
            raise IllegalArgument("Cannot remove the default partition spec")
        if spec_ids:
            removed = set(spec_ids)
            self._set("partition-specs", [spec for spec in self._document["partition-specs"] if spec["spec-id"] not in removed])
            self._owned.add("partition-specs")

    # Sort orders

    def add_sort_order(self, order: Json) -> None:
        schema_id = self._current_schema_id("a sort order")
        bind_sort_order(order, self._index(schema_id))
        order_id = self._reused_or_new_order_id(order)
        if order_id in self._orders:
            was_added = self._last_added_order is not None and self._last_added_order in self._added_orders
            self._last_added_order = order_id if was_added else None
            return
        order = {"order-id": order_id, "fields": order["fields"]} if order["fields"] else UNSORTED
        self._orders[order_id] = order
        self._order_schemas[order_id] = schema_id
        self._own_list("sort-orders").append(order)
        self._added_orders.add(order_id)
        self._last_added_order = order_id

    def _reused_or_new_order_id(self, order: Json) -> int:
        if not order["fields"]:
            return UNSORTED_ORDER_ID
        new_id = INITIAL_SORT_ORDER_ID
        for known in self._document["sort-orders"]:
            known_id: int = known["order-id"]
            if known["fields"] == order["fields"]:
                return known_id
            new_id = max(new_id, known_id + 1)
        return new_id

    def set_default_sort_order(self, order_id: int) -> None:
        if order_id == LAST_ADDED:
            if self._last_added_order is None:
                raise ValidationFailed("Cannot set last added sort order: no sort order has been added")
            order_id = self._last_added_order
        if order_id != self._document["default-sort-order-id"]:
            self._set("default-sort-order-id", order_id)

    # Snapshots and refs

    def add_snapshot(self, snapshot: Json, sequence: int) -> None:
        """`sequence` is the snapshot's sequence number as sent: one below zero counts here and is not written."""
        document = self._document
        for key, what in (("schemas", "schema"), ("partition-specs", "partition spec"), ("sort-orders", "sort order")):
            if not document[key]:
                raise ValidationFailed(f"Attempting to add a snapshot before a {what} is added")
        snapshot_id = snapshot["snapshot-id"]
        if snapshot_id in self._snapshots():
            raise ValidationFailed(f"Snapshot already exists for id: {snapshot_id}")
        last = document["last-sequence-number"]
        if document["format-version"] > 1 and sequence <= last and "parent-snapshot-id" in snapshot:
            raise self._stale(f"Cannot add snapshot with sequence number {sequence} older than last sequence number {last}")
        self._sequence_went_back = self._sequence_went_back or sequence < last
        self._set("last-sequence-number", sequence)
        self._snapshots()[snapshot_id] = snapshot
        self._owned.add("snapshots")
        self._added_snapshots.add(snapshot_id)
        if document["format-version"] >= ROW_LINEAGE_MIN_FORMAT_VERSION:
            self._take_row_ids(snapshot)

    def _take_row_ids(self, snapshot: Json) -> None:
        first_row_id, next_row_id = snapshot.get("first-row-id"), self._document["next-row-id"]
        if first_row_id is None:
            raise ValidationFailed("Cannot add a snapshot: first-row-id is null")
        if first_row_id < next_row_id:
            raise self._stale(f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first_row_id} < {next_row_id}")
        if next_row_id + snapshot["added-rows"] > LONG_MAX:
            raise ValidationFailed(f"Cannot add a snapshot: added-rows {snapshot['added-rows']} exhaust the table's row ids")
        self._set("next-row-id", next_row_id + snapshot["added-rows"])

    def _stale(self, message: str) -> CatalogError:
        """The values rest on an older state of the table: the client may refresh and try again, unless it is creating the table."""
        return CommitFailed(f"Validation failed, please retry: {message}") if self._base is not None else ValidationFailed(message)

    def set_ref(self, name: str, ref: Json) -> None:
        if self._document["refs"].get(name) == ref:
            return
        snapshot_id = ref["snapshot-id"]
        snapshot = self._snapshots().get(snapshot_id)
        if snapshot is None:
            raise ValidationFailed(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
        if name == MAIN_BRANCH:
            if ref["type"] != "branch":
                raise ValidationFailed(f"Cannot set {MAIN_BRANCH} to a tag, it must be a branch")
            self._set_current_snapshot(snapshot_id, snapshot["timestamp-ms"])
        self._set("refs", {**self._document["refs"], name: ref})

    def _set_current_snapshot(self, snapshot_id: int, snapshot_ms: int) -> None:
        is_added = snapshot_id in self._added_snapshots
        self._document["current-snapshot-id"] = None if snapshot_id == -1 else snapshot_id
        # A rollback to an older snapshot happens now, whenever that snapshot was written.
        entry = {"timestamp-ms": snapshot_ms if is_added else self._now_ms, "snapshot-id": snapshot_id}
        self._own_list("snapshot-log").append(entry)
        if is_added:
            self._main_within_request.add(snapshot_id)

    def remove_ref(self, name: str) -> None:
        if name == MAIN_BRANCH:
            self._document["current-snapshot-id"] = None
        if name in self._document["refs"]:
            self._set("refs", {key: ref for key, ref in self._document["refs"].items() if key != name})

    def remove_snapshots(self, snapshot_ids: list[int]) -> None:
        snapshots = self._snapshots()
        for snapshot_id in snapshot_ids:
            if snapshots.pop(snapshot_id, None) is not None:
                self._changed = self._snapshots_removed = True
                self._owned.add("snapshots")
                self.remove_statistics(snapshot_id)
                self.remove_partition_statistics(snapshot_id)
        for name, ref in self._document["refs"].items():
            if ref["snapshot-id"] not in snapshots:
                self.remove_ref(name)

    # Statistics and encryption keys

    def set_statistics(self, file: Json) -> None:
        self._set_file("statistics", file)

    def remove_statistics(self, snapshot_id: int) -> None:
        self._remove_files("statistics", snapshot_id)

    def set_partition_statistics(self, file: Json) -> None:
        self._set_file("partition-statistics", file)

    def remove_partition_statistics(self, snapshot_id: int) -> None:
        self._remove_files("partition-statistics", snapshot_id)

    def _set_file(self, key: str, file: Json) -> None:
        files = self._files(key)
        files.pop(file["snapshot-id"], None)
        files[file["snapshot-id"]] = [file]
        self._touch(key)

    def _remove_files(self, key: str, snapshot_id: int) -> None:
        if self._files(key).pop(snapshot_id, None) is not None:
            self._touch(key)

    def add_encryption_key(self, key: Json) -> None:
        if all(known["key-id"] != key["key-id"] for known in self._document["encryption-keys"]):
            self._own_list("encryption-keys").append(key)

    def remove_encryption_key(self, key_id: str) -> None:
        kept = [key for key in self._document["encryption-keys"] if key["key-id"] != key_id]
        if len(kept) < len(self._document["encryption-keys"]):
            self._set("encryption-keys", kept)
            self._owned.add("encryption-keys")

    # The result

    def at(self, now_ms: int) -> "TableMetadataBuilder":
        """Sets the time of this change; the last update of a table never goes back."""
        self._now_ms = now_ms if self._base is None else max(now_ms, self._base["last-updated-ms"])
        return self

    def build(self, previous_metadata_location: str | None) -> Json:
        """The changed document, or `base` itself if nothing changed; refused if it breaks a rule of the table spec."""
        if not self._changed and self._base is not None:
            return self._base
        document = self._document
        document["last-updated-ms"] = self._now_ms
        self._check_columns()
        if self._base is not None and previous_metadata_location is not None:
            document["metadata-log"] = append_metadata_log(
                document["metadata-log"], previous_metadata_location, self._base["last-updated-ms"], document["properties"]
            )
        log_start = self._finish_snapshot_log()
        self._finish_lists()
        self._check_head()
        self._check_snapshots()
        check_snapshot_log(document["snapshot-log"], self._now_ms, log_start)
        check_metadata_log(document["metadata-log"], self._now_ms, len(document["metadata-log"]) - 1)
        return document

    def _check_columns(self) -> None:
        """The default spec and order exist and fit the current schema; looked at only where one of them changed."""
        document, base = self._document, self._base
        keys = ("current-schema-id", "default-spec-id", "default-sort-order-id", "schemas", "partition-specs", "sort-orders")
        if base is not None and all(document[key] is base[key] or document[key] == base[key] for key in keys):
            return
        schema_id, spec_id, order_id = (document[key] for key in keys[:3])
        if not document["schemas"]:
            raise IllegalArgument("Schemas cannot be null or empty")
        if not document["partition-specs"]:
            raise IllegalArgument("Partition specs cannot be null or empty")
        if not document["sort-orders"]:
            raise IllegalArgument("Sort orders cannot be null or empty")
        if all(schema["schema-id"] != schema_id for schema in document["schemas"]):
            raise IllegalArgument(f"Cannot set current schema to unknown schema: {schema_id}")
        if all(spec["spec-id"] != spec_id for spec in document["partition-specs"]):
            raise IllegalArgument(f"Cannot set default partition spec to unknown spec: {spec_id}")
        if order_id not in self._orders:
            raise IllegalArgument(f"Cannot set default sort order to unknown order: {order_id}")
        index = self._index(schema_id)
        check_spec(self._specs[spec_id], index, self._index(self._spec_schemas[spec_id]))
        order_schema = self._order_schemas.get(order_id)
        check_sort_order(self._orders[order_id], index, None if order_schema is None else self._index(order_schema))

    def _finish_snapshot_log(self) -> int:
        """Corrects the log where needed; answers the place from which its order is not known yet."""
        document = self._document
        current = document["current-snapshot-id"]
        intermediate = self._main_within_request - {current}
        if not intermediate and not self._snapshots_removed:
            return len(self._base["snapshot-log"]) if self._base is not None else 0
        document["snapshot-log"] = correct_snapshot_log(
            document["snapshot-log"], self._snapshots(), current, intermediate, self._snapshots_removed
        )
        return 0

    def _finish_lists(self) -> None:
        if "snapshots" in self._owned:
            self._document["snapshots"] = list(self._snapshots().values())
        for key, files in self._files_by_snapshot.items():
            if key in self._owned:
                self._document[key] = [file for group in files.values() for file in group]

    def _check_head(self) -> None:
        document = self._document
        version = document["format-version"]
        if version < 1:
            raise IllegalArgument(f"Unsupported format version: v{version} (supported: v{FORMAT_VERSION_MAX})")
        if version > 1 and document["table-uuid"] is None:
            raise IllegalArgument(f"UUID is required in format v{version}")
        if version == 1 and document["last-sequence-number"] != 0:
            raise IllegalArgument(f"Sequence number must be 0 in v1: {document['last-sequence-number']}")
        if document["location"] is None:
            raise IllegalArgument("path must not be null or empty")
        if self._base is None or document["location"] is not self._base["location"]:
            document["location"] = strip_trailing_slash(document["location"])

    def _check_snapshots(self) -> None:
        document = self._document
        if self._sequence_went_back:
            check_sequence_numbers(document)
        current, main = document["current-snapshot-id"], document["refs"].get(MAIN_BRANCH)
        if current is None and main is not None:
            raise IllegalArgument(f"Current snapshot is not set, but main branch exists: {describe_ref(main)}")
        if self._snapshots_removed and current is not None and current not in self._snapshots():
            raise IllegalArgument("Invalid table metadata: Cannot find current version")

    # Working copies

    def _touch(self, key: str) -> None:
        self._owned.add(key)
        self._changed = True

    def _set(self, key: str, value: Any) -> None:
        self._document[key] = value
        self._changed = True

    def _own_list(self, key: str) -> list[Json]:
        """The list of parts to change in place: a copy made at the first change."""
        if key not in self._owned:
            self._document[key] = list(self._document[key])
        self._touch(key)
        owned: list[Json] = self._document[key]
        return owned

    def _snapshots(self) -> dict[int, Json]:
        if self._snapshots_by_id is None:
            self._snapshots_by_id = {snapshot["snapshot-id"]: snapshot for snapshot in self._document["snapshots"]}
        return self._snapshots_by_id

    def _files(self, key: str) -> dict[int, list[Json]]:
        if key not in self._files_by_snapshot:
            grouped: dict[int, list[Json]] = {}
            for file in self._document[key]:
                grouped.setdefault(file["snapshot-id"], []).append(file)
            self._files_by_snapshot[key] = grouped
        return self._files_by_snapshot[key]

    def _current_schema_id(self, what: str) -> int:
        schema_id: int = self._document["current-schema-id"]
        if schema_id not in self._schemas:
            raise ValidationFailed(f"Attempting to add {what} before a schema is added")
        return schema_id

    def _index(self, schema_id: int) -> SchemaIndex:
        if schema_id not in self._indexes:
            self._indexes[schema_id] = SchemaIndex(self._schemas[schema_id])
        return self._indexes[schema_id]


def check_sequence_numbers(document: Json) -> None:
    """Refuse snapshots beyond the table's last sequence number."""
    last = document["last-sequence-number"]
    for snapshot in document["snapshots"]:
        if sequence_number(snapshot) > last:
            raise ValidationFailed(
                f"Invalid snapshot with sequence number {sequence_number(snapshot)} greater than last sequence number {last}"
            )
