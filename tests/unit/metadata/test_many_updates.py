"""Requests with many updates: the cost of an update does not depend on the previous ones."""

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import pytest

from icecore.domain.errors import BadRequest, IllegalArgument
from icecore.domain.metadata import columns, schemas
from icecore.domain.metadata.columns import ColumnsBuilder
from icecore.domain.metadata.indexed_parts import IndexedParts
from icecore.domain.metadata.schemas import SchemaIndex
from icecore.domain.metadata.updates import PARTS_ADDED_MAX
from icecore.domain.view_metadata import apply_view_updates, builder, new_view_metadata
from tests.unit.metadata.tables import NOW_MS, SCHEMA, Json, after, ids, new_table

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def refused(base: Json, *updates: Json) -> IllegalArgument:
    with pytest.raises(IllegalArgument) as refusal:
        after(base, *updates)
    return refusal.value


def schema(number: int) -> Json:
    columns = [{**field, "id": field["id"] + 1} for field in SCHEMA["fields"]]
    return {"type": "struct", "fields": [*columns, {"id": 4, "name": f"c{number}", "required": False, "type": "int"}]}


def add_schema(number: int) -> Json:
    return {"action": "add-schema", "schema": schema(number)}


def add_spec(number: int) -> Json:
    field = {"name": f"b{number}", "transform": f"bucket[{number + 1}]", "source-id": 1}
    return {"action": "add-spec", "spec": {"spec-id": 0, "fields": [field]}}


def add_order(number: int) -> Json:
    field = {"transform": f"bucket[{number + 1}]", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    return {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [field]}}


def add_key(number: int) -> Json:
    return {"action": "add-encryption-key", "encryption-key": {"key-id": str(number), "encrypted-key-metadata": "aGVsbG8="}}


def version(number: int) -> Json:
    representation = {"type": "sql", "sql": f"select {number}", "dialect": "spark"}
    return {
        **{"version-id": 1, "timestamp-ms": NOW_MS, "schema-id": 0, "summary": {}},
        **{"representations": [representation], "default-namespace": ["a"]},
    }


def new_view() -> Json:
    return new_view_metadata(view_uuid=UUID, location="s3://b/v", schema=schema(0), view_version=version(0), properties={}, now_ms=NOW_MS)


@pytest.mark.parametrize("add", [add_schema, add_spec, add_order, add_key])
def test_a_commit_adds_a_bounded_number_of_parts(add: Callable[[int], Json]) -> None:
    """One more is refused. The message names the action, in any case."""
    updates = [add(number) for number in range(PARTS_ADDED_MAX + 1)]
    after(new_table(), *updates[:-1])
    updates[-1]["action"] = updates[-1]["action"].upper()
    with pytest.raises(BadRequest) as refusal:
        after(new_table(), *updates)
    assert f"Invalid field 'updates': has more than 1000 of the action {updates[0]['action']}" == refusal.value.message


def test_a_view_commit_adds_a_bounded_number_of_parts() -> None:
    """Schemas and versions."""
    for updates in (
        [add_schema(number) for number in range(PARTS_ADDED_MAX + 1)],
        [{"action": "add-view-version", "view-version": version(number)} for number in range(PARTS_ADDED_MAX + 1)],
    ):
        with pytest.raises(BadRequest, match="has more than 1000 of the action add-"):
            apply_view_updates(new_view(), updates, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("module", "key", "add"),
    [(columns, "schema_key", add_schema), (columns, "spec_key", add_spec), (columns, "sort_order_key", add_order)],
)
def test_an_added_part_is_compared_once(monkeypatch: pytest.MonkeyPatch, module: Any, key: str, add: Callable[[int], Json]) -> None:
    """The key of a part is computed when it is searched and when it is added, not again for each later one."""
    calls: Counter[str] = Counter()
    real: Callable[[Json], Hashable] = getattr(module, key)

    def counted(part: Json) -> Hashable:
        calls[key] += 1
        return real(part)

    monkeypatch.setattr(module, key, counted)
    number = 200
    after(new_table(), *(add(each) for each in range(number)))
    assert number <= calls[key] <= 2 * number + 4


