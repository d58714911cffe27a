"""Changes to schemas, partition specs and sort orders of a table: ids are assigned, reused and removed."""

from collections import Counter

from ..errors import IllegalArgument, ValidationFailed
from .draft import Draft
from .fields import Json
from .indexed_parts import IndexedParts
from .partitioning import (
    INITIAL_SPEC_ID,
    bind_spec,
    bind_spec_unchecked,
    check_names,
    check_sequential_ids,
    check_spec,
    last_assigned_field_id,
    spec_key,
)
from .schemas import SchemaIndex, check_compatibility, rough_schema_key, schema_key, with_schema_id
from .sorting import INITIAL_SORT_ORDER_ID, UNSORTED, UNSORTED_ORDER_ID, bind_sort_order, check_sort_order, sort_order_key

INDEX_CHARACTERS_MAX = 16 * 1024 * 1024
"""Limit on the column names of cached schema indexes."""

LAST_ADDED = -1
"""In a schema, spec or order id: the one that the same request added last."""


class ColumnsBuilder:
    """The updates of schemas, specs and orders.

    As in Java, an id that a request removes is not assigned again in the same request. `check` refuses a result that refers to something
    removed; Java would write an unreadable file.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        document = draft.document
        self._parts = {
            "schemas": IndexedParts(document["schemas"], "schema-id", schema_key, rough_schema_key),
            "partition-specs": IndexedParts(document["partition-specs"], "spec-id", spec_key),
            "sort-orders": IndexedParts(document["sort-orders"], "order-id", sort_order_key),
        }
        # Including those that the request has removed.
        self._schemas, self._specs, self._orders = (dict(parts.by_id) for parts in self._parts.values())
        self._indexes: dict[int, SchemaIndex] = {}
        self._indexed_characters = 0
        # Schemas that do not conflict with the partition names of the present specs.
        self._schemas_without_name_conflict: set[int] = set()
        self._partition_sources: dict[str, Counter[int]] | None = None
        # The schema to which each spec or order is bound: the current one when it was added. As in Java's parser, the specs of the base and
        # its default order are bound to its current schema, and its other orders to none.
        current_schema_id: int = document["current-schema-id"]
        self._spec_schemas = dict.fromkeys(self._specs, current_schema_id)
        self._order_schemas: dict[int, int] = {document["default-sort-order-id"]: current_schema_id}
        self._last_added_schema: int | None = None
        self._last_added_spec: int | None = None
        self._last_added_order: int | None = None
        self._added_schemas: set[int] = set()
        self._added_specs: set[int] = set()
        self._added_orders: set[int] = set()

    # Schemas

    def add_schema(self, schema: Json) -> None:
        index = SchemaIndex(schema)
        last_column_id = max(self._draft.document["last-column-id"], index.highest_field_id())
        check_compatibility(index, self._draft.document["format-version"])
        schema_id = self._reused_or_new_schema_id(schema)
        if schema_id in self._schemas and last_column_id == self._draft.document["last-column-id"]:
            was_added = self._last_added_schema is not None and schema_id in self._added_schemas
            self._last_added_schema = schema_id if was_added else None
            return
        self._draft.set("last-column-id", last_column_id)
        if schema_id not in self._schemas:
            self._schemas[schema_id] = with_schema_id(schema, schema_id)
            self._remember_index(schema_id, index)
            self._add("schemas", self._schemas[schema_id])
        self._added_schemas.add(schema_id)
        self._last_added_schema = schema_id

    def _reused_or_new_schema_id(self, schema: Json) -> int:
        schemas = self._parts["schemas"]
        known_id = schemas.id_of_equal(schema)
        current_id: int = self._draft.document["current-schema-id"]
        return schemas.next_id(current_id) if known_id is None else known_id

    def set_current_schema(self, schema_id: int) -> None:
        if schema_id == LAST_ADDED:
            if self._last_added_schema is None:
                raise ValidationFailed("Cannot set last added schema: no schema has been added")
            schema_id = self._last_added_schema
        if schema_id == self._draft.document["current-schema-id"]:
            return
        if schema_id not in self._schemas:
            raise IllegalArgument(f"Cannot set current schema to unknown schema: {schema_id}")
        if schema_id not in self._schemas_without_name_conflict:
            self._check_partition_names(self._index(schema_id))
            self._schemas_without_name_conflict.add(schema_id)
        self._draft.set("current-schema-id", schema_id)

    def _check_partition_names(self, index: SchemaIndex) -> None:
        """Applies `check_names` to the present specs. Takes time in the number of partition names or column names, whichever is smaller."""
        if self._partition_sources is None:
            self._partition_sources = {}
            for spec in self._parts["partition-specs"].by_id.values():
                self._count_sources(spec, 1)
        sources, ids = self._partition_sources, index.ids
        shared = [name for name in sources if name in ids] if len(sources) < len(ids) else [name for name in ids if name in sources]
        if any(source != ids[name] and source in index.fields for name in shared for source in sources[name]):
            for spec in self._parts["partition-specs"].by_id.values():
                check_names(spec, index)

    def _count_sources(self, spec: Json, times: int) -> None:
        if self._partition_sources is not None:
            for field in spec["fields"]:
                counted = self._partition_sources.setdefault(field["name"], Counter())
                counted[field["source-id"]] += times
                if not counted[field["source-id"]]:
                    del counted[field["source-id"]]

    def remove_schemas(self, schema_ids: list[int]) -> None:
        if self._draft.document["current-schema-id"] in schema_ids:
            raise IllegalArgument("Cannot remove the current schema")
        self._remove("schemas", schema_ids)

    # Partition specs

    def add_spec(self, unbound: Json) -> None:
        schema_id = self._current_schema_id("a partition spec")
        spec = bind_spec(unbound, self._index(schema_id))
        spec_id = self._reused_or_new_spec_id(spec)
        if spec_id in self._specs:
            was_added = self._last_added_spec is not None and self._last_added_spec in self._added_specs
            self._last_added_spec = spec_id if was_added else None
            return
        if self._draft.document["format-version"] == 1:
            check_sequential_ids(spec)
        spec = {**spec, "spec-id": spec_id}
        self._specs[spec_id] = spec
        self._spec_schemas[spec_id] = schema_id
        self._draft.set("last-partition-id", max(self._draft.document["last-partition-id"], last_assigned_field_id(spec)))
        self._add("partition-specs", spec)
        self._schemas_without_name_conflict.clear()
        self._count_sources(spec, 1)
        self._added_specs.add(spec_id)
        self._last_added_spec = spec_id

    def _reused_or_new_spec_id(self, spec: Json) -> int:
        specs = self._parts["partition-specs"]
        known_id = specs.id_of_equal(spec)
        return specs.next_id(INITIAL_SPEC_ID) if known_id is None else known_id

    def set_default_spec(self, spec_id: int) -> None:
        if spec_id == LAST_ADDED:
            if self._last_added_spec is None:
                raise ValidationFailed("Cannot set last added spec: no spec has been added")
            spec_id = self._last_added_spec
        if spec_id != self._draft.document["default-spec-id"]:
            self._draft.set("default-spec-id", spec_id)

    def remove_specs(self, spec_ids: list[int]) -> None:
        if self._draft.document["default-spec-id"] in spec_ids:
            raise IllegalArgument("Cannot remove the default partition spec")
        for spec_id in spec_ids:
            if spec_id in self._parts["partition-specs"].by_id:
                self._count_sources(self._specs[spec_id], -1)
        self._remove("partition-specs", spec_ids)

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
        self._add("sort-orders", order)
        self._added_orders.add(order_id)
        self._last_added_order = order_id

    def _reused_or_new_order_id(self, order: Json) -> int:
        if not order["fields"]:
            return UNSORTED_ORDER_ID
        orders = self._parts["sort-orders"]
        known_id = orders.id_of_equal(order)
        return orders.next_id(INITIAL_SORT_ORDER_ID) if known_id is None else known_id

    def set_default_sort_order(self, order_id: int) -> None:
        if order_id == LAST_ADDED:
            if self._last_added_order is None:
                raise ValidationFailed("Cannot set last added sort order: no sort order has been added")
            order_id = self._last_added_order
        if order_id != self._draft.document["default-sort-order-id"]:
            self._draft.set("default-sort-order-id", order_id)

    # Result

    @property
    def first_missing(self) -> str | None:
        """Which of a schema, a partition spec and a sort order the table lacks, the first of them; None if it has all."""
        for key, what in (("schemas", "schema"), ("partition-specs", "partition spec"), ("sort-orders", "sort order")):
            if not self._parts[key].by_id:
                return what
        return None

    def finish(self) -> None:
        """Writes the changed lists to the document."""
        for key, parts in self._parts.items():
            if parts.changed:
                self._draft.document[key] = list(parts.by_id.values())

    def check(self) -> None:
        """Checks that the default spec and order exist and fit the current schema, if one of them changed."""
        document, base = self._draft.document, self._draft.base
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
        if base is not None and schema_id != base["current-schema-id"]:
            for spec in document["partition-specs"]:
                # Java writes historical specs that its parser cannot bind to the schema.
                bind_spec_unchecked(spec, index)

    def _current_schema_id(self, what: str) -> int:
        schema_id: int = self._draft.document["current-schema-id"]
        if schema_id not in self._schemas:
            raise ValidationFailed(f"Attempting to add {what} before a schema is added")
        return schema_id

    def _add(self, key: str, part: Json) -> None:
        self._parts[key].add(part)
        self._draft.touch(key)

    def _remove(self, key: str, part_ids: list[int]) -> None:
        if part_ids:
            self._parts[key].remove(part_ids)
            self._draft.touch(key)

    def _index(self, schema_id: int) -> SchemaIndex:
        if schema_id not in self._indexes:
            self._remember_index(schema_id, SchemaIndex(self._schemas[schema_id]))
        return self._indexes[schema_id]

    def _remember_index(self, schema_id: int, index: SchemaIndex) -> None:
        self._indexed_characters += index.characters
        if self._indexed_characters > INDEX_CHARACTERS_MAX:
            self._indexes.clear()
            self._indexed_characters = index.characters
        self._indexes[schema_id] = index
