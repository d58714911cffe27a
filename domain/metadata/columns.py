"""Schemas, partition specs and sort orders of a table in the making: ids given, reused and taken away."""

from domain.errors import IllegalArgument, ValidationFailed
from domain.metadata.draft import Draft
from domain.metadata.fields import Json
from domain.metadata.partitioning import (
    INITIAL_SPEC_ID,
    bind_spec,
    bind_spec_unchecked,
    check_names,
    check_sequential_ids,
    check_spec,
    compatible_specs,
    last_assigned_field_id,
)
from domain.metadata.schemas import SchemaIndex, check_compatibility, same_schema, with_schema_id
from domain.metadata.sorting import INITIAL_SORT_ORDER_ID, UNSORTED, UNSORTED_ORDER_ID, bind_sort_order, check_sort_order

LAST_ADDED = -1
"""In place of a schema, spec or order id: the one added last in the same request."""


class ColumnsBuilder:
    """The updates of schemas, specs and orders.

    As in Java, what a request removes stays known to it: a freed id is not given out again within the same request. A result that
    would point at something removed is refused by `check`; the reference would write it unreadable.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        document = draft.document
        self._schemas: dict[int, Json] = {schema["schema-id"]: schema for schema in document["schemas"]}
        self._specs: dict[int, Json] = {spec["spec-id"]: spec for spec in document["partition-specs"]}
        self._orders: dict[int, Json] = {order["order-id"]: order for order in document["sort-orders"]}
        self._indexes: dict[int, SchemaIndex] = {}
        # Under which schema a spec or order was read; orders of the base other than the default are read without one.
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
            self._indexes[schema_id] = index
            self._draft.own_list("schemas").append(self._schemas[schema_id])
        self._added_schemas.add(schema_id)
        self._last_added_schema = schema_id

    def _reused_or_new_schema_id(self, schema: Json) -> int:
        new_id: int = self._draft.document["current-schema-id"]
        for known in self._draft.document["schemas"]:
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
        if schema_id == self._draft.document["current-schema-id"]:
            return
        if schema_id not in self._schemas:
            raise IllegalArgument(f"Cannot set current schema to unknown schema: {schema_id}")
        for spec in self._draft.document["partition-specs"]:
            check_names(spec, self._index(schema_id))
        self._draft.set("current-schema-id", schema_id)

    def remove_schemas(self, schema_ids: list[int]) -> None:
        if self._draft.document["current-schema-id"] in schema_ids:
            raise IllegalArgument("Cannot remove the current schema")
        if schema_ids:
            removed = set(schema_ids)
            self._draft.set_list("schemas", [schema for schema in self._draft.document["schemas"] if schema["schema-id"] not in removed])

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
        self._draft.own_list("partition-specs").append(spec)
        self._added_specs.add(spec_id)
        self._last_added_spec = spec_id

    def _reused_or_new_spec_id(self, spec: Json) -> int:
        new_id = INITIAL_SPEC_ID
        for known in self._draft.document["partition-specs"]:
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
        if spec_id != self._draft.document["default-spec-id"]:
            self._draft.set("default-spec-id", spec_id)

    def remove_specs(self, spec_ids: list[int]) -> None:
        if self._draft.document["default-spec-id"] in spec_ids:
            raise IllegalArgument("Cannot remove the default partition spec")
        if spec_ids:
            removed = set(spec_ids)
            self._draft.set_list(
                "partition-specs", [spec for spec in self._draft.document["partition-specs"] if spec["spec-id"] not in removed]
            )

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
        self._draft.own_list("sort-orders").append(order)
        self._added_orders.add(order_id)
        self._last_added_order = order_id

    def _reused_or_new_order_id(self, order: Json) -> int:
        if not order["fields"]:
            return UNSORTED_ORDER_ID
        new_id = INITIAL_SORT_ORDER_ID
        for known in self._draft.document["sort-orders"]:
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
        if order_id != self._draft.document["default-sort-order-id"]:
            self._draft.set("default-sort-order-id", order_id)

    # The result

    def check(self) -> None:
        """The default spec and order exist and fit the current schema; looked at only where one of them changed."""
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
                # The reference writes historical specs that its parser then cannot bind to the schema.
                bind_spec_unchecked(spec, index)

    def _current_schema_id(self, what: str) -> int:
        schema_id: int = self._draft.document["current-schema-id"]
        if schema_id not in self._schemas:
            raise ValidationFailed(f"Attempting to add {what} before a schema is added")
        return schema_id

    def _index(self, schema_id: int) -> SchemaIndex:
        if schema_id not in self._indexes:
            self._indexes[schema_id] = SchemaIndex(self._schemas[schema_id])
        return self._indexes[schema_id]