def test_equal_versions_of_a_view_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the parts of a table."""
    calls: Counter[str] = Counter()
    real = builder._version_key

    def counted(part: Json) -> Hashable:
        calls["version"] += 1
        return real(part)

    monkeypatch.setattr(builder, "_version_key", counted)
    updates = [{"action": "add-view-version", "view-version": version(number)} for number in range(200)]
    apply_view_updates(new_view(), [*updates, {"action": "set-current-view-version", "view-version-id": -1}], now_ms=NOW_MS)
    assert 200 <= calls["version"] <= 402


def test_partition_names_are_looked_at_by_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the current schema changes repeatedly, specs whose partition names are no columns are not checked."""
    table = after(new_table(), *(add_spec(number) for number in range(100)))
    looked_at: Counter[str] = Counter()
    real = columns.check_names

    def counted(spec: Json, index: SchemaIndex) -> None:
        looked_at["specs"] += 1
        real(spec, index)

    monkeypatch.setattr(columns, "check_names", counted)
    changes = [update for number in range(50) for update in (add_schema(number + 200), {"action": "set-current-schema", "schema-id": -1})]
    after(table, *changes)
    assert 0 == looked_at["specs"]
    message = "Cannot create identity partition sourced from different field in schema: b7"
    meeting = {**schema(0), "fields": [*schema(0)["fields"], {"id": 5, "name": "b7", "required": False, "type": "int"}]}
    current = {"action": "set-current-schema", "schema-id": -1}
    assert message == refused(table, {"action": "add-schema", "schema": meeting}, current).message
    without = [spec["spec-id"] for spec in table["partition-specs"] if spec["fields"] and spec["fields"][0]["name"] == "b7"]
    after(table, {"action": "remove-partition-specs", "spec-ids": without}, {"action": "add-schema", "schema": meeting}, current)
    assert message == refused(table, {"action": "add-schema", "schema": meeting}, current).message


def test_a_removed_part_is_not_found_again() -> None:
    """An equal part gets a new id, greater than the remaining ones."""
    table = after(new_table(), *(add_schema(number) for number in range(3)))
    assert [0, 1, 2, 3] == ids(table["schemas"], "schema-id")
    again = after(table, {"action": "remove-schemas", "schema-ids": [1]}, add_schema(0), add_schema(1))
    assert [0, 2, 3, 4] == ids(again["schemas"], "schema-id")
    assert schema(0)["fields"] == again["schemas"][-1]["fields"]


def test_parts_keep_their_order_and_their_first_equal() -> None:
    """Of two equal ones in a file, the first is found, and the second after the first is removed."""
    parts = IndexedParts([{"id": 5, "k": "a"}, {"id": 3, "k": "b"}, {"id": 4, "k": "a"}], "id", lambda part: part["k"])
    assert (5, 3, None) == tuple(parts.id_of_equal({"k": key}) for key in "abc")
    assert (6, 9) == (parts.next_id(0), parts.next_id(9))
    parts.remove([5, 77])
    assert (4, 5) == (parts.id_of_equal({"k": "a"}), parts.next_id(0))
    parts.add({"id": 2**31 - 1, "k": "c"})
    assert [3, 4, 2**31 - 1] == list(parts.by_id)
    with pytest.raises(IllegalArgument, match="Cannot assign a id above 2147483647"):
        parts.next_id(0)


def test_indexes_are_let_go_beyond_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column names of only some schemas are cached, and later lookups are still correct."""
    monkeypatch.setattr(columns, "INDEX_CHARACTERS_MAX", 20)
    kept: list[int] = []
    real = ColumnsBuilder._remember_index

    def remembered(self: ColumnsBuilder, schema_id: int, index: SchemaIndex) -> None:
        real(self, schema_id, index)
        kept.append(len(self._indexes))

    monkeypatch.setattr(ColumnsBuilder, "_remember_index", remembered)
    table = after(new_table(), *(add_schema(number) for number in range(9)), {"action": "set-current-schema", "schema-id": 2}, add_spec(1))
    assert 2 >= max(kept)
    assert (2, 2) == (table["current-schema-id"], len(table["partition-specs"]))


def test_full_names_of_columns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each repeats the names of its parents, so that a small request could require gigabytes."""
    monkeypatch.setattr(schemas, "FULL_NAMES_CHARACTERS_MAX", 1_000)
    leaves = [{"id": number, "name": f"c{number}", "required": False, "type": "int"} for number in range(2, 12)]
    outer = {"id": 1, "name": "x" * 100, "required": False, "type": {"type": "struct", "fields": leaves}}
    message = "Invalid schema: full names of columns are longer than 1000 characters together"
    assert message == refused(new_table(), {"action": "add-schema", "schema": {"type": "struct", "fields": [outer]}}).message
