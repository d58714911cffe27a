"""Schemas, partition specs and sort orders: ids assigned, reused, selected and removed by commits."""

from typing import Any

import pytest

from icecore.domain.errors import CatalogError, IllegalArgument, ValidationFailed
from tests.unit.metadata.tables import SCHEMA, after, ids, new_table

Json = dict[str, Any]

DAY = {"name": "day", "transform": "day", "source-id": 2}
BY_ID = {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}


def wider(table: Json, *added: Json, schema_id: int = 9) -> Json:
    """The table's first schema with columns added."""
    return {**table["schemas"][0], "schema-id": schema_id, "fields": [*table["schemas"][0]["fields"], *added]}


def column(field_id: int, name: str, type_: Any = "int") -> Json:
    return {"id": field_id, "name": name, "required": False, "type": type_}


def add_schema(schema: Json) -> Json:
    return {"action": "add-schema", "schema": schema, "last-column-id": 1}


def add_spec(*fields: Json, spec_id: int = 0) -> Json:
    return {"action": "add-spec", "spec": {"spec-id": spec_id, "fields": list(fields)}}


def add_order(*fields: Json) -> Json:
    return {"action": "add-sort-order", "sort-order": {"order-id": 7 if fields else 0, "fields": list(fields)}}


def set_schema(schema_id: int = -1) -> Json:
    return {"action": "set-current-schema", "schema-id": schema_id}


def set_spec(spec_id: int = -1) -> Json:
    return {"action": "set-default-spec", "spec-id": spec_id}


def set_order(order_id: int = -1) -> Json:
    return {"action": "set-default-sort-order", "sort-order-id": order_id}


def refused(table: Json, *updates: Json) -> CatalogError:
    with pytest.raises(CatalogError) as refusal:
        after(table, *updates)
    return refusal.value


def test_an_added_schema_gets_the_next_id_whatever_the_client_says() -> None:
    """Given schema 0, when a schema with id 9 is added and made current, then it is schema 1."""
    table = new_table()
    evolved = after(table, add_schema(wider(table, column(4, "new"))), set_schema())
    assert [0, 1] == ids(evolved["schemas"], "schema-id")
    assert (1, 4) == (evolved["current-schema-id"], evolved["last-column-id"])
    assert evolved["schemas"][0] is table["schemas"][0]


def test_an_equal_schema_is_not_added_again() -> None:
    """Given an equal schema, when it is added, then nothing changes, and -1 does not refer to it."""
    table = new_table()
    same = wider(table)
    assert table is after(table, add_schema(same))
    refusal = refused(table, add_schema(same), set_schema())
    assert "Cannot set last added schema: no schema has been added" == refusal.message


def test_a_schema_added_twice_in_one_request_stays_the_last_added() -> None:
    """The second one is equal to the first, and -1 still refers to it."""
    table = new_table()
    new = add_schema(wider(table, column(4, "new")))
    assert 1 == after(table, new, new, set_schema())["current-schema-id"]


def test_the_last_column_id_never_shrinks() -> None:
    """A schema without the newest column leaves the counter where it is."""
    table = new_table()
    narrow = {**SCHEMA, "fields": table["schemas"][0]["fields"][:1]}
    assert 3 == after(table, add_schema(narrow), set_schema())["last-column-id"]


def test_a_current_schema_must_keep_the_columns_of_spec_and_order() -> None:
    """Given a table partitioned by day(ts), when ts is dropped, then the commit is refused."""
    table = after(new_table(), add_spec(DAY), set_spec())
    narrow = {**SCHEMA, "fields": table["schemas"][0]["fields"][:1]}
    refusal = refused(table, add_schema(narrow), set_schema())
    assert "Cannot find source column for partition field: 1000: day: day(2)" == refusal.message
    assert isinstance(refusal, ValidationFailed)


def test_a_day_of_a_timestamp_is_no_day_of_a_date() -> None:
    """Given day(ts) on a timestamp, when ts becomes a date, then the old transform does not fit."""
    table = after(new_table(), add_spec(DAY), set_spec())
    fields = [{**field, "type": "date"} if field["id"] == 2 else field for field in table["schemas"][0]["fields"]]
    refusal = refused(table, add_schema({**SCHEMA, "fields": fields}), set_schema())
    assert "Invalid source type date for transform: day" == refusal.message


def test_partition_ids_count_from_999_whatever_the_client_sends() -> None:
    """A lower field id from the client is kept and does not lower the counter."""
    low = add_spec({**DAY, "field-id": 7})
    updates = [
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": [{**low["spec"]["fields"][0], "source-id": 1}]}},
        add_order(),
        {"action": "set-location", "location": "s3://b/t"},
        {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
    ]
    created = after(None, *updates)
    assert (999, [7]) == (created["last-partition-id"], ids(created["partition-specs"][0]["fields"], "field-id"))


def test_historical_specs_must_stay_readable() -> None:
    """Given an old spec bucket(id), when id becomes a boolean, then Java would write what its parser refuses; here it is refused."""
    table = after(new_table(), add_spec({"name": "b", "transform": "bucket[4]", "source-id": 1}))
    fields = [{**field, "type": "boolean"} if field["id"] == 1 else field for field in table["schemas"][0]["fields"]]
    assert "Cannot bucket by type: boolean" == refused(table, add_schema({**SCHEMA, "fields": fields}), set_schema()).message


def test_schemas_are_removed_but_never_the_current_one() -> None:
    """Absent ids are ignored. The remaining schemas are shared."""
    table = new_table()
    table = after(table, add_schema(wider(table, column(4, "new"))), set_schema())
    assert [1] == ids(after(table, {"action": "remove-schemas", "schema-ids": [0, 8]})["schemas"], "schema-id")
    assert "Cannot remove the current schema" == refused(table, {"action": "remove-schemas", "schema-ids": [1]}).message


def test_what_a_request_removes_it_cannot_use() -> None:
    """Java's builder accepts this, and its parser refuses the file. Here the commit is refused."""
    table = new_table()
    table = after(table, add_schema(wider(table, column(4, "new"))), set_schema())
    refusal = refused(table, {"action": "remove-schemas", "schema-ids": [0]}, set_schema(0))
    assert "Cannot set current schema to unknown schema: 0" == refusal.message


def test_an_unknown_schema_cannot_be_current() -> None:
    """The message is the reference's."""
    refusal = refused(new_table(), set_schema(5))
    assert "Cannot set current schema to unknown schema: 5" == refusal.message
    assert isinstance(refusal, IllegalArgument)


def test_specs_are_reused_by_what_they_do() -> None:
    """Specs with the same sources, transforms and names are equal. Field ids do not matter."""
    table = after(new_table(), add_spec(DAY), set_spec())
    assert (1, 1000) == (table["default-spec-id"], table["last-partition-id"])
    assert table is after(table, add_spec({**DAY, "field-id": 1044}))
    bucketed = after(table, add_spec({"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1001}), set_spec())
    assert [0, 1, 2] == ids(bucketed["partition-specs"], "spec-id")
    assert 1001 == bucketed["last-partition-id"]
    assert bucketed["partition-specs"][1] is table["partition-specs"][1]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Cannot find source column for partition field: 1000: p: identity(9)", {"name": "p", "transform": "identity", "source-id": 9}),
        ("Unsupported type: string", {"name": "p", "transform": "day", "source-id": 3}),
        ("Cannot bucket by type: boolean", {"name": "p", "transform": "bucket[4]", "source-id": 4}),
        (
            "Cannot create identity partition sourced from different field in schema: id",
            {"name": "id", "transform": "identity", "source-id": 2},
        ),
        ("Invalid column name: (empty)", {"name": "", "transform": "identity", "source-id": 2}),
        ("Invalid partition field parent: list<int>", {"name": "p", "transform": "identity", "source-id": 6}),
        ("Cannot partition by non-primitive source field: list<int>", {"name": "p", "transform": "identity", "source-id": 5}),
        ("Invalid number of buckets: 0 (must be > 0)", {"name": "p", "transform": "bucket[0]", "source-id": 1}),
    ],
)
def test_a_spec_must_fit_the_schema(message: str, field: Json) -> None:
    """Each rule has its message."""
    fields = [*SCHEMA["fields"], column(3, "flag", "boolean")]
    of_int = {"type": "list", "element-id": 5, "element": "int", "element-required": True}
    table = new_table(schema={**SCHEMA, "fields": [*fields, column(4, "ints", of_int)]})
    assert message == refused(table, add_spec(field)).message


def test_a_transform_from_elsewhere_is_kept() -> None:
    """The spec requires readers to keep unknown transforms. Void needs no column."""
    odd = {"name": "z", "transform": "zorder[x]", "source-id": 3}
    table = after(new_table(), add_spec(odd, {"name": "gone", "transform": "VOID", "source-id": 99}), set_spec())
    assert ["zorder[x]", "void"] == [field["transform"] for field in table["partition-specs"][1]["fields"]]


def test_version_1_numbers_partition_fields_by_position() -> None:
    """Other ids are refused. The message contains the spec."""
    refusal = refused(new_table(format_version=1), add_spec({**DAY, "field-id": 1001}))
    assert "Spec does not use sequential IDs that are required in v1: [\n  1001: day: day(2)\n]" == refusal.message


def test_the_default_spec_stays() -> None:
    """It cannot be removed, and must exist."""
    table = after(new_table(), add_spec(DAY), set_spec())
    assert "Cannot remove the default partition spec" == refused(table, {"action": "remove-partition-specs", "spec-ids": [1]}).message
    assert "Cannot set default partition spec to unknown spec: 6" == refused(table, set_spec(6)).message
    assert [1] == ids(after(table, {"action": "remove-partition-specs", "spec-ids": [0]})["partition-specs"], "spec-id")


def test_sort_orders_are_reused_and_numbered_from_1() -> None:
    """Id 0 is the order without fields. Equal orders are one."""
    table = after(new_table(), add_order(BY_ID), set_order())
    assert ([0, 1], 1) == (ids(table["sort-orders"], "order-id"), table["default-sort-order-id"])
    assert table is after(table, add_order(BY_ID))
    unsorted = after(table, add_order(), set_order(0))
    assert 0 == unsorted["default-sort-order-id"]
    assert unsorted["sort-orders"] is table["sort-orders"]


def test_a_sort_order_must_fit_the_schema() -> None:
    """The message is the reference's."""
    refusal = refused(new_table(), add_order({**BY_ID, "source-id": 8, "direction": "desc", "null-order": "nulls-last"}))
    assert "Cannot find source column for sort field: identity(8) DESC NULLS LAST" == refusal.message


def test_names_of_partitions_are_guarded_until_the_last_spec_that_has_them_goes() -> None:
    """If one of two specs with a partition `p` is removed, a column `p` is still refused, even temporarily within a request."""

    def spec(buckets: int) -> Json:
        return {"action": "add-spec", "spec": {"fields": [{"name": "p", "transform": f"bucket[{buckets}]", "source-id": 1}]}}

    def columns(*names: str) -> list[Json]:
        added = [{"id": 4 + n, "name": name, "required": False, "type": "long"} for n, name in enumerate(names)]
        schema = {"type": "struct", "fields": [*new_table()["schemas"][0]["fields"], *added]}
        return [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]

    table = after(new_table(), spec(2), spec(4))
    first, second = ({"action": "remove-partition-specs", "spec-ids": [number]} for number in (1, 2))
    with pytest.raises(IllegalArgument, match="different field in schema: p"):
        after(table, *columns("q"), first, *columns("p"), *columns("r"))
    assert "p" == after(table, *columns("q"), first, second, *columns("p"))["schemas"][-1]["fields"][-1]["name"]
